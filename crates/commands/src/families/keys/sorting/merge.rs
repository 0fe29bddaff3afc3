//! Sorting in steps: a merge sort that can pause after every few comparisons, so that sorting a
//! million elements does not block a worker.

use nagi_store::accounting::{Charge, room_bytes};
use std::cmp::Ordering;

/// The length of the runs that are sorted at once, before they are merged.
const RUN: usize = 32;
/// Elements that are merged between two readings of the clock.
const STRIDE: usize = 64;

/// How long a comparison may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparisons {
    /// So short that the clock is read after many.
    Short,
    /// So long that the clock is read after each.
    Long,
}

/// Merge sort of the indexes of elements, which can be paused. The sort is stable.
#[derive(Debug)]
pub(super) struct MergeSort {
    elements: usize,
    comparisons: Comparisons,
    places: Vec<usize>,
    /// The merged part of `places`; as long as `places` at the end of a pass.
    merged: Vec<usize>,
    /// The length of the sorted runs; 0 before the initial runs are sorted.
    width: usize,
    /// The progress in merging two adjacent runs.
    left: usize,
    right: usize,
    /// Accounts for the memory of the places.
    _charge: Charge,
}

impl MergeSort {
    /// Begins to sort `elements` elements, which are in their original order.
    pub(super) fn new(elements: usize, comparisons: Comparisons) -> Self {
        let (places, merged) = (Vec::with_capacity(elements), Vec::with_capacity(elements));
        let mut charge = Charge::default();
        charge.set(2 * room_bytes::<usize>(elements));
        let (width, left, right) = (0, 0, 0);
        MergeSort { elements, comparisons, places, merged, width, left, right, _charge: charge }
    }

    /// `many` where comparisons are short, otherwise one.
    fn at_once(&self, many: usize) -> usize {
        match self.comparisons {
            Comparisons::Short => many,
            Comparisons::Long => 1,
        }
    }

    /// Continues until `is_over` reports the end of the slice; returns whether all are in order.
    pub(super) fn go_on(
        &mut self,
        compare: impl Fn(usize, usize) -> Ordering,
        is_over: impl Fn() -> bool,
    ) -> bool {
        if self.width == 0 && !self.sort_runs(&compare, &is_over) {
            return false;
        }
        while self.width < self.places.len() {
            while self.merged.len() < self.places.len() {
                self.merge_some(&compare);
                if is_over() {
                    return false;
                }
            }
            std::mem::swap(&mut self.places, &mut self.merged);
            self.merged.clear();
            self.width *= 2;
        }
        true
    }

    /// The indexes in sorted order.
    pub(super) fn places(&self) -> &[usize] {
        &self.places
    }

    fn sort_runs(
        &mut self,
        compare: impl Fn(usize, usize) -> Ordering,
        is_over: impl Fn() -> bool,
    ) -> bool {
        let width = self.at_once(RUN);
        while self.places.len() < self.elements {
            let start = self.places.len();
            self.places.extend(start..(start + width).min(self.elements));
            if let Some(run) = self.places.get_mut(start..) {
                run.sort_by(|first, second| compare(*first, *second));
            }
            if is_over() {
                return false;
            }
        }
        self.width = width;
        true
    }

    /// Merges some elements of the next two runs.
    fn merge_some(&mut self, compare: impl Fn(usize, usize) -> Ordering) {
        let (all, done) = (self.places.len(), self.merged.len());
        let start = done - done % (2 * self.width);
        let middle = (start + self.width).min(all);
        let end = (start + 2 * self.width).min(all);
        if done == start {
            (self.left, self.right) = (start, middle);
        }
        for _ in 0..self.at_once(STRIDE).min(end - done) {
            let left = self.places.get(self.left).filter(|_| self.left < middle);
            let right = self.places.get(self.right).filter(|_| self.right < end);
            let next = match (left, right) {
                (Some(left), Some(right)) if compare(*left, *right) == Ordering::Greater => right,
                (Some(left), _) => left,
                (None, Some(right)) => right,
                (None, None) => return,
            };
            self.merged.push(*next);
            match left {
                Some(left) if std::ptr::eq(left, next) => self.left += 1,
                _ => self.right += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn any_number_of_elements_is_sorted_stably() {
        let lens = [0, 1, 2, 31, 32, 33, 64, 65, 100, 1000, 4097];
        let short = lens.map(|len| (len, Comparisons::Short));
        let long = lens.map(|len| (len, Comparisons::Long));
        for (len, comparisons) in short.into_iter().chain(long) {
            let keys: Vec<usize> = (0..len).map(|at| at * 7919 % 101).collect();
            let mut sort = MergeSort::new(len, comparisons);
            let (mut pauses, turn) = (0, Cell::new(0));
            let is_over = || {
                turn.set(turn.get() + 1);
                turn.get() % 3 == 0
            };
            while !sort.go_on(|first, second| keys[first].cmp(&keys[second]), is_over) {
                pauses += 1;
                assert!(pauses < 100_000, "it does not come to an end");
            }
            assert!(len < 1000 || pauses > 10, "{len}: {pauses} pauses");
            let mut expected: Vec<usize> = (0..len).collect();
            expected.sort_by_key(|at| keys[*at]);
            assert_eq!(sort.places(), expected, "{len}");
        }
    }
}
