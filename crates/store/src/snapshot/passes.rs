//! The progress of the walk that copies the entries of a snapshot.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Two passes over the shards. The first counts the entries of the snapshot, because a file
/// contains the size of a database before its entries; the second walks.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) counting: Pass,
    pub(crate) walking: Pass,
}

/// A pass of several workers over the shards; each shard is processed by one worker.
#[derive(Debug)]
pub(crate) struct Pass {
    /// The next shard for a worker; none if there is no pass.
    next: AtomicUsize,
    /// The number of shards that are not finished.
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

    /// Whether every shard is finished. The results are visible to the caller.
    pub(crate) fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    pub(crate) fn end(&self) {
        self.next.store(usize::MAX, Ordering::Relaxed);
    }
}
