//! Removes many elements at once by detaching whole subtrees.

use super::blocks::{Blocks, Size};
use super::inner::Inner;
use super::layout::Layout;
use super::node::{self, Node};
use super::rebalance::is_underfull;
use super::root::Tree;
use crate::memory::reclaim;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Nodes that have been detached from a tree. Dropping this frees them; if there are many nodes
/// below them, the reclaimer thread does it.
#[derive(Debug)]
pub(crate) struct Garbage<L: Layout> {
    nodes: Vec<Node>,
    blocks: Arc<Blocks>,
    bytes: u64,
    layout: PhantomData<fn() -> L>,
}

impl<L: Layout> Garbage<L> {
    /// Whether freeing the nodes takes no longer than a few microseconds.
    fn is_small(&self) -> bool {
        self.bytes <= 16 * Size::Whole.bytes() as u64
    }
}

impl<L: Layout> Drop for Garbage<L> {
    fn drop(&mut self) {
        if self.is_small() {
            // SAFETY: the references are counted, and only this value owns them.
            self.nodes.drain(..).for_each(|node| unsafe { node::release::<L>(node, &self.blocks) });
            return;
        }
        let (nodes, blocks) = (std::mem::take(&mut self.nodes), Arc::clone(&self.blocks));
        let garbage = Garbage::<L> { nodes, blocks, bytes: 0, layout: PhantomData };
        reclaim::free_data(garbage, self.bytes);
    }
}

impl<L: Layout> Tree<L> {
    /// Removes the elements in a range of ranks. The tree must have no elements that expire. The
    /// time is proportional to the height of the tree.
    pub(crate) fn cut(&mut self, ranks: Range<u64>) -> Garbage<L> {
        let blocks = Arc::clone(&self.blocks);
        let mut garbage = Garbage { nodes: Vec::new(), blocks, bytes: 0, layout: PhantomData };
        let ranks = ranks.start..ranks.end.min(self.elements);
        if ranks.is_empty() {
            return garbage;
        }
        self.elements -= ranks.end - ranks.start;
        // SAFETY: the tree is borrowed for changes.
        unsafe { cut_below(&mut self.top, ranks.clone(), &mut garbage) };
        if self.elements == 0 {
            garbage.bytes += self.bytes();
            garbage.nodes.push(self.top);
            self.top = Node::new_leaf(&self.blocks, Size::Quarter);
            self.height = 0;
            return garbage;
        }
        self.remove_levels();
        for rank in [ranks.start.min(self.elements - 1), ranks.start.saturating_sub(1)] {
            let found = self.find_rank(rank);
            if is_underfull(found.leaf) {
                let path = found.path;
                self.fill_up(&path);
            }
        }
        garbage
    }
}

/// Removes a range of elements below a node.
///
/// # Safety
/// The node's reference belongs to a tree that the caller may modify.
unsafe fn cut_below<L: Layout>(slot: &mut Node, ranks: Range<u64>, garbage: &mut Garbage<L>) {
    // SAFETY: the caller guarantees it, and so for each node below; children are moved together
    // with their references.
    unsafe {
        Node::own::<L>(slot, &garbage.blocks);
        if !slot.is_inner() {
            return slot.leaf_mut().cut::<L>(ranks.start as usize..ranks.end as usize);
        }
        let inner: &mut Inner = slot.inner_mut();
        let (mut before, mut child) = (0, 0);
        while let Some(it) = inner.child(child) {
            let elements = u64::from(it.elements);
            let from = ranks.start.clamp(before, before + elements) - before;
            let to = ranks.end.clamp(before, before + elements) - before;
            before += elements;
            if to - from == elements {
                inner.remove(child);
                let bytes = it.node.bytes();
                inner.bytes_below -= bytes;
                garbage.bytes += bytes;
                garbage.nodes.push(it.node);
                continue;
            }
            if from < to
                && let Some(below) = inner.node_mut(child)
            {
                let bytes = below.bytes();
                cut_below(below, from..to, garbage);
                let (now, bytes_now) = below.as_child(it.key);
                inner.bytes_below = inner.bytes_below - bytes + bytes_now;
                inner.set(child, now);
            }
            child += 1;
        }
    }
}
