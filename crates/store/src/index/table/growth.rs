//! Growing and shrinking a table by splitting and merging segments.
//!
//! ```text
//!  segment      home 0 | home 1 | ... | home 29 || home 30 | ... | home 59
//!                                               ||
//!  its halves   0    1 | 2    3 | ... | 58   59 || 0     1 | ... | 58   59
//! ```
//!
//! The entries at a home move to two homes of one half, so a split needs only one bit of each
//! entry: the half of its home's positions that contains it. The bit is stored in the entry's word.
//! It is set when an entry is added; after a split, each of the following insertions reads a few
//! entries to set theirs. So the latch is never held while hundreds of entries are read from
//! memory.

use super::{Place, Table, span};
use crate::index::placement::POSITION_BITS;
use crate::index::segment::{MAX_DEPTH, Segment};
use crate::index::word::{Half, LANES, Word};
use crate::sync::cache_line::prefetch;
use crate::sync::holds::{self, Work};
use crate::sync::latch;

/// Two neighbours merge if they have no more entries than this together.
const MERGE_ENTRIES: u32 = 180;
/// A segment with more overflow entries than this is no longer split, since all of them would move
/// at once; their keys have equal hashes, which splitting does not separate.
const SPLIT_OVERFLOW: usize = 256;
/// The number of buckets whose halves are recorded at one insertion.
const BUCKETS_RECORDED: usize = 4;

impl Table {
    /// Links a word, splitting segments if necessary.
    pub(super) fn link(&mut self, position: u64, word: Word) -> Place {
        if self.directory.get(position).is_none() {
            self.directory.begin(Segment::small(&self.pool, 1));
            self.deepest = 1;
        }
        let mut split_tried = false;
        loop {
            let Some(mut segment) = self.directory.get(position) else {
                unreachable!("a directory that is not empty covers every position")
            };
            let home = segment.home(position);
            let half = Some(segment.half(position));
            // SAFETY: the home is in this segment.
            if let Some(index) = unsafe { segment.insert(home, half, word) } {
                self.record_halves(segment);
                return Place { segment, index };
            }
            // Keys with equal hashes cannot be separated; splitting is not tried again for every
            // key.
            let overflow_len = segment.overflow_len();
            let worthwhile =
                !split_tried && overflow_len.is_multiple_of(64) && overflow_len <= SPLIT_OVERFLOW;
            if !worthwhile || !self.split(position, segment) {
                return Place { segment, index: segment.insert_overflow(home, word) };
            }
            split_tried = true;
        }
    }

    /// Gives the entries of a full segment more room; `false` if that is impossible.
    fn split(&mut self, position: u64, old: Segment) -> bool {
        if !old.is_full_size() {
            let larger = Segment::small(&self.pool, old.header().live as usize * 2);
            self.rebuild(old, larger);
            return true;
        }
        let depth = old.depth() + 1;
        // Entries that share more bits than this must have equal hashes.
        let limit = (self.len / 64 + 1).ilog2() + 6;
        if depth > limit.min(MAX_DEPTH).min(POSITION_BITS - 8) {
            return false;
        }
        let mut halves = [Segment::full(&self.pool, depth), Segment::full(&self.pool, depth)];
        self.divide(old, &mut halves);
        if depth > self.directory.depth() {
            self.directory.double();
            self.deepest = 0;
        }
        if depth == self.directory.depth() {
            self.deepest += 2;
        }
        let first = position & !(span(old) - 1);
        for (segment, start) in halves.into_iter().zip([first, first + span(old) / 2]) {
            self.directory.enter(segment, start);
        }
        self.restart_sweep(first..first + span(old));
        // SAFETY: the directory no longer points to it.
        unsafe { old.free(&self.pool) };
        true
    }

    /// Merges the segment around `position` with its neighbour, or replaces it by a smaller one, if
    /// it has become sparse.
    pub(super) fn shrink_at(&mut self, position: u64) {
        let Some(segment) = self.directory.get(position) else { return };
        let live = segment.header().live;
        if segment.depth() > 0 {
            let buddy = self.directory.get(position ^ span(segment));
            let Some(buddy) = buddy.filter(|buddy| buddy.depth() == segment.depth()) else {
                return;
            };
            if live + buddy.header().live <= MERGE_ENTRIES {
                self.merge(position, segment, buddy);
            }
        } else if live == 0 {
            self.directory.clear();
            // SAFETY: the directory no longer points to it.
            unsafe { segment.free(&self.pool) };
        } else {
            let smaller_holds = segment.geometry().homes * LANES / 8;
            let live = live as usize;
            let is_sparse = segment.geometry().lines > 4 && live < smaller_holds;
            // Rebuilding at the same size would repeat at every removal.
            if is_sparse && segment.shrinks_for(live * 2) {
                let smaller = Segment::small(&self.pool, live * 2);
                self.rebuild(segment, smaller);
            }
        }
    }

