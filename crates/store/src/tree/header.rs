//! The pointer to a node, and the header at the start of every node.

use super::blocks::Size;
use super::count::Count;
#[cfg(loom)]
use loom::cell::UnsafeCell;
use std::ptr::NonNull;

/// The header of a node, inner or leaf.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) count: Count,
    pub(super) size: Size,
    pub(super) is_inner: bool,
    /// The number of children; inner nodes only.
    pub(crate) children: u16,
    /// Stands for the node's contents, whose accesses loom cannot observe.
    #[cfg(loom)]
    contents: UnsafeCell<()>,
}

impl Header {
    pub(super) fn new(size: Size, is_inner: bool, children: usize) -> Self {
        Header {
            count: Count::one(),
            size,
            is_inner,
            children: children as u16,
            #[cfg(loom)]
            contents: UnsafeCell::new(()),
        }
    }

    /// Tells loom that the node is read: it fails if a change by another thread is not ordered
    /// before or after.
    #[inline]
    pub(super) fn note_read(&self) {
        #[cfg(loom)]
        self.contents.with(|_| ());
    }

    /// Tells loom that the node is changed or freed.
    #[inline]
    pub(super) fn note_change(&self) {
        #[cfg(loom)]
        self.contents.with_mut(|_| ());
    }
}

/// A pointer to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node(pub(super) NonNull<Header>);

// SAFETY: nodes are shared as the contents of an `Arc` are: a node is only read while it may be
// shared, and its count is atomic.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}
