//! The two trees of a sorted set: the members ordered by score, and an index from members to
//! scores.
//!
//! The index stores no members, only the upper half of each member's hash. A match in the index is
//! verified in the tree of members; if two members have the same hash and score, both are found
//! there.

use super::inner::Inner;
use super::layout::{Layout, hash, rest};
use super::leaf::{Leaf, LeafPosition, Purpose};
use super::node::Node;
use super::root::{FoundLeaf, Path, Tree};
use crate::value::item::{Item, Text, item_bytes};

/// The layout of members preceded by their scores, which are encoded so that they compare as
/// integers.
#[derive(Debug)]
pub(crate) struct Scores;

/// The layout of the index: hashes followed by scores.
#[derive(Debug)]
pub(crate) struct Index;

const SCORE_BYTES: usize = size_of::<u64>();
const HASH_BYTES: usize = size_of::<u32>();
/// The size of an element of the index.
const INDEXED_BYTES: usize = HASH_BYTES + SCORE_BYTES;

impl Layout for Scores {
    const GROUP_ELEMENTS: usize = 16;
    const GROUP_BYTES: usize = 512;
    const IS_ORDERED: bool = true;

    #[inline]
    fn element_bytes(bytes: &[u8]) -> usize {
        (SCORE_BYTES + item_bytes(rest(bytes, SCORE_BYTES))).min(bytes.len())
    }

    #[inline]
    fn key(element: &[u8]) -> u64 {
        ordered(signed_score(element))
    }

    fn items(element: &[u8], mut show: impl FnMut(&[u8])) {
        show(rest(element, SCORE_BYTES));
    }
}

impl Layout for Index {
    const GROUP_ELEMENTS: usize = 32;
    const GROUP_BYTES: usize = 512;
    const IS_ORDERED: bool = false;

    #[inline]
    fn element_bytes(bytes: &[u8]) -> usize {
        INDEXED_BYTES.min(bytes.len())
    }

    #[inline]
    fn key(element: &[u8]) -> u64 {
        u64::from(hash_of(element)) << u32::BITS
    }

    fn items(_element: &[u8], _show: impl FnMut(&[u8])) {}
}

/// Returns the upper half of a member's hash.
pub(crate) fn short_hash(member: &[u8]) -> u32 {
    (hash(member) >> u32::BITS) as u32
}

/// Returns the hash of an element of the index.
pub(crate) fn hash_of(element: &[u8]) -> u32 {
    u32::from_le_bytes(element.first_chunk().copied().unwrap_or_default())
}

/// Returns the encoded score of an element of the index.
pub(crate) fn indexed_score(element: &[u8]) -> u64 {
    u64::from_le_bytes(rest(element, HASH_BYTES).first_chunk().copied().unwrap_or_default())
}

const ZERO: u64 = 1 << 63;
/// Negative zero as an element of the tree of scores encodes it. No other number is encoded as this
/// value.
const NEGATIVE_ZERO: u64 = ZERO - 1;

/// Encodes a score so that encoded scores compare as integers. Negative zero comes before zero.
pub(crate) fn written_score(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Maps both encoded zeros to the same value, because they are equal in the order of scores.
#[inline]
pub(crate) fn ordered(written: u64) -> u64 {
    if written == NEGATIVE_ZERO { ZERO } else { written }
}

/// Returns the encoded score of an element of the tree of scores, with the sign of a zero.
#[inline]
pub(crate) fn signed_score(element: &[u8]) -> u64 {
    u64::from_le_bytes(element.first_chunk().copied().unwrap_or_default())
}

/// Decodes a score that [`written_score`] encoded.
pub(crate) fn read_score(written: u64) -> f64 {
    f64::from_bits(if written >> 63 == 1 { written ^ 1 << 63 } else { !written })
}

/// Returns the encoded member of an element of the tree of scores.
pub(crate) fn member(element: &[u8]) -> &[u8] {
    rest(element, SCORE_BYTES)
}

/// A bound in the order of scores and members. It lies between two elements, unless an element has
/// exactly this score and member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Border<'a> {
    /// The encoded score.
    pub(crate) score: u64,
    /// If absent, the bound is before or after all elements of this score.
    pub(crate) member: Option<&'a Text<'a>>,
    /// Whether an element of this score, and of this member if there is one, is before the bound.
    pub(crate) is_behind: bool,
}

