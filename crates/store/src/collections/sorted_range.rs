//! Ranges of a sorted set by score or by member, converted to ranges of ranks.

use super::sorted_set::{SortedSetForm, SortedSetRef, score_border};
use crate::packed::At;
use crate::tree::layout::Layout;
use crate::tree::scored::{self, Border, Scores};
use crate::value::item::{Item, Text};
use std::cmp::Ordering;
use std::ops::Range;

/// The bound of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score; it may be infinite but not NaN.
    pub score: f64,
    /// Whether the bound itself is excluded.
    pub is_exclusive: bool,
}

/// The bound of a range of members, in the order of their bytes.
#[derive(Clone, Copy, Debug)]
pub enum MemberBound<'a> {
    /// Before all members.
    Least,
    /// After all members.
    Greatest,
    /// At this member; it is excluded if the second field is true.
    At(&'a Text<'a>, bool),
}

impl MemberBound<'_> {
    /// Whether a member is within the range that starts at this bound.
    fn is_begun(self, member: Item<'_>) -> bool {
        match self {
            MemberBound::Least => true,
            MemberBound::Greatest => false,
            MemberBound::At(text, is_exclusive) => match text.compare(member) {
                Ordering::Less => true,
                Ordering::Equal => !is_exclusive,
                Ordering::Greater => false,
            },
        }
    }

    /// Whether a member is within the range that ends at this bound.
    fn is_ahead(self, member: Item<'_>) -> bool {
        match self {
            MemberBound::Least => false,
            MemberBound::Greatest => true,
            MemberBound::At(text, is_exclusive) => match text.compare(member) {
                Ordering::Less => false,
                Ordering::Equal => !is_exclusive,
                Ordering::Greater => true,
            },
        }
    }
}

impl SortedSetRef<'_> {
    /// Returns the range of ranks of the members with scores in a range.
    #[must_use]
    pub fn with_scores(self, min: ScoreBound, max: ScoreBound) -> Range<u64> {
        let start = self.rank_of(score_border(min.score, min.is_exclusive));
        let end = self.rank_of(score_border(max.score, !max.is_exclusive));
        start..end.max(start)
    }

    /// Returns the range of ranks of the members in a range, in a sorted set whose scores are all
    /// equal. If the scores differ, the result for a packed sorted set is the range that a scan
    /// from the start finds, or from the end with `from_end`.
    #[must_use]
    pub fn with_members(
        self,
        min: MemberBound<'_>,
        max: MemberBound<'_>,
        from_end: bool,
    ) -> Range<u64> {
        match self.0 {
            SortedSetForm::Packed(packed) => {
                let item = |at: At<'_>| (min.is_begun(item_of(&at)), max.is_ahead(item_of(&at)));
                walked(&packed.elements().map(item).collect::<Vec<_>>(), from_end)
            }
            SortedSetForm::Tree(_) => {
                let start = self.rank_of_member(min, false);
                start..self.rank_of_member(max, true).max(start)
            }
        }
    }

    /// Returns the number of members before a bound in a tree.
    fn rank_of_member(self, bound: MemberBound<'_>, is_end: bool) -> u64 {
        let first = match self.0 {
            SortedSetForm::Packed(packed) => packed.select(0).map(|it| Scores::key(it.element)),
            SortedSetForm::Tree(trees) => trees.scores.select(0).map(Scores::key),
        };
        match bound {
            MemberBound::Least => 0,
            MemberBound::Greatest => self.len(),
            MemberBound::At(member, is_exclusive) => self.rank_of(Border {
                score: first.unwrap_or_default(),
                member: Some(member),
                is_behind: is_exclusive != is_end,
            }),
        }
    }
}

fn item_of<'a>(at: &At<'a>) -> Item<'a> {
    Item::inline(scored::member(at.element))
}

/// Returns the range that a scan finds. For each element, the pair tells whether it is after the
/// start, and whether it is before the end.
fn walked(elements: &[(bool, bool)], from_end: bool) -> Range<u64> {
    let is_within = |at: &usize| elements.get(*at).is_some_and(|it| it.0 && it.1);
    let may_be = elements.last().is_some_and(|it| it.0) && elements.first().is_some_and(|it| it.1);
    let found = if from_end {
        elements.iter().rposition(|it| it.1).filter(is_within).map(|last| {
            let up_to = elements.get(..=last).unwrap_or_default();
            last + 1 - up_to.iter().rev().take_while(|it| it.0).count()..last + 1
        })
    } else {
        elements.iter().position(|it| it.0).filter(is_within).map(|first| {
            let rest = elements.get(first..).unwrap_or_default();
            first..first + rest.iter().take_while(|it| it.1).count()
        })
    };
    let range = found.filter(|_| may_be).unwrap_or(0..0);
    range.start as u64..range.end as u64
}
