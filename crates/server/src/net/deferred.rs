//! Connections that begin or end by the thousand. To accept or close one takes several times as
//! long as a small request, and the kernel reports events in order: requests would wait for all
//! connections that began or ended before they came. So a turn of a driver handles a few of these
//! events, and leaves the others to later turns, each of which handles its requests first.

use nagi_store::accounting;
use std::collections::VecDeque;

/// How many connections may begin or end in a turn. They take some 100 microseconds.
pub(crate) const PER_TURN: usize = 8;
/// Capacity that the queue retains.
const KEPT: usize = 256;

/// Events of connections that begin or end, in order.
#[derive(Debug)]
pub(crate) struct Deferred<E> {
    events: VecDeque<E>,
    /// How many more may be handled in this turn.
    left: usize,
}

impl<E> Default for Deferred<E> {
    fn default() -> Self {
        Deferred { events: VecDeque::new(), left: 0 }
    }
}

impl<E> Deferred<E> {
    #[inline]
    pub(crate) fn begin_turn(&mut self) {
        self.left = PER_TURN;
    }

    /// Returns an event that is to be handled at once, and keeps it otherwise.
    pub(crate) fn admit(&mut self, event: E) -> Option<E> {
        if self.left > 0 && self.events.is_empty() {
            self.left -= 1;
            return Some(event);
        }
        self.events.push_back(event);
        None
    }

    /// Takes the next event that this turn handles, after its requests.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<E> {
        if self.left == 0 {
            return None;
        }
        let event = self.events.pop_front()?;
        self.left -= 1;
        if self.events.is_empty() {
            self.events.shrink_to(KEPT);
        }
        Some(event)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The memory of the queue, in bytes.
    pub(crate) fn room_bytes(&self) -> usize {
        accounting::room_bytes::<E>(self.events.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_handles_a_few() {
        let mut deferred = Deferred::default();
        deferred.begin_turn();
        let at_once = (0..20).filter_map(|it| deferred.admit(it)).count();
        assert_eq!((at_once, deferred.next()), (PER_TURN, None));
        deferred.begin_turn();
        assert_eq!(std::iter::from_fn(|| deferred.next()).count(), PER_TURN);
        assert!(!deferred.is_empty());
    }

    #[test]
    fn all_are_handled_in_order() {
        let mut deferred = Deferred::default();
        let (mut handled, mut number) = (Vec::new(), 0..40);
        loop {
            deferred.begin_turn();
            handled.extend(number.by_ref().take(12).filter_map(|it| deferred.admit(it)));
            handled.extend(std::iter::from_fn(|| deferred.next()));
            if deferred.is_empty() {
                break;
            }
        }
        assert_eq!(handled, Vec::from_iter(0..40));
        for event in 0..10_000 {
            deferred.admit(event);
        }
        while !deferred.is_empty() {
            deferred.begin_turn();
            while deferred.next().is_some() {}
        }
        assert!(deferred.events.capacity() <= 2 * KEPT, "memory is freed");
    }
}
