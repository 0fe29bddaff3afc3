//! A list of strings.

use super::Name;
use crate::packed::{At, Packed, PackedRef};
use crate::tree::blocks::Blocks;
use crate::tree::cut::Garbage;
use crate::tree::layout::Elements;
use crate::tree::leaf::LeafPosition;
use crate::tree::root::{FoundLeaf, Side, Tree};
use crate::value::item::{Item, OwnedText, Text, listpack_bytes};
use crate::value::string::StringValue;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// The limit up to which OBJECT ENCODING says listpack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListLimit {
    /// Bytes of the listpack.
    Bytes(usize),
    /// Number of entries.
    Entries(usize),
}

/// The bytes of a listpack without entries.
const LISTPACK_BYTES: usize = 7;
/// An element takes at most this many times the bytes in a listpack that it takes in the packed
/// form.
const MAX_BYTES_PER_PACKED_BYTE: usize = 2;
/// The maximum bytes of a listpack that is limited by its number of entries.
const MAX_LISTPACK_BYTES: usize = 8192;

impl ListLimit {
    /// The limit of `list-max-listpack-size`.
    pub fn of_setting(setting: i64) -> Self {
        match usize::try_from(setting) {
            Ok(entries) => ListLimit::Entries(entries.max(1)),
            Err(_) => ListLimit::Bytes(4096 << (setting.max(-5) + 1).unsigned_abs()),
        }
    }

    /// Whether a list with `entries` that take `bytes` as a listpack exceeds the limit. A shrinking
    /// list must fall below half of it, so that the encoding does not change back and forth.
    fn is_exceeded(self, bytes: usize, entries: u64, shrinks: bool) -> bool {
        let part = if shrinks { 2 } else { 1 };
        match self {
            ListLimit::Bytes(most) => bytes > most / part,
            ListLimit::Entries(most) => {
                entries > (most / part) as u64 || (!shrinks && bytes > MAX_LISTPACK_BYTES)
            }
        }
    }
}

/// A list in the large form.
#[derive(Clone, Debug)]
pub(crate) struct ListTree {
    tree: Tree<Elements>,
    name: Name,
    /// The bytes that the elements would take in a listpack, if they have been counted.
    listpack_bytes: Option<usize>,
}

/// A list that can be changed.
#[derive(Debug)]
pub(crate) enum List {
    Packed(Packed<Elements>),
    Tree(Box<ListTree>),
}

/// A list borrowed for reading.
#[derive(Clone, Copy, Debug)]
pub struct ListRef<'a>(pub(crate) ListForm<'a>);

/// The two forms of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListForm<'a> {
    Packed(PackedRef<'a, Elements>),
    Tree(&'a ListTree),
}

fn value(element: &[u8]) -> StringValue<'_> {
    // SAFETY: elements were written by `Text::write`, and hold references to their strings for as
    // long as the collection is borrowed.
    unsafe { Item::any(element) }.value()
}

impl<'a> ListRef<'a> {
    /// Returns the number of elements.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no stored list is empty")]
    pub fn len(self) -> u64 {
        match self.0 {
            ListForm::Packed(packed) => packed.len() as u64,
            ListForm::Tree(list) => list.tree.len(),
        }
    }

    /// Returns the memory of the list in bytes, in addition to the entry's word.
    pub fn bytes(self) -> u64 {
        match self.0 {
            ListForm::Packed(packed) => packed.as_bytes().len() as u64,
            ListForm::Tree(list) => size_of::<ListTree>() as u64 + list.tree.bytes(),
        }
    }

