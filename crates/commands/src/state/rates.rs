//! Rates per second: the mean over the last 16 samples, as in Redis.

use std::time::Instant;

/// The number of samples, of a tenth of a second each.
const SAMPLES: usize = 16;

/// Counts, or their rates per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) requests: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
    /// Expired keys that were removed.
    pub(crate) expired: u64,
    /// Turns of event loops, and their duration in ticks.
    pub(crate) turns: u64,
    pub(crate) turn_ticks: u64,
}

impl Sums {
    fn with(self, other: Sums, combine: impl Fn(u64, u64) -> u64) -> Sums {
        Sums {
            requests: combine(self.requests, other.requests),
            input_bytes: combine(self.input_bytes, other.input_bytes),
            output_bytes: combine(self.output_bytes, other.output_bytes),
            expired: combine(self.expired, other.expired),
            turns: combine(self.turns, other.turns),
            turn_ticks: combine(self.turn_ticks, other.turn_ticks),
        }
    }
}

/// The latest samples.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    last: Option<(Instant, Sums)>,
    /// Rates per second, as a ring buffer.
    samples: [Sums; SAMPLES],
    next: usize,
}

impl Rates {
    /// Adds a sample with the counts until `now`.
    pub(crate) fn sample(&mut self, now: Instant, sums: Sums) {
        let Some((then, before)) = self.last.replace((now, sums)) else { return };
        let passed_us = u64::try_from(now.duration_since(then).as_micros()).unwrap_or(u64::MAX);
        let per_second = |sum: u64, before: u64| {
            sum.saturating_sub(before).saturating_mul(1_000_000) / passed_us.max(1)
        };
        if let Some(place) = self.samples.get_mut(self.next % SAMPLES) {
            *place = sums.with(before, per_second);
        }
        self.next += 1;
    }

    /// The mean of the samples.
    pub(crate) fn per_second(&self) -> Sums {
        let add = |sum: Sums, sample: &Sums| sum.with(*sample, u64::saturating_add);
        let sum = self.samples.iter().fold(Sums::default(), add);
        sum.with(Sums::default(), |sum, _| sum / SAMPLES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rates_are_means_of_the_last_samples() {
        let mut rates = Rates::default();
        let start = Instant::now();
        let at = |tenth: u32| start + tenth * Duration::from_millis(100);
        for tenth in 0..=16 {
            let count = 10 * u64::from(tenth);
            let (input_bytes, output_bytes) = (3 * count, 1000);
            let sums = Sums { requests: count, input_bytes, output_bytes, ..Sums::default() };
            rates.sample(at(tenth), sums);
        }
        let steady = Sums { requests: 100, input_bytes: 300, ..Sums::default() };
        assert_eq!(rates.per_second(), steady);
        for tenth in 17..25 {
            rates.sample(at(tenth), Sums { requests: 160, ..Sums::default() });
        }
        assert_eq!(rates.per_second().requests, 50, "half of the samples had none");
    }
}
