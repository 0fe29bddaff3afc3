//! A leaf's contents: elements one after the other, and the table of their groups.
//!
//! ```text
//!   0  groups               2  end of the elements     4  elements     6  elements that expire
//!   8  the earliest expiry time, in milliseconds since 1970, or 0 (6 bytes)
//!  14  bytes of strings stored out of line (6 bytes)
//!  20  start of the elements
//!  22  ... elements ...       <- groups: key, start, elements (8, 2 and 2 bytes each)
//! ```
//!
//! There may be a gap before the elements and one after them. An insertion moves the elements on
//! the shorter side, so that appending at either end does not move all elements.

use super::layout::{Layout, bytes_out_of_line, release, rest};
use crate::sync::cache_line::{LINE_BYTES, prefetch};
use std::ops::Range;
use std::ptr::NonNull;

const GROUPS: usize = 0;
const END: usize = 2;
const ELEMENTS: usize = 4;
const EXPIRING: usize = 6;
const EARLIEST: usize = 8;
const BYTES_OUT_OF_LINE: usize = 14;
const FIRST: usize = 20;
/// The lowest offset at which elements may start.
pub(crate) const START: usize = 22;
/// Elements are moved to divide the gaps anew only if these have room for this many insertions.
const INSERTIONS_WORTH_MOVING: usize = 16;
/// The size of a group's entry in the table, in bytes.
pub(crate) const GROUP_BYTES: usize = 12;

/// A leaf that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf<'a>(pub(crate) &'a [u8]);

/// A leaf that is modified.
#[derive(Debug)]
pub(crate) struct LeafMut<'a>(pub(crate) &'a mut [u8]);

/// A group of a few consecutive elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// A lower bound of the keys in the group. In trees ordered by hash, it is also an upper bound
    /// of the keys in earlier groups.
    pub(crate) key: u64,
    pub(crate) start: usize,
    pub(crate) elements: usize,
}

/// The position of an element in a leaf, or the position to insert it at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeafPosition {
    pub(crate) group: usize,
    /// The number of elements of the group before it.
    pub(crate) index: usize,
    /// The byte offset at which it starts.
    pub(crate) start: usize,
}

/// What a search is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    /// To insert the element if there is none.
    Insert,
}

/// The amounts that an element adds to its leaf's counters.
#[derive(Clone, Copy, Debug)]
struct Counted {
    out_of_line: usize,
    expires_at_ms: u64,
}

impl Counted {
    #[inline]
    fn of<L: Layout>(element: &[u8]) -> Self {
        // SAFETY: the element was written for a tree, and holds references to its strings.
        let out_of_line = unsafe { bytes_out_of_line::<L>(element) };
        Counted { out_of_line, expires_at_ms: L::expires_at_ms(element) }
    }
}

impl<'a> Leaf<'a> {
    #[inline]
    fn number(self, at: usize) -> usize {
        let bytes = rest(self.0, at).first_chunk();
        usize::from(u16::from_le_bytes(bytes.copied().unwrap_or_default()))
    }

    #[inline]
    pub(crate) fn groups(self) -> usize {
        self.number(GROUPS)
    }

    /// Returns the offset at which the elements start.
    #[inline]
    pub(crate) fn first(self) -> usize {
        self.number(FIRST)
    }

    #[inline]
    pub(crate) fn end(self) -> usize {
        self.number(END)
    }

    #[inline]
    pub(crate) fn elements(self) -> usize {
        self.number(ELEMENTS)
    }

    /// Returns the memory of strings stored out of line, in bytes.
    pub(crate) fn bytes_out_of_line(self) -> u64 {
        self.long_number(BYTES_OUT_OF_LINE)
    }

    fn long_number(self, at: usize) -> u64 {
        let [a, b, c, d, e, f] = rest(self.0, at).first_chunk().copied().unwrap_or_default();
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }

    pub(crate) fn expiring(self) -> usize {
        self.number(EXPIRING)
    }

    /// Returns a lower bound of the expiry times, in milliseconds since 1970; 0 if no element
    /// expires.
    pub(crate) fn earliest_ms(self) -> u64 {
        self.long_number(EARLIEST)
    }

