//! Iteration over a tree's elements, forwards and backwards.

use super::inner::Inner;
use super::layout::Layout;
use super::leaf::Leaf;
use super::node::Node;
use super::root::{FoundLeaf, MAX_HEIGHT, Path, Tree};
use std::ops::ControlFlow;

/// The position of an iteration: the current leaf and its ancestors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaves<'a> {
    above: [Option<(&'a Inner, usize)>; MAX_HEIGHT],
    height: usize,
    leaf: Leaf<'a>,
}

impl<'a> Leaves<'a> {
    /// Returns the current leaf.
    #[inline]
    pub(crate) fn leaf(&self) -> Leaf<'a> {
        self.leaf
    }

    /// Moves to the next leaf; `false` if there is none.
    pub(crate) fn next(&mut self) -> bool {
        self.go(|inner, child| (child + 1 < inner.len()).then_some(child + 1), |_| 0)
    }

    /// Moves to the previous leaf; `false` if there is none.
    pub(crate) fn previous(&mut self) -> bool {
        self.go(|_, child| child.checked_sub(1), |inner| inner.len() - 1)
    }

    fn go(
        &mut self,
        beside: impl Fn(&Inner, usize) -> Option<usize>,
        outermost: impl Fn(&Inner) -> usize,
    ) -> bool {
        let turn = (0..self.height).rev().find_map(|level| {
            let (inner, child) = self.above.get(level).copied().flatten()?;
            Some((level, inner, beside(inner, child)?))
        });
        let Some((level, inner, child)) = turn else { return false };
        let mut step = Some((inner, child));
        for at in level..self.height {
            let Some((inner, child)) = step else { return false };
            self.above.get_mut(at).into_iter().for_each(|above| *above = step);
            let Some(node) = inner.node(child) else { return false };
            // SAFETY: the iteration borrows the tree, which holds references to its nodes.
            unsafe {
                if node.is_inner() {
                    let below: &Inner = node.inner();
                    step = Some((below, outermost(below)));
                } else {
                    self.leaf = node.leaf();
                }
            }
        }
        true
    }
}

impl<L: Layout> Tree<L> {
    /// Begins an iteration at the end of a path.
    pub(crate) fn leaves(&self, path: &Path) -> Leaves<'_> {
        let mut above = [None; MAX_HEIGHT];
        let mut node: Node = self.top;
        for (level, step) in above.iter_mut().enumerate().take(self.height) {
            // SAFETY: the tree holds references to its nodes, which do not change during the
            // borrow.
            let inner: &Inner = unsafe { node.inner() };
            *step = Some((inner, path.child(level)));
            let Some(below) = inner.node(path.child(level)) else { break };
            node = below;
        }
        // SAFETY: as above; at this depth the nodes are leaves.
        Leaves { above, height: self.height, leaf: unsafe { node.leaf() } }
    }

    /// Visits groups in hash order, starting with the group that contains `key`, until at least
    /// `count` elements have been visited. Returns the key of the next group, if any.
    pub(crate) fn scan_keys(
        &self,
        key: u64,
        count: usize,
        mut show: impl FnMut(&[u8]),
    ) -> Option<u64> {
        let found = self.descend_uncounted(|inner| inner.child_of(key));
        let mut leaves = self.leaves(&found.path);
        let mut group = found.leaf.group_of(key);
        let mut shown = 0;
        loop {
            let leaf = leaves.leaf();
            if group < leaf.groups() {
                let next = leaf.group(group).key;
                if shown >= count && next > key {
                    return Some(next);
                }
                leaf.group_elements::<L>(group).for_each(&mut show);
                shown += leaf.group(group).elements;
                group += 1;
            } else if leaves.next() {
                group = 0;
            } else {
                return None;
            }
        }
    }

    /// Visits elements from a rank onwards, until `visit` breaks or the tree ends.
    pub(crate) fn walk<B>(
        &self,
        rank: u64,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<B>,
    ) -> Option<B> {
        if rank >= self.elements {
            return None;
        }
        let FoundLeaf { path, leaf, before: place, .. } = self.find_rank(rank);
        let mut spot = leaf.spot::<L>(place as usize);
        let mut leaves = self.leaves(&path);
        loop {
            let leaf = leaves.leaf();
            let mut bytes = leaf.from(spot);
            while !bytes.is_empty() {
                let (element, rest) = bytes.split_at_checked(L::element_bytes(bytes))?;
                if let ControlFlow::Break(it) = visit(element) {
                    return Some(it);
                }
                bytes = rest;
            }
            if !leaves.next() {
                return None;
            }
            spot = leaves.leaf().spot::<L>(0);
        }
    }

    /// Visits elements backwards from a rank, until `visit` breaks or the tree begins.
    pub(crate) fn walk_back<B>(
        &self,
        rank: u64,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<B>,
    ) -> Option<B> {
        let rank = rank.min(self.elements.checked_sub(1)?);
        let FoundLeaf { path, leaf, before: place, .. } = self.find_rank(rank);
        let spot = leaf.spot::<L>(place as usize);
        let (mut group, mut elements) = (spot.group, spot.index + 1);
        let mut leaves = self.leaves(&path);
        let mut found: Vec<&[u8]> = Vec::with_capacity(2 * L::GROUP_ELEMENTS);
        loop {
            let leaf = leaves.leaf();
            found.clear();
            found.extend(leaf.group_elements::<L>(group).take(elements));
            for element in found.iter().rev() {
                if let ControlFlow::Break(it) = visit(element) {
                    return Some(it);
                }
            }
            if group == 0 {
                if !leaves.previous() {
                    return None;
                }
                group = leaves.leaf().groups();
            }
            group = group.checked_sub(1)?;
            elements = usize::MAX;
        }
    }
}