    /// Returns the encoding that OBJECT ENCODING reports.
    #[must_use]
    pub fn encoding_name(self) -> &'static str {
        self.name().word()
    }

    /// Returns the encoding that OBJECT ENCODING reports, as a [`Name`].
    pub(crate) fn name(self) -> Name {
        match self.0 {
            ListForm::Packed(packed) => Name::from_byte(packed.name()),
            ListForm::Tree(list) => list.name,
        }
    }

    /// Returns the element at an index.
    pub fn get(self, rank: u64) -> Option<StringValue<'a>> {
        match self.0 {
            ListForm::Packed(packed) => packed.select(rank as usize).map(|it| value(it.element)),
            ListForm::Tree(list) => list.tree.select(rank).map(value),
        }
    }

    /// Visits elements from an index on, until `visit` breaks.
    pub fn walk<B>(
        self,
        rank: u64,
        mut visit: impl FnMut(StringValue<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        self.walk_items(rank, Side::End, |item| visit(item.value()))
    }

    /// Visits elements from an index backwards, until `visit` breaks.
    pub fn walk_back<B>(
        self,
        rank: u64,
        mut visit: impl FnMut(StringValue<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        self.walk_items(rank, Side::Start, |item| visit(item.value()))
    }

    /// Calls `show` with at most `most` elements, starting at an index, in the direction `towards`.
    pub fn show(self, rank: u64, towards: Side, most: u64, mut show: impl FnMut(StringValue<'_>)) {
        let mut left = most;
        if left == 0 {
            return;
        }
        self.walk_items(rank, towards, |item| {
            show(item.value());
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }

    fn walk_items<B>(
        self,
        rank: u64,
        towards: Side,
        mut visit: impl FnMut(Item<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        // SAFETY: as in `value`.
        let mut visit = |element: &[u8]| visit(unsafe { Item::any(element) });
        match (self.0, towards) {
            (ListForm::Packed(packed), Side::End) => {
                let shown = packed.elements().skip(rank as usize);
                shown.map(|it| visit(it.element)).find_map(ControlFlow::break_value)
            }
            (ListForm::Packed(packed), Side::Start) => {
                let all: Vec<At<'_>> = packed.elements().collect();
                let shown = all.iter().take((rank as usize).saturating_add(1)).rev();
                shown.map(|it| visit(it.element)).find_map(ControlFlow::break_value)
            }
            (ListForm::Tree(list), Side::End) => list.tree.walk(rank, visit),
            (ListForm::Tree(list), Side::Start) => list.tree.walk_back(rank, visit),
        }
    }

    /// Searches at most `most` elements from an index on for elements equal to a string. `found` is
    /// called with the index of each, until it breaks. Returns where to continue, if there are more
    /// elements and `found` has not broken.
    pub fn search(
        self,
        element: &Text<'_>,
        rank: u64,
        towards: Side,
        most: u64,
        mut found: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Option<u64> {
        let mut looked_at = 0;
        let at = |looked_at: u64| match towards {
            Side::End => rank.saturating_add(looked_at),
            Side::Start => rank.saturating_sub(looked_at),
        };
        self.walk_items(rank, towards, |item| {
            if looked_at >= most {
                return ControlFlow::Break(Some(at(looked_at)));
            }
            if element.is(item) && found(at(looked_at)).is_break() {
                return ControlFlow::Break(None);
            }
            looked_at += 1;
            ControlFlow::Continue(())
        })
        .flatten()
    }

    /// Returns a copy of the element at an index.
    pub(crate) fn to_owned_text(self, rank: u64) -> Option<OwnedText> {
        let element = match self.0 {
            ListForm::Packed(packed) => packed.select(rank as usize).map(|it| it.element),
            ListForm::Tree(list) => list.tree.select(rank),
        };
        // SAFETY: as in `value`.
        element.map(|element| OwnedText::of(unsafe { Item::any(element) }))
    }

    /// Returns a clone: a copy of the packed bytes, or a reference to the tree.
    #[cfg(test)]
    pub(crate) fn to_owned(self) -> List {
        match self.0 {
            ListForm::Packed(packed) => {
                List::Packed(Packed::from_bytes(packed.as_bytes().to_vec()))
            }
            ListForm::Tree(list) => List::Tree(Box::new(list.clone())),
        }
    }
}

impl Default for List {
    fn default() -> Self {
        List::Packed(Packed::new(Name::Listpack as u8))
    }
}

impl List {
    /// Borrows the list for reading.
    pub(crate) fn read(&self) -> ListRef<'_> {
        match self {
            List::Packed(packed) => ListRef(ListForm::Packed(packed.read())),
            List::Tree(list) => ListRef(ListForm::Tree(list)),
        }
    }
    /// Announces that this many elements, with this many bytes together, are about to be added at
    /// once, which may change the encoding's name.
    pub(crate) fn expect(&mut self, elements: usize, bytes: usize, limit: ListLimit) {
        if self.read().name() == Name::Quicklist {
            return;
        }
        let entries = self.read().len() + elements as u64;
        if let List::Packed(packed) = self
            && let at_most = MAX_BYTES_PER_PACKED_BYTE * packed.end() + LISTPACK_BYTES
            && !limit.is_exceeded(at_most + bytes, entries, false)
        {
            return;
        }
        let together = self.listpack_bytes() + bytes;
        if limit.is_exceeded(together, entries, false) {
            self.set_name(Name::Quicklist);
        }
    }

    fn set_name(&mut self, name: Name) {
        match self {
            List::Packed(packed) => packed.set_name(name as u8),
            List::Tree(list) => list.name = name,
        }
    }

    /// Returns the size that the elements would have as a listpack, in bytes.
    fn listpack_bytes(&mut self) -> usize {
        let packed_bytes = |packed: PackedRef<'_, Elements>| {
            packed.elements().map(|it| listpack_bytes(value(it.element))).sum::<usize>()
        };
        let bytes = match self {
            List::Packed(packed) => packed_bytes(packed.read()),
            List::Tree(list) => {
                let tree = &list.tree;
                *list.listpack_bytes.get_or_insert_with(|| {
                    let mut bytes = 0;
                    let _: Option<()> = tree.walk(0, |element| {
                        bytes += listpack_bytes(value(element));
                        ControlFlow::Continue(())
                    });
                    bytes
                })
            }
        };
        bytes + LISTPACK_BYTES
    }

    /// Sets the encoding's name after elements were removed or shortened.
    pub(crate) fn shrunk(&mut self, limit: ListLimit) {
        if self.read().name() != Name::Quicklist {
            return;
        }
        // A listpack takes at least a third of this form's bytes, so larger lists need not be
        // counted.
        let most = match limit {
            ListLimit::Bytes(most) => 3 * most as u64 + 8192,
            ListLimit::Entries(_) => 3 * MAX_LISTPACK_BYTES as u64 + 8192,
        };
        if self.read().bytes() > most {
            return;
        }
        let (bytes, entries) = (self.listpack_bytes(), self.read().len());
        if !limit.is_exceeded(bytes, entries, true) {
            self.set_name(Name::Listpack);
        }
    }

    /// Adds an element at one end.
    pub(crate) fn push(&mut self, side: Side, element: &Text<'_>, blocks: &Arc<Blocks>) {
        let rank = if side == Side::Start { 0 } else { self.read().len() };
        self.insert(rank, element, blocks);
    }

    /// Adds an element at an index, or at the end if there are fewer elements.
    pub(crate) fn insert(&mut self, rank: u64, element: &Text<'_>, blocks: &Arc<Blocks>) {
        let written = written(element);
        if let List::Packed(packed) = self {
            if !element.is_long() && packed.fits(written.len()) {
                let is_end = rank >= packed.read().len() as u64;
                let before = if is_end { None } else { packed.read().select(rank as usize) };
                let start = before.map_or(packed.end(), |it| it.start);
                return packed.insert(start, &written);
            }
            *self = List::Tree(Box::new(ListTree::of(packed.read(), blocks)));
        }
        if let List::Tree(list) = self {
            list.insert(rank, &written);
        }
    }

    /// Replaces the element at an index. Returns whether there is one.
    pub(crate) fn set(&mut self, rank: u64, element: &Text<'_>, blocks: &Arc<Blocks>) -> bool {
        if rank >= self.read().len() {
            return false;
        }
        let written = written(element);
        if let List::Packed(packed) = self {
            if !element.is_long() && packed.fits(written.len()) {
                let start = packed.read().select(rank as usize).map(|it| it.start);
                start.into_iter().for_each(|start| packed.replace(start, &written));
                return true;
            }
            *self = List::Tree(Box::new(ListTree::of(packed.read(), blocks)));
        }
        if let List::Tree(list) = self {
            list.set(rank, &written);
        }
        true
    }

    /// Removes the element at an index, if there is one.
    pub(crate) fn remove(&mut self, rank: u64) {
        match self {
            List::Packed(packed) => {
                let start = packed.read().select(rank as usize).map(|it| it.start);
                start.into_iter().for_each(|start| packed.remove(start));
            }
            List::Tree(list) => list.remove(rank),
        }
    }

    /// Removes a range of elements. Returns the rest of a tree, to be freed. The time does not
    /// depend on the length of the range.
    pub(crate) fn remove_range(&mut self, ranks: Range<u64>) -> Option<Garbage<Elements>> {
        /// Up to this many are removed one by one, which keeps leaves full.
        const FEW: u64 = 4;
        let ranks = ranks.start..ranks.end.min(self.read().len());
        let is_few = ranks.end.saturating_sub(ranks.start) <= FEW;
        match self {
            List::Tree(list) if !is_few => {
                list.listpack_bytes = None;
                Some(list.tree.cut(ranks))
            }
            List::Packed(packed) if !is_few => {
                let mut rank = 0..;
                packed.retain(|_| rank.next().is_none_or(|rank| !ranks.contains(&rank)));
                None
            }
            _ => {
                ranks.clone().for_each(|_| self.remove(ranks.start));
                None
            }
        }
    }

    /// Removes the elements at these indexes, which are in ascending order.
    pub(crate) fn remove_all(&mut self, ranks: &[u64]) {
        match self {
            List::Packed(packed) => {
                let (mut rank, mut removed) = (0.., ranks.iter().peekable());
                packed.retain(|_| {
                    rank.next().is_none_or(|rank| removed.next_if_eq(&&rank).is_none())
                });
            }
            List::Tree(list) => ranks.iter().rev().for_each(|rank| list.remove(*rank)),
        }
    }
}

fn written(element: &Text<'_>) -> Vec<u8> {
    let mut written = Vec::with_capacity(element.item_bytes());
    element.write(&mut written);
    written
}

impl ListTree {
    #[cfg(test)]
    pub(crate) fn check(&self) {
        crate::tree::tests::check(&self.tree);
    }

    fn of(packed: PackedRef<'_, Elements>, blocks: &Arc<Blocks>) -> Self {
        let name = Name::from_byte(packed.name());
        let mut list = ListTree { tree: Tree::new(blocks), name, listpack_bytes: Some(0) };
        (0..).zip(packed.elements()).for_each(|(rank, it)| list.insert(rank, it.element));
        list
    }

    fn count(&mut self, element: &[u8]) {
        let bytes = listpack_bytes(value(element));
        self.listpack_bytes.iter_mut().for_each(|it| *it += bytes);
    }

    fn uncount(&mut self, rank: u64) {
        let element = self.tree.select(rank);
        let bytes = element.map_or(0, |element| listpack_bytes(value(element)));
        self.listpack_bytes.iter_mut().for_each(|it| *it -= bytes);
    }

    fn insert(&mut self, rank: u64, element: &[u8]) {
        self.count(element);
        loop {
            let (found, spot) = self.seek(rank);
            let place = self.tree.place(&found, spot, element.len());
            if self.tree.insert(&place, 0, element) {
                return;
            }
        }
    }

    fn set(&mut self, rank: u64, element: &[u8]) {
        self.uncount(rank);
        self.count(element);
        loop {
            let (FoundLeaf { path, .. }, spot) = self.seek(rank);
            if self.tree.replace(&path, spot, element) {
                return;
            }
        }
    }

    fn remove(&mut self, rank: u64) {
        if rank < self.tree.len() {
            self.uncount(rank);
            self.tree.remove_at(rank);
        }
    }

    fn seek(&self, rank: u64) -> (FoundLeaf<'_>, LeafPosition) {
        let found = self.tree.find_rank(rank);
        let spot = found.leaf.spot::<Elements>(found.before.min(u64::from(u16::MAX)) as usize);
        (found, spot)
    }
}
