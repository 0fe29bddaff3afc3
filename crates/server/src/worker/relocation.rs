//! Moves connections to other workers: all of them when this worker is no longer active, or some
//! busy ones to relieve this worker.
//!
//! ```text
//! leave -> (at rest, all sent) -> the driver releases the link -> Handovers -> take_moved
//!             no: stays                 later: asked again in the next tick
//! ```
//!
//! A connection moves between two requests, with its partial request, its transaction and its
//! settings. One that is blocked, has unsent replies, or receives notifications of other clients'
//! activity stays, since other threads have its worker's number in their tables; its worker serves
//! it, active or not.

use super::{ConnectionSlot, Sessions};
use crate::net::driver::{Driver, Release, Token};
use crate::net::link::Link;
use crate::protocols::session_state::SessionState;
use crate::state::mailbox::Reminders;
use crate::worker::handovers::{AskedBefore, Leaving, MovedConnection};
use nagi_commands::{Marks, Server as _, When};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Connections whose worker is recorded in tables of other threads.
const STAYING: Marks = Marks::MONITOR.union(Marks::WATCHER).union(Marks::PUBSUB);
/// Minimum time for which requests are counted before a worker chooses the connections to move, and
/// the maximum age of that count.
const COUNTED: Duration = Duration::from_millis(50);
const OUTDATED: Duration = Duration::from_millis(500);

/// A connection that cannot be released within this time stays. Possibly nothing is received from
/// it meanwhile.
const LONGEST_LEAVE: Duration = Duration::from_millis(100);

impl Sessions {
    /// Makes a connection move to the next worker (DEBUG RELOCATE).
    #[cold]
    pub(super) fn leave_for_next(&mut self, token: Token) {
        let next = (self.worker + 1) % self.shared.process().workers;
        self.leaving.push(Leaving::now(token, Some(next)));
    }

    /// Makes all connections leave if this worker is not active.
    pub(super) fn retire(&mut self) {
        if self.worker >= self.shared.registry.active() && self.leaving.is_empty() {
            let tokens = self.slots.all().map(|slot| slot.token);
            self.leaving.extend(tokens.map(|token| Leaving::now(token, None)));
        }
    }

    /// Makes connections leave for workers that have become active, or all connections if this
    /// worker is no longer active.
    pub(super) fn follow_active(&mut self) {
        self.retire();
        let surplus = self.shared.registry.surplus(self.worker);
        let tokens = self.slots.all().map(|slot| slot.token).take(surplus);
        self.leaving.extend(tokens.map(|token| Leaving::now(token, None)));
    }

    /// Makes connections that have sent about `share` of the last requests leave for worker `to`.
    /// The first call only starts to count requests.
    pub(super) fn relieve(&mut self, to: usize, share: f64) {
        let slots = || self.slots.all();
        let before = &self.asked_before;
        let passed = before.at.map_or(Duration::MAX, |at| at.elapsed());
        if passed > OUTDATED {
            let asked = |slot: &ConnectionSlot| (slot.session.info().id, asked(slot));
            let requests = slots().map(asked).collect();
            self.asked_before = AskedBefore { at: Some(Instant::now()), requests };
        } else if passed >= COUNTED {
            let count = |slot: &ConnectionSlot| {
                let then = before.requests.get(&slot.session.info().id).copied();
                asked(slot) - then.unwrap_or_else(|| asked(slot)).min(asked(slot))
            };
            let counted: Vec<(u64, Token)> =
                slots().map(|slot| (count(slot), slot.token)).collect();
            let chosen = choose(counted, share);
            self.leaving.extend(chosen.into_iter().map(|token| Leaving::now(token, Some(to))));
            self.asked_before = AskedBefore::default();
        }
    }

    /// Hands over the leaving connections that are ready.
    pub(super) fn hand_over_leaving(&mut self, driver: &mut impl Driver) {
        for leaving in std::mem::take(&mut self.leaving) {
            let token = leaving.token;
            let may_leave = self.slots.get_mut(token).is_some_and(|slot| may_leave(slot))
                && self.takes_connections
                && !self.shared.is_stopping();
            let release = if may_leave { driver.release(token) } else { Release::Refused };
            match release {
                Release::Done(link) => self.hand_over(token, link, leaving.to),
                Release::Later if leaving.since.elapsed() < LONGEST_LEAVE => {
                    self.leaving.push(leaving);
                }
                Release::Later | Release::Refused => driver.retain(token),
            }
        }
    }

    /// Passes a connection that the driver has released to another worker, or back to this one if
    /// no other is active.
    fn hand_over(&mut self, token: Token, link: Link, to: Option<usize>) {
        let Some(slot) = self.slots.remove(token) else { return };
        let to = self.shared.registry.reassign(self.worker, to).unwrap_or(self.worker);
        let ConnectionSlot { session, state, overhead, .. } = slot;
        let info = session.info();
        // Messages for it wait at the new worker meanwhile.
        info.mark(Marks::MOVING, true);
        info.worker.store(to, Ordering::SeqCst);
        // See `Shared::close`.
        fence(Ordering::SeqCst);
        let moved = MovedConnection { link, session, state, overhead };
        self.handovers.put(to, moved);
        self.shared.remind(to, Reminders::MOVED);
    }
}

/// Whether a connection has no state bound to its worker.
fn may_leave(slot: &ConnectionSlot) -> bool {
    let waits_for_a_turn = SessionState::Pending(When::NextTick);
    slot.session.is_at_rest()
        && !slot.ended
        && !slot.is_slow_reader
        && slot.unsent.is_empty()
        && !slot.session.info().marks().intersects(STAYING)
        && [SessionState::Bytes, SessionState::NEXT_SLICE, waits_for_a_turn].contains(&slot.state)
}

/// The number of requests that a connection has sent.
fn asked(slot: &ConnectionSlot) -> u64 {
    slot.session.info().requests.get()
}

/// Chooses connections that together have sent about `share` of all requests and no more; `counted`
/// has the requests of each. The busiest come first, so that few connections move.
fn choose(mut counted: Vec<(u64, Token)>, share: f64) -> Vec<Token> {
    counted.sort_unstable_by_key(|(requests, _)| std::cmp::Reverse(*requests));
    let sum: u64 = counted.iter().map(|(requests, _)| requests).sum();
    let mut left = (sum as f64 * share) as u64;
    let mut chosen = Vec::new();
    for (requests, token) in counted {
        if requests > 0 && requests <= left {
            left -= requests;
            chosen.push(token);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(index: u32) -> Token {
        Token { index, generation: 0 }
    }

    fn chosen(requests: &[u64], share: f64) -> Vec<u32> {
        let counted = (0..).zip(requests).map(|(index, count)| (*count, token(index)));
        choose(counted.collect(), share).iter().map(|token| token.index).collect()
    }

    #[test]
    fn the_busiest_connections_leave_first_and_none_that_are_too_busy() {
        assert_eq!(chosen(&[10, 10, 10, 10], 0.5), [0, 1]);
        assert_eq!(chosen(&[100, 10, 10, 10], 0.2), [1, 2], "one alone is more than the share");
        assert_eq!(chosen(&[1, 50, 0, 49], 0.5), [1]);
        assert!(chosen(&[0, 0], 0.5).is_empty());
        assert!(chosen(&[], 0.5).is_empty());
    }
}
