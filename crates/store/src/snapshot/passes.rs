//! How far the walk has come that leaves images of what belongs to a snapshot.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Two passes over the shards: first it is counted what they owe the snapshot, since a file says
/// how large a database is before it says anything else of it; then they are walked.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) counting: Pass,
    pub(crate) walking: Pass,
}

/// A pass of several workers over the shards, each of which is one worker's.
#[derive(Debug)]
pub(crate) struct Pass {
    /// The next shard that a worker takes; none if there is no pass.
    next: AtomicUsize,
    /// Shards that no worker has come through yet.
    left: AtomicUsize,
}

impl Default for Pass {
    fn default() -> Self {
        Pass { next: AtomicUsize::new(usize::MAX), left: AtomicUsize::new(0) }
    }
}

impl Pass {
    pub(crate) fn begin(&self, shards: usize) {
        self.left.store(shards, Ordering::Relaxed);
        self.next.store(0, Ordering::Release);
    }

    pub(crate) fn take(&self, shards: usize) -> Option<usize> {
        let next = |taken: usize| (taken < shards).then(|| taken + 1);
        self.next.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok()
    }

    pub(crate) fn note_done(&self) {
        self.left.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether every shard is done; the caller sees what was done with them.
    pub(crate) fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    pub(crate) fn end(&self) {
        self.next.store(usize::MAX, Ordering::Relaxed);
    }
}
