//! A sorted set: members ordered by score, and by their bytes if scores are equal.
//!
//! Ranges by score, by member and by rank all become ranges of ranks here: a [`Border`] has a rank,
//! and a range is what lies between two borders.

use super::Name;
use crate::packed::{At, Packed, PackedRef};
use crate::tree::blocks::Blocks;
use crate::tree::layout::Layout;
use crate::tree::leaf::Purpose;
use crate::tree::root::Tree;
use crate::tree::scored::{
    self, Border, Index, Scores, ordered, read_score, short_hash, signed_score, written_score,
};
use crate::value::item::{Item, OwnedText, Text};
use crate::value::string::StringValue;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// The limits up to which OBJECT ENCODING says listpack.
#[derive(Clone, Copy, Debug)]
pub struct SortedSetLimits {
    /// `zset-max-listpack-entries`.
    pub entries: usize,
    /// `zset-max-listpack-value`, in bytes.
    pub value_bytes: usize,
}

impl SortedSetLimits {
    /// Limits that select the large form from the first member on, because that form preserves -0.
    pub(crate) const LARGE: SortedSetLimits = SortedSetLimits { entries: 0, value_bytes: 0 };
}

/// A sorted set in the large form.
#[derive(Clone, Debug)]
pub(crate) struct SortedTrees {
    pub(super) scores: Tree<Scores>,
    index: Tree<Index>,
    name: Name,
}

/// A sorted set that can be changed.
#[derive(Debug)]
pub(crate) enum SortedSet {
    /// In the order of scores, as in the tree of scores.
    Packed(Packed<Scores>),
    Tree(Box<SortedTrees>),
}

/// A sorted set borrowed for reading.
#[derive(Clone, Copy, Debug)]
pub struct SortedSetRef<'a>(pub(crate) SortedSetForm<'a>);

/// The two forms of a sorted set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SortedSetForm<'a> {
    Packed(PackedRef<'a, Scores>),
    Tree(&'a SortedTrees),
}

/// A member and its score.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The member's bytes.
    pub name: StringValue<'a>,
    /// The member's score, which may be infinite but not NaN.
    pub score: f64,
    item: Item<'a>,
}

impl<'a> Member<'a> {
    fn of(element: &'a [u8]) -> Self {
        // SAFETY: elements were written by `Text::write`, and hold references to their strings for
        // as long as the collection is borrowed.
        let item = unsafe { Item::any(scored::member(element)) };
        Member { name: item.value(), score: read_score(signed_score(element)), item }
    }

    /// Returns a copy of the member's bytes.
    #[must_use]
    pub fn to_owned_name(&self) -> OwnedText {
        OwnedText::of(self.item)
    }
}

/// Returns the border before the first element whose score is at least `score`, or greater than
/// `score` if `is_behind`.
pub(crate) fn score_border<'a>(score: f64, is_behind: bool) -> Border<'a> {
    Border { score: ordered(written_score(score)), member: None, is_behind }
}

impl<'a> SortedSetRef<'a> {
    /// Returns the number of members.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no stored sorted set is empty")]
    pub fn len(self) -> u64 {
        match self.0 {
            SortedSetForm::Packed(packed) => packed.len() as u64,
            SortedSetForm::Tree(trees) => trees.scores.len(),
        }
    }

    /// Returns the memory of the sorted set in bytes, in addition to the entry's word.
    pub fn bytes(self) -> u64 {
        match self.0 {
            SortedSetForm::Packed(packed) => packed.as_bytes().len() as u64,
            SortedSetForm::Tree(trees) => {
                size_of::<SortedTrees>() as u64 + trees.scores.bytes() + trees.index.bytes()
            }
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
            SortedSetForm::Packed(packed) => Name::from_byte(packed.name()),
            SortedSetForm::Tree(trees) => trees.name,
        }
    }

    /// Whether Redis would use a listpack, which some replies reveal.
    #[must_use]
    pub fn is_listpack(self) -> bool {
        self.name() == Name::Listpack
    }

