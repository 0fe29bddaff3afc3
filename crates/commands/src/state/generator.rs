//! Random numbers that cost almost nothing: they choose which requests are sampled.

/// Knuth's multiplicative generator, whose upper bits are random enough.
#[derive(Debug, Default)]
pub(crate) struct Generator(u64);

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Generator(seed)
    }

    /// Returns the next number of 31 bits.
    pub(crate) fn next(&mut self) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }
}
