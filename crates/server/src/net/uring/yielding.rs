//! Before a busy worker sleeps, it yields its processor, most often to clients on the same machine.
//! Requests that they send meanwhile are served without a sleep and a wakeup, which cost more than
//! a request. Requests do not wake a worker that has yielded. A worker therefore yields only while
//! its load is so high that it would not sleep for long, and stops for a while after another thread
//! has kept the processor for long.

use std::time::{Duration, Instant};

/// Events per millisecond of a busy worker, and the period over which they are counted.
const BUSY_EVENTS: u128 = 16;
const WINDOW: Duration = Duration::from_millis(1);
/// Minimum time for which another thread runs that counts as long, and how long the worker then
/// does not yield.
const LONG: Duration = Duration::from_millis(2);
const YIELD_PAUSE: Duration = Duration::from_millis(20);

/// Decides when a worker yields.
#[derive(Debug)]
pub(super) struct Yielding {
    /// Events since `since`.
    events: usize,
    since: Instant,
    busy: bool,
    /// The earliest time of the next yield.
    not_before: Instant,
}

impl Default for Yielding {
    fn default() -> Self {
        let now = Instant::now();
        Yielding { events: 0, since: now, busy: false, not_before: now }
    }
}

impl Yielding {
    /// Counts `events`.
    #[inline]
    pub(super) fn note(&mut self, events: usize) {
        self.events += events;
    }

    /// Whether the worker should yield, if it has nothing to do but wait.
    pub(super) fn is_due(&mut self) -> bool {
        self.is_due_at(Instant::now())
    }

    fn is_due_at(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since);
        if passed >= WINDOW {
            self.busy = self.events as u128 * 1000 >= passed.as_micros() * BUSY_EVENTS;
            (self.events, self.since) = (0, now);
        }
        self.busy && now >= self.not_before
    }

    /// Yields, and measures how long other threads ran.
    pub(super) fn yield_now(&mut self) {
        let began = Instant::now();
        std::thread::yield_now();
        self.resume_at(Instant::now(), began);
    }

    fn resume_at(&mut self, now: Instant, began: Instant) {
        if now.saturating_duration_since(began) >= LONG {
            self.not_before = now + YIELD_PAUSE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state after `events` in a millisecond, and its time.
    fn after(events: usize) -> (Yielding, Instant) {
        let mut yielding = Yielding::default();
        yielding.note(events);
        let now = yielding.since + WINDOW;
        (yielding, now)
    }

    #[test]
    fn only_a_busy_worker_yields() {
        let (mut yielding, now) = after(15);
        assert!(!yielding.is_due_at(now));
        let (mut yielding, now) = after(16);
        assert!(yielding.is_due_at(now));
        assert!(yielding.is_due_at(now + WINDOW / 2), "until the next window is over");
        assert!(!yielding.is_due_at(now + WINDOW), "when nothing more has happened");
    }

    #[test]
    fn a_worker_that_was_kept_waiting_does_not_yield_again_at_once() {
        let (mut yielding, now) = after(16);
        assert!(yielding.is_due_at(now));
        yielding.resume_at(now + LONG / 2, now);
        yielding.note(16);
        assert!(yielding.is_due_at(now + WINDOW));
        yielding.resume_at(now + LONG, now);
        yielding.note(16);
        assert!(!yielding.is_due_at(now + LONG));
        yielding.note(1000);
        assert!(yielding.is_due_at(now + LONG + YIELD_PAUSE));
    }
}
