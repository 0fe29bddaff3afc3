//! Rebalancing: keeps leaves full, and grows and shrinks a tree.
//!
//! A leaf without room shifts groups to the nearest neighbours with room; if up to eight are full,
//! they become one more. With elements inserted in random order, that keeps leaves nine tenths
//! full; splitting in half would keep them two thirds full.

use super::blocks::Size;
use super::inner::{Child, Inner, MAX_CHILDREN, seconds};
use super::layout::Layout;
use super::leaf::{GROUP_BYTES, Leaf, LeafMut};
use super::node::{self, Node};
use super::root::{InsertPosition, Path, Side, Tree};
use std::ops::Range;

/// The minimum of free bytes that shifting must leave in each leaf, so that it is not repeated
/// soon.
const MIN_GAIN_BYTES: usize = 96;

/// The largest number of neighbouring leaves among which groups are shifted, and which become one
/// more.
const MAX_WINDOW: usize = 8;
/// The same for leaves whose elements must be counted.
const MAX_COUNTED_WINDOW: usize = 3;

/// The approximate size of a group of short elements; other groups are larger.
const MIN_GROUP_BYTES: usize = 128;

/// Groups that are moved between leaves.
#[derive(Debug)]
struct Gathered {
    bytes: Vec<u8>,
    /// For each group: key, number of elements, and the offset at which its bytes end.
    groups: Vec<(u64, usize, usize)>,
    /// Whether no element expires or has strings stored out of line.
    is_plain: bool,
}

impl Gathered {
    /// Reserves memory for the contents of `leaves` leaves.
    fn with_leaves(leaves: usize) -> Self {
        let groups = leaves * Size::Whole.bytes() / MIN_GROUP_BYTES;
        Gathered {
            bytes: Vec::with_capacity(leaves * Size::Whole.bytes()),
            groups: Vec::with_capacity(groups),
            is_plain: true,
        }
    }

    /// Adds a leaf's groups. `least` is a lower bound of its keys that is above those of earlier
    /// leaves, as the key of its first group need not be.
    fn add(&mut self, leaf: Leaf<'_>, least: u64) {
        self.is_plain &= leaf.expiring() == 0 && leaf.bytes_out_of_line() == 0;
        for place in 0..leaf.groups() {
            let group = leaf.group(place);
            self.bytes.extend_from_slice(leaf.group_bytes(place));
            let key = if place == 0 { group.key.max(least) } else { group.key };
            self.groups.push((key, group.elements, self.bytes.len()));
        }
    }

    /// Distributes the groups over `leaves` leaves evenly by size. Returns the number of groups for
    /// each, and the load of the fullest.
    fn plan(&self, leaves: usize) -> (Vec<usize>, usize) {
        let total = self.bytes.len() + GROUP_BYTES * self.groups.len();
        let (mut plan, mut fullest, mut load, mut groups, mut before, mut done) =
            (Vec::with_capacity(leaves), 0, 0, 0, 0, 0);
        for (_, _, end) in &self.groups {
            let bytes = end - before + GROUP_BYTES;
            // The ideal start of the next leaf, if groups could be divided.
            let border = total * (plan.len() + 1) / leaves;
            if groups > 0 && plan.len() + 1 < leaves && done + bytes / 2 >= border {
                plan.push(groups);
                (load, groups) = (0, 0);
            }
            load += bytes;
            done += bytes;
            groups += 1;
            fullest = fullest.max(load);
            before = *end;
        }
        plan.push(groups);
        (plan, fullest)
    }

    /// Moves groups into an empty leaf.
    fn fill<L: Layout>(&self, groups: Range<usize>, leaf: &mut LeafMut<'_>) {
        let previous = groups.start.checked_sub(1).and_then(|before| self.groups.get(before));
        let mut start = previous.map_or(0, |group| group.2);
        for (key, elements, end) in self.groups.get(groups).unwrap_or(&[]) {
            leaf.push_group(*key, *elements, self.bytes.get(start..*end).unwrap_or(&[]));
            start = *end;
        }
        if !self.is_plain {
            leaf.recount::<L>();
        }
    }

    fn key(&self, group: usize) -> u64 {
        self.groups.get(group).map_or(0, |group| group.0)
    }
}

/// Whether a leaf is so empty that its elements should be moved to neighbours with room.
#[inline]
pub(super) fn is_underfull(leaf: Leaf<'_>) -> bool {
    leaf.load() * 20 < leaf.room() * 9
}

