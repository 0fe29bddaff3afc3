//! A reference to a node, inner or leaf, and how nodes are made, copied and freed.
//!
//! A [`Node`] is a plain pointer: inner nodes have arrays of them, and the code that moves one does
//! the counting. The holder of a counted one may read the node; the holder of the only one, all the
//! way from the top, may change it.

use super::blocks::{Blocks, Size};
use super::count::Count;
pub(crate) use super::header::{Header, Node};
use super::inner::{Child, Inner, NEVER, seconds};
use super::layout::{self, Layout};
use super::leaf::{GROUP_BYTES, Leaf, LeafMut};
use crate::sync::cache_line::{LINE_BYTES, prefetch};
use crate::sync::pace;
use std::ptr::NonNull;

/// Lines of an inner node up to the last key.
const KEY_LINES: usize = Inner::KEYS_END.div_ceil(LINE_BYTES);
/// Lines that the groups of a full leaf of short elements take, sixteen of them or so.
const GROUP_LINES: usize = (16 * GROUP_BYTES).div_ceil(LINE_BYTES);

impl Node {
    /// A leaf without elements.
    pub(crate) fn new_leaf(blocks: &Blocks, size: Size) -> Self {
        let node = Node(blocks.take(size).cast());
        // SAFETY: the block is ours and large enough; it begins with zeros as far as they are read.
        unsafe {
            node.0.write(Header::new(size, false, 0));
            node.content().write_bytes(0, size.bytes() - size_of::<Header>());
            node.leaf_mut().clear();
        }
        node
    }

    /// An inner node without children.
    pub(crate) fn new_inner(blocks: &Blocks) -> Self {
        let block = blocks.take(Size::Quarter).cast::<Inner>();
        // SAFETY: the block is ours and large enough.
        unsafe { block.write(Inner::new(Header::new(Size::Quarter, true, 0))) };
        Node(block.cast())
    }

    fn header<'a>(self) -> &'a Header {
        // SAFETY: a node is counted while it is held, and headers change only at a count of one.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn is_inner(self) -> bool {
        self.header().is_inner
    }

    pub(crate) fn count<'a>(self) -> &'a Count {
        &self.header().count
    }

    pub(crate) fn size(self) -> Size {
        self.header().size
    }

    /// Asks the processor for what a search reads first in a node below the topmost one: the keys
    /// of an inner node, or a leaf's counts and groups. Otherwise each of these lines would be
    /// waited for after the one before.
    #[inline]
    pub(super) fn prefetch(self, is_leaf: bool) {
        let line = |at: usize| prefetch(self.0.cast::<u8>().map_addr(|it| it.saturating_add(at)));
        line(0);
        if is_leaf {
            // Leaves below an inner node are whole blocks.
            let end = Size::Whole.bytes();
            (1..=GROUP_LINES).for_each(|lines| line(end - lines * LINE_BYTES));
        } else {
            (1..KEY_LINES).for_each(|lines| line(lines * LINE_BYTES));
        }
    }

    /// Where a leaf's bytes begin.
    fn content(self) -> NonNull<u8> {
        // SAFETY: every block is larger than a header.
        unsafe { self.0.add(1).cast() }
    }

    /// # Safety
    /// It is an inner node, which stays counted and unchanged for `'a`.
    #[inline]
    pub(crate) unsafe fn inner<'a>(self) -> &'a Inner {
        // SAFETY: the caller's promise.
        unsafe { self.0.cast().as_ref() }
    }

    /// # Safety
    /// It is an inner node, and there is no other reference to it during `'a`.
    #[inline]
    pub(crate) unsafe fn inner_mut<'a>(self) -> &'a mut Inner {
        // SAFETY: the caller's promise.
        unsafe { self.0.cast().as_mut() }
    }

    /// # Safety
    /// It is a leaf, which stays counted and unchanged for `'a`.
    #[inline]
    pub(crate) unsafe fn leaf<'a>(self) -> Leaf<'a> {
        let bytes = self.size().bytes() - size_of::<Header>();
        // SAFETY: the caller's promise; so many bytes follow the header.
        Leaf(unsafe { std::slice::from_raw_parts(self.content().as_ptr(), bytes) })
    }

    /// # Safety
    /// It is a leaf, and there is no other reference to it during `'a`.
    #[inline]
    pub(crate) unsafe fn leaf_mut<'a>(self) -> LeafMut<'a> {
        let bytes = self.size().bytes() - size_of::<Header>();
        // SAFETY: the caller's promise; so many bytes follow the header.
        LeafMut(unsafe { std::slice::from_raw_parts_mut(self.content().as_ptr(), bytes) })
    }

