//! Going through a tree once, and giving each leaf up as soon as it has been seen: a change of the
//! tree meanwhile need not copy what has been given up.

use super::blocks::Blocks;
use super::layout::Layout;
use super::leaf::Leaf;
use super::node::{self, Node};
use super::root::Tree;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// What is left of a tree.
#[derive(Debug)]
pub(crate) struct Consuming<L: Layout> {
    /// Nodes that come next, the last one first; what is below one comes before the one before it.
    /// Inner nodes of which a part has been seen are not shared, and have lost it.
    left: Vec<Node>,
    blocks: Arc<Blocks>,
    layout: PhantomData<L>,
}

impl<L: Layout> Tree<L> {
    /// Gives the tree up, leaf by leaf.
    pub(crate) fn consume(self) -> Consuming<L> {
        let tree = ManuallyDrop::new(self);
        // SAFETY: the tree is not dropped, so its handle on the blocks is taken once.
        let blocks = unsafe { std::ptr::read(&raw const tree.blocks) };
        Consuming { left: vec![tree.top], blocks, layout: PhantomData }
    }
}

impl<L: Layout> Consuming<L> {
    /// Shows the elements of the next leaf, and gives it up; `false` if there is none.
    pub(crate) fn next(&mut self, show: impl FnMut(&[u8])) -> bool {
        while let Some(mut node) = self.left.pop() {
            // SAFETY: the references in the list are counted, and belong to this.
            unsafe {
                if !node.is_inner() {
                    let leaf: Leaf<'_> = node.leaf();
                    (0..leaf.groups()).flat_map(|it| leaf.group_elements::<L>(it)).for_each(show);
                    node::release::<L>(node, &self.blocks);
                    return true;
                }
                Node::own::<L>(&mut node, &self.blocks);
                let first = node.inner_mut().remove(0);
                if node.inner().len() > 0 {
                    self.left.push(node);
                } else {
                    node::free(node, &self.blocks);
                }
                self.left.extend(first.map(|child| child.node));
            }
        }
        false
    }
}

impl<L: Layout> Drop for Consuming<L> {
    fn drop(&mut self) {
        // SAFETY: as in `next`.
        self.left.drain(..).for_each(|node| unsafe { node::release::<L>(node, &self.blocks) });
    }
}
