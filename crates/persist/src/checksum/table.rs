//! The checksum of any input, by tables: one step a byte where there is nothing better.

use crc::{CRC_64_REDIS, Crc, Table};

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// Goes on from `sum`, eight bits at a time.
pub(super) fn add(sum: u64, bytes: &[u8]) -> u64 {
    // The register is reflected, and the crate reflects what it is given to begin with.
    let mut digest = CRC.digest_with_initial(sum.reverse_bits());
    digest.update(bytes);
    digest.finalize()
}