    /// Returns the number of bytes available for elements and groups.
    pub(crate) fn room(self) -> usize {
        self.0.len() - START
    }

    /// Returns the number of bytes used by elements and groups.
    pub(crate) fn load(self) -> usize {
        self.end() - self.first() + GROUP_BYTES * self.groups()
    }

    /// Returns the number of free bytes between the elements and the groups.
    #[inline]
    fn gap_after(self) -> usize {
        self.0.len() - GROUP_BYTES * self.groups() - self.end()
    }

    #[inline]
    fn free(self) -> usize {
        self.room() - self.load()
    }

    /// Whether an element of `bytes` bytes fits, even if it makes its group split.
    #[inline]
    pub(crate) fn fits(self, bytes: usize) -> bool {
        self.free() >= bytes + GROUP_BYTES
    }

    #[inline]
    fn group_at(self, group: usize) -> usize {
        self.0.len() - GROUP_BYTES * (group + 1)
    }

    #[inline]
    fn key(self, group: usize) -> u64 {
        let bytes = rest(self.0, self.group_at(group)).first_chunk();
        u64::from_le_bytes(bytes.copied().unwrap_or_default())
    }

    /// Returns a group, which must exist.
    #[inline]
    pub(crate) fn group(self, group: usize) -> Group {
        let at = self.group_at(group);
        let (start, elements) = (self.number(at + 8), self.number(at + 10));
        Group { key: self.key(group), start, elements }
    }

    #[inline]
    pub(crate) fn group_end(self, group: usize) -> usize {
        if group + 1 < self.groups() {
            self.number(self.group_at(group + 1) + 8)
        } else {
            self.end()
        }
    }

    /// Returns the elements of a group.
    #[inline]
    pub(crate) fn group_bytes(self, group: usize) -> &'a [u8] {
        self.0.get(self.group(group).start..self.group_end(group)).unwrap_or(&[])
    }

    /// Prefetches the elements of a group, which a search reads one after the other, and those that
    /// an insertion at its end moves.
    #[inline]
    pub(crate) fn prefetch_group(self, group: usize, purpose: Purpose) {
        prefetch_all(self.group_bytes(group));
        if purpose == Purpose::Insert {
            let (first, at, end) = (self.first(), self.group_end(group), self.end());
            let moved = if is_nearer_to_start(first, at, end) { first..at } else { at..end };
            prefetch_all(self.0.get(moved).unwrap_or(&[]));
        }
    }

    /// Returns the last group whose key is not above `key`, or the first group.
    #[inline]
    pub(crate) fn group_of(self, key: u64) -> usize {
        let (mut from, mut to) = (0, self.groups());
        while to - from > 1 {
            let middle = usize::midpoint(from, to);
            // A branch, so that the processor speculates instead of waiting for each key.
            if self.key(middle) <= key { from = middle } else { to = middle }
        }
        from
    }

    /// Returns the element at a position, and all elements after it.
    #[inline]
    pub(crate) fn from(self, spot: LeafPosition) -> &'a [u8] {
        self.0.get(spot.start..self.end()).unwrap_or(&[])
    }

    /// Returns the element at a position.
    #[inline]
    pub(crate) fn element<L: Layout>(self, spot: LeafPosition) -> &'a [u8] {
        let bytes = self.from(spot);
        bytes.get(..L::element_bytes(bytes)).unwrap_or(bytes)
    }

    /// Returns the position of the element of index `place` in the leaf; the end if there are fewer
    /// elements.
    pub(crate) fn spot<L: Layout>(self, place: usize) -> LeafPosition {
        let mut index = place;
        let mut group = 0;
        while group + 1 < self.groups() && index >= self.group(group).elements {
            index -= self.group(group).elements;
            group += 1;
        }
        if self.groups() == 0 {
            return LeafPosition { group: 0, index: 0, start: self.first() };
        }
        let Group { start, elements, .. } = self.group(group);
        let index = index.min(elements);
        let bytes = self.0.get(start..self.end()).unwrap_or(&[]);
        let offset = (0..index).fold(0, |at, _| at + L::element_bytes(rest(bytes, at)));
        LeafPosition { group, index, start: start + offset }
    }

    /// Returns the number of elements before a position.
    pub(crate) fn place(self, spot: LeafPosition) -> usize {
        (0..spot.group).map(|group| self.group(group).elements).sum::<usize>() + spot.index
    }

    /// Whether a position is after the last element.
    pub(crate) fn is_end(self, spot: LeafPosition) -> bool {
        spot.start >= self.end()
    }

    /// Iterates over the elements of a group in order.
    pub(crate) fn group_elements<L: Layout>(self, group: usize) -> impl Iterator<Item = &'a [u8]> {
        split::<L>(self.group_bytes(group))
    }
}

