//! The two trees of a sorted set: its members in the order of their scores, and the index that
//! finds a member's score.
//!
//! The index has no members, only the upper half of each one's hash: what it finds is looked up
//! among the members, and two of one hash and score are both found there.

use super::inner::Inner;
use super::layout::{Layout, hash, rest};
use super::leaf::{Leaf, LeafPosition};
use super::node::Node;
use super::root::{FoundLeaf, Path, Tree};
use crate::value::item::{Item, Text, item_bytes};

/// Members after their scores, which are written so that they compare as numbers do.
#[derive(Debug)]
pub(crate) struct Scores;

/// Scores after hashes.
#[derive(Debug)]
pub(crate) struct Index;

const SCORE_BYTES: usize = size_of::<u64>();
const HASH_BYTES: usize = size_of::<u32>();

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
        (HASH_BYTES + SCORE_BYTES).min(bytes.len())
    }

    #[inline]
    fn key(element: &[u8]) -> u64 {
        u64::from(hash_of(element)) << u32::BITS
    }

    fn items(_element: &[u8], _show: impl FnMut(&[u8])) {}
}

/// The upper half of a member's hash.
pub(crate) fn short_hash(member: &[u8]) -> u32 {
    (hash(member) >> u32::BITS) as u32
}

/// The hash of an element of the index.
pub(crate) fn hash_of(element: &[u8]) -> u32 {
    u32::from_le_bytes(element.first_chunk().copied().unwrap_or_default())
}

/// The score of an element of the index, as it is written.
pub(crate) fn indexed_score(element: &[u8]) -> u64 {
    u64::from_le_bytes(rest(element, HASH_BYTES).first_chunk().copied().unwrap_or_default())
}

const ZERO: u64 = 1 << 63;
/// As an element of the tree of scores has it. It follows directly upon no other number.
const NEGATIVE_ZERO: u64 = ZERO - 1;

/// A score so that those written compare as numbers do, but for the zero below zero, which comes
/// before the other one.
pub(crate) fn written_score(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// What [`written_score`] has written so that both zeros are one, as they are in order.
#[inline]
pub(crate) fn ordered(written: u64) -> u64 {
    if written == NEGATIVE_ZERO { ZERO } else { written }
}

/// The score of an element of the tree of scores, as it is written, with a zero's sign.
#[inline]
pub(crate) fn signed_score(element: &[u8]) -> u64 {
    u64::from_le_bytes(element.first_chunk().copied().unwrap_or_default())
}

/// What [`written_score`] has written.
pub(crate) fn read_score(written: u64) -> f64 {
    f64::from_bits(if written >> 63 == 1 { written ^ 1 << 63 } else { !written })
}

/// The member of an element of the tree of scores, as it is written.
pub(crate) fn member(element: &[u8]) -> &[u8] {
    rest(element, SCORE_BYTES)
}

/// A place in the order of scores and members, between two elements unless there is one of this
/// score and member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Border<'a> {
    /// As it is written.
    pub(crate) score: u64,
    /// Before or after all of this score if there is no member.
    pub(crate) member: Option<&'a Text<'a>>,
    /// Whether an element of this score, and of this member if there is one, lies before it.
    pub(crate) is_behind: bool,
}

impl Border<'_> {
    /// Whether an element lies before it.
    #[inline]
    fn is_behind(self, element: &[u8]) -> bool {
        let score = Scores::key(element);
        match self.member {
            _ if score != self.score => score < self.score,
            None => self.is_behind,
            Some(text) => {
                // SAFETY: elements of trees were written by `Text::write`, and hold what they refer
                // to; packed ones have nothing elsewhere.
                match text.compare(unsafe { Item::any(member(element)) }) {
                    std::cmp::Ordering::Equal => self.is_behind,
                    order => order == std::cmp::Ordering::Greater,
                }
            }
        }
    }

    /// The child of an inner node below which it lies.
    fn child_of(self, inner: &Inner) -> usize {
        let first = inner.below(self.score);
        let after = inner.child_of(self.score) + 1;
        let is_before =
            |child: usize| first_element(inner, child).is_some_and(|it| self.is_behind(it));
        last_before(first, after, is_before)
    }

    /// How many elements of a run come before it, and where the first one that does not begins.
    pub(crate) fn in_run<'a>(self, elements: impl Iterator<Item = &'a [u8]>) -> (usize, usize) {
        let before = elements.take_while(|element| self.is_behind(element));
        before.fold((0, 0), |(count, bytes), element| (count + 1, bytes + element.len()))
    }
}

