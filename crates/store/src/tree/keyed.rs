//! Trees ordered by hash: sets and hashes.

use super::layout::{Fields, Layout, Members, UNORDERED_BITS, expiry_bytes, key_of, rest};
use super::leaf::{Group, Leaf, LeafPosition, Purpose};
use super::root::{FoundLeaf, Tree};
use crate::value::item::Text;

/// A layout whose elements are looked up by a string.
pub(crate) trait Keyed: Layout {
    /// Returns the encoded string that identifies an element, and the bytes after it.
    fn name(element: &[u8]) -> &[u8];
}

impl Keyed for Members {
    #[inline]
    fn name(element: &[u8]) -> &[u8] {
        element
    }
}

impl Keyed for Fields {
    #[inline]
    fn name(element: &[u8]) -> &[u8] {
        rest(element, expiry_bytes(element))
    }
}

/// The result of a lookup: the position of the element, or the position to insert it at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup<'a> {
    pub(crate) found: FoundLeaf<'a>,
    pub(crate) spot: LeafPosition,
    pub(crate) element: Option<&'a [u8]>,
}

impl<L: Keyed> Tree<L> {
    /// Returns the element with this name.
    #[inline]
    pub(crate) fn get(&self, name: &Text<'_>) -> Option<&[u8]> {
        self.lookup(name, key_of(name.source()), Purpose::Read).element
    }

    /// Looks up the element with this name, whose hash gives the order key `key`.
    #[inline]
    pub(crate) fn lookup(&self, name: &Text<'_>, key: u64, purpose: Purpose) -> Lookup<'_> {
        let found = self.descend_uncounted(|inner| inner.child_of(key));
        let (spot, element) = find_in::<L>(found.leaf, name, key, purpose);
        Lookup { found, spot, element }
    }

    /// Inserts an element with this name, or replaces the existing one. Returns whether it is new.
    /// The tree takes over the element's references to strings stored out of line.
    pub(crate) fn set(&mut self, name: &Text<'_>, element: &[u8]) -> bool {
        let key = key_of(name.source());
        loop {
            let Lookup { found, spot, element: before } = self.lookup(name, key, Purpose::Insert);
            let is_new = before.is_none();
            let done = if is_new {
                let place = self.place(&found, spot, element.len());
                self.insert(&place, key, element)
            } else {
                let path = found.path;
                self.replace(&path, spot, element)
            };
            if done {
                return is_new;
            }
        }
    }

    /// Inserts an element without strings stored out of line, unless one with this name exists.
    /// Returns whether it was inserted.
    pub(crate) fn insert_new(&mut self, name: &Text<'_>, element: &[u8]) -> bool {
        let key = key_of(name.source());
        loop {
            let Lookup { found, spot, element: before } = self.lookup(name, key, Purpose::Insert);
            if before.is_some() {
                return false;
            }
            let place = self.place(&found, spot, element.len());
            if self.insert(&place, key, element) {
                return true;
            }
        }
    }

    /// Removes the element with this name. Returns whether it existed.
    pub(crate) fn delete(&mut self, name: &Text<'_>) -> bool {
        let Lookup { found, spot, element } =
            self.lookup(name, key_of(name.source()), Purpose::Read);
        let (path, is_there) = (found.path, element.is_some());
        if is_there {
            self.remove(&path, spot);
        }
        is_there
    }

    /// Visits some elements, starting at a cursor. Returns the next cursor, or 0 if there are no
    /// more elements. Elements that stay in the tree throughout a scan are visited, no matter how
    /// the tree changes in between: a cursor is a hash, and all elements with lower hashes have
    /// been visited.
    pub(crate) fn scan(&self, cursor: u64, count: usize, show: impl FnMut(&[u8])) -> u64 {
        let next = self.scan_keys(cursor << UNORDERED_BITS, count, show);
        next.map_or(0, |key| key >> UNORDERED_BITS)
    }
}

/// Looks a name up in its group, and returns the insert position if it is absent.
#[inline]
fn find_in<'a, L: Keyed>(
    leaf: Leaf<'a>,
    name: &Text<'_>,
    key: u64,
    purpose: Purpose,
) -> (LeafPosition, Option<&'a [u8]>) {
    if leaf.groups() == 0 {
        return (leaf.spot::<L>(0), None);
    }
    let group = leaf.group_of(key);
    leaf.prefetch_group(group, purpose);
    let (search, bytes) = (name.search(), leaf.group_bytes(group));
    let Group { start, elements, .. } = leaf.group(group);
    let (mut index, mut at) = (0, 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let element_bytes = L::element_bytes(rest);
        // SAFETY: elements of trees were written by `Text::write`, and hold references to their
        // strings stored out of line.
        if unsafe { search.is_at(L::name(rest)) } {
            let spot = LeafPosition { group, index, start: start + at };
            return (spot, rest.get(..element_bytes));
        }
        (index, at) = (index + 1, at + element_bytes);
    }
    (LeafPosition { group, index: elements, start: start + at }, None)
}
