//! Inner nodes: separate arrays of keys, element counts, expiry times and children.

use super::header::{Header, Node};

/// The maximum number of children: as many as a block holds. Under loom, counts take more room.
pub(crate) const MAX_CHILDREN: usize = if cfg!(loom) { 39 } else { 42 };

/// The metadata that an inner node stores about a child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child {
    /// A lower bound of the keys below this child, unless it is the first one, and an upper bound
    /// of the keys below earlier children.
    pub(crate) key: u64,
    /// The number of elements below it.
    pub(crate) elements: u32,
    /// A lower bound of the expiry times below it, in seconds since 1970; [`NEVER`] if no element
    /// expires.
    pub(crate) earliest_s: u32,
    pub(crate) node: Node,
}

/// Later than any expiry time.
pub(crate) const NEVER: u32 = u32::MAX;

/// Converts milliseconds to the unit of [`Child::earliest_s`], rounded down; 0 milliseconds stand
/// for never.
pub(crate) fn seconds(at_ms: u64) -> u32 {
    if at_ms == 0 { NEVER } else { u32::try_from(at_ms / 1000).unwrap_or(NEVER - 1) }
}

#[derive(Debug)]
#[repr(C)]
pub(crate) struct Inner {
    header: Header,
    /// Bytes of all nodes below this one, and of their strings stored out of line.
    pub(crate) bytes_below: u64,
    keys: [u64; MAX_CHILDREN],
    nodes: [Option<Node>; MAX_CHILDREN],
    elements: [u32; MAX_CHILDREN],
    earliest_s: [u32; MAX_CHILDREN],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Inner>() == super::blocks::Size::Quarter.bytes());
#[cfg(loom)]
const _: () = assert!(size_of::<Inner>() <= super::blocks::Size::Quarter.bytes());

impl Inner {
    /// The offset at which the keys end.
    pub(super) const KEYS_END: usize =
        std::mem::offset_of!(Inner, keys) + size_of::<[u64; MAX_CHILDREN]>();

    pub(crate) fn new(header: Header) -> Self {
        Inner {
            header,
            bytes_below: 0,
            keys: [0; MAX_CHILDREN],
            nodes: [None; MAX_CHILDREN],
            elements: [0; MAX_CHILDREN],
            earliest_s: [NEVER; MAX_CHILDREN],
        }
    }

