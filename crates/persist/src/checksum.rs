//! The checksum behind every RDB file and payload: CRC-64 with Jones' polynomial, as Redis has it.

use crc::{CRC_64_REDIS, Crc, Digest, Table};

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// A checksum that is still being worked out.
#[derive(Clone)]
pub struct Checksum(Digest<'static, u64, Table<16>>);

impl Default for Checksum {
    fn default() -> Self {
        Checksum(CRC.digest())
    }
}

impl Checksum {
    /// Goes on over `bytes`.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of everything that was added.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_one_of_redis() {
        let mut checksum = Checksum::default();
        checksum.add(b"1234");
        checksum.add(b"56789");
        assert_eq!(checksum.value(), 0xe9c6_d914_c4b8_d9ca);
    }
}
