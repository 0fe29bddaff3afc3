//! The checksum after every RDB file and payload: CRC-64 with Jones' polynomial, as in Redis.

use crc::{CRC_64_REDIS, Crc, Table};
use crc_fast::{CrcAlgorithm, Digest};

static TABLE: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// From this length on, carry-less multiplication is faster than a table, which needs no setup.
/// DUMP payloads of small values are shorter, blocks of files longer.
const FEWEST_MULTIPLIED_BYTES: usize = 384;

/// A checksum in progress.
#[derive(Clone, Debug, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// Adds `bytes`.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = if bytes.len() < FEWEST_MULTIPLIED_BYTES {
            by_table(self.0, bytes)
        } else {
            let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc64Redis, self.0);
            digest.update(bytes);
            digest.finalize()
        };
    }

    /// Returns the checksum of all added bytes.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}

/// Continues from `sum`, eight bits at a time.
fn by_table(sum: u64, bytes: &[u8]) -> u64 {
    // The register is reflected, and the crate reflects the initial value as well.
    let mut digest = TABLE.digest_with_initial(sum.reverse_bits());
    digest.update(bytes);
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn checksum_equals_that_of_redis() {
        let mut checksum = Checksum::default();
        checksum.add(b"1234");
        checksum.add(b"56789");
        assert_eq!(checksum.value(), 0xe9c6_d914_c4b8_d9ca);
    }

    proptest! {
        #[test]
        fn checksum_does_not_depend_on_the_division_into_pieces(
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
            let bytewise = bytes.iter().fold(0, |sum, byte| by_table(sum, &[*byte]));
            prop_assert_eq!(whole.value(), bytewise);
        }
    }
}
