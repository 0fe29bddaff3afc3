//! How many references there are to a node.
//!
//! A thread that holds a reference and finds a count of one is the only holder: no other thread can
//! make another reference. The count is read with `Acquire`, and given up with `Release`, so that
//! reads of the node by former holders come before what is then written. No atomic
//! read-modify-write is needed where nothing is shared.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// A count of references, one to begin with.
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

    /// Adds a reference.
    #[inline]
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives a reference up. Returns whether it was the last, and the node is to be freed.
    #[inline]
    #[must_use]
    pub(crate) fn give_up(&self) -> bool {
        if self.0.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        fence(Ordering::Acquire);
        true
    }
}
