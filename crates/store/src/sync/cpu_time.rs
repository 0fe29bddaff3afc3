//! How much of an interval a thread was running, which distinguishes slow work from preemption.
//!
//! The kernel's clock of that costs a system call, too much for the beginning of each stretch. So
//! it is read at marks, at most once in about a tenth of a millisecond, and at the end of a stretch
//! that would be the longest. What the thread has had between the last mark and the beginning of
//! the stretch counts as well: what comes out is an upper bound.

use crate::sync::ticks;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// After so many ticks a mark is old: a tenth of a millisecond, more or less.
const OLD_TICKS: u64 = 1 << 18;

/// A moment of one thread by two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// In ticks.
    at: u64,
    /// For how long the thread had had a processor by then.
    had: Duration,
}

impl Mark {
    /// One before all others.
    pub const NONE: Mark = Mark { at: 0, had: Duration::ZERO };

    /// Whether there should be another, now that it is `now`, in ticks.
    #[inline]
    #[must_use]
    pub fn is_old(self, now: u64) -> bool {
        now.wrapping_sub(self.at) >= OLD_TICKS
    }

    /// That of this thread, for which it is `now`, in ticks.
    #[cold]
    #[must_use]
    pub fn new(now: u64) -> Self {
        Mark { at: now, had: had() }
    }

    /// Of the stretch from `since` until `now`, in ticks: for how many ticks this thread, which the
    /// mark is of, had a processor at most. Exact to [`OLD_TICKS`] if the mark was not old when the
    /// stretch began; a mark within it knows nothing of what was before.
    #[cold]
    #[must_use]
    pub fn most_ticks(self, since: u64, now: u64) -> u64 {
        let since_mark = ticks::count(had().saturating_sub(self.had));
        let before_mark = self.at.saturating_sub(since);
        since_mark.saturating_add(before_mark).min(now.saturating_sub(since))
    }
}

/// For how long this thread has had a processor.
fn had() -> Duration {
    // Miri has no such clock.
    if cfg!(miri) {
        return Duration::ZERO;
    }
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Uses so much CPU time, however long that takes.
    fn work(time: Duration) {
        let before = had();
        while had() - before < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn time_without_a_processor_is_left_out() {
        ticks::start();
        let (worked, slept) = (Duration::from_millis(5), Duration::from_millis(50));
        let since = ticks::now();
        let mark = Mark::new(since);
        work(worked);
        std::thread::sleep(slept);
        let now = ticks::now();
        let had = ticks::duration(mark.most_ticks(since, now));
        let all = ticks::duration(now - since);
        assert!(had >= worked / 2 && had <= all / 2, "{had:?} of {all:?}");
    }

    #[test]
    fn what_a_late_mark_does_not_know_counts() {
        ticks::start();
        let since = ticks::now();
        std::thread::sleep(Duration::from_millis(10));
        let middle = ticks::now();
        let mark = Mark::new(middle);
        work(Duration::from_millis(1));
        let now = ticks::now();
        let most = mark.most_ticks(since, now);
        assert!((middle - since..=now - since).contains(&most), "{most} of {}", now - since);
        assert_eq!(Mark::NONE.most_ticks(now, now), 0);
    }

    #[test]
    fn mark_is_old_after_a_while() {
        let mark = Mark::new(1);
        assert!(!mark.is_old(OLD_TICKS) && mark.is_old(1 + OLD_TICKS));
    }
}
