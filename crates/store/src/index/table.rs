//! The entries of one database in one shard: an extendible directory of segments.
//!
//! ```text
//!  position (40 bits) = [ directory index: depth bits | bucket within the segment | ... ]
//!
//!  directory   00 ----> segment of depth 2
//!              01 ----> segment of depth 2
//!              10 --+-> segment of depth 1
//!              11 --+
//! ```
//!
//! A full segment splits on its own, so growth moves at most one segment's entries regardless of
//! the table's size; two sparse neighbours merge. Extendible hashing: Fagin et al., ACM TODS 1979;
//! segments with a stash: Lu et al., "Dash", VLDB 2020.

mod expiry;
mod growth;

use crate::entry::attributes::Attributes;
use crate::entry::block::{Entry, Owned, Shape};
use crate::entry::garbage::Garbage;
use crate::entry::key::{Hasher, Key};
use crate::entry::mutable::Mutable;
use crate::entry::value::NewValue;
use crate::entry::view::EntryView;
use crate::eviction::policy::{SAMPLES, VictimSelection};
use crate::index::directory::{self, Directory};
use crate::index::expiring_hashes::ExpiringHashes;
use crate::index::placement::{POSITION_BITS, Range, fingerprint};
use crate::index::segment::{Index, Segment};
use crate::index::sweep::{BucketCursor, Sweep};
use crate::index::word::{LANES, Word};
use crate::memory::pages::PagePool;
use crate::memory::reclaim::{Removed, Unfreed};
use crate::memory::slab::{Block, LARGEST_BLOCK, Slab, rounded_bytes};
use crate::snapshot::mutation_barrier::MutationBarrier;
use crate::snapshot::{
    DatabaseSize, FULL_SHARED_BYTES, HOLD_BYTES, Images, SnapshotProgress, ValueOutcome,
};
use crate::sync::cache_line::prefetch;
use crate::sync::holds::{self, Work};
use crate::sync::steps::{self, Step};
use crate::sync::{latch, pace};
use std::sync::Arc;

/// The number of segments that one step examines if it finds no matching entries.
const SEGMENTS_PER_STEP: usize = 64;
/// The number of buckets that a snapshot's walk visits while the latch is held once, if there is
/// little to copy.
const BUCKETS_PER_HOLD: usize = 32;
/// The number of overflow entries of a segment that one visit of a bucket examines.
const OVERFLOWED: usize = 128;
/// The number of entries that one change may move to free a sparse page; it also limits their
/// bytes. A single longer entry may be moved too.
const RELOCATIONS: usize = 4;
const RELOCATION_BYTES: usize = 16 * 1024;
/// The number of entries that are moved at a time when the worker is idle.
const COMPACTIONS: usize = 16;

/// The parameters that determine positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locator {
    pub(crate) hasher: Hasher,
    pub(crate) range: Range,
}

/// One database's entries in one shard, with their memory.
#[derive(Debug)]
pub(crate) struct Table {
    directory: Directory,
    /// The number of segments whose depth is that of the directory.
    deepest: usize,
    len: usize,
    /// The number of entries that can expire.
    volatile: usize,
    /// A lower bound of the expiry times, in milliseconds since 1970, except of entries that the
    /// current sweep has not reached yet.
    earliest_expiry_ms: u64,
    /// The hashes with fields that expire.
    expiring_hashes: ExpiringHashes,
    /// The current sweep for expired entries, if any.
    sweep: Option<Sweep>,
    locator: Locator,
    pool: Arc<PagePool>,
    slab: Slab,
    progress: SnapshotProgress,
    /// Where the walk for a snapshot continues within a bucket.
    walk_cursor: Option<Box<BucketCursor>>,
    /// The table's memory, which counts as unfreed once the table is removed. Fields are dropped in
    /// order, so this is the last.
    unfreed: Unfreed,
}

// SAFETY: a table's entries are reached only through it, under its shard's latch. Its segments are
// read without the latch as well, but only in whole words, with atomic loads.
unsafe impl Send for Table {}

/// Returns whether the entry with a key's hash must stay.
pub(crate) type Spares<'a> = &'a dyn Fn(u64) -> bool;

