//! Ranges of sorted sets in requests: from one rank, score or member to another.

use crate::Error;
use crate::families::elements::write_member;
use crate::runtime::arguments::integer;
use crate::runtime::numbers::bound;
use nagi_proto::resp::Writer;
use nagi_store::{Member, MemberBound, ScoreBound, SortedSetRef, Text};
use std::ops::{ControlFlow, Range};

/// The unit in which a range is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Member,
}

/// The bounds of a range.
#[derive(Clone, Debug)]
pub(super) enum Span<'a> {
    /// Ranks, both inclusive; negative ranks count from the end.
    Ranks(i64, i64),
    Scores(ScoreBound, ScoreBound),
    Members(MemberLimit<'a>, MemberLimit<'a>),
}

/// A bound of a range of members.
#[derive(Clone, Debug)]
pub(super) enum MemberLimit<'a> {
    Least,
    Greatest,
    /// This member, which is excluded if the `bool` is `true`.
    At(Text<'a>, bool),
}

impl<'a> MemberLimit<'a> {
    fn parse(argument: &'a [u8]) -> Option<Self> {
        match argument {
            b"-" => Some(MemberLimit::Least),
            b"+" => Some(MemberLimit::Greatest),
            [b'[', member @ ..] => Some(MemberLimit::At(Text::new(member), false)),
            [b'(', member @ ..] => Some(MemberLimit::At(Text::new(member), true)),
            _ => None,
        }
    }

    fn bound(&self) -> MemberBound<'_> {
        match self {
            MemberLimit::Least => MemberBound::Least,
            MemberLimit::Greatest => MemberBound::Greatest,
            MemberLimit::At(member, is_exclusive) => MemberBound::At(member, *is_exclusive),
        }
    }
}

fn score_bound(argument: &[u8]) -> Option<ScoreBound> {
    let (text, is_exclusive) = match argument {
        [b'(', text @ ..] => (text, true),
        text => (text, false),
    };
    Some(ScoreBound { score: bound(text)?, is_exclusive })
}

impl<'a> Span<'a> {
    /// Parses the bounds of a range.
    pub(super) fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Self, Error> {
        match by {
            By::Rank => Ok(Span::Ranks(integer(min)?, integer(max)?)),
            By::Score => {
                let bounds = score_bound(min).zip(score_bound(max));
                let (min, max) = bounds.ok_or(Error::fixed("ERR min or max is not a float"))?;
                Ok(Span::Scores(min, max))
            }
            By::Member => {
                let limits = MemberLimit::parse(min).zip(MemberLimit::parse(max));
                let text = "ERR min or max not valid string range item";
                let (min, max) = limits.ok_or(Error::fixed(text))?;
                Ok(Span::Members(min, max))
            }
        }
    }

    /// The ranks of a sorted set in the range. If `is_reversed`, given ranks count from the end.
    pub(super) fn ranks(&self, set: SortedSetRef<'_>, is_reversed: bool) -> Range<u64> {
        match self {
            Span::Ranks(start, stop) => {
                let (len, ranks) = (set.len(), ranks(*start, *stop, set.len()));
                if is_reversed { len - ranks.end..len - ranks.start } else { ranks }
            }
            Span::Scores(min, max) => set.with_scores(*min, *max),
            Span::Members(min, max) => set.with_members(min.bound(), max.bound(), is_reversed),
        }
    }
}

/// The ranks from one to another, both inclusive, in a sorted set of `len` members.
fn ranks(start: i64, stop: i64, len: u64) -> Range<u64> {
    let place = |rank: i64| if rank < 0 { rank.saturating_add_unsigned(len) } else { rank };
    let start = u64::try_from(place(start)).unwrap_or(0).min(len);
    let end = place(stop).checked_add(1).map_or(len, |end| u64::try_from(end).unwrap_or(0));
    start..end.min(len).max(start)
}

/// A part of a sorted set, with the order in which it is returned.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The remaining ranks, in ascending order of scores.
    ranks: Range<u64>,
    is_reversed: bool,
}