/// Whether fewer bytes are before `at` than after it, so that these should be moved.
#[inline]
fn is_nearer_to_start(first: usize, at: usize, end: usize) -> bool {
    at - first < end - at
}

#[inline]
fn prefetch_all(bytes: &[u8]) {
    let first = NonNull::from(bytes).cast::<u8>();
    let lines = (0..bytes.len()).step_by(LINE_BYTES);
    lines.for_each(|at| prefetch(first.map_addr(|it| it.saturating_add(at))));
}

/// Iterates over the elements in `bytes`.
pub(crate) fn split<L: Layout>(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (element, rest) = bytes.split_at_checked(L::element_bytes(bytes))?;
        bytes = rest;
        (!element.is_empty()).then_some(element)
    })
}

impl LeafMut<'_> {
    /// Empties the leaf, without releasing elements.
    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().take(START).for_each(|byte| *byte = 0);
        self.set_number(FIRST, START);
        self.set_number(END, START);
    }

    #[inline]
    pub(crate) fn read(&self) -> Leaf<'_> {
        Leaf(self.0)
    }

    #[inline]
    fn set_number(&mut self, at: usize, number: usize) {
        let bytes = self.0.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut());
        bytes.into_iter().for_each(|bytes| *bytes = (number as u16).to_le_bytes());
    }

    fn add(&mut self, at: usize, more: isize) {
        self.set_number(at, self.read().number(at).wrapping_add_signed(more));
    }

    fn set_key(&mut self, group: usize, key: u64) {
        let at = self.read().group_at(group);
        let bytes = self.0.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut());
        bytes.into_iter().for_each(|bytes| *bytes = key.to_le_bytes());
    }

    fn set_group(&mut self, group: usize, it: Group) {
        self.set_key(group, it.key);
        let at = self.read().group_at(group);
        self.set_number(at + 8, it.start);
        self.set_number(at + 10, it.elements);
    }

    pub(crate) fn set_earliest_ms(&mut self, at_ms: u64) {
        self.set_long_number(EARLIEST, at_ms);
    }

    fn set_long_number(&mut self, at: usize, number: u64) {
        let written = number.to_le_bytes();
        self.0.iter_mut().skip(at).zip(written).take(6).for_each(|(to, byte)| *to = byte);
    }

    fn add_out_of_line(&mut self, bytes: isize) {
        if bytes != 0 {
            let now = self.read().bytes_out_of_line().wrapping_add_signed(bytes as i64);
            self.set_long_number(BYTES_OUT_OF_LINE, now);
        }
    }

    /// Adds an element to the leaf's counters.
    fn count(&mut self, it: Counted) {
        self.add(ELEMENTS, 1);
        self.add_out_of_line(it.out_of_line.cast_signed());
        if it.expires_at_ms > 0 {
            self.add(EXPIRING, 1);
            let earliest_ms = self.read().earliest_ms();
            if earliest_ms == 0 || it.expires_at_ms < earliest_ms {
                self.set_earliest_ms(it.expires_at_ms);
            }
        }
    }

    fn uncount(&mut self, it: Counted) {
        self.add(ELEMENTS, -1);
        self.add_out_of_line(-it.out_of_line.cast_signed());
        if it.expires_at_ms > 0 {
            self.add(EXPIRING, -1);
            if self.read().expiring() == 0 {
                self.set_earliest_ms(0);
            }
        }
    }

    /// Adjusts the starts of some groups.
    fn move_groups(&mut self, groups: Range<usize>, by: isize) {
        for group in groups {
            let at = self.read().group_at(group) + 8;
            self.add(at, by);
        }
    }

    /// Moves the bytes after `from` by `by`, and adjusts the starts of the groups from `group` on.
    fn shift_after(&mut self, from: usize, group: usize, by: isize) {
        let end = self.read().end();
        self.0.copy_within(from..end, from.wrapping_add_signed(by));
        self.set_number(END, end.wrapping_add_signed(by));
        self.move_groups(group..self.read().groups(), by);
    }

    /// Moves the bytes before `to` by `by`, and adjusts the starts of the groups before `group`.
    fn shift_before(&mut self, to: usize, group: usize, by: isize) {
        let first = self.read().first();
        self.0.copy_within(first..to, first.wrapping_add_signed(by));
        self.set_number(FIRST, first.wrapping_add_signed(by));
        self.move_groups(0..group, by);
    }

    /// Moves all elements to another start. Returns the distance.
    fn move_elements(&mut self, first: usize) -> isize {
        let by = first.wrapping_sub(self.read().first()).cast_signed();
        self.shift_after(self.read().first(), 0, by);
        self.set_number(FIRST, first);
        by
    }

    /// Moves elements to leave `bytes` free bytes after them; the leaf must have as many. Returns
    /// how far the elements were moved towards the start.
    fn reserve_after(&mut self, bytes: usize) -> isize {
        let missing = bytes.saturating_sub(self.read().gap_after());
        let first = self.read().first().saturating_sub(missing).max(START);
        if missing == 0 { 0 } else { self.move_elements(first) }
    }

    /// Makes room for `bytes` bytes within a group or at its end; the leaf must have as many free.
    /// Returns the offset of the room.
    fn open(&mut self, group: usize, at: usize, bytes: usize) -> usize {
        let leaf = self.read();
        let is_before = is_nearer_to_start(leaf.first(), at, leaf.end());
        let (before, after) = (leaf.first() - START, leaf.gap_after());
        let (gap, other) = if is_before { (before, after) } else { (after, before) };
        if gap >= bytes {
            return self.open_on_side(group, at, bytes, is_before);
        }
        let total = after + before;
        if other >= bytes && total < INSERTIONS_WORTH_MOVING * bytes {
            return self.open_on_side(group, at, bytes, !is_before);
        }
        let half = (total / 2).max(bytes).min(total);
        let first = START + if is_before { half } else { total - half };
        let at = at.wrapping_add_signed(self.move_elements(first));
        self.open_on_side(group, at, bytes, is_before)
    }

    fn open_on_side(&mut self, group: usize, at: usize, bytes: usize, is_before: bool) -> usize {
        if is_before {
            self.shift_before(at, group + 1, -bytes.cast_signed());
            at - bytes
        } else {
            self.shift_after(at, group + 1, bytes.cast_signed());
            at
        }
    }

    /// Removes the bytes of an element from a group.
    fn close(&mut self, group: usize, at: usize, bytes: usize) {
        let leaf = self.read();
        if is_nearer_to_start(leaf.first(), at, leaf.end()) {
            self.shift_before(at, group + 1, bytes.cast_signed());
        } else {
            self.shift_after(at + bytes, group + 1, -bytes.cast_signed());
        }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let to = self.0.get_mut(at..at + bytes.len());
        to.into_iter().for_each(|to| to.copy_from_slice(bytes));
    }

    /// Inserts an element, which [`Leaf::fits`], with its order key.
    pub(crate) fn insert<L: Layout>(&mut self, spot: LeafPosition, key: u64, element: &[u8]) {
        let leaf = self.read();
        let LeafPosition { group, start, .. } = spot;
        let is_full = |group: usize| {
            let bytes = leaf.group_bytes(group).len() + element.len();
            leaf.group(group).elements >= L::GROUP_ELEMENTS || bytes > L::GROUP_BYTES
        };
        if leaf.groups() == 0 {
            let start = leaf.first().wrapping_add_signed(self.reserve_after(GROUP_BYTES));
            self.insert_group(0, Group { key, start, elements: 0 });
            return self.insert_into::<L>(0, start, key, element);
        }
        let at_end = L::IS_ORDERED && leaf.is_end(spot) && is_full(group);
        let at_start = L::IS_ORDERED && start == leaf.first() && is_full(0);
        if at_end {
            let start = start.wrapping_add_signed(self.reserve_after(GROUP_BYTES));
            self.insert_group(group + 1, Group { key, start, elements: 0 });
            return self.insert_into::<L>(group + 1, start, key, element);
        }
        if at_start {
            let start = start.wrapping_add_signed(self.reserve_after(GROUP_BYTES));
            // The key of the former first group may be too low.
            let before = self.read().group(0);
            self.set_key(0, before.key.max(key));
            self.insert_group(0, Group { key: before.key.min(key), start, elements: 0 });
            return self.insert_into::<L>(0, start, key, element);
        }
        self.insert_into::<L>(group, start, key, element);
        self.split_if_large::<L>(group);
    }

    fn insert_into<L: Layout>(&mut self, group: usize, start: usize, key: u64, element: &[u8]) {
        let start = self.open(group, start, element.len());
        self.write(start, element);
        let it = self.read().group(group);
        self.set_group(group, Group { key: it.key.min(key), elements: it.elements + 1, ..it });
        self.count(Counted::of::<L>(element));
    }

    /// Removes the element at a position, and releases its strings stored out of line.
    pub(crate) fn remove<L: Layout>(&mut self, spot: LeafPosition) {
        let element = self.read().element::<L>(spot);
        let (len, counted) = (element.len(), Counted::of::<L>(element));
        // SAFETY: the element was written for a tree, and is overwritten next.
        unsafe { release::<L>(element) };
        self.uncount(counted);
        self.close(spot.group, spot.start, len);
        let it = self.read().group(spot.group);
        if it.elements > 1 {
            self.set_group(spot.group, Group { elements: it.elements - 1, ..it });
        } else {
            self.remove_group(spot.group);
        }
    }

    /// Replaces an element, and releases the old one's strings stored out of line. Returns `false`,
    /// with nothing changed, if there is no room.
    pub(crate) fn replace<L: Layout>(&mut self, spot: LeafPosition, element: &[u8]) -> bool {
        let before = self.read().element::<L>(spot);
        let (len, counted) = (before.len(), Counted::of::<L>(before));
        if self.read().free() + len < element.len() + GROUP_BYTES {
            return false;
        }
        // SAFETY: the element was written for a tree, and is overwritten next.
        unsafe { release::<L>(self.read().element::<L>(spot)) };
        self.uncount(counted);
        let by = element.len().cast_signed() - len.cast_signed();
        let moved = self.reserve_after(usize::try_from(by).unwrap_or(0));
        let start = spot.start.wrapping_add_signed(moved);
        if by != 0 {
            self.shift_after(start + len, spot.group + 1, by);
        }
        self.write(start, element);
        self.count(Counted::of::<L>(element));
        self.split_if_large::<L>(spot.group);
        true
    }

    /// Adds a group to the table; there must be room after the elements.
    fn insert_group(&mut self, group: usize, it: Group) {
        let groups = self.read().groups();
        let (last, first) = (self.read().group_at(groups), self.read().group_at(group));
        // The table grows towards lower addresses.
        self.0.copy_within(last + GROUP_BYTES..first + GROUP_BYTES, last);
        self.set_number(GROUPS, groups + 1);
        self.set_group(group, it);
    }

    fn remove_group(&mut self, group: usize) {
        let groups = self.read().groups();
        let (last, first) = (self.read().group_at(groups - 1), self.read().group_at(group));
        self.0.copy_within(last..first, last + GROUP_BYTES);
        self.set_number(GROUPS, groups - 1);
    }

    /// Splits a group that has become too large in two. In hash order, elements with equal keys
    /// stay together.
    fn split_if_large<L: Layout>(&mut self, group: usize) {
        let it = self.read().group(group);
        let bytes = self.read().group_end(group) - it.start;
        let is_large = bytes > L::GROUP_BYTES || it.elements > L::GROUP_ELEMENTS;
        if it.elements < 2 || !is_large || self.read().free() < GROUP_BYTES {
            return;
        }
        self.reserve_after(GROUP_BYTES);
        let it = self.read().group(group);
        let end = it.start + bytes;
        let Some(bytes) = self.0.get_mut(it.start..end) else { return };
        let half = if L::IS_ORDERED {
            halve_in_order::<L>(bytes, it.elements)
        } else {
            halve_by_key::<L>(bytes, it.elements)
        };
        if let Some(Half { elements, bytes, key }) = half {
            let after = Group { key, start: it.start + bytes, elements: it.elements - elements };
            self.set_group(group, Group { elements, ..it });
            self.insert_group(group + 1, after);
        }
    }

    /// Removes a range of elements, and releases their strings stored out of line.
    pub(crate) fn cut<L: Layout>(&mut self, places: Range<usize>) {
        let copy = self.0.to_vec();
        let before = Leaf(&copy);
        self.clear();
        let mut place = 0;
        for group in 0..before.groups() {
            let mut kept = Vec::with_capacity(before.group_bytes(group).len());
            let mut elements = 0;
            for element in before.group_elements::<L>(group) {
                if places.contains(&place) {
                    // SAFETY: the element was written for a tree, and is not part of it any more.
                    unsafe { release::<L>(element) };
                } else {
                    kept.extend_from_slice(element);
                    elements += 1;
                }
                place += 1;
            }
            if elements > 0 {
                self.push_group(before.group(group).key, elements, &kept);
            }
        }
        self.recount::<L>();
    }

    /// Appends a group; there must be room for it.
    pub(crate) fn push_group(&mut self, key: u64, elements: usize, bytes: &[u8]) {
        let end = self.read().end();
        self.write(end, bytes);
        self.set_number(END, end + bytes.len());
        self.insert_group(self.read().groups(), Group { key, start: end, elements });
        self.add(ELEMENTS, elements.cast_signed());
    }

    /// Recomputes the counters of elements that expire and of strings stored out of line, after
    /// groups have been added.
    pub(crate) fn recount<L: Layout>(&mut self) {
        let (mut out_of_line, mut expiring, mut earliest_ms) = (0, 0, 0);
        let leaf = self.read();
        for group in 0..leaf.groups() {
            for element in leaf.group_elements::<L>(group) {
                let counted = Counted::of::<L>(element);
                out_of_line += counted.out_of_line;
                let at_ms = counted.expires_at_ms;
                if at_ms > 0 {
                    expiring += 1;
                    earliest_ms = if earliest_ms == 0 { at_ms } else { at_ms.min(earliest_ms) };
                }
            }
        }
        self.set_long_number(BYTES_OUT_OF_LINE, out_of_line as u64);
        self.set_number(EXPIRING, expiring);
        self.set_earliest_ms(earliest_ms);
    }
}

