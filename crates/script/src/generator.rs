//! Random numbers of scripts: for a seed they are those of Redis, which are those of the POSIX
//! function `lrand48`, a linear congruential generator of 48 bits.

/// The generator of one engine.
pub(crate) struct Generator(u64);

impl Default for Generator {
    fn default() -> Self {
        Generator(0x1234_abcd_330e)
    }
}

impl Generator {
    pub(crate) fn seed(&mut self, seed: u32) {
        self.0 = u64::from(seed) << 16 | 0x330e;
    }

    /// Returns a number of at least 0 and less than 1.
    pub(crate) fn next(&mut self) -> f64 {
        const BITS: u32 = 48;
        const MOST: u64 = i32::MAX as u64;
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << BITS) - 1);
        ((self.0 >> (BITS - 31)) % MOST) as f64 / MOST as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected numbers are those of redis-server 8.0.6.
    #[test]
    fn numbers_are_those_of_redis() {
        let mut generator = Generator::default();
        let drawn = |generator: &mut Generator| format!("{:.14}", generator.next());
        assert_eq!(drawn(&mut generator), "0.39646477363839");
        generator.seed(1);
        assert_eq!(drawn(&mut generator), "0.04163034448476");
        assert_eq!(drawn(&mut generator), "0.45449244484980");
        generator.seed(-7_i32 as u32);
        assert_eq!(drawn(&mut generator), "0.07521187517569");
    }
}
