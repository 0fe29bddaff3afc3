//! Multi-gets whose keys are on several servers of a ring. Each multi-get counts as one request,
//! which ends with the answer to its last part.

/// A part of a multi-get: the keys on one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The index of its multi-get in `Splits::all`.
    place: usize,
    /// The number of keys in the part.
    pub(crate) keys: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Split {
    /// Number of parts in flight.
    left: usize,
    has_failed: bool,
    /// Numbers of keys found and not found by the parts answered so far.
    hits: u64,
    misses: u64,
}

/// The multi-gets in flight of one thread.
#[derive(Debug, Default)]
pub(crate) struct Splits {
    all: Vec<Split>,
    /// Indices of unused entries of `all`.
    free: Vec<usize>,
}

impl Splits {
    /// Begins a multi-get. `keys` yields the number of keys in each part.
    pub(crate) fn begin(&mut self, keys: impl ExactSizeIterator<Item = u64>) -> Vec<Part> {
        let split = Split { left: keys.len(), ..Split::default() };
        let place = self.free.pop().unwrap_or(self.all.len());
        match self.all.get_mut(place) {
            Some(entry) => *entry = split,
            None => self.all.push(split),
        }
        keys.map(|keys| Part { place, keys }).collect()
    }

    /// Records the answer to a part: the numbers of keys found and not found. Returns the sums over
    /// all parts if this part completes the multi-get.
    pub(crate) fn answer(&mut self, part: Part, hits: u64, misses: u64) -> Option<(u64, u64)> {
        if let Some(split) = self.all.get_mut(part.place) {
            split.hits += hits;
            split.misses += misses;
        }
        let split = self.end(part);
        (split.left == 0 && !split.has_failed).then_some((split.hits, split.misses))
    }

    /// Ends a part without an answer. Returns whether the multi-get fails now; it fails only once.
    pub(crate) fn lose(&mut self, part: Part) -> bool {
        let fails = self.fail(part);
        self.end(part);
        fails
    }

    /// Marks the multi-get of a part as failed, although the part may still be answered. Returns
    /// whether it had not failed before.
    pub(crate) fn fail(&mut self, part: Part) -> bool {
        let split = self.all.get_mut(part.place);
        split.is_some_and(|split| !std::mem::replace(&mut split.has_failed, true))
    }

    fn end(&mut self, part: Part) -> Split {
        let Some(split) = self.all.get_mut(part.place) else { return Split::default() };
        split.left = split.left.saturating_sub(1);
        if split.left == 0 {
            self.free.push(part.place);
        }
        *split
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(splits: &mut Splits, parts: usize) -> Vec<Part> {
        splits.begin(vec![1; parts].into_iter())
    }

    #[test]
    fn a_request_ends_with_its_last_part() {
        let mut splits = Splits::default();
        let (one, other) = (begin(&mut splits, 3), begin(&mut splits, 1));
        assert_eq!([splits.answer(one[1], 1, 0), splits.answer(one[0], 0, 1)], [None; 2]);
        assert_eq!(splits.answer(other[0], 7, 0), Some((7, 0)));
        assert_eq!(splits.answer(one[2], 2, 3), Some((3, 4)));
        begin(&mut splits, 2);
        begin(&mut splits, 2);
        assert_eq!(splits.all.len(), 2, "places are used again");
    }

    #[test]
    fn a_request_that_lost_a_part_fails_once() {
        let mut splits = Splits::default();
        let parts = begin(&mut splits, 4);
        assert_eq!(splits.answer(parts[0], 1, 0), None);
        assert!(splits.lose(parts[1]) && !splits.lose(parts[2]));
        assert_eq!(splits.answer(parts[3], 1, 0), None, "it has ended without a reply");
        let parts = begin(&mut splits, 1);
        assert!(splits.fail(parts[0]) && !splits.fail(parts[0]));
        assert_eq!(splits.answer(parts[0], 1, 0), None);
        let part = begin(&mut splits, 1)[0];
        assert_eq!(splits.answer(part, 1, 0), Some((1, 0)), "nothing of an earlier one is left");
    }
}
