//! A sorted set: members in the order of their scores, and of their bytes where these are equal.
//!
//! Ranges by score, by member and by rank are all ranges of ranks here: a [`Border`] has a rank,
//! and a range is what lies between two.

use super::Name;
use crate::packed::{At, Packed, PackedRef};
use crate::tree::blocks::Blocks;
use crate::tree::layout::Layout;
use crate::tree::root::Tree;
use crate::tree::scored::{self, Border, Index, Scores, read_score, short_hash, written_score};
use crate::value::item::{Item, Text};
use crate::value::string::StringValue;
use std::ops::{ControlFlow, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// Up to where OBJECT ENCODING says listpack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortedSetLimits {
    /// `zset-max-listpack-entries`.
    pub(crate) entries: usize,
    /// `zset-max-listpack-value`, in bytes.
    pub(crate) value_bytes: usize,
}

/// A sorted set that has outgrown the packed form.
#[derive(Clone, Debug)]
pub(crate) struct SortedTrees {
    scores: Tree<Scores>,
    index: Tree<Index>,
    name: Name,
}

/// A sorted set to be changed.
#[derive(Debug)]
pub(crate) enum SortedSet {
    /// In the order of scores as well.
    Packed(Packed<Scores>),
    Tree(Box<SortedTrees>),
}

/// A sorted set to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SortedSetRef<'a> {
    Packed(PackedRef<'a, Scores>),
    Tree(&'a SortedTrees),
}

/// A member with its score.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) name: StringValue<'a>,
    pub(crate) score: f64,
}

impl<'a> Member<'a> {
    fn of(element: &'a [u8]) -> Self {
        // SAFETY: elements were written by `Text::write`, and hold what they refer to for as long
        // as the collection is borrowed.
        let name = unsafe { Item::any(scored::member(element)) }.value();
        Member { name, score: read_score(Scores::key(element)) }
    }
}

/// Before the first element whose score is not below this, or above it if `is_behind`.
pub(crate) fn score_border<'a>(score: f64, is_behind: bool) -> Border<'a> {
    Border { score: written_score(score), member: None, is_behind }
}

impl<'a> SortedSetRef<'a> {
    /// A packed sorted set's bytes.
    pub(crate) fn packed(bytes: &'a [u8]) -> Self {
        SortedSetRef::Packed(PackedRef::new(bytes))
    }

    /// A tree that an entry holds.
    ///
    /// # Safety
    /// The word came from [`SortedSet::into_word`], was not taken back, and the tree is not changed
    /// during `'a`.
    pub(crate) unsafe fn word(word: NonNull<SortedTrees>) -> Self {
        // SAFETY: the caller's promise.
        SortedSetRef::Tree(unsafe { word.as_ref() })
    }

    /// How many members there are.
    pub(crate) fn len(self) -> u64 {
        match self {
            SortedSetRef::Packed(packed) => packed.len() as u64,
            SortedSetRef::Tree(trees) => trees.scores.len(),
        }
    }

