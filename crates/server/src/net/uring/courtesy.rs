//! Before a busy worker sleeps it lets others run, most often clients that share its processor:
//! what they send meanwhile is served without falling asleep and being woken, which costs more than
//! a request. Who has given way is woken by nobody, so that a worker does so only while it is asked
//! so much that it would not sleep for long, and not again for a while if somebody has kept the
//! processor for long.

use std::time::{Duration, Instant};

/// What a worker is asked in a millisecond if it is busy, in events, and how long that is counted.
const BUSY_EVENTS: u128 = 16;
const WINDOW: Duration = Duration::from_millis(1);
/// From how long on somebody has had the processor for long, and how long a worker then keeps it.
const LONG: Duration = Duration::from_millis(2);
const RESERVE: Duration = Duration::from_millis(20);

/// A worker's courtesy.
#[derive(Debug)]
pub(super) struct Courtesy {
    /// What happened since then.
    events: usize,
    since: Instant,
    busy: bool,
    /// When it may give way again.
    not_before: Instant,
}

impl Default for Courtesy {
    fn default() -> Self {
        let now = Instant::now();
        Courtesy { events: 0, since: now, busy: false, not_before: now }
    }
}

impl Courtesy {
    /// Notes that so much has happened.
    #[inline]
    pub(super) fn note(&mut self, events: usize) {
        self.events += events;
    }

    /// Whether the worker gives way, if it has nothing to do but to wait.
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

    /// Lets others run.
    pub(super) fn give_way(&mut self) {
        let began = Instant::now();
        std::thread::yield_now();
        self.resume_at(Instant::now(), began);
    }

    fn resume_at(&mut self, now: Instant, began: Instant) {
        if now.saturating_duration_since(began) >= LONG {
            self.not_before = now + RESERVE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A courtesy that has heard of so many events in a millisecond, and when that was.
    fn after(events: usize) -> (Courtesy, Instant) {
        let mut courtesy = Courtesy::default();
        courtesy.note(events);
        let now = courtesy.since + WINDOW;
        (courtesy, now)
    }

    #[test]
    fn only_who_is_busy_gives_way() {
        let (mut courtesy, now) = after(15);
        assert!(!courtesy.is_due_at(now));
        let (mut courtesy, now) = after(16);
        assert!(courtesy.is_due_at(now));
        assert!(courtesy.is_due_at(now + WINDOW / 2), "until the next window is over");
        assert!(!courtesy.is_due_at(now + WINDOW), "when nothing more has happened");
    }

    #[test]
    fn who_was_kept_waiting_does_not_give_way_again_at_once() {
        let (mut courtesy, now) = after(16);
        assert!(courtesy.is_due_at(now));
        courtesy.resume_at(now + LONG / 2, now);
        courtesy.note(16);
        assert!(courtesy.is_due_at(now + WINDOW));
        courtesy.resume_at(now + LONG, now);
        courtesy.note(16);
        assert!(!courtesy.is_due_at(now + LONG));
        courtesy.note(1000);
        assert!(courtesy.is_due_at(now + LONG + RESERVE));
    }
}
