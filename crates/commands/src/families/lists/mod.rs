//! The commands of lists, and the conversion of indexes to ranks that they share.

pub(crate) mod blocking;
pub(crate) mod pop;
pub(crate) mod push;
pub(crate) mod range;
pub(crate) mod search;

use crate::Context;
use nagi_store::{Key, Kind, ListLimit, ListRef, SharedValue, WrongType};
use std::ops::Range;

/// The limits within which a list is encoded as a listpack.
fn limit(cx: &Context<'_>) -> ListLimit {
    cx.server.config().collection_limits().list
}

/// Shares the list under a key, which has been looked up, so that it can be read without its latch.
fn shared_list(cx: &Context<'_>, key: Key<'_>) -> Result<Option<SharedValue>, WrongType> {
    cx.db.share_again(key, &[Kind::List])
}

/// The elements of a shared list.
fn elements(shared: Option<&SharedValue>) -> Option<ListRef<'_>> {
    shared?.read().list().ok()
}

/// The rank of the element at an index, which counts from the end if negative; `None` if the index
/// is out of range.
fn rank(index: i64, len: u64) -> Option<u64> {
    let distance = index.unsigned_abs();
    let rank = if index < 0 { len.checked_sub(distance) } else { Some(distance) };
    rank.filter(|rank| *rank < len)
}

/// The ranks from one index to another, both of which may be out of range.
fn ranks(start: i64, end: i64, len: u64) -> Range<u64> {
    let from_start = |index: i64| match index {
        ..0 => len.checked_sub(index.unsigned_abs()),
        index => Some(index.unsigned_abs()),
    };
    let start = from_start(start).unwrap_or(0);
    let after_end = from_start(end).map_or(0, |end| end.saturating_add(1).min(len));
    if start < after_end { start..after_end } else { 0..0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_indexes_count_from_the_end() {
        for (index, expected) in [(0, Some(0)), (2, Some(2)), (3, None), (-1, Some(2))] {
            assert_eq!(rank(index, 3), expected);
        }
        for index in [-4, i64::MIN, i64::MAX] {
            assert_eq!(rank(index, 3), None);
        }
        assert_eq!(rank(-3, 3), Some(0));
    }

    #[test]
    fn ranges_are_cut_off_at_the_ends_of_the_list() {
        for (start, end, expected) in [
            (0, -1, 0..3),
            (1, 1, 1..2),
            (-2, -1, 1..3),
            (-9, 9, 0..3),
            (i64::MIN, i64::MAX, 0..3),
            (2, 1, 0..0),
            (3, 9, 0..0),
            (0, -4, 0..0),
            (i64::MAX, i64::MAX, 0..0),
            (i64::MIN, i64::MIN, 0..0),
        ] {
            assert_eq!(ranks(start, end, 3), expected, "{start} {end}");
        }
    }
}