    /// Memory that it takes, in bytes, beside that of the entry's word.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            SortedSetRef::Packed(packed) => packed.as_bytes().len() as u64,
            SortedSetRef::Tree(trees) => {
                size_of::<SortedTrees>() as u64 + trees.scores.bytes() + trees.index.bytes()
            }
        }
    }

    /// What OBJECT ENCODING says.
    pub(crate) fn name(self) -> Name {
        match self {
            SortedSetRef::Packed(packed) => Name::from_byte(packed.name()),
            SortedSetRef::Tree(trees) => trees.name,
        }
    }

    /// The score of a member.
    pub(crate) fn score(self, member: &Text<'_>) -> Option<f64> {
        self.written(member).map(|(score, _)| read_score(score))
    }

    /// How many members come before one, and its score.
    pub(crate) fn rank(self, member: &Text<'_>) -> Option<(u64, f64)> {
        let (score, rank) = self.written(member)?;
        Some((rank, read_score(score)))
    }

    /// A member's score as it is written, and its rank.
    fn written(self, member: &Text<'_>) -> Option<(u64, u64)> {
        match self {
            SortedSetRef::Packed(packed) => {
                let (rank, at) = find_packed(packed, member)?;
                Some((Scores::key(at.element), rank))
            }
            SortedSetRef::Tree(trees) => {
                let mut rank = 0;
                let is_it = |score| {
                    let found = trees.scores.find(score, member);
                    found.inspect(|found| rank = found.2).is_some()
                };
                let (_, _, score) = trees.index.find(short_hash(member.source()), is_it)?;
                Some((score, rank))
            }
        }
    }

    /// The member with so many before it.
    pub(crate) fn select(self, rank: u64) -> Option<Member<'a>> {
        let element = match self {
            SortedSetRef::Packed(packed) => packed.select(rank as usize)?.element,
            SortedSetRef::Tree(trees) => trees.scores.select(rank)?,
        };
        Some(Member::of(element))
    }

    /// How many members come before a border: of scores, [`score_border`]; of members in a sorted
    /// set whose scores are all equal, one with that score.
    pub(crate) fn rank_of(self, border: Border<'_>) -> u64 {
        match self {
            SortedSetRef::Packed(packed) => {
                border.in_run(packed.elements().map(|it| it.element)).0 as u64
            }
            SortedSetRef::Tree(trees) => trees.scores.seek(border).rank(),
        }
    }

    /// Shows members from the one with so many before it on, until `visit` breaks off.
    pub(crate) fn walk<B>(
        self,
        rank: u64,
        mut visit: impl FnMut(Member<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        match self {
            SortedSetRef::Packed(packed) => {
                let shown = packed.elements().skip(rank as usize);
                shown.map(|it| visit(Member::of(it.element))).find_map(ControlFlow::break_value)
            }
            SortedSetRef::Tree(trees) => {
                trees.scores.walk(rank, |element| visit(Member::of(element)))
            }
        }
    }

    /// The same against the order, from the member with so many before it on.
    pub(crate) fn walk_back<B>(
        self,
        rank: u64,
        mut visit: impl FnMut(Member<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        match self {
            SortedSetRef::Packed(packed) => {
                let all: Vec<At<'_>> = packed.elements().collect();
                let shown = all.iter().take((rank as usize).saturating_add(1)).rev();
                shown.map(|it| visit(Member::of(it.element))).find_map(ControlFlow::break_value)
            }
            SortedSetRef::Tree(trees) => {
                trees.scores.walk_back(rank, |element| visit(Member::of(element)))
            }
        }
    }

    /// Begins to look for about `count` members from a cursor on. A cursor is a hash, so members
    /// that stay in the sorted set are shown whatever becomes of their scores.
    pub(crate) fn scan(self, cursor: u64, count: usize) -> SortedSetScan {
        match self {
            SortedSetRef::Packed(_) => SortedSetScan::default(),
            SortedSetRef::Tree(trees) => SortedSetScan::plan(trees, cursor, count),
        }
    }

    /// A copy of its own: the bytes of a packed one, references to trees.
    pub(crate) fn to_owned(self) -> SortedSet {
        match self {
            SortedSetRef::Packed(packed) => {
                SortedSet::Packed(Packed::from_bytes(packed.as_bytes().to_vec()))
            }
            SortedSetRef::Tree(trees) => SortedSet::Tree(Box::new(trees.clone())),
        }
    }
}

fn find_packed<'a>(packed: PackedRef<'a, Scores>, member: &Text<'_>) -> Option<(u64, At<'a>)> {
    let is_it = |it: &At<'_>| member.is(Item::inline(scored::member(it.element)));
    (0..).zip(packed.elements()).find(|(_, at)| is_it(at))
}

/// What is left to be shown of a scan's step: the members whose hashes lie in a range. The index
/// knows their scores; of those that share theirs with many, all have to be looked at. So a step
/// shows one for each [`LOOKED_AT`] that it looks at, if need be more than it was asked for, and
/// may be done a piece at a time, on a clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SortedSetScan {
    /// Of hashes.
    range: Range<u64>,
    /// Scores of what lies there, as they are written.
    scores: Vec<u64>,
    /// Where to go on among those of the last score, if it was not finished.
    rank: Option<u64>,
    /// The cursor to go on with, 0 at the end.
    pub(crate) next: u64,
}

const LOOKED_AT: u64 = 256;

