//! A tree: its topmost node, and the ways down from there.

use super::blocks::{Blocks, Size};
use super::inner::{Inner, NEVER, seconds};
use super::layout::{Layout, bytes_elsewhere};
use super::leaf::{Leaf, LeafMut, LeafPosition};
use super::node::{self, Node};
use crate::memory::reclaim;
use std::marker::PhantomData;
use std::sync::Arc;

/// Inner nodes on a way down at most; with 21 children each that is more elements than memory has
/// room for.
pub(crate) const MAX_HEIGHT: usize = 12;

/// A counted tree of elements. A clone costs as much at any size, and stays as it is when the other
/// is changed. It is freed when it is dropped: a thread that may not take long for that hands it to
/// another ([`Tree::is_small`]).
#[derive(Debug)]
pub(crate) struct Tree<L: Layout> {
    pub(super) blocks: Arc<Blocks>,
    pub(super) top: Node,
    pub(super) height: usize,
    pub(super) elements: u64,
    /// Elements that expire.
    pub(super) expiring: u64,
    layout: PhantomData<L>,
}

/// Which child to go to at each inner node, from the top down, to come to a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path {
    children: [u8; MAX_HEIGHT],
    height: u8,
}

/// A leaf, how to get there, and how many elements come before its first.
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
    /// Where the last one is.
    End,
}

/// Where an element is to be inserted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InsertPosition {
    pub(crate) path: Path,
    pub(crate) spot: LeafPosition,
    /// Whether there is nothing before it, or after it, in the tree. In a tree that has no order
    /// of its own that does not matter.
    pub(crate) side: Option<Side>,
    /// Whether the leaf has room for it.
    pub(crate) fits: bool,
}

/// What becomes of the nodes on the way to a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) elements: i64,
    pub(super) bytes: i64,
    /// Of what is inserted.
    pub(super) key: u64,
    pub(super) earliest_s: u32,
}

impl Change {
    pub(super) const NONE: Change =
        Change { elements: 0, bytes: 0, key: u64::MAX, earliest_s: NEVER };

    /// That of inserting an element.
    pub(super) fn insertion<L: Layout>(key: u64, element: &[u8]) -> Self {
        // SAFETY: elements hold what they refer to.
        let bytes = unsafe { bytes_elsewhere::<L>(element) } as i64;
        let earliest_s = seconds(L::expires_at_ms(element));
        Change { elements: 1, bytes, key, earliest_s }
    }

    /// That of removing an element.
    pub(super) fn removal<L: Layout>(element: &[u8]) -> Self {
        // SAFETY: elements hold what they refer to.
        let bytes = -(unsafe { bytes_elsewhere::<L>(element) } as i64);
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
    /// One without elements.
    pub(crate) fn new(blocks: &Arc<Blocks>) -> Self {
        let top = Node::new_leaf(blocks, Size::Quarter);
        let blocks = Arc::clone(blocks);
        Tree { blocks, top, height: 0, elements: 0, expiring: 0, layout: PhantomData }
    }

    /// Elements that it has.
    pub(crate) fn len(&self) -> u64 {
        self.elements
    }

    /// Elements that expire.
    pub(crate) fn expiring(&self) -> u64 {
        self.expiring
    }

    /// Memory of all nodes, and of what lies elsewhere. What is shared with clones counts in full.
    pub(crate) fn bytes(&self) -> u64 {
        // SAFETY: the tree has its nodes counted, and they do not change meanwhile.
        unsafe { self.top.bytes() }
    }

    /// No element expires before this second since 1970; `u32::MAX` if none does.
    pub(crate) fn earliest_s(&self) -> u32 {
        if self.expiring == 0 {
            return NEVER;
        }
        // SAFETY: as above.
        unsafe { self.top.earliest_s() }
    }

    /// Whether freeing it takes no longer than a few microseconds.
    pub(crate) fn is_small(&self) -> bool {
        self.bytes() <= 16 * Size::Whole.bytes() as u64
    }

    /// The topmost node.
    pub(super) fn top_inner(&self) -> Option<&Inner> {
        // SAFETY: as above.
        self.top.is_inner().then(|| unsafe { self.top.inner() })
    }

    /// The leaf to which `choose` leads, which names a child of each node on the way.
    #[inline]
    pub(crate) fn descend(&self, mut choose: impl FnMut(&Inner) -> usize) -> FoundLeaf<'_> {
        let (mut path, mut node, mut before) = (Path::default(), self.top, 0);
        while node.is_inner() {
            // SAFETY: the tree has its nodes counted, and they do not change during the borrow.
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

    /// The same without counting what comes before.
    #[inline]
    pub(crate) fn descend_uncounted(
        &self,
        mut choose: impl FnMut(&Inner) -> usize,
    ) -> FoundLeaf<'_> {
        let (mut path, mut node) = (Path::default(), self.top);
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

    /// The leaf of the element with so many before it, or the last one.
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
        // What is left is the place in the leaf.
        FoundLeaf { before: rank, ..found }
    }

    /// The element with so many before it.
    pub(crate) fn select(&self, rank: u64) -> Option<&[u8]> {
        if rank >= self.elements {
            return None;
        }
        let FoundLeaf { leaf, before: place, .. } = self.find_rank(rank);
        Some(leaf.element::<L>(leaf.spot::<L>(place as usize)))
    }

    /// Whether a path leads along one side all the way.
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

    /// The leaf at the end of a path, to be changed, with all on the way noting the change.
    #[inline]
    pub(super) fn own(&mut self, path: &Path, change: Change) -> LeafMut<'_> {
        let mut slot = &mut self.top;
        let mut level = 0;
        loop {
            // SAFETY: the tree is borrowed for changes, and what is above belongs to it alone; what
            // is handed out is borrowed from it.
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

    /// The inner node at a level of a path.
    pub(super) fn inner(&self, path: &Path, level: usize) -> Option<&Inner> {
        let mut inner = self.top_inner()?;
        for at in 0..level {
            let node = inner.node(path.child(at)).filter(|node| node.is_inner())?;
            // SAFETY: as in `descend`.
            inner = unsafe { node.inner() };
        }
        Some(inner)
    }

    /// The inner node at a level of a path, to be changed.
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

    /// Adds to the bytes that the inner nodes down to a level have below them.
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
            reclaim::free_elsewhere(nodes);
        }
    }
}

/// The nodes of a tree that is gone, which this has counted.
struct Nodes<L: Layout> {
    top: Node,
    blocks: Arc<Blocks>,
    layout: PhantomData<fn() -> L>,
}

impl<L: Layout> Drop for Nodes<L> {
    fn drop(&mut self) {
        // SAFETY: the tree's reference is counted, and nothing uses the tree afterwards.
        unsafe { node::release::<L>(self.top, &self.blocks) };
    }
}
