//! Measures how long a thread was running during an interval, which distinguishes slow work from
//! preemption.
//!
//! Reading the kernel's clock of CPU time takes a system call, too expensive for the start of each
//! interval. So it is read at marks, at most once in about a tenth of a millisecond, and at the end
//! of an interval that would be the longest. CPU time between the last mark and the start of the
//! interval is included: the result is an upper bound.

use crate::sync::ticks;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The age in ticks at which a mark is old: about a tenth of a millisecond.
const OLD_TICKS: u64 = 1 << 18;

/// A point in time of one thread, by two clocks.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// The time in ticks.
    at: u64,
    /// The thread's CPU time.
    had: Duration,
}

impl Mark {
    /// A mark before all others.
    pub const NONE: Mark = Mark { at: 0, had: Duration::ZERO };

    /// Whether a new mark is needed at time `now`, in ticks.
    #[inline]
    #[must_use]
    pub fn is_old(self, now: u64) -> bool {
        now.wrapping_sub(self.at) >= OLD_TICKS
    }

    /// Creates a mark of this thread at time `now`, in ticks.
    #[cold]
    #[must_use]
    pub fn new(now: u64) -> Self {
        Mark { at: now, had: had() }
    }

    /// Returns an upper bound of the CPU time of this thread, whose mark this is, in the interval
    /// from `since` until `now`; all in ticks. It is accurate to [`OLD_TICKS`] if the mark was not
    /// old when the interval began. A mark within the interval tells nothing about the time before
    /// it.
    #[cold]
    #[must_use]
    pub fn most_ticks(self, since: u64, now: u64) -> u64 {
        let since_mark = ticks::count(had().saturating_sub(self.had));
        let before_mark = self.at.saturating_sub(since);
        since_mark.saturating_add(before_mark).min(now.saturating_sub(since))
    }
}

/// Returns the CPU time of this thread.
fn had() -> Duration {
    // Miri does not support this clock.
    if cfg!(miri) {
        return Duration::ZERO;
    }
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Uses this much CPU time, regardless of wall-clock time.
    fn work(time: Duration) {
        let before = had();
        while had() - before < time {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn time_while_preempted_is_excluded() {
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
    fn time_before_a_late_mark_is_included() {
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