impl Border<'_> {
    /// Whether an element is before the bound.
    #[inline]
    fn is_behind(self, element: &[u8]) -> bool {
        let score = Scores::key(element);
        match self.member {
            _ if score != self.score => score < self.score,
            None => self.is_behind,
            Some(text) => {
                // SAFETY: elements of trees were written by `Text::write`, and hold references to
                // their strings; packed elements have none stored out of line.
                match text.compare(unsafe { Item::any(member(element)) }) {
                    std::cmp::Ordering::Equal => self.is_behind,
                    order => order == std::cmp::Ordering::Greater,
                }
            }
        }
    }

    /// Returns the child of an inner node below which the bound lies.
    fn child_of(self, inner: &Inner) -> usize {
        let first = inner.below(self.score);
        let after = inner.child_of(self.score) + 1;
        let is_before =
            |child: usize| first_element(inner, child).is_some_and(|it| self.is_behind(it));
        last_before(first, after, is_before)
    }

    /// Returns how many of some consecutive elements are before the bound, and the offset of the
    /// first one that is not.
    pub(crate) fn in_run<'a>(self, elements: impl Iterator<Item = &'a [u8]>) -> (usize, usize) {
        let before = elements.take_while(|element| self.is_behind(element));
        before.fold((0, 0), |(count, bytes), element| (count + 1, bytes + element.len()))
    }
}

/// The position of a bound in a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundPosition<'a> {
    pub(crate) found: FoundLeaf<'a>,
    pub(crate) spot: LeafPosition,
}

/// The result of looking up a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundMember {
    /// The path to its leaf.
    pub(crate) path: Path,
    pub(crate) spot: LeafPosition,
    /// The number of members before it.
    pub(crate) rank: u64,
    /// Its encoded score, with the sign of a zero.
    pub(crate) score: u64,
}

impl BoundPosition<'_> {
    /// Returns the number of elements before the bound.
    pub(crate) fn rank(&self) -> u64 {
        self.found.before + self.found.leaf.place(self.spot) as u64
    }
}

impl Tree<Scores> {
    /// Returns the position of a bound. An element inserted there may have to go before the first
    /// element of the next leaf, but never after it.
    pub(crate) fn seek(&self, border: Border<'_>) -> BoundPosition<'_> {
        let found = self.descend(|inner| border.child_of(inner));
        BoundPosition { found, spot: spot_in(found.leaf, border, border) }
    }

    /// Prefetches the cache lines that are read first to insert a member with this score, given
    /// with its sign.
    #[inline]
    pub(crate) fn prefetch(&self, signed_score: u64) {
        let score = ordered(signed_score);
        self.descend_uncounted(|inner| inner.child_of(score));
    }

    /// Prefetches the elements that are searched and moved to insert a member with this score,
    /// given with its sign.
    #[inline]
    pub(crate) fn prefetch_moved(&self, signed_score: u64) {
        let score = ordered(signed_score);
        let leaf = self.descend_uncounted(|inner| inner.child_of(score)).leaf;
        if leaf.groups() > 0 {
            let group = leaf.group_of(score);
            leaf.prefetch_group(group, Purpose::Insert);
        }
    }

    /// Returns the element with this score and member.
    pub(crate) fn find(&self, score: u64, member: &Text<'_>) -> Option<FoundMember> {
        // A bound just after the element, so that the seek ends in the leaf and group that contain
        // it.
        let after = Border { score, member: Some(member), is_behind: true };
        let BoundPosition { found, .. } = self.seek(after);
        let spot = spot_in(found.leaf, after, Border { is_behind: false, ..after });
        let element = found.leaf.element::<Scores>(spot);
        // SAFETY: as in `Border::is_behind`.
        let is_it = !element.is_empty()
            && Scores::key(element) == score
            && member.is(unsafe { Item::any(self::member(element)) });
        let rank = found.before + found.leaf.place(spot) as u64;
        is_it.then(|| FoundMember { path: found.path, spot, rank, score: signed_score(element) })
    }

    /// Inserts a member that the tree does not contain, with this score, given with its sign.
    pub(crate) fn add(&mut self, signed_score: u64, member: &Text<'_>) {
        let score = ordered(signed_score);
        let mut element = Vec::with_capacity(SCORE_BYTES + member.item_bytes());
        element.extend_from_slice(&signed_score.to_le_bytes());
        member.write(&mut element);
        loop {
            let border = Border { score, member: Some(member), is_behind: false };
            let found = self.descend_uncounted(|inner| border.child_of(inner));
            let spot = spot_in(found.leaf, border, border);
            let place = self.place(&found, spot, element.len());
            if self.insert(&place, score, &element) {
                return;
            }
        }
    }
}

impl Tree<Index> {
    /// Returns the first score under a hash for which `is_it` returns true, and its position.
    pub(crate) fn find(
        &self,
        hash: u32,
        purpose: Purpose,
        mut is_it: impl FnMut(u64) -> bool,
    ) -> Option<(Path, LeafPosition, u64)> {
        let key = u64::from(hash) << u32::BITS;
        let found = self.descend_uncounted(|inner| inner.child_of(key));
        let leaf = found.leaf;
        if leaf.groups() == 0 {
            return None;
        }
        let group = leaf.group_of(key);
        leaf.prefetch_group(group, purpose);
        let (elements, _) = leaf.group_bytes(group).as_chunks::<INDEXED_BYTES>();
        let start = leaf.group(group).start;
        for (index, element) in elements.iter().enumerate() {
            let score = indexed_score(element);
            if hash_of(element) == hash && is_it(score) {
                let start = start + index * INDEXED_BYTES;
                return Some((found.path, LeafPosition { group, index, start }, score));
            }
        }
        None
    }