impl SortedSetScan {
    fn plan(trees: &SortedTrees, cursor: u64, count: usize) -> Self {
        let from = cursor << u32::BITS;
        let mut count = count;
        loop {
            let mut scores = Vec::new();
            let mut shown = 0;
            let next = trees.index.scan_keys(from, count, |element| {
                shown += 1;
                scores.push(scored::indexed_score(element));
            });
            scores.sort_unstable();
            scores.dedup();
            let border = |score, is_behind| Border { score, member: None, is_behind };
            let rank = |border| trees.scores.seek(border).rank();
            let runs = scores.iter().map(|it| rank(border(*it, true)) - rank(border(*it, false)));
            let looked_at: u64 = runs.sum();
            if next.is_none() || shown * LOOKED_AT >= looked_at {
                let to = next.map_or(1 << 32, |key| key >> u32::BITS);
                // Groups begin before the cursor if there are fewer than there were.
                let next = next.map_or(0, |key| key >> u32::BITS);
                return SortedSetScan { range: cursor..to, scores, rank: None, next };
            }
            count += (looked_at / LOOKED_AT) as usize;
        }
    }

    /// Shows members, looking at no more than about `most`; whether all have been shown. `set` is
    /// the one for which the step was begun, unchanged, or a clone. A packed one shows all.
    pub(crate) fn show(
        &mut self,
        set: SortedSetRef<'_>,
        most: u64,
        mut show: impl FnMut(Member<'_>),
    ) -> bool {
        let trees = match set {
            SortedSetRef::Packed(packed) => {
                packed.elements().for_each(|it| show(Member::of(it.element)));
                return true;
            }
            SortedSetRef::Tree(trees) => trees,
        };
        let mut left = most;
        while let Some(score) = self.scores.last().copied() {
            let border = Border { score, member: None, is_behind: false };
            let rank = self.rank.take().unwrap_or_else(|| trees.scores.seek(border).rank());
            let mut looked_at = 0;
            let broken_off = trees.scores.walk(rank, |element| {
                if Scores::key(element) != score {
                    return ControlFlow::Break(true);
                }
                if looked_at >= left {
                    return ControlFlow::Break(false);
                }
                looked_at += 1;
                let member = Member::of(element);
                if self.range.contains(&member.name.with_bytes(short_hash).into()) {
                    show(member);
                }
                ControlFlow::Continue(())
            });
            if broken_off == Some(false) {
                self.rank = Some(rank + looked_at);
                return false;
            }
            left -= looked_at.min(left);
            self.scores.pop();
        }
        true
    }
}

impl Default for SortedSet {
    fn default() -> Self {
        SortedSet::Packed(Packed::new(Name::Listpack as u8))
    }
}

impl SortedSet {
    /// Takes a tree out of an entry.
    ///
    /// # Safety
    /// The word came from [`SortedSet::into_word`], and is not used any more.
    pub(crate) unsafe fn from_word(word: NonNull<SortedTrees>) -> Self {
        // SAFETY: the caller's promise.
        SortedSet::Tree(unsafe { Box::from_raw(word.as_ptr()) })
    }

    /// The trees as a word for an entry to hold, or the packed sorted set if that is what it is.
    pub(crate) fn into_word(self) -> Result<NonNull<SortedTrees>, Packed<Scores>> {
        match self {
            SortedSet::Packed(packed) => Err(packed),
            SortedSet::Tree(trees) => Ok(NonNull::from(Box::leak(trees))),
        }
    }

    /// It to be read.
    pub(crate) fn read(&self) -> SortedSetRef<'_> {
        match self {
            SortedSet::Packed(packed) => SortedSetRef::Packed(packed.read()),
            SortedSet::Tree(trees) => SortedSetRef::Tree(trees),
        }
    }

    /// Whether dropping it takes no longer than a few microseconds.
    pub(crate) fn is_small(&self) -> bool {
        match self {
            SortedSet::Packed(_) => true,
            SortedSet::Tree(trees) => trees.scores.is_small() && trees.index.is_small(),
        }
    }

    fn set_name(&mut self, name: Name) {
        match self {
            SortedSet::Packed(packed) => packed.set_name(name as u8),
            SortedSet::Tree(trees) => trees.name = name,
        }
    }

    /// Says that so many members, of which the longest has so many bytes, are about to be added to
    /// an empty sorted set, which may change the encoding's name even if they are fewer in the end.
    pub(crate) fn expect(&mut self, members: usize, longest: usize, limits: SortedSetLimits) {
        if members > limits.entries || longest > limits.value_bytes {
            self.set_name(Name::Skiplist);
        }
    }

