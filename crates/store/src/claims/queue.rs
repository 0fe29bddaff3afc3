//! The waiters for a name, in order of arrival.

use std::collections::VecDeque;
use std::task::Waker;

/// A queue. It allocates no memory while a name has no waiters.
#[derive(Debug, Default)]
pub(super) struct Queue(Option<Box<Waiters>>);

#[derive(Debug)]
struct Waiters {
    line: VecDeque<Waiter>,
    last_number: u64,
}

impl Default for Waiters {
    fn default() -> Self {
        // Numbers start in the middle, so that waiters can be put ahead of the first.
        Waiters { line: VecDeque::new(), last_number: 1 << 32 }
    }
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    kind: Kind,
    /// `None` once it has been called.
    waker: Option<Waker>,
}

/// The kind of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A request that needs the name for a moment; any number of them may proceed at once.
    Request,
    /// A command that will claim the name.
    Claimer,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Appends a waiter and returns the number of its place.
    pub(super) fn push(&mut self, kind: Kind, waker: &Waker) -> u64 {
        let waiters = self.0.get_or_insert_default();
        waiters.last_number += 1;
        let number = waiters.last_number;
        waiters.line.push_back(Waiter { number, kind, waker: Some(waker.clone()) });
        number
    }

    /// Puts a waiter at the front of the queue and returns the number of its place.
    pub(super) fn push_first(&mut self, kind: Kind, waker: &Waker) -> u64 {
        let waiters = self.0.get_or_insert_default();
        let first = waiters.line.front().map_or(waiters.last_number + 1, |waiter| waiter.number);
        let number = first - 1;
        waiters.line.push_front(Waiter { number, kind, waker: Some(waker.clone()) });
        number
    }

    /// Whether no waiter is ahead of place `own`; without a place, whether there is no waiter at
    /// all.
    pub(super) fn is_first(&self, own: Option<u64>) -> bool {
        let first = self.0.as_ref().and_then(|waiters| waiters.line.front());
        first.is_none_or(|waiter| Some(waiter.number) == own)
    }

    pub(super) fn remove(&mut self, number: u64) {
        if let Some(waiters) = &mut self.0 {
            let place = waiters.line.binary_search_by_key(&number, |waiter| waiter.number);
            place.ok().and_then(|at| waiters.line.remove(at));
            if waiters.line.is_empty() {
                self.0 = None;
            }
        }
    }

    /// Wakes the front of the queue: all requests there, or one claimer.
    pub(super) fn wake_next(&mut self) {
        let Some(waiters) = &mut self.0 else { return };
        let requests = waiters.line.iter().take_while(|waiter| waiter.kind == Kind::Request);
        let count = requests.count().max(1);
        waiters.line.iter_mut().take(count).for_each(Waiter::wake);
    }

    pub(super) fn wake_all(&mut self) {
        self.0.iter_mut().flat_map(|waiters| &mut waiters.line).for_each(Waiter::wake);
    }
}

impl Waiter {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