    /// Adds a score under a hash.
    pub(crate) fn add(&mut self, hash: u32, score: u64) {
        let (key, element) = (u64::from(hash) << u32::BITS, indexed(hash, score));
        loop {
            let found = self.descend_uncounted(|inner| inner.child_of(key));
            let leaf = found.leaf;
            let spot = if leaf.groups() == 0 {
                leaf.spot::<Index>(0)
            } else {
                let group = leaf.group_of(key);
                LeafPosition {
                    group,
                    index: leaf.group(group).elements,
                    start: leaf.group_end(group),
                }
            };
            let place = self.place(&found, spot, element.len());
            if self.insert(&place, key, &element) {
                return;
            }
        }
    }

    /// Replaces a score under a hash, which must exist.
    pub(crate) fn change(&mut self, hash: u32, from: u64, to: u64) {
        while let Some((path, spot, _)) = self.find(hash, Purpose::Read, |score| score == from) {
            if self.replace(&path, spot, &indexed(hash, to)) {
                return;
            }
        }
    }

    /// Removes a score under a hash.
    pub(crate) fn take(&mut self, hash: u32, score: u64) {
        if let Some((path, spot, _)) = self.find(hash, Purpose::Read, |it| it == score) {
            self.remove(&path, spot);
        }
    }
}

fn indexed(hash: u32, score: u64) -> [u8; INDEXED_BYTES] {
    let mut element = [0; INDEXED_BYTES];
    let (first, second) = element.split_at_mut(HASH_BYTES);
    first.copy_from_slice(&hash.to_le_bytes());
    second.copy_from_slice(&score.to_le_bytes());
    element
}

/// Returns the last index in `from..to` that satisfies `is_before`, or the index before the range.
/// The predicate must be monotonic: if it holds for an index, it holds for all earlier ones.
fn last_before(from: usize, to: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut to) = (from, to.max(from));
    while from < to {
        let middle = usize::midpoint(from, to);
        if is_before(middle) { from = middle + 1 } else { to = middle }
    }
    from.saturating_sub(1)
}

/// Returns the first element below a child.
fn first_element(inner: &Inner, child: usize) -> Option<&[u8]> {
    let mut node: Node = inner.node(child)?;
    while node.is_inner() {
        // SAFETY: the node above is borrowed, so it and all nodes below it stay referenced.
        node = unsafe { node.inner() }.node(0)?;
    }
    // SAFETY: as above.
    let leaf: Leaf<'_> = unsafe { node.leaf() };
    (leaf.groups() > 0).then(|| leaf.element::<Scores>(leaf.spot::<Scores>(0)))
}

/// Returns the position of `at` within the group of a leaf that contains `border`.
fn spot_in(leaf: Leaf<'_>, border: Border<'_>, at: Border<'_>) -> LeafPosition {
    let groups = leaf.groups();
    if groups == 0 {
        return leaf.spot::<Scores>(0);
    }
    let after = leaf.group_of(border.score) + 1;
    let first = (0..after).rev().take_while(|it| leaf.group(*it).key >= border.score).last();
    let first = first.unwrap_or(after);
    let is_before = |group: usize| {
        leaf.group_elements::<Scores>(group).next().is_some_and(|it| border.is_behind(it))
    };
    let group = last_before(first, after, is_before);
    leaf.prefetch_group(group, Purpose::Read);
    let (index, bytes) = at.in_run(leaf.group_elements::<Scores>(group));
    LeafPosition { group, index, start: leaf.group(group).start + bytes }
}
