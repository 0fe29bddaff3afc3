//! Chooses the requests to time: all calls of a rare command and a sample of a frequent one,
//! separately for each command so that none is missed.

use nagi_commands::{Entry, command_table};
use nagi_store::ticks;
use std::cell::Cell;

/// Samples of a command that a worker takes between two adjustments of the rate.
const SAMPLES: i64 = 100;

/// When the next sample of a command is due.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// Calls until the next sample; at most 0 if it is due.
    left: Cell<i64>,
    /// The value of `left` after the last sample.
    interval: Cell<i64>,
    /// The average of `interval`.
    average: Cell<i64>,
    /// Calls that samples represent since the rate was adjusted.
    seen: Cell<i64>,
}

impl Default for Sampler {
    fn default() -> Self {
        let one = || Cell::new(1);
        Sampler { left: one(), interval: one(), average: one(), seen: Cell::new(0) }
    }
}

impl Sampler {
    /// Counts calls. Returns whether a sample is due.
    #[inline]
    pub(crate) fn count(&self, calls: u64) -> bool {
        let left = self.left.get() - calls as i64;
        self.left.set(left);
        left <= 0
    }

    /// Whether a sample is due.
    pub(crate) fn is_due(&self) -> bool {
        self.left.get() <= 0
    }

    /// Calls that were not measured.
    fn unseen(&self) -> i64 {
        self.interval.get() - self.left.get()
    }

    /// Excludes counted calls from those that the next sample represents.
    pub(crate) fn leave_out(&self, calls: u64) {
        self.interval.set(self.interval.get() - calls as i64);
        self.seen.set(self.seen.get() + calls as i64);
    }

    /// Takes the sample that is due. Returns how many calls it represents.
    pub(crate) fn take(&self) -> u64 {
        let (calls, average) = (self.unseen(), self.average.get());
        self.seen.set(self.seen.get() + calls);
        // A fixed interval could coincide with the period of a pipeline.
        let interval = average / 2 + (ticks::now() >> 4) as i64 % average + 1;
        self.interval.set(interval);
        self.left.set(interval);
        calls.unsigned_abs()
    }

    /// Adjusts the rate to the number of calls since the last adjustment.
    fn set(&self) {
        let unseen = self.unseen();
        let average = ((self.seen.get() + unseen) / SAMPLES).max(1);
        // The next sample will represent these; they must not count twice.
        self.seen.set(-unseen);
        self.average.set(average);
        let too_long = (self.left.get() - average).max(0);
        self.left.set(self.left.get() - too_long);
        self.interval.set(self.interval.get() - too_long);
    }
}

/// The samplers of each command that is brief, of other commands, and of memcached's verbs.
#[derive(Debug)]
pub(crate) struct Samplers {
    commands: Box<[Option<Sampler>]>,
    other_commands: Sampler,
    verbs: Sampler,
}

impl Default for Samplers {
    fn default() -> Self {
        let sampler = |entry: &Entry| entry.is_brief.then(Sampler::default);
        let commands = command_table().entries().iter().map(sampler).collect();
        Samplers { commands, other_commands: Sampler::default(), verbs: Sampler::default() }
    }
}

impl Samplers {
    /// Counts calls of a command, or of a verb if there is no entry. Returns whether to time them:
    /// always, unless they are brief.
    #[inline]
    pub(crate) fn count(&self, entry: Option<&Entry>, calls: u64) -> bool {
        let Some(entry) = entry else { return self.verbs.count(calls) };
        match self.commands.get(entry.index) {
            Some(Some(sampler)) => sampler.count(calls),
            _ => true,
        }
    }

    /// The sampler for calls that have been counted and are timed.
    pub(crate) fn of(&self, entry: Option<&Entry>, calls: u64) -> &Sampler {
        let Some(entry) = entry else { return &self.verbs };
        match self.commands.get(entry.index) {
            Some(Some(sampler)) => sampler,
            _ => {
                self.other_commands.count(calls);
                &self.other_commands
            }
        }
    }

    /// Adjusts all samplers; to be called ten times a second.
    pub(crate) fn set(&self) {
        let commands = self.commands.iter().flatten();
        commands.chain([&self.other_commands, &self.verbs]).for_each(Sampler::set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts calls. Returns the number of samples and of the calls that these represent.
    fn call(sampler: &Sampler, calls: u64) -> (u64, u64) {
        let (mut samples, mut sum) = (0, 0);
        for _ in 0..calls {
            if sampler.count(1) {
                samples += 1;
                sum += sampler.take();
            }
        }
        (samples, sum)
    }

    #[test]
    fn all_calls_are_sampled_while_they_are_few() {
        let sampler = Sampler::default();
        for _ in 0..10 {
            assert_eq!(call(&sampler, 80), (80, 80));
            sampler.set();
        }
    }

    #[test]
    fn a_sample_represents_those_before_it() {
        let sampler = Sampler::default();
        call(&sampler, 100_000);
        sampler.set();
        let mut stood_for = 0;
        for _ in 0..10 {
            let (samples, sum) = call(&sampler, 100_000);
            assert!((60..180).contains(&samples), "{samples}");
            stood_for += sum;
            sampler.set();
        }
        assert!((997_000..=1_000_000).contains(&stood_for), "{stood_for}");
    }

    #[test]
    fn a_command_that_becomes_rare_is_sampled_soon() {
        let sampler = Sampler::default();
        call(&sampler, 1_000_000);
        sampler.set();
        let (_, before) = call(&sampler, 80);
        sampler.set();
        let (_, first) = call(&sampler, 3);
        assert!(first > 0, "one of three calls, though every 10,000th was enough just now");
        let (samples, _) = call(&sampler, 100);
        assert_eq!(samples, 100);
        assert!(before + first <= 83);
    }

    #[test]
    fn calls_that_are_counted_one_by_one_are_in_no_sample() {
        let sampler = Sampler::default();
        call(&sampler, 100_000);
        sampler.set();
        let mut alone = 0;
        let mut stood_for = 0;
        for call in 0..100_000 {
            let is_due = sampler.count(1);
            if call % 10 == 0 {
                sampler.leave_out(1);
                alone += 1;
            } else if is_due {
                stood_for += sampler.take();
            }
        }
        assert_eq!(alone, 10_000);
        assert!((87_000..=90_000).contains(&stood_for), "{stood_for}");
    }
}
