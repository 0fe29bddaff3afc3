//! The saver's priority: idle, as long as it gets processors while workers sleep; nearly that of
//! workers if they never sleep, since a save would take several times as long otherwise.
//!
//! Idle is a scheduling policy (SCHED_IDLE). A thread of the normal policy keeps a processor for a
//! millisecond or more, however low its weight, and threads that become runnable wait.

use crate::state::thread_times::ThreadTimes;
use std::cell::Cell;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// By how much the saver is less urgent than workers if it gets too little of the processors. Of
/// two, which two workers and a client keep busy, it gets 0.3 then, by the kernel's weights.
const RAISED_NICENESS: i32 = 3;
/// How long to look at what it gets.
const INTERVAL: Duration = Duration::from_millis(100);
/// It gets too little if it waits for a processor for so many times as long as it has one.
const MIN_WAIT_RATIO: u32 = 8;

/// The priority of the thread that made it.
pub(crate) struct SaverPriority {
    /// Whether a thread that is not urgent may become so again.
    may_raise: bool,
    is_raised: Cell<bool>,
    looked: Cell<Instant>,
    /// What the kernel said then.
    times: Cell<ThreadTimes>,
}

impl SaverPriority {
    /// Finds out what this process may do. Where it may not make a thread more urgent again than it
    /// was, the saver keeps the raised priority.
    pub(crate) fn new() -> Self {
        let tried = thread::spawn(|| schedule(Policy::Idle).and_then(|()| schedule(Policy::Usual)));
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

    /// A save begins.
    pub(crate) fn lower(&self) {
        self.change(false);
        self.looked.set(Instant::now());
        self.times.set(ThreadTimes::of_this_thread().unwrap_or_default());
    }

    /// To be called now and then while a save is under way: looks whether the thread gets enough.
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
            // It was possible when it was tried.
            let _ = schedule(if to_hurried { Policy::Usual } else { Policy::Idle });
        }
    }
}

/// How the kernel shares processors out.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Policy {
    /// By niceness.
    Usual = libc::SCHED_OTHER,
    /// Only those that no other thread wants, until one does.
    Idle = libc::SCHED_IDLE,
}

/// Sets this thread's scheduling policy; its niceness stays.
fn schedule(policy: Policy) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the parameter and keeps no address.
    let result = unsafe { libc::sched_setscheduler(0, policy as i32, &raw const parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether a thread that ran and waited for so long ought to be more urgent.
fn is_too_little(ran: Duration, waited: Duration) -> bool {
    waited > ran * MIN_WAIT_RATIO && waited > INTERVAL / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// That of this thread, by the 41st field that the kernel tells of it; the second is a name.
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
            // The tests themselves may run with little priority; 19 is the least there is.
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