    /// Copies the node. The reference counts of its children are not incremented.
    pub(crate) fn copy(&self, header: Header) -> Self {
        let Inner { bytes_below, keys, nodes, elements, earliest_s, .. } = *self;
        Inner { header, bytes_below, keys, nodes, elements, earliest_s }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.header.children)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == MAX_CHILDREN
    }

    #[inline]
    fn keys(&self) -> &[u64] {
        self.keys.get(..self.len()).unwrap_or(&self.keys)
    }

    #[inline]
    pub(crate) fn counts(&self) -> &[u32] {
        self.elements.get(..self.len()).unwrap_or(&self.elements)
    }

    /// Returns the earliest expiry time below each child, in seconds since 1970.
    pub(crate) fn earliest(&self) -> &[u32] {
        self.earliest_s.get(..self.len()).unwrap_or(&self.earliest_s)
    }

    #[inline]
    pub(crate) fn key(&self, child: usize) -> u64 {
        self.keys.get(child).copied().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn node(&self, child: usize) -> Option<Node> {
        // Slots after the last child hold stale data.
        self.nodes.get(child).copied().flatten().filter(|_| child < self.len())
    }

    #[inline]
    pub(crate) fn node_mut(&mut self, child: usize) -> Option<&mut Node> {
        let len = self.len();
        self.nodes.get_mut(child).filter(|_| child < len).and_then(Option::as_mut)
    }

    pub(crate) fn child(&self, child: usize) -> Option<Child> {
        let node = self.node(child)?;
        let elements = self.elements.get(child).copied()?;
        let earliest_s = self.earliest_s.get(child).copied()?;
        Some(Child { key: self.key(child), elements, earliest_s, node })
    }

    pub(crate) fn children(&self) -> impl DoubleEndedIterator<Item = Child> {
        (0..self.len()).filter_map(|child| self.child(child))
    }

    /// Returns the last child whose key is not above `key`, or the first child.
    #[inline]
    pub(crate) fn child_of(&self, key: u64) -> usize {
        self.keys().partition_point(|it| *it <= key).saturating_sub(1)
    }

    /// Returns how many children have a key below `key`.
    pub(crate) fn below(&self, key: u64) -> usize {
        self.keys().partition_point(|it| *it < key)
    }

    /// Returns the number of elements below the children before `child`.
    #[inline]
    pub(crate) fn elements_before(&self, child: usize) -> u64 {
        self.counts().iter().take(child).map(|count| u64::from(*count)).sum()
    }

    /// Returns the number of elements below all children.
    pub(crate) fn elements(&self) -> u64 {
        self.elements_before(self.len())
    }

    /// Updates the metadata of a child whose elements have changed.
    #[inline]
    pub(crate) fn note(&mut self, child: usize, more: i64, earliest_s: u32) {
        if let Some(elements) = self.elements.get_mut(child) {
            *elements = elements.wrapping_add_signed(more as i32);
        }
        if let Some(earliest) = self.earliest_s.get_mut(child) {
            *earliest = earliest_s.min(*earliest);
        }
    }

    /// Sets the earliest expiry time below a child, in seconds since 1970.
    pub(crate) fn set_earliest(&mut self, child: usize, earliest_s: u32) {
        self.earliest_s.get_mut(child).into_iter().for_each(|it| *it = earliest_s);
    }

    /// Lowers a child's key if necessary, because an element with this key is inserted below it.
    #[inline]
    pub(crate) fn lower_key(&mut self, child: usize, key: u64) {
        self.keys.get_mut(child).into_iter().for_each(|it| *it = key.min(*it));
    }

    pub(crate) fn set(&mut self, at: usize, child: Child) {
        let Child { key, elements, earliest_s, node } = child;
        self.keys.get_mut(at).into_iter().for_each(|it| *it = key);
        self.nodes.get_mut(at).into_iter().for_each(|it| *it = Some(node));
        self.elements.get_mut(at).into_iter().for_each(|it| *it = elements);
        self.earliest_s.get_mut(at).into_iter().for_each(|it| *it = earliest_s);
    }

    /// Inserts a child; the node must have room.
    pub(crate) fn insert(&mut self, at: usize, child: Child) {
        let len = self.len();
        if len < MAX_CHILDREN && at <= len {
            self.keys.copy_within(at..len, at + 1);
            self.nodes.copy_within(at..len, at + 1);
            self.elements.copy_within(at..len, at + 1);
            self.earliest_s.copy_within(at..len, at + 1);
            self.header.children += 1;
            self.set(at, child);
        }
    }

    /// Inserts a child before the first one, whose elements must not be lower. The former first
    /// child's key may be lower than the new child's, because searches ignore the first key; the
    /// keys are exchanged then.
    pub(crate) fn insert_first(&mut self, child: Child) {
        let before = self.key(0);
        self.keys.first_mut().into_iter().for_each(|key| *key = before.max(child.key));
        self.insert(0, Child { key: before.min(child.key), ..child });
    }

    /// Removes a child, which must exist.
    pub(crate) fn remove(&mut self, at: usize) -> Option<Child> {
        let child = self.child(at)?;
        let len = self.len();
        self.keys.copy_within(at + 1..len, at);
        self.nodes.copy_within(at + 1..len, at);
        self.elements.copy_within(at + 1..len, at);
        self.earliest_s.copy_within(at + 1..len, at);
        self.header.children -= 1;
        Some(child)
    }
}