/// Whether the elements of two leaves should share one.
fn belong_together(load: usize, room: usize) -> bool {
    load * 10 <= room * 9
}

impl<L: Layout> Tree<L> {
    /// Makes room for an element. Returns `true` if the element has been stored in a new leaf at an
    /// end of the tree.
    #[cold]
    pub(super) fn make_room(&mut self, place: &InsertPosition, key: u64, element: &[u8]) -> bool {
        if self.height == 0 {
            if !self.enlarge(element.len()) {
                self.add_level();
            }
            return false;
        }
        let parent = self.height - 1;
        if place.side.is_none() && self.shift(&place.path, element.len()) {
            return false;
        }
        if self.own_inner(&place.path, parent).is_some_and(|inner| inner.is_full()) {
            self.split_inner(&place.path, parent, place.side);
            return false;
        }
        if let Some(side) = place.side {
            self.add_leaf(&place.path, side, key, element);
            return true;
        }
        self.divide(&place.path, element.len());
        false
    }

    /// Returns the largest number of leaves to distribute anew at once. Elements that expire or
    /// have strings out of line are counted one by one as they move.
    fn max_window(&self, path: &Path) -> usize {
        let leaf = self.leaf(path);
        let is_plain = leaf.expiring() == 0 && leaf.bytes_out_of_line() == 0;
        if is_plain { MAX_WINDOW } else { MAX_COUNTED_WINDOW }
    }

    /// Moves the only leaf into a larger block. Returns `false` if no block is large enough.
    fn enlarge(&mut self, bytes: usize) -> bool {
        let (load, size) = {
            // SAFETY: the tree holds a reference to the leaf.
            let leaf = unsafe { self.top.leaf() };
            (leaf.load(), self.top.size())
        };
        let fits = |size: &Size| size.bytes() >= load + bytes + 64;
        let larger = std::iter::successors(size.larger(), |size| size.larger());
        let size = larger.into_iter().find(fits);
        size.into_iter().for_each(|size| self.move_leaf(size));
        size.is_some()
    }

    /// Moves the only leaf into a block of another size.
    fn move_leaf(&mut self, size: Size) {
        let node = Node::new_leaf(&self.blocks, size);
        let mut gathered = Gathered::with_leaves(1);
        // SAFETY: only the tree references the old leaf, and its elements are moved to the new one.
        unsafe {
            Node::own::<L>(&mut self.top, &self.blocks);
            gathered.add(self.top.leaf(), 0);
            gathered.fill::<L>(0..gathered.groups.len(), &mut node.leaf_mut());
            node::free(self.top, &self.blocks);
        }
        self.top = node;
    }

    /// Adds an inner node above the root.
    fn add_level(&mut self) {
        let node = Node::new_inner(&self.blocks);
        // SAFETY: only the tree references the new node, which takes over the reference to the old
        // root.
        unsafe {
            let (child, bytes) = self.top.as_child(0);
            let inner: &mut Inner = node.inner_mut();
            inner.insert(0, child);
            inner.bytes_below = bytes;
        }
        self.top = node;
        self.height += 1;
    }

    /// Adds a leaf with one element at an end of the tree; the leaves before it stay full.
    fn add_leaf(&mut self, path: &Path, side: Side, key: u64, element: &[u8]) {
        let node = Node::new_leaf(&self.blocks, Size::Whole);
        // SAFETY: only the tree references the new leaf.
        let (child, bytes) = unsafe {
            let mut leaf = node.leaf_mut();
            let spot = leaf.read().spot::<L>(0);
            leaf.insert::<L>(spot, key, element);
            node.as_child(key)
        };
        let parent = self.height - 1;
        self.add_bytes(path, parent, bytes as i64);
        let earliest_s = seconds(L::expires_at_ms(element));
        for level in 0..parent {
            let inner = self.own_inner(path, level);
            inner.into_iter().for_each(|inner| {
                inner.note(path.child(level), 1, earliest_s);
                inner.lower_key(path.child(level), key);
            });
        }
        match (self.own_inner(path, parent), side) {
            (Some(inner), Side::Start) => inner.insert_first(child),
            (Some(inner), Side::End) => inner.insert(inner.len(), child),
            (None, _) => {}
        }
        self.count(element);
    }

    /// Returns the total load of the leaves below some children of an inner node, and their total
    /// room.
    fn loads(&self, inner: &Inner, children: Range<usize>) -> (usize, usize) {
        let (mut load, mut room) = (0, 0);
        for child in children {
            if let Some(node) = inner.node(child) {
                // SAFETY: the tree holds references to its nodes, and the caller borrows it.
                let leaf: Leaf<'_> = unsafe { node.leaf() };
                load += leaf.load();
                room += leaf.room();
            }
        }
        (load, room)
    }

