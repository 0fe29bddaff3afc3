//! References to nodes, inner or leaf, and how nodes are created, copied and freed.
//!
//! A [`Node`] is a plain pointer, because inner nodes hold arrays of them; code that copies or
//! drops one updates the reference count explicitly. The owner of a counted reference may read the
//! node; it may modify the node if all counts on the path from the root are one.

use super::blocks::{Blocks, Size};
use super::count::Count;
pub(crate) use super::header::{Header, Node};
use super::inner::{Child, Inner, NEVER, seconds};
use super::layout::{self, Layout};
use super::leaf::{GROUP_BYTES, Leaf, LeafMut};
use crate::sync::cache_line::{LINE_BYTES, prefetch};
use crate::sync::pace;
use std::ptr::NonNull;

/// Cache lines of an inner node up to the last key.
const KEY_LINES: usize = Inner::KEYS_END.div_ceil(LINE_BYTES);
/// Cache lines of the group table of a full leaf with short elements, which has about sixteen
/// groups.
const GROUP_LINES: usize = (16 * GROUP_BYTES).div_ceil(LINE_BYTES);

impl Node {
    /// Creates a leaf without elements.
    pub(crate) fn new_leaf(blocks: &Blocks, size: Size) -> Self {
        let node = Node(blocks.take(size).cast());
        // SAFETY: the block is unshared and large enough; the bytes that are read are zeroed.
        unsafe {
            node.0.write(Header::new(size, false, 0));
            node.content().write_bytes(0, size.bytes() - size_of::<Header>());
            node.leaf_mut().clear();
        }
        node
    }

    /// Creates an inner node without children.
    pub(crate) fn new_inner(blocks: &Blocks) -> Self {
        let block = blocks.take(Size::Quarter).cast::<Inner>();
        // SAFETY: the block is unshared and large enough.
        unsafe { block.write(Inner::new(Header::new(Size::Quarter, true, 0))) };
        Node(block.cast())
    }

