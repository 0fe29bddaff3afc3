//! Tests of single segments.

use super::*;
use proptest::bool::weighted;
use proptest::prelude::*;

#[test]
fn buckets_divide_positions_in_order() {
    let pool = PagePool::default();
    for entries in [1, 30, 100, 200, 1000] {
        let segment = Segment::small(&pool, entries);
        let mut position = 0;
        for home in 0..segment.geometry().homes {
            assert_eq!(segment.home(position), home);
            let end = segment.end_of(home);
            assert_eq!(segment.home(end - 1), home);
            position = end;
        }
        assert_eq!(position, 1 << POSITION_BITS);
        // SAFETY: nothing refers to it.
        unsafe { segment.free(&pool) };
    }
}

proptest! {
    /// Halves stay correct when words are moved to make room.
    #[test]
    fn words_of_recorded_buckets_have_the_right_home_and_half(
        words in proptest::collection::vec((0..12_usize, 0..2_usize, weighted(0.95)), 1..120),
    ) {
        let pool = PagePool::default();
        let mut segment = Segment::full(&pool, 3);
        let mut placed = Vec::new();
        for (home, half, is_known) in words {
            let number = placed.len() + 1;
            let address = NonNull::without_provenance((8 * number).try_into().unwrap());
            // SAFETY: the address is never dereferenced.
            let word = Word::new(unsafe { Entry::from_pointer(address) }, 7, false);
            // SAFETY: a full segment has more homes than these.
            if unsafe { segment.insert(home, is_known.then_some(half), word) }.is_some() {
                placed.push((home, half));
            }
        }
        let recorded = segment.recorded_buckets().flat_map(|it| segment.homes_and_halves(it));
        for (home, half, word) in recorded {
            let number = word.entry().unwrap().pointer().addr().get() / 8;
            prop_assert_eq!(placed[number - 1], (home, half));
        }
        // SAFETY: nothing refers to it.
        unsafe { segment.free(&pool) };
    }
}
