//! Sets the saver's priority: idle as long as the saver gets enough processor time while workers
//! sleep. If workers never sleep, the priority is raised nearly to theirs, since a save would
//! otherwise take several times as long.
//!
//! Idle is a scheduling policy (SCHED_IDLE). A thread of the normal policy keeps a processor for a
//! millisecond or more, however low its weight, and threads that become runnable wait.

use crate::state::thread_times::ThreadTimes;
use nagi_scheduling::{Policy, set_policy};
use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// The saver's niceness, relative to workers, if it gets too little processor time. By the kernel's
/// weights, it then gets 0.3 of two processors that two workers and a client keep busy.
const RAISED_NICENESS: i32 = 3;
/// How long to measure the saver's processor time.
const INTERVAL: Duration = Duration::from_millis(100);
/// The saver gets too little if it waits for a processor this many times as long as it runs.
const MIN_WAIT_RATIO: u32 = 8;

/// The priority of the thread that created this value.
pub(crate) struct SaverPriority {
    /// Whether the priority of an idle thread may be raised again.
    may_raise: bool,
    is_raised: Cell<bool>,
    looked: Cell<Instant>,
    /// The thread times at the start of the measurement.
    times: Cell<ThreadTimes>,
}

impl SaverPriority {
    /// Tests whether this process may raise a thread's priority after lowering it. If not, the
    /// saver keeps the raised priority.
    pub(crate) fn new() -> Self {
        let tried =
            thread::spawn(|| set_policy(Policy::Idle).and_then(|()| set_policy(Policy::Normal)));
        let niceness = rustix::process::getpriority_process(None).unwrap_or(0);
        if let Err(error) = rustix::process::setpriority_process(None, niceness + RAISED_NICENESS) {
            tracing::debug!(%error, "cannot lower the priority of the saver thread");
        }
        SaverPriority {
            may_raise: matches!(tried.join(), Ok(Ok(()))),
            is_raised: Cell::new(true),
            looked: Cell::new(Instant::now()),
            times: Cell::default(),
        }
    }

    /// Lowers the priority when a save begins.
    pub(crate) fn lower(&self) {
        self.change(false);
        self.looked.set(Instant::now());
        self.times.set(ThreadTimes::of_this_thread().unwrap_or_default());
    }

    /// Checks whether the thread gets enough processor time. To be called repeatedly during a save.
    pub(crate) fn look(&self) {
        if self.is_raised.get() || self.looked.get().elapsed() < INTERVAL {
            return;
        }
        let Some(now) = ThreadTimes::of_this_thread() else { return };
        let since = now.since(self.times.replace(now));
        self.looked.set(Instant::now());
        if is_too_little(since.ran, since.waited) {
            self.change(true);
        }
    }

    fn change(&self, to_hurried: bool) {
        if self.may_raise && self.is_raised.replace(to_hurried) != to_hurried {
            // The test in `new` has shown that this is permitted.
            let _ = set_policy(if to_hurried { Policy::Normal } else { Policy::Idle });
        }
    }
}

/// Whether a thread with these times should have a higher priority.
fn is_too_little(ran: Duration, waited: Duration) -> bool {
    waited > ran * MIN_WAIT_RATIO && waited > INTERVAL / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The policy of this thread, from the 41st field of its `stat` file; the second field is a
    /// name.
    fn policy() -> i32 {
        let text = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = text.rsplit_once(") ").unwrap();
        fields.split(' ').nth(41 - 3).unwrap().parse().unwrap()
    }

    #[test]
    fn only_a_saver_that_waits_for_processors_is_raised() {
        let ms = Duration::from_millis;
        assert!(is_too_little(ms(10), ms(90)));
        assert!(!is_too_little(ms(40), ms(60)), "it gets its share");
        assert!(!is_too_little(ms(1), ms(10)), "it waits for the disk, or for workers");
    }

    #[test]
    fn a_save_begins_at_the_lowest_priority_where_it_may_rise() {
        thread::spawn(|| {
            let before = rustix::process::getpriority_process(None).unwrap();
            let priority = SaverPriority::new();
            // The tests may run with a low priority; 19 is the lowest.
            let now = rustix::process::getpriority_process(None).unwrap();
            assert_eq!(now, (before + RAISED_NICENESS).min(19));
            assert_eq!(policy(), libc::SCHED_OTHER);
            priority.lower();
            let calm = if priority.may_raise { libc::SCHED_IDLE } else { libc::SCHED_OTHER };
            assert_eq!(policy(), calm);
            priority.change(true);
            assert_eq!(policy(), libc::SCHED_OTHER);
        })
        .join()
        .unwrap();
    }
}