/// Callbacks for removals by the server itself.
pub(crate) struct ServerRemovals<'a> {
    /// `None` if no entry must stay.
    pub(crate) spares: Option<Spares<'a>>,
    /// Called with each entry and the index of its database before its removal.
    pub(crate) show: &'a mut dyn FnMut(usize, EntryView<'_>),
    pub(crate) garbage: &'a mut Garbage,
}

/// The position of an entry. Valid until the next insertion into the table or removal from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    segment: Segment,
    index: Index,
}

impl Table {
    pub(crate) fn new(
        locator: Locator,
        pool: Arc<PagePool>,
        owner: directory::DirectoryOwner,
        progress: SnapshotProgress,
    ) -> Self {
        let slab = Slab::new(Arc::clone(&pool));
        Table {
            directory: Directory::new(owner),
            deepest: 0,
            len: 0,
            volatile: 0,
            earliest_expiry_ms: u64::MAX,
            expiring_hashes: ExpiringHashes::default(),
            sweep: None,
            locator,
            pool,
            slab,
            progress,
            walk_cursor: None,
            unfreed: Unfreed::default(),
        }
    }

    /// Replaces this table, of about this many bytes, by an empty one. Returns the old one.
    pub(crate) fn take(&mut self, barrier: MutationBarrier, bytes: u64) -> Self {
        self.begin(barrier);
        self.progress.send_pre_images();
        let owner = self.directory.owner().clone();
        let empty =
            Table::new(self.locator, Arc::clone(&self.pool), owner, self.progress.restarted());
        empty.directory.publish();
        let mut old = std::mem::replace(self, empty);
        old.unfreed = Unfreed::new(bytes);
        old
    }

    /// Moves to another database of the same shard.
    pub(crate) fn move_to(&mut self, database: usize) {
        self.directory.move_to(database);
    }

    /// Prepares the table for changes by an operation that read `barrier`. Must be called before
    /// any change.
    #[inline]
    pub(crate) fn begin(&mut self, barrier: MutationBarrier) {
        debug_assert!(
            barrier.is_saving() || self.len == 0 || self.progress.epoch() == barrier.epoch(),
            "a save ends with every table walked"
        );
        let size = || DatabaseSize {
            keys: self.len as u64,
            volatile: self.volatile as u64,
            with_expiring_fields: self.expiring_hashes.len() as u64,
        };
        self.progress.begin(barrier.epoch(), size, self.directory.owner().database);
    }

    /// The table's progress in a snapshot.
    pub(crate) fn progress(&self) -> &SnapshotProgress {
        &self.progress
    }

    /// Lets an entry pass the barrier for a change.
    #[inline]
    pub(crate) fn mutable(
        &mut self,
        barrier: MutationBarrier,
        entry: Entry,
        outcome: ValueOutcome,
    ) -> Mutable {
        self.begin(barrier);
        barrier.before_mutate(&mut self.progress, entry, outcome)
    }