    /// Makes the node behind `slot` unshared, by putting a copy there if need be.
    ///
    /// # Safety
    /// The reference in `slot` is counted, and the caller may change what it is part of.
    #[inline]
    pub(crate) unsafe fn own<L: Layout>(slot: &mut Node, blocks: &Blocks) {
        if !slot.count().is_one() {
            // SAFETY: the caller's promise.
            unsafe { slot.replace_by_copy::<L>(blocks) };
        }
    }

    /// # Safety
    /// That of [`Node::own`].
    #[cold]
    unsafe fn replace_by_copy<L: Layout>(&mut self, blocks: &Blocks) {
        let node = *self;
        let size = node.size();
        let block = blocks.take(size);
        // SAFETY: the new block is ours and as large; the old node is counted and so unchanged.
        unsafe {
            if node.is_inner() {
                let inner = node.inner();
                inner.children().for_each(|child| child.node.count().add());
                let header = Header::new(size, true, inner.len());
                block.cast().write(inner.copy(header));
            } else {
                let leaf = node.leaf();
                retain_all::<L>(leaf);
                block.cast().write(Header::new(size, false, 0));
                let content = Node(block.cast()).content();
                content.copy_from_nonoverlapping(node.content(), leaf.0.len());
            }
            *self = Node(block.cast());
            release::<L>(node, blocks);
        }
    }

    /// Elements of it and all below it.
    ///
    /// # Safety
    /// It stays counted and unchanged meanwhile.
    unsafe fn elements(self) -> u64 {
        // SAFETY: the caller's promise.
        unsafe {
            match self.is_inner() {
                true => self.inner().elements(),
                false => self.leaf().elements() as u64,
            }
        }
    }

    /// Bytes of it and all below it, and of what lies elsewhere.
    ///
    /// # Safety
    /// That of [`Node::elements`].
    pub(crate) unsafe fn bytes(self) -> u64 {
        // SAFETY: the caller's promise.
        let below = unsafe {
            match self.is_inner() {
                true => self.inner().bytes_below,
                false => self.leaf().bytes_elsewhere(),
            }
        };
        self.size().bytes() as u64 + below
    }

    /// No element below it expires before this second since 1970; [`NEVER`] if none does.
    ///
    /// # Safety
    /// That of [`Node::elements`].
    pub(crate) unsafe fn earliest_s(self) -> u32 {
        // SAFETY: the caller's promise.
        unsafe {
            match self.is_inner() {
                true => self.inner().earliest().iter().copied().min().unwrap_or(NEVER),
                false => seconds(self.leaf().earliest_ms()),
            }
        }
    }

    /// It as a child with this key, and its bytes.
    ///
    /// # Safety
    /// That of [`Node::elements`].
    pub(crate) unsafe fn as_child(self, key: u64) -> (Child, u64) {
        // SAFETY: the caller's promise.
        let (elements, bytes, earliest_s) =
            unsafe { (self.elements(), self.bytes(), self.earliest_s()) };
        (Child { key, elements: elements as u32, earliest_s, node: self }, bytes)
    }
}

fn for_each<L: Layout>(leaf: Leaf<'_>, visit: impl FnMut(&[u8])) {
    if leaf.bytes_elsewhere() > 0 {
        (0..leaf.groups()).flat_map(|group| leaf.group_elements::<L>(group)).for_each(visit);
    }
}

fn retain_all<L: Layout>(leaf: Leaf<'_>) {
    // SAFETY: the leaf's elements hold what they refer to.
    for_each::<L>(leaf, |element| unsafe { layout::retain::<L>(element) });
}

/// Gives a reference up, and frees the node if it was the last, and what is then not referred to
/// any more. As deep as the tree is high.
///
/// # Safety
/// The reference is counted, and is not used afterwards.
pub(crate) unsafe fn release<L: Layout>(node: Node, blocks: &Blocks) {
    if !node.count().give_up() {
        return;
    }
    // SAFETY: this was the last reference to the node.
    unsafe {
        if node.is_inner() {
            node.inner().children().for_each(|child| release::<L>(child.node, blocks));
            pace::pause();
        } else {
            for_each::<L>(node.leaf(), |element| layout::release::<L>(element));
        }
        free(node, blocks);
    }
}

/// Frees a node itself, whose own references have another owner by now.
///
/// # Safety
/// There is no reference to it.
pub(crate) unsafe fn free(node: Node, blocks: &Blocks) {
    // SAFETY: the caller's promise.
    unsafe { blocks.give(node.0.cast(), node.size()) };
}
