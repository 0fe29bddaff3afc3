//! The pointer to a node, and the header at the start of every node.

use super::blocks::Size;
use super::count::Count;
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
}

impl Header {
    pub(super) fn new(size: Size, is_inner: bool, children: usize) -> Self {
        Header { count: Count::one(), size, is_inner, children: children as u16 }
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
