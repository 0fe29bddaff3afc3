//! A hasher for maps whose keys are already hashes.

use std::hash::Hasher;

/// Uses a hash as its own hash. Stripes are chosen by the low bits.
#[derive(Debug, Default)]
pub struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        // The low bits have already selected the stripe.
        self.0 = hash.rotate_right(8);
    }
}