    /// Returns the score of a member.
    pub fn score(self, member: &Text<'_>) -> Option<f64> {
        self.written(member, Purpose::Read).map(|(score, _)| read_score(score))
    }

    /// Returns the rank of a member, and its score.
    pub fn rank(self, member: &Text<'_>) -> Option<(u64, f64)> {
        let (score, rank) = self.written(member, Purpose::Read)?;
        Some((rank, read_score(score)))
    }

    /// Returns a member's stored score, with the sign of a zero, and its rank.
    fn written(self, member: &Text<'_>, purpose: Purpose) -> Option<(u64, u64)> {
        match self.0 {
            SortedSetForm::Packed(packed) => {
                let (rank, at) = find_packed(packed, member)?;
                Some((signed_score(at.element), rank))
            }
            SortedSetForm::Tree(trees) => {
                let mut found = None;
                let is_it = |score| {
                    found = trees.scores.find(score, member);
                    found.is_some()
                };
                trees.index.find(short_hash(member.source()), purpose, is_it)?;
                found.map(|found| (found.score, found.rank))
            }
        }
    }

    /// Returns the member at a rank.
    pub fn select(self, rank: u64) -> Option<Member<'a>> {
        let element = match self.0 {
            SortedSetForm::Packed(packed) => packed.select(rank as usize)?.element,
            SortedSetForm::Tree(trees) => trees.scores.select(rank)?,
        };
        Some(Member::of(element))
    }

    /// Returns the rank of a border: a [`score_border`], or, if all scores are equal, a border at a
    /// member with that score.
    pub(crate) fn rank_of(self, border: Border<'_>) -> u64 {
        match self.0 {
            SortedSetForm::Packed(packed) => {
                border.in_run(packed.elements().map(|it| it.element)).0 as u64
            }
            SortedSetForm::Tree(trees) => trees.scores.seek(border).rank(),
        }
    }

    /// Visits members from a rank on, until `visit` breaks.
    pub fn walk<B>(
        self,
        rank: u64,
        mut visit: impl FnMut(Member<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        match self.0 {
            SortedSetForm::Packed(packed) => {
                let shown = packed.elements().skip(rank as usize);
                shown.map(|it| visit(Member::of(it.element))).find_map(ControlFlow::break_value)
            }
            SortedSetForm::Tree(trees) => {
                trees.scores.walk(rank, |element| visit(Member::of(element)))
            }
        }
    }

    /// Visits members from a rank on in descending order, until `visit` breaks.
    pub fn walk_back<B>(
        self,
        rank: u64,
        mut visit: impl FnMut(Member<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        match self.0 {
            SortedSetForm::Packed(packed) => {
                let all: Vec<At<'_>> = packed.elements().collect();
                let shown = all.iter().take((rank as usize).saturating_add(1)).rev();
                shown.map(|it| visit(Member::of(it.element))).find_map(ControlFlow::break_value)
            }
            SortedSetForm::Tree(trees) => {
                trees.scores.walk_back(rank, |element| visit(Member::of(element)))
            }
        }
    }

    /// Prefetches the memory that is read first when a member with this score is inserted.
    #[inline]
    pub(crate) fn prefetch(self, score: f64) {
        if let SortedSetForm::Tree(trees) = self.0 {
            trees.scores.prefetch(written_score(score));
        }
    }

    /// Begins to scan for about `count` members from a cursor on. A cursor is a hash, so members
    /// that stay in the sorted set are shown even if their scores change.
    pub fn scan(self, cursor: u64, count: usize) -> SortedSetScan {
        match self.0 {
            SortedSetForm::Packed(_) => SortedSetScan::default(),
            SortedSetForm::Tree(trees) => SortedSetScan::plan(trees, cursor, count),
        }
    }

    /// Returns a clone: a copy of the packed bytes, or references to trees.
    #[cfg(test)]
    pub(crate) fn to_owned(self) -> SortedSet {
        match self.0 {
            SortedSetForm::Packed(packed) => {
                SortedSet::Packed(Packed::from_bytes(packed.as_bytes().to_vec()))
            }
            SortedSetForm::Tree(trees) => SortedSet::Tree(Box::new(trees.clone())),
        }
    }
}

fn find_packed<'a>(packed: PackedRef<'a, Scores>, member: &Text<'_>) -> Option<(u64, At<'a>)> {
    let is_it = |it: &At<'_>| member.is(Item::inline(scored::member(it.element)));
    (0..).zip(packed.elements()).find(|(_, at)| is_it(at))
}

