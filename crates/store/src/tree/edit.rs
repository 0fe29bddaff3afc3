//! Changes of single elements, the same for all orders.

use super::layout::Layout;
use super::leaf::{Leaf, LeafPosition};
use super::rebalance::is_underfull;
use super::root::{Change, FoundLeaf, InsertPosition, Path, Side, Tree};

impl<L: Layout> Tree<L> {
    /// Returns the insert position for an element of `bytes` bytes at a leaf position.
    #[inline]
    pub(crate) fn place(
        &self,
        found: &FoundLeaf<'_>,
        spot: LeafPosition,
        bytes: usize,
    ) -> InsertPosition {
        let FoundLeaf { path, leaf, .. } = *found;
        let fits = leaf.fits(bytes);
        let side = if fits || !L::IS_ORDERED { None } else { self.side(&path, leaf, spot) };
        InsertPosition { path, spot, side, fits }
    }

    fn side(&self, path: &Path, leaf: Leaf<'_>, spot: LeafPosition) -> Option<Side> {
        if leaf.is_end(spot) && self.is_outermost(path, Side::End) {
            return Some(Side::End);
        }
        let is_first = spot.group == 0 && spot.index == 0;
        (is_first && self.is_outermost(path, Side::Start)).then_some(Side::Start)
    }

    /// Inserts an element with the order key `key`. Returns `false` if its leaf had no room: room
    /// has been made by then, and the caller must search for the position again.
    #[inline]
    pub(crate) fn insert(&mut self, place: &InsertPosition, key: u64, element: &[u8]) -> bool {
        if !place.fits {
            return self.make_room(place, key, element);
        }
        let change = Change::insertion::<L>(key, element);
        self.own(&place.path, change).insert::<L>(place.spot, key, element);
        self.count(element);
        true
    }

    /// Updates the root's counters for an inserted element.
    pub(super) fn count(&mut self, element: &[u8]) {
        self.elements += 1;
        self.expiring += u64::from(L::expires_at_ms(element) > 0);
    }

    /// Removes the element at a leaf position.
    pub(crate) fn remove(&mut self, path: &Path, spot: LeafPosition) {
        let element = self.leaf(path).element::<L>(spot);
        let change = Change::removal::<L>(element);
        let expires = L::expires_at_ms(element) > 0;
        let mut leaf = self.own(path, change);
        leaf.remove::<L>(spot);
        let is_underfull = is_underfull(leaf.read());
        self.elements -= 1;
        self.expiring -= u64::from(expires);
        if is_underfull {
            self.fill_up(path);
        }
    }

    /// Removes the element of this rank, which must exist.
    pub(crate) fn remove_at(&mut self, rank: u64) {
        let FoundLeaf { path, leaf, before: place, .. } = self.find_rank(rank);
        let spot = leaf.spot::<L>(place as usize);
        self.remove(&path, spot);
    }

    /// Replaces an element by one with the same order key. Returns `false` if the leaf had no room:
    /// room has been made by then, and the caller must search for the position again.
    pub(crate) fn replace(&mut self, path: &Path, spot: LeafPosition, element: &[u8]) -> bool {
        let leaf = self.leaf(path);
        let before = leaf.element::<L>(spot);
        if !leaf.fits(element.len().saturating_sub(before.len())) {
            let place = InsertPosition { path: *path, spot, side: None, fits: false };
            return self.make_room(&place, 0, element);
        }
        let removal = Change::removal::<L>(before);
        let insertion = Change::insertion::<L>(u64::MAX, element);
        let expires = [before, element].map(|it| u64::from(L::expires_at_ms(it) > 0));
        let [expired, expires] = expires;
        let bytes = removal.bytes + insertion.bytes;
        let mut leaf = self.own(path, Change { elements: 0, bytes, ..insertion });
        leaf.replace::<L>(spot, element);
        let is_underfull = is_underfull(leaf.read());
        self.expiring = self.expiring + expires - expired;
        if is_underfull {
            self.fill_up(path);
        }
        true
    }

    /// Returns the leaf at the end of a path.
    pub(super) fn leaf(&self, path: &Path) -> Leaf<'_> {
        let mut level = 0;
        self.descend_uncounted(|_| {
            level += 1;
            path.child(level - 1)
        })
        .leaf
    }
}