    fn header<'a>(self) -> &'a Header {
        // SAFETY: the caller holds a counted reference, and headers change only at a count of one.
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

    /// Prefetches the cache lines that a search reads first in a node below the root: the keys of
    /// an inner node, or a leaf's counters and groups. Without it, the search would miss on each
    /// line in turn.
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

    /// Returns the start of a leaf's contents.
    fn content(self) -> NonNull<u8> {
        // SAFETY: every block is larger than a header.
        unsafe { self.0.add(1).cast() }
    }

    /// # Safety
    /// It is an inner node, and stays referenced and unchanged for `'a`.
    #[inline]
    pub(crate) unsafe fn inner<'a>(self) -> &'a Inner {
        self.header().note_read();
        // SAFETY: the caller guarantees it.
        unsafe { self.0.cast().as_ref() }
    }

    /// # Safety
    /// It is an inner node, and there is no other reference to it during `'a`.
    #[inline]
    pub(crate) unsafe fn inner_mut<'a>(self) -> &'a mut Inner {
        self.header().note_change();
        // SAFETY: the caller guarantees it.
        unsafe { self.0.cast().as_mut() }
    }

    /// # Safety
    /// It is a leaf, and stays referenced and unchanged for `'a`.
    #[inline]
    pub(crate) unsafe fn leaf<'a>(self) -> Leaf<'a> {
        self.header().note_read();
        let bytes = self.size().bytes() - size_of::<Header>();
        // SAFETY: the caller guarantees it; `bytes` bytes follow the header.
        Leaf(unsafe { std::slice::from_raw_parts(self.content().as_ptr(), bytes) })
    }

    /// # Safety
    /// It is a leaf, and there is no other reference to it during `'a`.
    #[inline]
    pub(crate) unsafe fn leaf_mut<'a>(self) -> LeafMut<'a> {
        self.header().note_change();
        let bytes = self.size().bytes() - size_of::<Header>();
        // SAFETY: the caller guarantees it; `bytes` bytes follow the header.
        LeafMut(unsafe { std::slice::from_raw_parts_mut(self.content().as_ptr(), bytes) })
    }

    /// Makes the node in `slot` unshared, replacing it by a copy if necessary.
    ///
    /// # Safety
    /// The reference in `slot` is counted, and the caller may modify the tree that contains it.
    #[inline]
    pub(crate) unsafe fn own<L: Layout>(slot: &mut Node, blocks: &Blocks) {
        if !slot.count().is_one() {
            // SAFETY: the caller guarantees it.
            unsafe { slot.replace_by_copy::<L>(blocks) };
        }
    }

    /// # Safety
    /// The same as for [`Node::own`].
    #[cold]
    unsafe fn replace_by_copy<L: Layout>(&mut self, blocks: &Blocks) {
        let node = *self;
        let size = node.size();
        let block = blocks.take(size);
        // SAFETY: the new block is unshared and of the same size; the old node is referenced and so
        // unchanged.
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

    /// Returns the number of elements in the node and below it.
    ///
    /// # Safety
    /// The node stays referenced and unchanged meanwhile.
    unsafe fn elements(self) -> u64 {
        // SAFETY: the caller guarantees it.
        unsafe {
            match self.is_inner() {
                true => self.inner().elements(),
                false => self.leaf().elements() as u64,
            }
        }
    }

    /// Returns the memory of the node and all nodes below it, and of their strings stored out of
    /// line.
    ///
    /// # Safety
    /// The same as for [`Node::elements`].
    pub(crate) unsafe fn bytes(self) -> u64 {
        // SAFETY: the caller guarantees it.
        let below = unsafe {
            match self.is_inner() {
                true => self.inner().bytes_below,
                false => self.leaf().bytes_out_of_line(),
            }
        };
        self.size().bytes() as u64 + below
    }

    /// Returns a lower bound of the expiry times, in seconds since 1970; [`NEVER`] if no element
    /// expires.
    ///
    /// # Safety
    /// The same as for [`Node::elements`].
    pub(crate) unsafe fn earliest_s(self) -> u32 {
        // SAFETY: the caller guarantees it.
        unsafe {
            match self.is_inner() {
                true => self.inner().earliest().iter().copied().min().unwrap_or(NEVER),
                false => seconds(self.leaf().earliest_ms()),
            }
        }
    }

    /// Returns the metadata of the node as a child with this key, and its memory in bytes.
    ///
    /// # Safety
    /// The same as for [`Node::elements`].
    pub(crate) unsafe fn as_child(self, key: u64) -> (Child, u64) {
        // SAFETY: the caller guarantees it.
        let (elements, bytes, earliest_s) =
            unsafe { (self.elements(), self.bytes(), self.earliest_s()) };
        (Child { key, elements: elements as u32, earliest_s, node: self }, bytes)
    }
}

fn for_each<L: Layout>(leaf: Leaf<'_>, visit: impl FnMut(&[u8])) {
    if leaf.bytes_out_of_line() > 0 {
        (0..leaf.groups()).flat_map(|group| leaf.group_elements::<L>(group)).for_each(visit);
    }
}

fn retain_all<L: Layout>(leaf: Leaf<'_>) {
    // SAFETY: the leaf's elements hold references to their strings.
    for_each::<L>(leaf, |element| unsafe { layout::retain::<L>(element) });
}

/// Drops a reference. If it was the last, frees the node, and recursively the nodes that are then
/// unreferenced. The recursion is as deep as the tree is high.
///
/// # Safety
/// The reference is counted, and is not used afterwards.
pub(crate) unsafe fn release<L: Layout>(node: Node, blocks: &Blocks) {
    if !node.count().release() {
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

/// Frees only the node itself. The references that it holds have been moved elsewhere.
///
/// # Safety
/// There is no reference to it.
pub(crate) unsafe fn free(node: Node, blocks: &Blocks) {
    node.header().note_change();
    // SAFETY: the caller guarantees it.
    unsafe { blocks.free(node.0.cast(), node.size()) };
}
