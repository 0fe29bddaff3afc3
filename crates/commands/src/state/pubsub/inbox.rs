//! The inbox of messages for one worker's subscribers.
//!
//! A publisher adds one entry, independent of the number of subscribers, and the worker later
//! distributes it to them. The amount by which publishers are ahead of workers is bounded: an inbox
//! with much pending work is full, and publishers wait while any inbox is full.

use super::message::Publication;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

/// The pending work with which an inbox is full, in bytes to copy: some milliseconds.
pub(super) const FULL_BYTES: usize = 4 << 20;

/// One worker's inbox.
#[derive(Default)]
pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    /// The cost of messages that have been distributed and wait to be sent, in bytes to copy. Only
    /// the worker writes it.
    distributed_bytes: AtomicUsize,
    /// Written under the lock.
    is_full: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    publications: Vec<Arc<Publication>>,
    bytes: usize,
}

impl Inbox {
    /// Adds an entry for this many subscribers. Returns whether the worker must be woken.
    pub(super) fn push(
        &self,
        publication: Arc<Publication>,
        subscribers: usize,
        publishers: &Publishers,
    ) -> bool {
        let mut waiting = self.waiting();
        let is_first = waiting.publications.is_empty();
        waiting.bytes += subscribers * publication.cost_bytes();
        waiting.publications.push(publication);
        let bytes = waiting.bytes + self.distributed_bytes.load(Ordering::Relaxed);
        if bytes >= FULL_BYTES && !self.is_full.swap(true, Ordering::Relaxed) {
            publishers.full.fetch_add(1, Ordering::AcqRel);
        }
        is_first
    }

    /// Takes all entries, in order.
    pub(super) fn take(&self) -> Vec<Arc<Publication>> {
        let mut waiting = self.waiting();
        waiting.bytes = 0;
        std::mem::take(&mut waiting.publications)
    }

    /// Records the cost of messages that have been distributed and not been sent. Publishers
    /// continue when the pending work is less than half of the limit.
    pub(super) fn note_distributed(&self, bytes: usize, publishers: &Publishers) {
        self.distributed_bytes.store(bytes, Ordering::Relaxed);
        if !self.is_full.load(Ordering::Relaxed) {
            return;
        }
        let waiting = self.waiting();
        let is_over = waiting.bytes + bytes < FULL_BYTES / 2;
        if is_over && self.is_full.swap(false, Ordering::Relaxed) {
            drop(waiting);
            publishers.go_on();
        }
    }

    /// Locks the entries, which no operation under the lock can leave inconsistent.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

/// Publishers that wait for inboxes.
#[derive(Default)]
pub(super) struct Publishers {
    /// The number of full inboxes.
    full: AtomicUsize,
    waiting: Mutex<Vec<Waker>>,
}

impl Publishers {
    /// Whether a publisher has to wait; if so, its waker will be called.
    #[inline]
    pub(super) fn wait(&self, waker: &Waker) -> bool {
        self.full.load(Ordering::Acquire) > 0 && self.begin_wait(waker)
    }

    /// Whether a publisher would have to wait.
    pub(super) fn is_any_full(&self) -> bool {
        self.full.load(Ordering::Acquire) > 0
    }

    #[cold]
    fn begin_wait(&self, waker: &Waker) -> bool {
        // Under the lock, since the worker that makes room takes the wakers only afterwards.
        let mut waiting = self.waiting.lock();
        let waits = self.full.load(Ordering::Acquire) > 0;
        if waits {
            waiting.push(waker.clone());
        }
        waits
    }

    /// Records that an inbox is no longer full. Wakes the publishers if no other inbox is full.
    fn go_on(&self) {
        if self.full.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let mut waiting = self.waiting.lock();
        let wakers = std::mem::take(&mut *waiting);
        drop(waiting);
        wakers.into_iter().for_each(Waker::wake);
    }
}