    /// Returns the index of the database that the table belongs to now.
    pub(crate) fn database(&self) -> usize {
        self.directory.owner().database
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of entries that can expire.
    pub(crate) fn volatile_len(&self) -> usize {
        self.volatile
    }

    /// Returns the place of the entry of `key`.
    #[inline]
    pub(crate) fn find(&self, key: Key<'_>) -> Option<Place> {
        let position = self.locator.range.position(key.hash);
        let segment = self.directory.get(position)?;
        // SAFETY: entries do not move while the table is borrowed.
        let same_key = |entry: Entry| unsafe { entry.is_of(key) };
        let index = segment.find(position, fingerprint(key.hash), || key.name(), same_key)?;
        Some(Place { segment, index })
    }

    /// Returns the entry at a place.
    #[inline]
    pub(crate) fn entry(&self, place: Place) -> Option<Entry> {
        place.segment.word(place.index).entry()
    }

    /// Adds an entry for a key that has none yet.
    pub(crate) fn insert(
        &mut self,
        barrier: MutationBarrier,
        key: Key<'_>,
        value: NewValue<'_>,
        attributes: &Attributes,
    ) -> Place {
        self.begin(barrier);
        let shape = Shape::new(key, &value, attributes);
        let block = self.slab.take(shape.bytes());
        // SAFETY: the block is ours, aligned and as large as the shape.
        let entry =
            unsafe { Entry::write(block.memory, block.on_heap, &shape, key, value, attributes) };
        barrier.admit(entry);
        let word = Word::new(entry, fingerprint(key.hash), attributes.expire_at_ms.is_some());
        let mut place = self.link(self.locator.range.position(key.hash), word);
        place.segment.note_expiry(attributes.expire_at_ms);
        self.note_expiry(attributes.expire_at_ms);
        self.len += 1;
        self.volatile += usize::from(attributes.expire_at_ms.is_some());
        self.note_fields(key.hash, None, fields_due_ms(entry));
        place
    }

    /// Replaces an entry's value and attributes. Returns the memory that the entry no longer owns.
    pub(crate) fn replace(
        &mut self,
        barrier: MutationBarrier,
        place: &mut Place,
        mut old: Mutable,
        key: Key<'_>,
        value: NewValue<'_>,
        attributes: &Attributes,
    ) -> Owned {
        let shape = Shape::new(key, &value, attributes);
        let fields_due = fields_due_ms(old.entry());
        if let Some(bytes) = value.piece()
            && old.entry().has_shape(&shape)
        {
            // SAFETY: the entry has this shape.
            unsafe { old.overwrite(bytes, &shape, attributes) };
            self.note_fields(key.hash, fields_due, fields_due_ms(old.entry()));
            place.segment.note_expiry(attributes.expire_at_ms);
            self.note_expiry(attributes.expire_at_ms);
            return Owned::default();
        }
        let old = old.entry();
        let (old_bytes, on_heap, access) = (old.bytes(), old.on_heap(), old.access());
        let stays = rounded_bytes(old_bytes) == rounded_bytes(shape.bytes());
        let old_block = Block { memory: old.pointer(), on_heap };
        let block = if stays { old_block } else { self.slab.take(shape.bytes()) };
        // SAFETY: the old entry is overwritten or freed below and not read again; the block is
        // ours, aligned and as large as the shape.
        let (owned, entry) = unsafe {
            let owned = old.take_owned();
            let memory = block.memory;
            let new = Entry::write(memory, block.on_heap, &shape, key, value, attributes);
            (owned, new)
        };
        barrier.admit(entry);
        self.note_fields(key.hash, fields_due, fields_due_ms(entry));
        entry.set_access(access);
        let word = Word::new(entry, fingerprint(key.hash), attributes.expire_at_ms.is_some());
        self.volatile += usize::from(word.is_volatile());
        self.volatile -= usize::from(place.segment.word(place.index).is_volatile());
        place.segment.replace(place.index, word);
        place.segment.note_expiry(attributes.expire_at_ms);
        self.note_expiry(attributes.expire_at_ms);
        if !stays {
            // SAFETY: the block came from this slab and nothing points to it now.
            unsafe { self.slab.free(old_block, old_bytes) };
            self.relocate(old_bytes, RELOCATIONS);
        }
        owned
    }

    /// Changes the expiry of an entry that has one.
    ///
    /// # Safety
    /// The entry at this place has an expiry.
    pub(crate) unsafe fn move_expiry(&mut self, mut place: Place, mut entry: Mutable, at_ms: u64) {
        // SAFETY: the caller guarantees it.
        unsafe { entry.replace_expiry(at_ms) };
        place.segment.note_expiry(Some(at_ms));
        self.note_expiry(Some(at_ms));
    }

    /// Removes the entry at a place. Returns the memory that it owned.
    pub(crate) fn remove(&mut self, mut place: Place, entry: Mutable) -> Owned {
        let entry = entry.entry();
        // SAFETY: the table is borrowed exclusively and the key is hashed before anything moves.
        let position = self.position_of(entry);
        self.volatile -= usize::from(place.segment.word(place.index).is_volatile());
        place.segment.remove(place.index);
        let owned = self.free(entry);
        self.shrink_at(position);
        owned
    }

    /// Visits the entries of the bucket that contains `position`. Returns the first position after
    /// the bucket, or `None` at the end of the table. If there are too many entries to visit while
    /// the latch is held once, the result is `position` itself, and `within` records where to
    /// continue. Entries that exist throughout are visited regardless of changes in between.
    pub(crate) fn visit_bucket(
        &self,
        position: u64,
        within: &mut Option<BucketCursor>,
        mut visit: impl FnMut(Entry),
    ) -> Option<u64> {
        let before = within.take();
        let segment = self.directory.get(position)?;
        let home = segment.home(position);
        let home_of = |entry| segment.home(self.position_of(entry));
        let after = before.as_ref().map(|within| within.after.get());
        // SAFETY: the table is borrowed, so no entry is removed or moved; names are kept only as
        // copies.
        let name = |entry: Entry| unsafe { entry.name() };
        let mut visited = 0;
        let mut visit = |entry| {
            visited += 1;
            visit(entry);
        };
        let mut overflowed = segment.overflowed(home, after);
        let mut last = None;
        for entry in overflowed.by_ref().take(OVERFLOWED) {
            last = Some(entry);
            if home_of(entry) == home {
                visit(entry);
            }
        }
        // At the end of the overflow list, names of entries in the lines have no upper bound.
        let last = last.filter(|_| overflowed.next().is_some());
        segment.homed_at(home, home_of, |entry| {
            let is_turn = after.is_none_or(|after| name(entry) > after)
                && last.is_none_or(|last| name(entry) <= name(last));
            if is_turn {
                visit(entry);
            }
        });
        holds::note(Work { visited, ..Work::default() });
        // The bucket may have become narrower or wider meanwhile: skipped entries have been
        // visited.
        let start = position & !(span(segment) - 1);
        let next = start + segment.end_of(home);
        let next = before.as_ref().map_or(next, |before| next.min(before.next));
        // SAFETY: as above.
        let after = last.map(|last| unsafe { last.owned_name() });
        *within = after.map(|after| BucketCursor { after, next });
        if within.is_some() {
            return Some(position);
        }
        (next < 1 << POSITION_BITS).then_some(next)
    }

    /// Continues saving images of entries that belong to the snapshot, and updating the epochs of
    /// entries, for as many bytes as are allowed while the latch is held once. Returns whether the
    /// walk is complete.
    pub(crate) fn walk(&mut self, barrier: MutationBarrier, images: &mut Images) -> bool {
        self.begin(barrier);
        let enough = images.copied_bytes() + HOLD_BYTES;
        let has_enough = |images: &Images| {
            images.copied_bytes() >= enough || images.shared_bytes() >= FULL_SHARED_BYTES
        };
        let is_aborted = self.progress.is_aborted();
        for _ in 0..BUCKETS_PER_HOLD {
            let Some(position) = self.progress.walked_to() else { break };
            let mut within = self.walk_cursor.take().map(|within| *within);
            let before = within.clone();
            self.visit_bucket(position, &mut within.clone(), |entry| prefetch(entry.pointer()));
            let (mut saved, mut is_left) = (0, false);
            let behind = self.visit_bucket(position, &mut within, |entry| {
                if !barrier.is_older(entry) {
                    return;
                }
                is_left |= has_enough(images);
                if !is_left {
                    if !is_aborted {
                        images.push_shared(entry);
                    }
                    barrier.admit(entry);
                    saved += 1;
                    steps::reach(Step::Walked);
                }
            });
            self.progress.walk_on(saved, if is_left { Some(position) } else { behind });
            let within = if is_left { before } else { within };
            self.walk_cursor = within.map(Box::new);
            if self.walk_cursor.is_some() || has_enough(images) {
                break;
            }
        }
        self.progress.walked_to().is_none()
    }

    /// Counts the entries that can expire.
    #[cfg(test)]
    pub(crate) fn count_volatile(&self) -> usize {
        let words = |segment: Segment| {
            segment.occupied_places().filter(|(_, word)| word.is_volatile()).count()
        };
        self.directory.segments().map(words).sum()
    }

    /// Whether any entry is older than the epoch of `barrier`.
    #[cfg(test)]
    pub(crate) fn has_older(&self, barrier: MutationBarrier) -> bool {
        let words = self.directory.segments();
        let any = |segment: Segment| {
            let mut words = segment.occupied_places().map(|(_, word)| word);
            words.any(|word| word.entry().is_some_and(|entry| barrier.is_older(entry)))
        };
        { words }.any(any)
    }

    /// Removes the best victim among a few entries around a random place, unless all of them are
    /// spared.
    pub(crate) fn evict(
        &mut self,
        barrier: MutationBarrier,
        selection: VictimSelection,
        random: u64,
        removals: &mut ServerRemovals<'_>,
    ) -> bool {
        let victim = self.victim(barrier, selection, random, removals.spares);
        let Some((place, entry)) = victim else { return false };
        // SAFETY: nothing changes the entry during the callback.
        (removals.show)(self.database(), unsafe { EntryView::new(entry) });
        let entry = self.mutable(barrier, entry, ValueOutcome::Goes);
        removals.garbage.add(self.remove(place, entry));
        self.slab.report_all_idle_bytes();
        true
    }

    /// Returns the urgency of the best victim, if there is one ([`VictimSelection::urgency`]).
    pub(crate) fn urgency(
        &self,
        barrier: MutationBarrier,
        selection: VictimSelection,
        random: u64,
        spares: Option<Spares<'_>>,
    ) -> Option<u64> {
        let victim = self.victim(barrier, selection, random, spares);
        victim.map(|(_, entry)| selection.urgency(entry))
    }

    /// Returns the best victim among a few entries around a random place.
    fn victim(
        &self,
        barrier: MutationBarrier,
        selection: VictimSelection,
        random: u64,
        spares: Option<Spares<'_>>,
    ) -> Option<(Place, Entry)> {
        let only_volatile = selection.policy.only_volatile();
        if only_volatile && self.volatile == 0 {
            return None;
        }
        let mut position = random >> (64 - POSITION_BITS);
        for _ in 0..SEGMENTS_PER_STEP {
            let segment = self.directory.get(position)?;
            let sample = segment.sample(random as usize, only_volatile, SAMPLES);
            let entries = sample.clone().filter_map(|index| segment.word(index).entry());
            entries.clone().for_each(|entry| prefetch(entry.pointer()));
            let entries = entries.filter(|entry| !self.is_spared(*entry, spares));
            // An entry that the snapshot already has frees memory at once, unless it is one of the
            // few whose values wait for the saver.
            let saved = entries.clone().filter(|entry| !barrier.is_older(*entry));
            if let Some(entry) = selection.choose(saved).or_else(|| selection.choose(entries))
                && let Some(index) =
                    { sample }.find(|index| segment.word(*index).entry() == Some(entry))
            {
                return Some((Place { segment, index }, entry));
            }
            position = ((position & !(span(segment) - 1)) + span(segment)) % (1 << POSITION_BITS);
        }
        None
    }

    /// Whether an entry must stay.
    fn is_spared(&self, entry: Entry, spares: Option<Spares<'_>>) -> bool {
        spares.is_some_and(|spares| spares(self.hash_of(entry)))
    }

    /// Returns the entry at a random place, all entries being equally likely; `None` if the place
    /// is empty, in which case the caller tries again. `random` has 64 uniform bits.
    pub(crate) fn sample(&self, random: u64) -> Option<Entry> {
        let position = random >> (64 - POSITION_BITS);
        let segment = self.directory.get(position)?;
        // The position selects a segment in proportion to its share of positions, not of places, so
        // a shallower segment is accepted less often.
        let excess = self.directory.depth() - segment.depth();
        if random & ((1 << excess) - 1) != 0 {
            return None;
        }
        let words = (segment.geometry().lines - 1) * LANES;
        let pick = ((random >> 24 & 0xff_ffff) as usize * (segment.end() - LANES)) >> 24;
        segment.word(if pick < words { pick } else { pick + LANES }).entry()
    }

    fn position_of(&self, entry: Entry) -> u64 {
        holds::note(Work { hashed: 1, ..Work::default() });
        self.locator.range.position(self.hash_of(entry))
    }

    fn hash_of(&self, entry: Entry) -> u64 {
        // SAFETY: the key is hashed at once, while the table is borrowed.
        let hash = || self.locator.hasher.key(unsafe { entry.key() }).hash;
        entry.kept_hash().unwrap_or_else(hash)
    }

    /// Frees an unlinked entry. Returns the memory that it owned outside its block.
    fn free(&mut self, entry: Entry) -> Owned {
        let fields_due = fields_due_ms(entry);
        if fields_due.is_some() {
            self.note_fields(self.hash_of(entry), fields_due, None);
        }
        let block = Block { memory: entry.pointer(), on_heap: entry.on_heap() };
        let bytes = entry.bytes();
        self.len -= 1;
        // SAFETY: nothing points to the entry any more, and the memory that it owned is taken out
        // first.
        let owned = unsafe {
            let owned = entry.take_owned();
            self.slab.free(block, bytes);
            owned
        };
        self.relocate(bytes, RELOCATIONS);
        owned
    }

    /// Moves a few entries out of a sparse arena, if there is one.
    pub(crate) fn compact(&mut self) {
        self.relocate(LARGEST_BLOCK + 1, COMPACTIONS);
    }

    /// Moves a few entries off a sparse page. Moving does not change an entry, so no barrier is
    /// passed.
    fn relocate(&mut self, bytes: usize, most_entries: usize) {
        let mut moved_bytes = 0;
        for _ in 0..most_entries {
            let Some(from) = self.slab.relocation(bytes) else { return };
            latch::time_from_here();
            // SAFETY: blocks of the slab that are in use hold entries of this table.
            let entry = unsafe { Entry::from_pointer(from) };
            let entry_bytes = entry.bytes();
            if moved_bytes > 0 && moved_bytes + entry_bytes > RELOCATION_BYTES {
                return;
            }
            moved_bytes += entry_bytes;
            holds::note(Work { entries: 1, bytes: entry_bytes as u64, ..Work::default() });
            let hash = self.hash_of(entry);
            let position = self.locator.range.position(hash);
            let Some(mut segment) = self.directory.get(position) else { return };
            // SAFETY: the name is used only here, before the entry moves.
            let name = || unsafe { entry.name() };
            let found = segment.find(position, fingerprint(hash), name, |it| it == entry);
            let Some(index) = found else { return };
            let block = self.slab.take(entry_bytes);
            // SAFETY: both blocks are of this entry's class and distinct; the old one is freed once
            // nothing points to it.
            let moved = unsafe {
                block.memory.copy_from_nonoverlapping(from, entry_bytes);
                let moved = Entry::from_pointer(block.memory);
                moved.set_on_heap(block.on_heap);
                moved
            };
            let volatile = segment.word(index).is_volatile();
            segment.replace(index, Word::new(moved, fingerprint(hash), volatile));
            // SAFETY: as above.
            unsafe { self.slab.free(Block { memory: from, on_heap: false }, entry_bytes) };
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let segments: Vec<Segment> = self.directory.segments().collect();
        for segment in segments {
            let entries: Vec<Entry> =
                segment.occupied_places().filter_map(|(_, word)| word.entry()).collect();
            for entry in entries {
                let block = Block { memory: entry.pointer(), on_heap: entry.on_heap() };
                let bytes = entry.bytes();
                // SAFETY: the table is dropped, and with it every pointer to the entry.
                unsafe {
                    drop(entry.take_owned());
                    self.slab.free(block, bytes);
                }
            }
            // SAFETY: the directory is dropped too.
            unsafe { segment.free(&self.pool) };
            self.pool.notify_preparer();
            pace::pause();
        }
    }
}

/// Tables that were removed from the store.
impl Removed for Vec<Table> {
    fn is_empty(&self) -> bool {
        self.capacity() == 0
    }

    fn objects(&self) -> u64 {
        self.iter().map(|table| table.len() as u64).sum()
    }
}

/// Returns the number of positions that a segment covers.
fn span(segment: Segment) -> u64 {
    1 << (POSITION_BITS - segment.depth())
}

/// Returns when the fields of the hash in an entry next have to be swept, if any of them expire.
#[inline]
fn fields_due_ms(entry: Entry) -> Option<u64> {
    // SAFETY: the latch is held, and the view ends here.
    unsafe { EntryView::new(entry) }.fields_due_ms()
}