/// The size of the first half of a group, and the key of the second half.
struct Half {
    elements: usize,
    bytes: usize,
    key: u64,
}

fn halve_in_order<L: Layout>(group: &[u8], elements: usize) -> Option<Half> {
    let half = elements / 2;
    let bytes = split::<L>(group).take(half).map(<[u8]>::len).sum();
    Some(Half { elements: half, bytes, key: L::key(rest(group, bytes)) })
}

/// Sorts the elements by key, and divides them so that equal keys stay together. Returns `None` if
/// all keys are equal.
fn halve_by_key<L: Layout>(group: &mut [u8], elements: usize) -> Option<Half> {
    let copy = group.to_vec();
    let mut sorted: Vec<(u64, &[u8])> =
        split::<L>(&copy).map(|element| (L::key(element), element)).collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    let is_cut = |at: &usize| {
        let before = sorted.get(at.wrapping_sub(1)).map(|it| it.0);
        before.is_some() && before != sorted.get(*at).map(|it| it.0)
    };
    let middle = elements / 2;
    let cut = (middle..elements).find(is_cut).or_else(|| (1..middle).rev().find(is_cut))?;
    let key = sorted.get(cut)?.0;
    let mut to = group;
    let mut bytes = 0;
    for (place, (_, element)) in sorted.iter().enumerate() {
        let (first, rest) = to.split_at_mut_checked(element.len())?;
        first.copy_from_slice(element);
        to = rest;
        bytes += if place < cut { element.len() } else { 0 };
    }
    Some(Half { elements: cut, bytes, key })
}
