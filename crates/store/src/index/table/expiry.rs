//! The sweep that removes expired entries from a table, in steps of some tens of microseconds, and
//! finds hashes with expired fields.

use super::{SEGMENTS_PER_STEP, ServerRemovals, Table, fields_due_ms, span};
use crate::entry::block::Entry;
use crate::entry::view::EntryView;
use crate::index::placement::{POSITION_BITS, fingerprint};
use crate::index::segment::Segment;
use crate::index::sweep::Sweep;
use crate::snapshot::ValueOutcome;
use crate::snapshot::mutation_barrier::MutationBarrier;
use crate::sync::cache_line::prefetch;
use crate::sync::holds::{self, Work};

/// The maximum number of entries that one step removes from a segment; each removal may move a few
/// other entries.
const EXPIRED: usize = 64;

impl Table {
    /// Continues the sweep for entries that have expired by `now_ms`, for some tens of
    /// microseconds. Returns how many entries it removed, and whether there is more to do now.
    pub(crate) fn expire(
        &mut self,
        barrier: MutationBarrier,
        now_ms: u64,
        removals: &mut ServerRemovals<'_>,
    ) -> (usize, bool) {
        if self.sweep.is_none() {
            if self.earliest_expiry_ms > now_ms {
                return (0, false);
            }
            // The lower bound is computed anew, from the segments that the sweep has passed and
            // from the entries written meanwhile.
            self.earliest_expiry_ms = u64::MAX;
            self.sweep = Some(Sweep::from(0));
        }
        for _ in 0..SEGMENTS_PER_STEP {
            let Some(sweep) = self.sweep.take() else { break };
            let Some(segment) = self.directory.get(sweep.position) else { break };
            let earliest_ms = segment.header().earliest_expiry_ms;
            if earliest_ms > now_ms {
                self.sweep_on(segment, sweep.position, earliest_ms);
                continue;
            }
            let removed = if segment.overflow_len() > 0 {
                self.expire_bucket(barrier, segment, sweep, now_ms, removals)
            } else {
                self.expire_segment(barrier, segment, sweep.position, now_ms, removals)
            };
            return (removed, self.sweep.is_some());
        }
        (0, self.sweep.is_some())
    }

    /// Removes the expired entries of a segment and moves the sweep past it, unless there are more
    /// than one step removes.
    fn expire_segment(
        &mut self,
        barrier: MutationBarrier,
        mut segment: Segment,
        position: u64,
        now_ms: u64,
        removals: &mut ServerRemovals<'_>,
    ) -> usize {
        let (mut removed, mut earliest_ms) = (0, u64::MAX);
        let places = segment.volatile_places();
        holds::note(Work { visited: places.len() as u64, ..Work::default() });
        let entries = places.iter().filter_map(|index| segment.word(*index).entry());
        entries.for_each(|entry| prefetch(entry.pointer()));
        for index in places {
            // Freeing may move other entries, so each word is read just before its use.
            let Some(entry) = segment.word(index).entry() else { continue };
            let at_ms = entry.expire_at_ms().unwrap_or(u64::MAX);
            if at_ms > now_ms || self.is_spared(entry, removals.spares) {
                earliest_ms = earliest_ms.min(at_ms);
                continue;
            }
            if removed == EXPIRED {
                self.sweep = Some(Sweep::from(position));
                return removed;
            }
            // SAFETY: nothing changes the entry during the callback.
            (removals.show)(self.database(), unsafe { EntryView::new(entry) });
            let entry = self.mutable(barrier, entry, ValueOutcome::Goes).entry();
            segment.remove(index);
            self.volatile -= 1;
            removals.garbage.add(self.free(entry));
            removed += 1;
        }
        segment.set_earliest_expiry(earliest_ms);
        self.sweep_on(segment, position, earliest_ms);
        if removed > 0 {
            self.shrink_at(position);
        }
        removed
    }

