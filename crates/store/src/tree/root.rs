//! The tree itself: its root node, and descents from there.

use super::blocks::{Blocks, Size};
use super::inner::{Inner, NEVER, seconds};
use super::layout::{Layout, bytes_out_of_line};
use super::leaf::{Leaf, LeafMut, LeafPosition};
use super::node::{self, Node};
use crate::memory::reclaim;
use std::marker::PhantomData;
use std::sync::Arc;

/// The maximum number of inner nodes on a path. With 21 children each, that is more elements than
/// memory can hold.
pub(crate) const MAX_HEIGHT: usize = 12;

/// A counted tree of elements. A clone takes constant time, and does not change when the original
/// does. Dropping a tree frees its nodes; a thread that must not take long hands a tree that is not
/// [`Tree::is_small`] to another one.
#[derive(Debug)]
pub(crate) struct Tree<L: Layout> {
    pub(super) blocks: Arc<Blocks>,
    pub(super) top: Node,
    pub(super) height: usize,
    pub(super) elements: u64,
    /// The number of elements that expire.
    pub(super) expiring: u64,
    layout: PhantomData<L>,
}

/// The path to a leaf: the index of the child at each inner node, from the root down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path {
    children: [u8; MAX_HEIGHT],
    height: u8,
}

/// A leaf, its path, and the number of elements before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundLeaf<'a> {
    pub(crate) path: Path,
    pub(crate) leaf: Leaf<'a>,
    pub(crate) before: u64,
}

/// An end of a tree, or of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where the first element is.
    Start,
    /// Where the last element is.
    End,
}

/// The position at which an element is to be inserted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InsertPosition {
    pub(crate) path: Path,
    pub(crate) spot: LeafPosition,
    /// The end of the tree that the position is at, if any. It has no meaning in trees ordered by
    /// hash.
    pub(crate) side: Option<Side>,
    /// Whether the leaf has room for the element.
    pub(crate) fits: bool,
}

/// The contribution of a change to the metadata of the nodes on the path to a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) elements: i64,
    pub(super) bytes: i64,
    /// The key of an inserted element.
    pub(super) key: u64,
    pub(super) earliest_s: u32,
}

impl Change {
    pub(super) const NONE: Change =
        Change { elements: 0, bytes: 0, key: u64::MAX, earliest_s: NEVER };

    /// Describes the insertion of an element.
    pub(super) fn insertion<L: Layout>(key: u64, element: &[u8]) -> Self {
        // SAFETY: elements hold references to their strings.
        let bytes = unsafe { bytes_out_of_line::<L>(element) } as i64;
        let earliest_s = seconds(L::expires_at_ms(element));
        Change { elements: 1, bytes, key, earliest_s }
    }

    /// Describes the removal of an element.
    pub(super) fn removal<L: Layout>(element: &[u8]) -> Self {
        // SAFETY: elements hold references to their strings.
        let bytes = -(unsafe { bytes_out_of_line::<L>(element) } as i64);
        Change { elements: -1, bytes, ..Change::NONE }
    }
}

impl Path {
    #[inline]
    pub(super) fn push(&mut self, child: usize) {
        if let Some(next) = self.children.get_mut(usize::from(self.height)) {
            *next = child as u8;
            self.height += 1;
        }
    }

    #[inline]
    pub(super) fn child(&self, level: usize) -> usize {
        self.children.get(level).copied().unwrap_or_default().into()
    }
}

