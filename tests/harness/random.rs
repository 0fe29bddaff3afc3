//! Random numbers that a failed test can be repeated with.

use std::time::{SystemTime, UNIX_EPOCH};

/// Set to a number, it makes every test draw the same numbers again.
const SEED_VARIABLE: &str = "NAGI_TEST_SEED";

/// SplitMix64: small, and good enough to choose test cases with.
pub struct Random {
    state: u64,
}

impl Random {
    /// Numbers from a seed that is printed, so that it is seen when the test fails.
    #[must_use]
    pub fn announced() -> Self {
        let given = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            now.as_nanos() as u64
        });
        eprintln!("repeat with {SEED_VARIABLE}={seed}");
        Self { state: seed }
    }

    /// Other numbers, for a thread of its own.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self { state: self.bits() }
    }

    /// A number of 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound` - 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// One of `choices`.
    pub fn choose<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