    /// Returns the number of free bytes in the leaf below a child of an inner node.
    fn free_bytes(&self, inner: &Inner, child: usize) -> usize {
        let (load, room) = self.loads(inner, child..child + 1);
        room - load
    }

    /// Shifts groups from a leaf to its neighbours: to as few of them as have room. Returns whether
    /// that makes room for `bytes` bytes.
    fn shift(&mut self, path: &Path, bytes: usize) -> bool {
        let parent = self.height - 1;
        let child = path.child(parent);
        let Some(inner) = self.inner(path, parent) else { return false };
        let children = inner.len();
        let widest = self.max_window(path).min(children);
        let near = (child + 1).saturating_sub(widest)..(child + widest).min(children);
        let free: Vec<usize> = near.clone().map(|child| self.free_bytes(inner, child)).collect();
        let has_room = |window: &Range<usize>| {
            let free = free.iter().skip(window.start - near.start).take(window.len());
            free.sum::<usize>() >= bytes + GROUP_BYTES + window.len() * MIN_GAIN_BYTES
        };
        let windows = (2..=widest).flat_map(|leaves| {
            let first = (child + 1).saturating_sub(leaves);
            (first..=child.min(children - leaves)).map(move |start| start..start + leaves)
        });
        let windows: Vec<_> = windows.filter(has_room).take(2).collect();
        windows.into_iter().any(|window| {
            let leaves = window.len();
            self.redistribute(path, window, leaves, bytes + MIN_GAIN_BYTES)
        })
    }

    /// Distributes a leaf and its neighbours over one more leaf, or over as many as necessary.
    fn divide(&mut self, path: &Path, bytes: usize) {
        let parent = self.height - 1;
        let child = path.child(parent);
        let children = self.own_inner(path, parent).map_or(0, |inner| inner.len());
        let widest = self.max_window(path);
        let before = (widest / 2).max((child + widest).saturating_sub(children));
        let first = child.saturating_sub(before);
        let window = first..(first + widest).min(children);
        let leaves = window.len();
        let most = (MAX_CHILDREN - children).min(3 * leaves);
        let divided =
            (1..=most).any(|more| self.redistribute(path, window.clone(), leaves + more, bytes));
        if !divided {
            self.split_inner(path, parent, None);
        }
    }

    /// Distributes the groups of some leaves evenly over `leaves` leaves, if each then has room for
    /// `bytes` bytes.
    fn redistribute(
        &mut self,
        path: &Path,
        window: Range<usize>,
        leaves: usize,
        bytes: usize,
    ) -> bool {
        let parent = self.height - 1;
        let mut gathered = Gathered::with_leaves(window.len());
        for child in window.clone() {
            let least = self.least_key(path, parent, child);
            let node = self.own_inner(path, parent).and_then(|inner| inner.node(child));
            // SAFETY: the tree holds references to its nodes.
            node.into_iter().for_each(|node| gathered.add(unsafe { node.leaf() }, least));
        }
        let (plan, fullest) = gathered.plan(leaves);
        let room = Size::Whole.bytes() - size_of::<node::Header>() - super::leaf::START;
        if plan.len() != leaves || fullest + bytes + GROUP_BYTES > room {
            return false;
        }
        let mut first_group = 0;
        for (place, groups) in plan.into_iter().enumerate() {
            let range = first_group..first_group + groups;
            self.refill(path, window.start + place, place < window.len(), &gathered, range);
            first_group += groups;
        }
        let more = (leaves - window.len()) * Size::Whole.bytes();
        self.add_bytes(path, parent, more as i64);
        true
    }

    /// Returns a lower bound of the keys below a child, which those before it do not exceed; 0 for
    /// the first child, whose key searches ignore.
    fn least_key(&self, path: &Path, level: usize, child: usize) -> u64 {
        let inner = self.inner(path, level).filter(|_| child > 0);
        inner.map_or(0, |inner| inner.key(child))
    }

