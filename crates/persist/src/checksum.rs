//! The checksum behind every RDB file and payload: CRC-64 with Jones' polynomial, as Redis has it.

#[cfg(target_arch = "x86_64")]
mod folding;
mod table;

/// A checksum that is still being worked out.
#[derive(Clone, Debug, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// Goes on over `bytes`.
    pub fn add(&mut self, bytes: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        let bytes = folding::add(&mut self.0, bytes);
        self.0 = table::add(self.0, bytes);
    }

    /// The checksum of everything that was added.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_the_one_of_redis() {
        let mut checksum = Checksum::default();
        checksum.add(b"1234");
        checksum.add(b"56789");
        assert_eq!(checksum.value(), 0xe9c6_d914_c4b8_d9ca);
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_make_the_same(
            bytes in prop::collection::vec(any::<u8>(), 0..2000),
            at in 0_usize..2000,
        ) {
            let mut whole = Checksum::default();
            whole.add(&bytes);
            let mut pieces = Checksum::default();
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            pieces.add(head);
            pieces.add(tail);
            prop_assert_eq!(pieces.value(), whole.clone().value());
            let bytewise = bytes.iter().fold(0, |sum, byte| table::add(sum, &[*byte]));
            prop_assert_eq!(whole.value(), bytewise);
        }
    }
}