    /// Gives a member a score, which is no NaN; the one that it had.
    pub(crate) fn set(
        &mut self,
        member: &Text<'_>,
        score: f64,
        limits: SortedSetLimits,
        blocks: &Arc<Blocks>,
    ) -> Option<f64> {
        let score = written_score(score);
        let before = self.read().written(member).map(|it| it.0);
        if before == Some(score) {
            return before.map(read_score);
        }
        let fits =
            |packed: &Packed<Scores>| !member.is_long() && packed.fits(8 + member.item_bytes());
        if matches!(self, SortedSet::Packed(packed) if !fits(packed)) {
            self.become_tree(blocks);
        }
        match self {
            SortedSet::Packed(packed) => set_packed(packed, member, score),
            SortedSet::Tree(trees) => trees.set(member, before, score),
        }
        if before.is_none() && self.read().name() != Name::Skiplist {
            let is_large = self.read().len() > limits.entries as u64;
            if is_large || member.len() > limits.value_bytes {
                self.set_name(Name::Skiplist);
            }
        }
        before.map(read_score)
    }

    fn become_tree(&mut self, blocks: &Arc<Blocks>) {
        let (scores, index) = (Tree::new(blocks), Tree::new(blocks));
        let mut trees = Box::new(SortedTrees { scores, index, name: self.read().name() });
        if let SortedSet::Packed(packed) = self {
            for At { element, .. } in packed.read().elements() {
                let score = Scores::key(element);
                let member = Item::inline(scored::member(element));
                member.with_bytes(|bytes| trees.set(&Text::new(bytes), None, score));
            }
        }
        *self = SortedSet::Tree(trees);
    }

    /// Removes a member; the score that it had.
    pub(crate) fn remove(&mut self, member: &Text<'_>) -> Option<f64> {
        let score = self.read().written(member)?.0;
        match self {
            SortedSet::Packed(packed) => {
                let found = find_packed(packed.read(), member).map(|(_, at)| at.start);
                found.into_iter().for_each(|start| packed.remove(start));
            }
            SortedSet::Tree(trees) => {
                trees.remove_score(member, score);
                trees.index.take(short_hash(member.source()), score);
            }
        }
        Some(read_score(score))
    }

    /// Removes the members of a range of ranks, at most so many; how many. Those that are left of
    /// the range begin where it does.
    pub(crate) fn remove_range(&mut self, ranks: Range<u64>, most: u64) -> u64 {
        let len = self.read().len();
        let count = (ranks.end.min(len)).saturating_sub(ranks.start).min(most);
        for _ in 0..count {
            match self {
                SortedSet::Packed(packed) => {
                    let found = packed.read().select(ranks.start as usize).map(|it| it.start);
                    found.into_iter().for_each(|start| packed.remove(start));
                }
                SortedSet::Tree(trees) => trees.remove_at(ranks.start),
            }
        }
        count
    }
}

fn set_packed(packed: &mut Packed<Scores>, member: &Text<'_>, score: u64) {
    let before = find_packed(packed.read(), member).map(|(_, at)| at.start);
    before.into_iter().for_each(|start| packed.remove(start));
    let mut element = Vec::with_capacity(8 + member.item_bytes());
    element.extend_from_slice(&score.to_le_bytes());
    member.write(&mut element);
    let border = Border { score, member: Some(member), is_behind: false };
    let (_, bytes) = border.in_run(packed.read().elements().map(|it| it.element));
    packed.insert(crate::packed::START + bytes, &element);
}

impl SortedTrees {
    #[cfg(test)]
    pub(crate) fn check(&self) {
        crate::tree::tests::check(&self.scores);
        crate::tree::tests::check(&self.index);
        assert_eq!(self.scores.len(), self.index.len());
    }

    fn set(&mut self, member: &Text<'_>, before: Option<u64>, score: u64) {
        let hash = short_hash(member.source());
        match before {
            Some(before) => {
                self.remove_score(member, before);
                self.index.change(hash, before, score);
            }
            None => self.index.add(hash, score),
        }
        self.scores.add(score, member);
    }

    fn remove_score(&mut self, member: &Text<'_>, score: u64) {
        if let Some((path, spot, _)) = self.scores.find(score, member) {
            self.scores.remove(&path, spot);
        }
    }

    fn remove_at(&mut self, rank: u64) {
        let Some(element) = self.scores.select(rank) else { return };
        let (score, name) = (Scores::key(element), Member::of(element).name);
        let hash = name.with_bytes(short_hash);
        self.index.take(hash, score);
        self.scores.remove_at(rank);
    }
}