    fn merge(&mut self, position: u64, segment: Segment, buddy: Segment) {
        let depth = segment.depth();
        let mut merged = Segment::full(&self.pool, depth - 1);
        for old in [segment, buddy] {
            self.move_entries(old, &mut merged);
        }
        let first = position & !(span(merged) - 1);
        self.directory.enter(merged, first);
        self.restart_sweep(first..first + span(merged));
        // SAFETY: the directory no longer points to them.
        unsafe {
            segment.free(&self.pool);
            buddy.free(&self.pool);
        }
        if depth == self.directory.depth() {
            self.deepest -= 2;
        }
        while self.deepest == 0 && self.directory.depth() > 0 {
            self.directory.halve();
            let depth = self.directory.depth();
            self.deepest = self.directory.segments().filter(|it| it.depth() == depth).count();
        }
    }

    /// Moves the only segment's entries to another one of a better size.
    fn rebuild(&mut self, old: Segment, mut new: Segment) {
        self.move_entries(old, &mut new);
        self.directory.begin(new);
        self.deepest = 1;
        self.restart_sweep(0..1 << POSITION_BITS);
        // SAFETY: the directory no longer points to it.
        unsafe { old.free(&self.pool) };
    }

    /// Copies every word of `from` to its half.
    fn divide(&self, from: Segment, halves: &mut [Segment; 2]) {
        latch::time_from_here();
        let entries = u64::from(from.header().live);
        holds::note(Work { entries, ..Work::default() });
        from.unrecorded_words().for_each(prefetch_entry);
        for bucket in from.recorded_buckets() {
            for (home, half, word) in from.homes_and_halves(bucket) {
                let (target, home) = Segment::home_after_split(home, half);
                // SAFETY: the halves are full segments, which have this home.
                let put = |it| unsafe { place(it, home, None, word) };
                halves.get_mut(target).into_iter().for_each(put);
            }
        }
        for word in from.unrecorded_words() {
            let Some(entry) = word.entry() else { continue };
            let position = self.position_of(entry);
            let target = halves.get_mut(from.half_after_split(position));
            target.into_iter().for_each(|target| place_at(target, position, word));
        }
        for half in halves {
            half.note_expiry(Some(from.header().earliest_expiry_ms));
        }
    }

    /// Copies every word of `from` to `target`, which has room for them.
    fn move_entries(&self, from: Segment, target: &mut Segment) {
        latch::time_from_here();
        let entries = u64::from(from.header().live);
        holds::note(Work { entries, ..Work::default() });
        from.occupied_places().for_each(|(_, word)| prefetch_entry(word));
        for (_, word) in from.occupied_places() {
            let Some(entry) = word.entry() else { continue };
            place_at(target, self.position_of(entry), word);
        }
        target.note_expiry(Some(from.header().earliest_expiry_ms));
    }

    /// Reads the entries of a few buckets to record their halves.
    #[inline]
    fn record_halves(&self, segment: Segment) {
        if segment.has_unrecorded_halves() {
            self.record_some_halves(segment);
        }
    }

    #[cold]
    fn record_some_halves(&self, mut segment: Segment) {
        latch::time_from_here();
        let buckets = segment.unrecorded_buckets().take(BUCKETS_RECORDED);
        for bucket in buckets.clone() {
            segment.words_of(bucket).for_each(|(_, word)| prefetch_entry(word));
        }
        for bucket in buckets {
            for (index, word) in segment.words_of(bucket) {
                let Some(entry) = word.entry() else { continue };
                let half = segment.half(self.position_of(entry));
                segment.record_half(index, half);
            }
            segment.mark_recorded(bucket);
        }
    }
}

#[cfg(test)]
impl Table {
    /// Whether all recorded halves are correct.
    pub(crate) fn has_right_halves(&self) -> bool {
        self.directory.segments().filter(|segment| segment.is_full_size()).all(|segment| {
            let recorded = segment.recorded_buckets().flat_map(|it| segment.homes_and_halves(it));
            { recorded }.all(|(home, half, word)| {
                let position = word.entry().map(|entry| self.position_of(entry));
                position.is_none_or(|it| (home, half) == (segment.home(it), segment.half(it)))
            })
        })
    }
}

/// Inserts the word of an entry with this position into a segment.
fn place_at(segment: &mut Segment, position: u64, word: Word) {
    let (home, half) = (segment.home(position), segment.half(position));
    // SAFETY: the home is in this segment.
    unsafe { place(segment, home, Some(half), word) };
}

/// Inserts a word into a segment, in its overflow list if there is no other room.
///
/// # Safety
/// The segment has this home.
unsafe fn place(segment: &mut Segment, home: usize, half: Option<Half>, word: Word) {
    // SAFETY: the caller guarantees it.
    if unsafe { segment.insert(home, half, word) }.is_none() {
        segment.insert_overflow(home, word);
    }
}

fn prefetch_entry(word: Word) {
    word.entry().into_iter().for_each(|entry| prefetch(entry.pointer()));
}