/// The remainder of one step of a scan: the members whose hashes are in a range. The index has
/// their scores; among members that share a score, all have to be examined. A step therefore shows
/// one member for each [`LOOKED_AT`] that it examines, if necessary more than requested, and may be
/// executed in pieces, on a clone.
#[derive(Clone, Debug, Default)]
pub struct SortedSetScan {
    /// The range of hashes.
    range: Range<u64>,
    /// The stored scores of the members in that range.
    scores: Vec<u64>,
    /// Where to continue among the members with the last score, if it was not finished.
    rank: Option<u64>,
    /// The next cursor, 0 at the end.
    pub next: u64,
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
                // Groups begin before the cursor if there are now fewer groups.
                let next = next.map_or(0, |key| key >> u32::BITS);
                return SortedSetScan { range: cursor..to, scores, rank: None, next };
            }
            count += (looked_at / LOOKED_AT) as usize;
        }
    }

    /// Shows members, examining no more than about `most`. Returns whether all have been shown.
    /// `set` is the sorted set for which the step was begun, unchanged, or a clone of it. All
    /// members of a packed sorted set are shown at once.
    pub fn show(
        &mut self,
        set: SortedSetRef<'_>,
        most: u64,
        mut show: impl FnMut(Member<'_>),
    ) -> bool {
        let trees = match set.0 {
            SortedSetForm::Packed(packed) => {
                packed.elements().for_each(|it| show(Member::of(it.element)));
                return true;
            }
            SortedSetForm::Tree(trees) => trees,
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
    /// Borrows the sorted set for reading.
    pub(crate) fn read(&self) -> SortedSetRef<'_> {
        match self {
            SortedSet::Packed(packed) => SortedSetRef(SortedSetForm::Packed(packed.read())),
            SortedSet::Tree(trees) => SortedSetRef(SortedSetForm::Tree(trees)),
        }
    }
    fn set_name(&mut self, name: Name) {
        match self {
            SortedSet::Packed(packed) => packed.set_name(name as u8),
            SortedSet::Tree(trees) => trees.name = name,
        }
    }

    /// Changes the encoding's name to skiplist.
    pub(crate) fn outgrow(&mut self) {
        self.set_name(Name::Skiplist);
    }

    /// Sets the score of a member, which is not NaN. Returns the old one.
    pub(crate) fn set(
        &mut self,
        member: &Text<'_>,
        score: f64,
        limits: SortedSetLimits,
        blocks: &Arc<Blocks>,
    ) -> Option<f64> {
        self.update(member, |_| Some(score), limits, blocks).0
    }

    /// Sets the score of a member to the result of `choose` for its current score, if any; `None`
    /// leaves the member unchanged. Returns the old score and the chosen one.
    pub(crate) fn update(
        &mut self,
        member: &Text<'_>,
        choose: impl FnOnce(Option<f64>) -> Option<f64>,
        limits: SortedSetLimits,
        blocks: &Arc<Blocks>,
    ) -> (Option<f64>, Option<f64>) {
        let before = self.read().written(member, Purpose::Insert).map(|it| it.0);
        let chosen = choose(before.map(read_score));
        if let Some(score) = chosen {
            self.replace(member, before, score, limits, blocks);
        }
        (before.map(read_score), chosen)
    }

    /// Replaces the score of a member; `old` is the stored one.
    fn replace(
        &mut self,
        member: &Text<'_>,
        before: Option<u64>,
        score: f64,
        limits: SortedSetLimits,
        blocks: &Arc<Blocks>,
    ) {
        if before.is_some_and(|before| ordered(before) == ordered(written_score(score))) {
            return;
        }
        if before.is_none() && self.read().name() != Name::Skiplist {
            let is_large = self.read().len() >= limits.entries as u64;
            if is_large || member.len() > limits.value_bytes {
                self.set_name(Name::Skiplist);
            }
        }
        // Redis stores integral scores in a listpack as integers, which have no -0.
        let is_signed = self.read().name() == Name::Skiplist;
        let score = written_score(if is_signed { score } else { score + 0.0 });
        let fits =
            |packed: &Packed<Scores>| !member.is_long() && packed.fits(8 + member.item_bytes());
        if matches!(self, SortedSet::Packed(packed) if !fits(packed)) {
            self.become_tree(blocks);
        }
        match self {
            SortedSet::Packed(packed) => set_packed(packed, member, score),
            SortedSet::Tree(trees) => trees.set(member, before, score),
        }
    }

    fn become_tree(&mut self, blocks: &Arc<Blocks>) {
        let (scores, index) = (Tree::new(blocks), Tree::new(blocks));
        let mut trees = Box::new(SortedTrees { scores, index, name: self.read().name() });
        if let SortedSet::Packed(packed) = self {
            for At { element, .. } in packed.read().elements() {
                let score = signed_score(element);
                let member = Item::inline(scored::member(element));
                member.with_bytes(|bytes| trees.set(&Text::new(bytes), None, score));
            }
        }
        *self = SortedSet::Tree(trees);
    }

    /// Sets the encoding's name according to the limits, for a sorted set that was built with other
    /// limits and is complete; its longest member has this many bytes.
    pub(crate) fn settle_name(
        &mut self,
        longest: usize,
        limits: SortedSetLimits,
        blocks: &Arc<Blocks>,
    ) {
        let len = self.read().len();
        let is_large = len > limits.entries as u64 || longest > limits.value_bytes;
        self.set_name(if is_large { Name::Skiplist } else { Name::Listpack });
        if is_large {
            return;
        }
        let border = |is_behind| self.read().rank_of(score_border(0.0, is_behind));
        for rank in border(false)..border(true) {
            let negative = self.read().select(rank).filter(|it| it.score.is_sign_negative());
            let Some(name) = negative.map(|it| it.name.with_bytes(<[u8]>::to_vec)) else {
                continue;
            };
            self.remove(&Text::new(&name));
            self.set(&Text::new(&name), 0.0, limits, blocks);
        }
    }

    /// Removes a member. Returns its score.
    pub(crate) fn remove(&mut self, member: &Text<'_>) -> Option<f64> {
        let score = self.read().written(member, Purpose::Read)?.0;
        match self {
            SortedSet::Packed(packed) => {
                let found = find_packed(packed.read(), member).map(|(_, at)| at.start);
                found.into_iter().for_each(|start| packed.remove(start));
            }
            SortedSet::Tree(trees) => {
                trees.remove_score(member, score);
                trees.index.take(short_hash(member.source()), ordered(score));
            }
        }
        Some(read_score(score))
    }

    /// Removes at most `most` members of a range of ranks. Returns how many. The rest of the range
    /// then begins at the same rank.
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
    let border = Border { score: ordered(score), member: Some(member), is_behind: false };
    let (_, bytes) = border.in_run(packed.read().elements().map(|it| it.element));
    packed.insert(packed.read().start() + bytes, &element);
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
                self.index.change(hash, ordered(before), ordered(score));
            }
            None => {
                self.scores.prefetch_moved(score);
                self.index.add(hash, ordered(score));
            }
        }
        self.scores.add(score, member);
    }

    fn remove_score(&mut self, member: &Text<'_>, score: u64) {
        if let Some(found) = self.scores.find(ordered(score), member) {
            self.scores.remove(&found.path, found.spot);
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