impl<L: Layout> Tree<L> {
    /// Creates a tree without elements.
    pub(crate) fn new(blocks: &Arc<Blocks>) -> Self {
        let top = Node::new_leaf(blocks, Size::Quarter);
        let blocks = Arc::clone(blocks);
        Tree { blocks, top, height: 0, elements: 0, expiring: 0, layout: PhantomData }
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> u64 {
        self.elements
    }

    /// Returns the number of elements that expire.
    pub(crate) fn expiring(&self) -> u64 {
        self.expiring
    }

    /// Returns the memory of all nodes, and of strings stored out of line. Nodes shared with clones
    /// count in full.
    pub(crate) fn bytes(&self) -> u64 {
        // SAFETY: the tree holds references to its nodes, which do not change meanwhile.
        unsafe { self.top.bytes() }
    }

    /// Returns a lower bound of the expiry times, in seconds since 1970; `u32::MAX` if no element
    /// expires.
    pub(crate) fn earliest_s(&self) -> u32 {
        if self.expiring == 0 {
            return NEVER;
        }
        // SAFETY: as above.
        unsafe { self.top.earliest_s() }
    }

    /// Whether freeing the tree takes no longer than a few microseconds.
    pub(crate) fn is_small(&self) -> bool {
        self.bytes() <= 16 * Size::Whole.bytes() as u64
    }

    /// Returns the root if it is an inner node.
    pub(super) fn top_inner(&self) -> Option<&Inner> {
        // SAFETY: as above.
        self.top.is_inner().then(|| unsafe { self.top.inner() })
    }

    /// Prefetches what a search reads first in the root, if that is an inner node.
    #[inline]
    fn prefetch_top(&self) {
        if self.height > 0 {
            self.top.prefetch(false);
        }
    }

    /// Descends to a leaf; `choose` selects a child of each inner node on the path.
    #[inline]
    pub(crate) fn descend(&self, mut choose: impl FnMut(&Inner) -> usize) -> FoundLeaf<'_> {
        let (mut path, mut node, mut before) = (Path::default(), self.top, 0);
        self.prefetch_top();
        while node.is_inner() {
            // SAFETY: the tree holds references to its nodes, which do not change during the
            // borrow.
            let inner: &Inner = unsafe { node.inner() };
            let child = choose(inner).min(inner.len().saturating_sub(1));
            path.push(child);
            before += inner.elements_before(child);
            let Some(below) = inner.node(child) else { break };
            below.prefetch(usize::from(path.height) == self.height);
            node = below;
        }
        // SAFETY: as above; a tree's inner nodes have children.
        FoundLeaf { path, leaf: unsafe { node.leaf() }, before }
    }

