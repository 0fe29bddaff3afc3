//! The reference count of a node.
//!
//! A thread that holds a reference and reads a count of one is the only holder: no other thread can
//! create another reference. The count is read with `Acquire` and decremented with `Release`, so
//! that reads of the node by former holders happen before the writes that follow. Nodes that are
//! not shared need no atomic read-modify-write.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// A reference count, initially one.
#[derive(Debug)]
pub(crate) struct Count(AtomicU32);

impl Count {
    pub(crate) fn one() -> Self {
        Count(AtomicU32::new(1))
    }

    /// Whether the caller's reference is the only one.
    #[inline]
    pub(crate) fn is_one(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }

    /// Increments the count.
    #[inline]
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Decrements the count. Returns whether this was the last reference, so that the node must be
    /// freed.
    #[inline]
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        if self.0.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        fence(Ordering::Acquire);
        true
    }
}