    /// Removes the expired entries of a bucket, or of the part of it that one step visits.
    fn expire_bucket(
        &mut self,
        barrier: MutationBarrier,
        mut segment: Segment,
        mut sweep: Sweep,
        now_ms: u64,
        removals: &mut ServerRemovals<'_>,
    ) -> usize {
        let (mut expired, position) = (Vec::new(), sweep.position);
        let after =
            self.visit_bucket(position, &mut sweep.within, |entry| match entry.expire_at_ms() {
                Some(at_ms) if at_ms <= now_ms && !self.is_spared(entry, removals.spares) => {
                    expired.push(entry);
                }
                at_ms => sweep.earliest_ms = sweep.earliest_ms.min(at_ms.unwrap_or(u64::MAX)),
            });
        for entry in &expired {
            // SAFETY: nothing changes the entry during the callback.
            (removals.show)(self.database(), unsafe { EntryView::new(*entry) });
            self.unlink(barrier, segment, *entry);
        }
        let removed = expired.len();
        // Freed last, since freeing one may move entries that are still linked.
        expired.into_iter().for_each(|entry| removals.garbage.add(self.free(entry)));
        let last = position | (span(segment) - 1);
        match after.filter(|after| *after <= last) {
            Some(position) => self.sweep = Some(Sweep { position, ..sweep }),
            None => {
                segment.set_earliest_expiry(sweep.earliest_ms);
                self.sweep_on(segment, position, sweep.earliest_ms);
            }
        }
        if removed > 0 {
            self.shrink_at(position);
        }
        removed
    }

    /// Unlinks an entry from its segment.
    fn unlink(&mut self, barrier: MutationBarrier, mut segment: Segment, entry: Entry) {
        let entry = self.mutable(barrier, entry, ValueOutcome::Goes).entry();
        let hash = self.hash_of(entry);
        let position = self.locator.range.position(hash);
        // SAFETY: the name is used only here, before the entry is freed.
        let name = || unsafe { entry.name() };
        let index = segment.find(position, fingerprint(hash), name, |it| it == entry);
        if let Some(index) = index {
            segment.remove(index);
            self.volatile -= 1;
        }
    }

    /// Moves the sweep past the segment around a position; `earliest_ms` is a lower bound of the
    /// expiry times in it.
    fn sweep_on(&mut self, segment: Segment, position: u64, earliest_ms: u64) {
        self.note_expiry(Some(earliest_ms));
        let next = (position | (span(segment) - 1)) + 1;
        self.sweep = (next < 1 << POSITION_BITS).then(|| Sweep::from(next));
    }

    /// Updates the earliest expiry for an entry that was written.
    pub(super) fn note_expiry(&mut self, at_ms: Option<u64>) {
        let Some(at_ms) = at_ms else { return };
        self.earliest_expiry_ms = self.earliest_expiry_ms.min(at_ms);
        if let Some(sweep) = &mut self.sweep {
            sweep.earliest_ms = sweep.earliest_ms.min(at_ms);
        }
    }

    /// Updates when the hash under a key is to be swept, if it has fields that expire.
    #[inline]
    pub(crate) fn note_fields(&mut self, key_hash: u64, before: Option<u64>, now: Option<u64>) {
        if before.is_some() || now.is_some() {
            self.expiring_hashes.change(key_hash, before, now);
        }
    }

    /// Returns the number of hashes with fields that expire.
    pub(crate) fn hashes_with_expiry(&self) -> usize {
        self.expiring_hashes.len()
    }

    /// Returns a hash with fields that have expired by `now_ms`, unless it is spared.
    pub(crate) fn with_expired_fields(
        &self,
        now_ms: u64,
        spares: Option<&dyn Fn(u64) -> bool>,
    ) -> Option<Entry> {
        let is_free = |key_hash: &u64| spares.is_none_or(|spares| !spares(*key_hash));
        let key_hash = self.expiring_hashes.due(now_ms).take(SEGMENTS_PER_STEP).find(is_free)?;
        let position = self.locator.range.position(key_hash);
        let (mut found, mut within) = (None, None);
        loop {
            self.visit_bucket(position, &mut within, |entry| {
                if fields_due_ms(entry).is_some_and(|at_ms| at_ms <= now_ms)
                    && self.hash_of(entry) == key_hash
                {
                    found = Some(entry);
                }
            });
            if found.is_some() || within.is_none() {
                return found;
            }
        }
    }

    /// Restarts a sweep within these positions, because their entries have moved to another
    /// segment.
    pub(super) fn restart_sweep(&mut self, positions: std::ops::Range<u64>) {
        if self.sweep.as_ref().is_some_and(|sweep| positions.contains(&sweep.position)) {
            self.sweep = Some(Sweep::from(positions.start));
        }
    }
}