    /// Replaces the contents of a leaf by some groups, or adds a leaf for them.
    fn refill(
        &mut self,
        path: &Path,
        at: usize,
        is_there: bool,
        gathered: &Gathered,
        groups: Range<usize>,
    ) {
        let parent = self.height - 1;
        let mut key = gathered.key(groups.start);
        let mut node =
            if is_there { None } else { Some(Node::new_leaf(&self.blocks, Size::Whole)) };
        if is_there && let Some(slot) = self.own_child(path, parent, at) {
            node = Some(slot);
            // Searches ignore the key of the first child, so it may have to be lowered.
            let inner = self.own_inner(path, parent);
            key = if groups.start == 0 {
                inner.map_or(key, |inner| inner.key(at).min(key))
            } else {
                key
            };
        }
        let Some(node) = node else { return };
        // SAFETY: only the tree references the leaf.
        let child = unsafe {
            let mut leaf: LeafMut<'_> = node.leaf_mut();
            leaf.clear();
            gathered.fill::<L>(groups, &mut leaf);
            node.as_child(key).0
        };
        let inner = self.own_inner(path, parent);
        inner.into_iter().for_each(|inner| {
            if is_there { inner.set(at, child) } else { inner.insert(at, child) }
        });
    }

    /// Returns a child of an inner node, unshared so that it can be modified.
    fn own_child(&mut self, path: &Path, level: usize, child: usize) -> Option<Node> {
        let inner: *mut Inner = self.own_inner(path, level)?;
        // SAFETY: only the tree references the inner node, and the tree is mutably borrowed.
        unsafe {
            let slot = (*inner).node_mut(child)?;
            Node::own::<L>(slot, &self.blocks);
            Some(*slot)
        }
    }

    /// Splits an inner node that is full, or its lowest ancestor whose parent is not full. At an
    /// end of the tree, the existing node stays full.
    fn split_inner(&mut self, path: &Path, level: usize, side: Option<Side>) {
        if level == 0 {
            return self.add_level_and_split(path, side);
        }
        if self.own_inner(path, level - 1).is_some_and(|inner| inner.is_full()) {
            return self.split_inner(path, level - 1, side);
        }
        let right = Node::new_inner(&self.blocks);
        let Some(left) = self.own_inner(path, level) else { return };
        let cut = match side {
            Some(Side::Start) => 1,
            Some(Side::End) => left.len() - 1,
            None => left.len() / 2,
        };
        // SAFETY: only the tree references the new node; children are moved together with their
        // references.
        let (children, bytes) = unsafe {
            let inner: &mut Inner = right.inner_mut();
            while let Some(child) = left.remove(cut) {
                inner.insert(inner.len(), child);
                inner.bytes_below += child.node.bytes();
            }
            left.bytes_below -= inner.bytes_below;
            right.as_child(inner.key(0))
        };
        let elements = i64::from(children.elements);
        self.add_bytes(path, level - 1, Size::Quarter.bytes() as i64);
        if let Some(above) = self.own_inner(path, level - 1) {
            above.note(path.child(level - 1), -elements, children.earliest_s);
            above.insert(path.child(level - 1) + 1, children);
        }
        debug_assert!(bytes > 0, "it counts itself");
    }

    fn add_level_and_split(&mut self, path: &Path, side: Option<Side>) {
        self.add_level();
        let mut below = Path::default();
        below.push(0);
        (0..self.height - 1).for_each(|level| below.push(path.child(level)));
        self.split_inner(&below, 1, side);
    }

    /// Moves the elements of an underfull leaf to its neighbours.
    #[cold]
    pub(super) fn fill_up(&mut self, path: &Path) {
        if self.height == 0 {
            return self.shrink();
        }
        let parent = self.height - 1;
        let child = path.child(parent);
        if self.leaf(path).groups() == 0 {
            return self.remove_child(path, parent, child);
        }
        let Some(inner) = self.inner(path, parent) else { return };
        let children = inner.len();
        let lefts = [child.checked_sub(1), (child + 1 < children).then_some(child)];
        let merged = lefts.into_iter().flatten().find(|left| {
            let (load, room) = self.loads(inner, *left..left + 2);
            belong_together(load, room / 2)
        });
        if let Some(left) = merged
            && self.redistribute_into_one(path, left)
        {
            self.merge_inner(path, parent);
        }
    }

    fn redistribute_into_one(&mut self, path: &Path, left: usize) -> bool {
        let parent = self.height - 1;
        let mut gathered = Gathered::with_leaves(2);
        for child in [left, left + 1] {
            let least = self.least_key(path, parent, child);
            let Some(node) = self.own_child(path, parent, child) else { return false };
            // SAFETY: only the tree references the leaf.
            gathered.add(unsafe { node.leaf() }, least);
        }
        let groups = gathered.groups.len();
        self.refill(path, left, true, &gathered, 0..groups);
        let removed = self.own_inner(path, parent).and_then(|inner| inner.remove(left + 1));
        if let Some(Child { node, .. }) = removed {
            self.add_bytes(path, parent, -(node.size().bytes() as i64));
            // SAFETY: its elements have been moved to the other leaf.
            unsafe { node::free(node, &self.blocks) };
        }
        true
    }

