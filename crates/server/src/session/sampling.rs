//! Which requests are looked at closely: all of a command while it is called rarely, and of one
//! that is called often a sample, each command for itself so that none goes unseen beside another.

use nagi_commands::{Entry, command_table};
use nagi_store::ticks;
use std::cell::Cell;

/// Samples of a command that a worker takes between two settings of the pace.
const SAMPLES: i64 = 100;

/// When the next sample of a command is due.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How many calls there are to be before it; none or less if it is due.
    left: Cell<i64>,
    /// What that was behind the last one.
    interval: Cell<i64>,
    /// What that is on average.
    average: Cell<i64>,
    /// Calls that samples stand for since the pace was set.
    seen: Cell<i64>,
}

impl Default for Pace {
    fn default() -> Self {
        let one = || Cell::new(1);
        Pace { left: one(), interval: one(), average: one(), seen: Cell::new(0) }
    }
}

impl Pace {
    /// Counts calls. Whether a sample is due.
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

    /// Calls that nobody has looked at.
    fn unseen(&self) -> i64 {
        self.interval.get() - self.left.get()
    }

    /// Leaves calls that were counted out of those that the next sample stands for.
    pub(crate) fn leave_out(&self, calls: u64) {
        self.interval.set(self.interval.get() - calls as i64);
        self.seen.set(self.seen.get() + calls as i64);
    }

    /// Takes the sample that is due. Returns how many calls it stands for.
    pub(crate) fn take(&self) -> u64 {
        let (calls, average) = (self.unseen(), self.average.get());
        self.seen.set(self.seen.get() + calls);
        // Not every so many: pipelines have their own rhythm.
        let interval = average / 2 + (ticks::now() >> 4) as i64 % average + 1;
        self.interval.set(interval);
        self.left.set(interval);
        calls.unsigned_abs()
    }

    /// Sets the pace by how many calls there have been since the last time.
    fn set(&self) {
        let unseen = self.unseen();
        let average = ((self.seen.get() + unseen) / SAMPLES).max(1);
        // These will be seen later, and are not to count again then.
        self.seen.set(-unseen);
        self.average.set(average);
        let too_long = (self.left.get() - average).max(0);
        self.left.set(self.left.get() - too_long);
        self.interval.set(self.interval.get() - too_long);
    }
}

/// The paces of all commands that are brief, of the others together, and of memcached's verbs.
#[derive(Debug)]
pub(crate) struct Paces {
    commands: Box<[Option<Pace>]>,
    others: Pace,
    verbs: Pace,
}

impl Default for Paces {
    fn default() -> Self {
        let pace = |entry: &Entry| entry.is_brief.then(Pace::default);
        let commands = command_table().entries().iter().map(pace).collect();
        Paces { commands, others: Pace::default(), verbs: Pace::default() }
    }
}

impl Paces {
    /// Counts calls of a command, of a verb if it is none. Whether they are to be looked at:
    /// always, unless they are brief.
    #[inline]
    pub(crate) fn count(&self, entry: Option<&Entry>, calls: u64) -> bool {
        let Some(entry) = entry else { return self.verbs.count(calls) };
        match self.commands.get(entry.index) {
            Some(Some(pace)) => pace.count(calls),
            _ => true,
        }
    }

    /// The pace of these calls, which have been counted and are looked at.
    pub(crate) fn of(&self, entry: Option<&Entry>, calls: u64) -> &Pace {
        let Some(entry) = entry else { return &self.verbs };
        match self.commands.get(entry.index) {
            Some(Some(pace)) => pace,
            _ => {
                self.others.count(calls);
                &self.others
            }
        }
    }

    /// Sets all of them; to be called ten times a second.
    pub(crate) fn set(&self) {
        let commands = self.commands.iter().flatten();
        commands.chain([&self.others, &self.verbs]).for_each(Pace::set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts calls, and returns how many samples they made and how many calls those stand for.
    fn call(pace: &Pace, calls: u64) -> (u64, u64) {
        let (mut samples, mut sum) = (0, 0);
        for _ in 0..calls {
            if pace.count(1) {
                samples += 1;
                sum += pace.take();
            }
        }
        (samples, sum)
    }

    #[test]
    fn all_of_few_calls_are_looked_at() {
        let pace = Pace::default();
        for _ in 0..10 {
            assert_eq!(call(&pace, 80), (80, 80));
            pace.set();
        }
    }

    #[test]
    fn a_sample_stands_for_those_before_it() {
        let pace = Pace::default();
        call(&pace, 100_000);
        pace.set();
        let mut stood_for = 0;
        for _ in 0..10 {
            let (samples, sum) = call(&pace, 100_000);
            assert!((60..180).contains(&samples), "{samples}");
            stood_for += sum;
            pace.set();
        }
        assert!((997_000..=1_000_000).contains(&stood_for), "{stood_for}");
    }

    #[test]
    fn who_becomes_rare_is_looked_at_soon() {
        let pace = Pace::default();
        call(&pace, 1_000_000);
        pace.set();
        let (_, before) = call(&pace, 80);
        pace.set();
        let (_, first) = call(&pace, 3);
        assert!(first > 0, "one of three calls, though every 10,000th was enough just now");
        let (samples, _) = call(&pace, 100);
        assert_eq!(samples, 100);
        assert!(before + first <= 83);
    }

    #[test]
    fn who_counts_for_itself_is_in_no_sample() {
        let pace = Pace::default();
        call(&pace, 100_000);
        pace.set();
        let mut alone = 0;
        let mut stood_for = 0;
        for call in 0..100_000 {
            let is_due = pace.count(1);
            if call % 10 == 0 {
                pace.leave_out(1);
                alone += 1;
            } else if is_due {
                stood_for += pace.take();
            }
        }
        assert_eq!(alone, 10_000);
        assert!((87_000..=90_000).contains(&stood_for), "{stood_for}");
    }
}