impl Part {
    /// The whole of a range.
    pub(super) fn all(ranks: Range<u64>, is_reversed: bool) -> Self {
        Part { ranks, is_reversed }
    }

    /// The part without its first `offset` members, and with at most `count` members; a negative
    /// offset counts from the end, and a negative count means all.
    pub(super) fn limited(self, (offset, count): (i64, i64)) -> Self {
        let Part { ranks, is_reversed } = self;
        let len = ranks.end - ranks.start;
        let offset = match u64::try_from(offset) {
            Ok(offset) => offset.min(len),
            // An offset before the start leaves no member.
            Err(_) => len.checked_sub(offset.unsigned_abs()).unwrap_or(len),
        };
        let count = u64::try_from(count).unwrap_or(len).min(len - offset);
        let start = if is_reversed { ranks.end - offset - count } else { ranks.start + offset };
        Part { ranks: start..start + count, is_reversed }
    }

    /// The number of remaining members.
    pub(super) fn len(&self) -> u64 {
        self.ranks.end - self.ranks.start
    }

    /// Its ranks.
    pub(super) fn ranks(&self) -> Range<u64> {
        self.ranks.clone()
    }

    /// Takes the first `most` members, or all if there are fewer.
    pub(super) fn take(&mut self, most: u64) -> Part {
        let count = most.min(self.len());
        let Part { ranks, is_reversed } = self.clone();
        let (taken, left) = if is_reversed {
            (ranks.end - count..ranks.end, ranks.start..ranks.end - count)
        } else {
            (ranks.start..ranks.start + count, ranks.start + count..ranks.end)
        };
        self.ranks = left;
        Part { ranks: taken, is_reversed }
    }

    /// Passes its members to `show`, in its order.
    pub(super) fn visit(&self, set: SortedSetRef<'_>, mut show: impl FnMut(&Member<'_>)) {
        let mut left = self.len();
        let mut visit = |member: Member<'_>| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            show(&member);
            left -= 1;
            ControlFlow::Continue(())
        };
        if self.ranks.is_empty() {
        } else if self.is_reversed {
            set.walk_back(self.ranks.end - 1, &mut visit);
        } else {
            set.walk(self.ranks.start, &mut visit);
        }
    }

    /// Writes its members.
    pub(super) fn write(&self, set: SortedSetRef<'_>, reply: &mut Writer<'_>, with_scores: bool) {
        self.visit(set, |member| write_member(reply, member, with_scores));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_counted_from_either_end() {
        for (start, stop, expected) in [
            (0, -1, 0..5),
            (1, 3, 1..4),
            (-2, -1, 3..5),
            (-100, 100, 0..5),
            (3, 1, 3..3),
            (5, 9, 5..5),
            (0, -6, 0..0),
            (0, i64::MAX, 0..5),
            (i64::MIN, i64::MIN, 0..0),
        ] {
            assert_eq!(ranks(start, stop, 5), expected, "{start} {stop}");
        }
    }

    #[test]
    fn members_are_taken_from_the_beginning_of_a_part() {
        let mut forwards = Part::all(2..10, false).limited((1, 5));
        assert_eq!(forwards.ranks(), 3..8);
        assert_eq!(forwards.take(2).ranks(), 3..5);
        assert_eq!(forwards.take(9).ranks(), 5..8);
        assert_eq!(forwards.len(), 0);
        let mut backwards = Part::all(2..10, true).limited((1, 5));
        assert_eq!(backwards.ranks(), 4..9);
        assert_eq!(backwards.take(2).ranks(), 7..9);
        assert_eq!(Part::all(2..10, false).limited((-3, 2)).ranks(), 7..9);
        assert_eq!(Part::all(2..10, true).limited((-3, -1)).ranks(), 2..5);
        assert_eq!(Part::all(2..10, true).limited((-9, 5)).len(), 0);
        assert_eq!(Part::all(2..10, true).limited((3, -7)).ranks(), 2..7);
        assert_eq!(Part::all(2..10, false).limited((i64::MAX, i64::MAX)).len(), 0);
    }
}