    /// Removes a child without elements, and ancestors that become empty.
    pub(super) fn remove_child(&mut self, path: &Path, level: usize, child: usize) {
        let Some(inner) = self.own_inner(path, level) else { return };
        let Some(Child { node, .. }) = inner.remove(child) else { return };
        let is_empty = inner.len() == 0;
        // SAFETY: the tree holds references to its nodes, and this one is not part of it any more.
        let bytes = unsafe { node.bytes() };
        self.add_bytes(path, level, -(bytes as i64));
        // SAFETY: as above.
        unsafe { node::release::<L>(node, &self.blocks) };
        if !is_empty {
            self.merge_inner(path, level);
        } else if level > 0 {
            self.remove_child(path, level - 1, path.child(level - 1));
        } else {
            // SAFETY: the node has no children left.
            unsafe { node::release::<L>(self.top, &self.blocks) };
            self.top = Node::new_leaf(&self.blocks, Size::Quarter);
            self.height = 0;
        }
    }

    /// Moves the children of an inner node that has few to a neighbour, and removes levels with
    /// only one child.
    pub(super) fn merge_inner(&mut self, path: &Path, level: usize) {
        if level == 0 {
            return self.remove_levels();
        }
        let Some(children) = self.own_inner(path, level).map(|inner| inner.len()) else { return };
        if children > MAX_CHILDREN / 4 {
            return;
        }
        let at = path.child(level - 1);
        for left in [at.checked_sub(1), Some(at)].into_iter().flatten() {
            let Some(above) = self.own_inner(path, level - 1) else { return };
            let pair = [left, left + 1].map(|child| above.node(child));
            let [Some(first), Some(second)] = pair else { continue };
            // SAFETY: the tree holds references to its nodes.
            let together = unsafe { first.inner().len() + second.inner().len() };
            if together <= MAX_CHILDREN * 3 / 4 {
                self.join(path, level - 1, left);
                return self.merge_inner(path, level - 1);
            }
        }
    }

    /// Moves all children of an inner node to the one before it.
    fn join(&mut self, path: &Path, level: usize, left: usize) {
        let first = self.own_child(path, level, left);
        let second = self.own_child(path, level, left + 1);
        let (Some(first), Some(second)) = (first, second) else { return };
        // SAFETY: only the tree references both nodes.
        unsafe {
            let (to, from): (&mut Inner, &mut Inner) = (first.inner_mut(), second.inner_mut());
            let border = self.own_inner(path, level).map_or(0, |inner| inner.key(left + 1));
            from.lower_key(0, border);
            while let Some(child) = from.remove(0) {
                to.insert(to.len(), child);
            }
            to.bytes_below += from.bytes_below;
        }
        if let Some(above) = self.own_inner(path, level) {
            let removed = above.remove(left + 1);
            let (elements, earliest_s) =
                removed.map_or((0, u32::MAX), |it| (it.elements, it.earliest_s));
            above.note(left, elements.into(), earliest_s);
        }
        self.add_bytes(path, level, -(Size::Quarter.bytes() as i64));
        // SAFETY: its children have been moved to the first node.
        unsafe { node::free(second, &self.blocks) };
    }

    /// Removes root nodes that have only one child.
    pub(super) fn remove_levels(&mut self) {
        while let Some(inner) = self.top_inner()
            && let (1, Some(child)) = (inner.len(), inner.node(0))
        {
            child.count().add();
            // SAFETY: the child's count has been incremented, and the child replaces the node.
            unsafe { node::release::<L>(self.top, &self.blocks) };
            self.top = child;
            self.height -= 1;
        }
    }

    /// Moves the only leaf into a smaller block if it fits.
    fn shrink(&mut self) {
        // SAFETY: the tree holds a reference to the leaf.
        let load = unsafe { self.top.leaf() }.load();
        let smaller = [Size::Quarter, Size::Half].into_iter().find(|size| load * 2 < size.bytes());
        if let Some(size) = smaller.filter(|size| size.bytes() < self.top.size().bytes()) {
            self.move_leaf(size);
        }
    }
}
