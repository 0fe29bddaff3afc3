//! Random numbers for tests. A failed test can be repeated with the same numbers.

use fastrand::Rng;
use std::time::{SystemTime, UNIX_EPOCH};

/// If this variable is set to a number, every test uses it as its seed.
const SEED_VARIABLE: &str = "NAGI_TEST_SEED";

/// A generator for choosing test cases.
pub struct Random(Rng);

impl Random {
    /// Returns a generator whose seed is printed, so that a failed test shows it.
    #[must_use]
    pub fn announced() -> Self {
        let given = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            now.as_nanos() as u64
        });
        eprintln!("repeat with {SEED_VARIABLE}={seed}");
        Self(Rng::with_seed(seed))
    }

    /// Returns a generator with the seed that the environment sets or else with `seed`, for tests
    /// that should be the same in each run.
    #[must_use]
    pub fn repeated(seed: u64) -> Self {
        let given = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok());
        Self(Rng::with_seed(given.unwrap_or(seed)))
    }

    /// Returns an independent generator, for another thread.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.0.fork())
    }

    /// Returns a random number of 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a random number from 0 to `bound` - 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(..bound)
    }

    /// Returns one of `choices`.
    pub fn choose<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