/// Where a border lies in a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundPosition<'a> {
    pub(crate) found: FoundLeaf<'a>,
    pub(crate) spot: LeafPosition,
}

/// A member that was looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundMember {
    /// Where it stands.
    pub(crate) path: Path,
    pub(crate) spot: LeafPosition,
    /// How many come before it.
    pub(crate) rank: u64,
    /// Its score as it is written, with a zero's sign.
    pub(crate) score: u64,
}

impl BoundPosition<'_> {
    /// How many elements lie before it.
    pub(crate) fn rank(&self) -> u64 {
        self.found.before + self.found.leaf.place(self.spot) as u64
    }
}

impl Tree<Scores> {
    /// Where a border lies. What is inserted there may have to stand before the first element of
    /// the next leaf, never after it.
    pub(crate) fn seek(&self, border: Border<'_>) -> BoundPosition<'_> {
        let found = self.descend(|inner| border.child_of(inner));
        BoundPosition { found, spot: spot_in(found.leaf, border, border) }
    }

    /// Asks the processor for what is read first to insert a member with this score, which has its
    /// sign.
    #[inline]
    pub(crate) fn prefetch(&self, signed_score: u64) {
        let score = ordered(signed_score);
        self.descend_uncounted(|inner| inner.child_of(score));
    }

    /// The element of this score and member.
    pub(crate) fn find(&self, score: u64, member: &Text<'_>) -> Option<FoundMember> {
        // Just after it, so that it is in the leaf and in the group that are found.
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

    /// Inserts a member that the tree does not have with this score, which has its sign.
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
    /// The first score under a hash of which `is_it` says so, and where it stands.
    pub(crate) fn find(
        &self,
        hash: u32,
        mut is_it: impl FnMut(u64) -> bool,
    ) -> Option<(Path, LeafPosition, u64)> {
        let key = u64::from(hash) << u32::BITS;
        let found = self.descend_uncounted(|inner| inner.child_of(key));
        let leaf = found.leaf;
        if leaf.groups() == 0 {
            return None;
        }
        let group = leaf.group_of(key);
        let start = leaf.group(group).start;
        for (index, element) in leaf.group_elements::<Index>(group).enumerate() {
            let score = indexed_score(element);
            if hash_of(element) == hash && is_it(score) {
                let start = start + index * element.len();
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

    /// Replaces a score under a hash, which there must be, by another one.
    pub(crate) fn change(&mut self, hash: u32, from: u64, to: u64) {
        while let Some((path, spot, _)) = self.find(hash, |score| score == from) {
            if self.replace(&path, spot, &indexed(hash, to)) {
                return;
            }
        }
    }

    /// Removes a score under a hash.
    pub(crate) fn take(&mut self, hash: u32, score: u64) {
        if let Some((path, spot, _)) = self.find(hash, |it| it == score) {
            self.remove(&path, spot);
        }
    }
}

fn indexed(hash: u32, score: u64) -> [u8; HASH_BYTES + SCORE_BYTES] {
    let mut element = [0; HASH_BYTES + SCORE_BYTES];
    let (first, second) = element.split_at_mut(HASH_BYTES);
    first.copy_from_slice(&hash.to_le_bytes());
    second.copy_from_slice(&score.to_le_bytes());
    element
}

/// The last of those in `from..to` that lies before something, or the one before them; each lies
/// before it if a later one does.
fn last_before(from: usize, to: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut to) = (from, to.max(from));
    while from < to {
        let middle = usize::midpoint(from, to);
        if is_before(middle) { from = middle + 1 } else { to = middle }
    }
    from.saturating_sub(1)
}

/// The first element below a child.
fn first_element(inner: &Inner, child: usize) -> Option<&[u8]> {
    let mut node: Node = inner.node(child)?;
    while node.is_inner() {
        // SAFETY: the node above is borrowed, and so counted with all below it.
        node = unsafe { node.inner() }.node(0)?;
    }
    // SAFETY: as above.
    let leaf: Leaf<'_> = unsafe { node.leaf() };
    (leaf.groups() > 0).then(|| leaf.element::<Scores>(leaf.spot::<Scores>(0)))
}

/// Where `at` lies in the group of a leaf in which `border` does.
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
    let (index, bytes) = at.in_run(leaf.group_elements::<Scores>(group));
    LeafPosition { group, index, start: leaf.group(group).start + bytes }
}
