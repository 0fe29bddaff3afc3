//! A pointer to a node, and the header that every node begins with.

use super::blocks::Size;
use super::count::Count;
use std::ptr::NonNull;

/// What every node begins with.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) count: Count,
    pub(super) size: Size,
    pub(super) is_inner: bool,
    /// Of an inner node.
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

// SAFETY: a node is shared as `Arc` shares: it is only read while it may be shared, and counted
// with atomics.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}
