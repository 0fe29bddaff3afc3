//! Sorting in steps: a merge sort that can pause after every few comparisons, so that sorting a
//! million elements does not block a worker.

use std::cmp::Ordering;

/// The length of the runs that are sorted at once, before they are merged.
const RUN: usize = 32;
/// Elements that are merged between two readings of the clock.
const STRIDE: usize = 64;

/// Merge sort of the indexes of elements, which can be paused. The sort is stable.
#[derive(Debug)]
pub(super) struct MergeSort {
    elements: usize,
    places: Vec<usize>,
    /// The merged part of `places`; as long as `places` at the end of a pass.
    merged: Vec<usize>,
    /// The length of the sorted runs; 0 before the initial runs are sorted.
    width: usize,
    /// The progress in merging two adjacent runs.
    left: usize,
    right: usize,
}

impl MergeSort {
    /// Begins to sort `elements` elements, which are in their original order.
    pub(super) fn new(elements: usize) -> Self {
        let (places, merged) = (Vec::with_capacity(elements), Vec::with_capacity(elements));
        MergeSort { elements, places, merged, width: 0, left: 0, right: 0 }
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
        while self.places.len() < self.elements {
            let start = self.places.len();
            self.places.extend(start..(start + RUN).min(self.elements));
            if let Some(run) = self.places.get_mut(start..) {
                run.sort_by(|first, second| compare(*first, *second));
            }
            if is_over() {
                return false;
            }
        }
        self.width = RUN;
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
        for _ in 0..STRIDE.min(end - done) {
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
        for len in [0, 1, 2, 31, 32, 33, 64, 65, 100, 1000, 4097] {
            let keys: Vec<usize> = (0..len).map(|at| at * 7919 % 101).collect();
            let mut sort = MergeSort::new(len);
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