    /// The same as [`Tree::descend`], without counting the elements before the leaf.
    #[inline]
    pub(crate) fn descend_uncounted(
        &self,
        mut choose: impl FnMut(&Inner) -> usize,
    ) -> FoundLeaf<'_> {
        let (mut path, mut node) = (Path::default(), self.top);
        self.prefetch_top();
        while node.is_inner() {
            // SAFETY: as in `descend`.
            let inner: &Inner = unsafe { node.inner() };
            let child = choose(inner).min(inner.len().saturating_sub(1));
            path.push(child);
            let Some(below) = inner.node(child) else { break };
            below.prefetch(usize::from(path.height) == self.height);
            node = below;
        }
        // SAFETY: as in `descend`.
        FoundLeaf { path, leaf: unsafe { node.leaf() }, before: 0 }
    }

    /// Returns the leaf of the element with this rank, or the last leaf.
    pub(crate) fn find_rank(&self, rank: u64) -> FoundLeaf<'_> {
        let mut rank = rank;
        let found = self.descend_uncounted(|inner| {
            let mut child = 0;
            for elements in inner.counts() {
                if rank < u64::from(*elements) || child + 1 == inner.len() {
                    break;
                }
                rank -= u64::from(*elements);
                child += 1;
            }
            child
        });
        // The remainder is the element's index in the leaf.
        FoundLeaf { before: rank, ..found }
    }

    /// Returns the element with this rank.
    pub(crate) fn select(&self, rank: u64) -> Option<&[u8]> {
        if rank >= self.elements {
            return None;
        }
        let FoundLeaf { leaf, before: place, .. } = self.find_rank(rank);
        Some(leaf.element::<L>(leaf.spot::<L>(place as usize)))
    }

    /// Whether a path follows one side of the tree.
    pub(super) fn is_outermost(&self, path: &Path, side: Side) -> bool {
        let mut node = self.top;
        let mut level = 0;
        while node.is_inner() {
            // SAFETY: as in `descend`.
            let inner: &Inner = unsafe { node.inner() };
            let child = path.child(level);
            let outermost = if side == Side::Start { 0 } else { inner.len() - 1 };
            let Some(below) = inner.node(child).filter(|_| child == outermost) else {
                return false;
            };
            node = below;
            level += 1;
        }
        true
    }

    /// Returns the leaf at the end of a path so that it can be modified, and applies the change to
    /// the metadata of all nodes on the path.
    #[inline]
    pub(super) fn own(&mut self, path: &Path, change: Change) -> LeafMut<'_> {
        let mut slot = &mut self.top;
        let mut level = 0;
        loop {
            // SAFETY: the tree is mutably borrowed, and the nodes above are unshared; the result
            // borrows the tree.
            unsafe {
                Node::own::<L>(slot, &self.blocks);
                if !slot.is_inner() {
                    return slot.leaf_mut();
                }
                let node = *slot;
                let inner: &mut Inner = node.inner_mut();
                let child = path.child(level);
                inner.bytes_below = inner.bytes_below.wrapping_add_signed(change.bytes);
                inner.note(child, change.elements, change.earliest_s);
                inner.lower_key(child, change.key);
                let Some(below) = inner.node_mut(child) else { return node.leaf_mut() };
                slot = below;
                level += 1;
            }
        }
    }

    /// Returns the inner node at a level of a path.
    pub(super) fn inner(&self, path: &Path, level: usize) -> Option<&Inner> {
        let mut inner = self.top_inner()?;
        for at in 0..level {
            let node = inner.node(path.child(at)).filter(|node| node.is_inner())?;
            // SAFETY: as in `descend`.
            inner = unsafe { node.inner() };
        }
        Some(inner)
    }

    /// Returns the inner node at a level of a path so that it can be modified.
    pub(super) fn own_inner(&mut self, path: &Path, level: usize) -> Option<&mut Inner> {
        let mut slot = &mut self.top;
        for at in 0..=level {
            // SAFETY: as in `own`.
            unsafe {
                if !slot.is_inner() {
                    return None;
                }
                Node::own::<L>(slot, &self.blocks);
                let inner: &mut Inner = slot.inner_mut();
                if at == level {
                    return Some(inner);
                }
                slot = inner.node_mut(path.child(at))?;
            }
        }
        None
    }

    /// Adds to the byte counts of the inner nodes from the root down to a level.
    pub(super) fn add_bytes(&mut self, path: &Path, level: usize, bytes: i64) {
        for at in 0..=level {
            if let Some(inner) = self.own_inner(path, at) {
                inner.bytes_below = inner.bytes_below.wrapping_add_signed(bytes);
            }
        }
    }
}

impl<L: Layout> Clone for Tree<L> {
    fn clone(&self) -> Self {
        self.top.count().add();
        let Tree { top, height, elements, expiring, layout, .. } = *self;
        Tree { blocks: Arc::clone(&self.blocks), top, height, elements, expiring, layout }
    }
}

impl<L: Layout> Drop for Tree<L> {
    fn drop(&mut self) {
        let nodes =
            Nodes::<L> { top: self.top, blocks: Arc::clone(&self.blocks), layout: PhantomData };
        if self.top.count().is_one() && !self.is_small() {
            reclaim::free_data(nodes, self.bytes());
        }
    }
}

/// The nodes of a dropped tree, to which this holds a counted reference.
struct Nodes<L: Layout> {
    top: Node,
    blocks: Arc<Blocks>,
    layout: PhantomData<fn() -> L>,
}

impl<L: Layout> Drop for Nodes<L> {
    fn drop(&mut self) {
        // SAFETY: the tree's reference is counted, and the tree is not used afterwards.
        unsafe { node::release::<L>(self.top, &self.blocks) };
    }
}
