//! Trees in the order of hashes: sets and hashes.

use super::layout::{Fields, Layout, Members, UNORDERED_BITS, expiry_bytes, key_of, rest};
use super::leaf::{Leaf, LeafPosition};
use super::root::{FoundLeaf, Tree};
use crate::value::item::Text;

/// A layout whose elements are found by a string.
pub(crate) trait Keyed: Layout {
    /// The string that an element is found by, as it is written, and what follows it.
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

/// What was found for a string: where it stands, or where it would.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup<'a> {
    pub(crate) found: FoundLeaf<'a>,
    pub(crate) spot: LeafPosition,
    pub(crate) element: Option<&'a [u8]>,
}

impl<L: Keyed> Tree<L> {
    /// The element of this name.
    #[inline]
    pub(crate) fn get(&self, name: &Text<'_>) -> Option<&[u8]> {
        self.lookup(name, key_of(name.source())).element
    }

    /// The element of this name, whose hash orders it by `key`.
    #[inline]
    pub(crate) fn lookup(&self, name: &Text<'_>, key: u64) -> Lookup<'_> {
        let found = self.descend_uncounted(|inner| inner.child_of(key));
        let (spot, element) = find_in::<L>(found.leaf, name, key);
        Lookup { found, spot, element }
    }

    /// Inserts an element of this name, or puts it in the place of the one that there is; whether
    /// there was none. What the element has elsewhere belongs to the tree from now on.
    pub(crate) fn set(&mut self, name: &Text<'_>, element: &[u8]) -> bool {
        let key = key_of(name.source());
        loop {
            let Lookup { found, spot, element: before } = self.lookup(name, key);
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

    /// Inserts an element, which has nothing elsewhere, unless there is one of this name; whether
    /// there was none.
    pub(crate) fn insert_new(&mut self, name: &Text<'_>, element: &[u8]) -> bool {
        let key = key_of(name.source());
        loop {
            let Lookup { found, spot, element: before } = self.lookup(name, key);
            if before.is_some() {
                return false;
            }
            let place = self.place(&found, spot, element.len());
            if self.insert(&place, key, element) {
                return true;
            }
        }
    }

    /// Removes the element of this name. Returns whether there was one.
    pub(crate) fn delete(&mut self, name: &Text<'_>) -> bool {
        let Lookup { found, spot, element } = self.lookup(name, key_of(name.source()));
        let (path, is_there) = (found.path, element.is_some());
        if is_there {
            self.remove(&path, spot);
        }
        is_there
    }

    /// Shows some elements from a cursor on; the cursor from which to go on, or 0 if there are no
    /// more. Elements that stay in the tree during such a scan are shown,
    /// whatever else becomes of it: a cursor is a hash, and what comes before it has been shown.
    pub(crate) fn scan(&self, cursor: u64, count: usize, show: impl FnMut(&[u8])) -> u64 {
        let next = self.scan_keys(cursor << UNORDERED_BITS, count, show);
        next.map_or(0, |key| key >> UNORDERED_BITS)
    }
}

/// Looks a name up in the group where it belongs; or where it would be inserted there.
#[inline]
fn find_in<'a, L: Keyed>(
    leaf: Leaf<'a>,
    name: &Text<'_>,
    key: u64,
) -> (LeafPosition, Option<&'a [u8]>) {
    if leaf.groups() == 0 {
        return (leaf.spot::<L>(0), None);
    }
    let group = leaf.group_of(key);
    let mut start = leaf.group(group).start;
    for (index, element) in leaf.group_elements::<L>(group).enumerate() {
        // SAFETY: elements of trees were written by `Text::write`, and hold what they refer to.
        if unsafe { name.is_at(L::name(element)) } {
            return (LeafPosition { group, index, start }, Some(element));
        }
        start += element.len();
    }
    (LeafPosition { group, index: leaf.group(group).elements, start }, None)
}
