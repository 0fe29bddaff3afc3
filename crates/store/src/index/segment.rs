//! A segment of a table: buckets of eight words, one cache line each.
//!
//! ```text
//!  line   0 .. homes-1           buckets; a key's home is the bucket that its position selects
//!         homes .. lines-2       stash, for entries that fit neither in their home nor in the next
//!         lines-1                header
//!
//!  word   63        48 47                                3  2  1  0
//!        +------------+-----------------------------------+--+--+--+
//!        | fingerprint| entry pointer                     |H |V |D |   V: the entry can expire
//!        +------------+-----------------------------------+--+--+--+   D: displaced: home is the
//!                                                                         bucket before
//!                          H: the half of its home's positions that contains it, if recorded
//! ```
//!
//! A full segment has 64 lines, one page. A small table starts with a smaller one. Entries that
//! neither splitting nor the stash can place (keys with equal hashes) go to the header's overflow
//! list.

use crate::entry::block::Entry;
use crate::entry::key::Name;
use crate::index::bucket_search;
use crate::index::overflow::Overflow;
use crate::index::placement::POSITION_BITS;
use crate::index::word::{Half, LANES, UnlatchedWord, Word};
use crate::memory::pages::PagePool;
use crate::memory::region::PAGE_BYTES;
use crate::sync::cache_line::{LINE_BYTES, prefetch};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// The greatest depth that fits the tag of a [`Segment`] reference.
pub(crate) const MAX_DEPTH: u32 = 59;
/// Coprime to the number of words of every geometry.
const STRIDE: usize = 37;
/// Tags below this are small geometries; from here on they are depths of full segments.
const FULL: usize = GEOMETRIES.len() - 1;
const TAG_BITS: usize = 0b11_1111;

/// The number of a segment's lines and their use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) lines: usize,
    pub(crate) homes: usize,
}

/// Only a few sizes, since the memory of an outgrown segment is seldom reused.
const GEOMETRIES: [Geometry; 3] = [
    Geometry { lines: 4, homes: 3 },
    Geometry { lines: 16, homes: 14 },
    Geometry { lines: 64, homes: FULL_HOMES },
];
/// The number of homes of a full segment; even, so that no home belongs to two halves.
const FULL_HOMES: usize = 60;
/// A bit for each home of a full segment.
const HOMES: u64 = (1 << FULL_HOMES) - 1;

/// A segment: its address, aligned to a line and tagged with its depth or small geometry, so that a
/// lookup need not read the header. It is valid under its table's latch until it is freed; a
/// segment found without the latch is an [`UnlatchedSegment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment(NonNull<u8>);

/// A segment that was found without the latch: it may have been freed meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnlatchedSegment(NonNull<u8>);

/// A bucket of a current or former full segment, for reading without the latch; the result is only
/// a hint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket(NonNull<Word>);

/// A segment's header, which occupies its last line.
#[derive(Debug)]
pub(crate) struct Header {
    /// The number of entries in the buckets, the stash and the overflow list.
    pub(crate) live: u32,
    /// The number of entries that can expire.
    pub(crate) volatile: u32,
    /// No entry expires before this time, in milliseconds since 1970.
    pub(crate) earliest_expiry_ms: u64,
    /// A set bit marks a home with entries in the stash or the overflow list.
    stashed_homes: u64,
    /// A set bit marks a bucket in which every word has its half recorded.
    recorded_halves: u64,
    overflow: Option<Box<Overflow>>,
}

/// A place in a segment: the index of its word. The overflow list's indexes follow those of the
/// lines.
pub(crate) type Index = usize;

impl Segment {
    /// Creates an empty segment at depth 0, of the smallest geometry with ample room for `entries`.
    pub(crate) fn small(pool: &PagePool, entries: usize) -> Self {
        Segment::allocate(pool, fitting(entries))
    }

    /// Whether a segment for this many entries is smaller than this one.
    pub(crate) fn shrinks_for(&self, entries: usize) -> bool {
        geometry(fitting(entries)).lines < self.geometry().lines
    }

    /// Creates an empty full segment at a depth.
    pub(crate) fn full(pool: &PagePool, depth: u32) -> Self {
        debug_assert!(depth <= MAX_DEPTH);
        Segment::allocate(pool, FULL + depth as usize)
    }

    fn allocate(pool: &PagePool, tag: usize) -> Self {
        let bytes = geometry(tag).lines * LINE_BYTES;
        let memory = if bytes == PAGE_BYTES {
            pool.take_segment()
        } else {
            let layout = small_layout(bytes);
            // SAFETY: the layout's size is not zero.
            NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
        };
        let segment = Segment(memory.map_addr(|address| address | tag));
        // SAFETY: the memory is ours, has the size of the geometry, and has not been read yet.
        unsafe {
            for index in 0..bytes / size_of::<Word>() - LANES {
                Word::EMPTY.store(segment.word_pointer(index));
            }
            segment.header_pointer().write(Header {
                live: 0,
                volatile: 0,
                earliest_expiry_ms: u64::MAX,
                stashed_homes: 0,
                recorded_halves: u64::MAX,
                overflow: None,
            });
        }
        segment
    }

    /// Frees the segment, not the entries that it points to.
    ///
    /// # Safety
    /// The segment is no longer referenced.
    pub(crate) unsafe fn free(self, pool: &PagePool) {
        let bytes = self.geometry().lines * LINE_BYTES;
        // SAFETY: the segment was allocated with this layout, and is not used any more.
        unsafe {
            self.header_pointer().drop_in_place();
            if bytes == PAGE_BYTES {
                pool.free_segment(self.base());
            } else {
                dealloc(self.base().as_ptr(), small_layout(bytes));
            }
        }
    }

    /// Returns the number of leading bits that all its entries' positions share; 0 for a small
    /// segment.
    pub(crate) fn depth(self) -> u32 {
        (self.tag().saturating_sub(FULL)) as u32
    }

    pub(crate) fn is_full_size(self) -> bool {
        self.tag() >= FULL
    }

    pub(crate) fn geometry(self) -> Geometry {
        geometry(self.tag())
    }

    /// Returns the bucket that contains a position.
    #[inline]
    pub(crate) fn home(self, position: u64) -> usize {
        (self.twice_home_and_half(position) >> 1) as usize
    }

    /// Returns the half of its home's positions that contains a position.
    #[inline]
    pub(crate) fn half(self, position: u64) -> Half {
        (self.twice_home_and_half(position) & 1) as usize
    }

    #[inline]
    fn twice_home_and_half(self, position: u64) -> u64 {
        let rest = position << self.depth() & ((1 << POSITION_BITS) - 1);
        (rest * self.geometry().homes as u64) >> (POSITION_BITS - 1)
    }

    /// Returns the half, and the home in it, to which the entries at this home belong after a full
    /// segment has been split.
    pub(crate) fn home_after_split(home: usize, half: Half) -> (usize, usize) {
        let twice = 2 * home + half;
        if twice < FULL_HOMES { (0, twice) } else { (1, twice - FULL_HOMES) }
    }

    /// Returns the half that contains a position.
    pub(crate) fn half_after_split(self, position: u64) -> usize {
        (position >> (POSITION_BITS - self.depth() - 1) & 1) as usize
    }

    /// Returns the first position, relative to the segment's first, after bucket `home`.
    pub(crate) fn end_of(self, home: usize) -> u64 {
        let homes = self.geometry().homes as u64;
        let end = ((home as u64 + 1) << POSITION_BITS).div_ceil(homes);
        end.div_ceil(1 << self.depth())
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: a segment that is not freed has a header, which only the latch's holder reads:
        // prefetching reads only the lines before it.
        unsafe { self.header_pointer().as_ref() }
    }

    /// Only for the functions of this file, each of which ends this borrow before it begins
    /// another.
    fn header_mut(&mut self) -> &mut Header {
        // SAFETY: as in `header`. The latch is held exclusively, and no borrow of the header
        // outlives the call in which it began.
        unsafe { self.header_pointer().as_mut() }
    }

    /// Sets the time before which no entry expires, in milliseconds since 1970.
    pub(crate) fn set_earliest_expiry(&mut self, earliest_expiry_ms: u64) {
        self.header_mut().earliest_expiry_ms = earliest_expiry_ms;
    }

    /// Updates the earliest expiry for an entry that was added.
    pub(crate) fn note_expiry(&mut self, expire_at_ms: Option<u64>) {
        if let Some(at_ms) = expire_at_ms {
            let header = self.header_mut();
            header.earliest_expiry_ms = header.earliest_expiry_ms.min(at_ms);
        }
    }

    /// Returns the segment that [`Segment::raw`] was called on; `None` for null.
    ///
    /// # Safety
    /// The segment has not been freed, and this is used only under its table's latch.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut u8) -> Option<Self> {
        NonNull::new(raw).map(Segment)
    }

    pub(crate) fn raw(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// Returns the bucket for entries that do not fit in `home`.
    #[inline]
    fn neighbour(self, home: usize) -> usize {
        if home + 1 == self.geometry().homes { 0 } else { home + 1 }
    }

    /// Finds the word with this fingerprint at the home of `position` for which `is_it` holds;
    /// `name` returns an entry's name.
    #[inline]
    pub(crate) fn find<'n>(
        self,
        position: u64,
        fingerprint: u16,
        name: impl FnOnce() -> Name<'n>,
        mut is_it: impl FnMut(Entry) -> bool,
    ) -> Option<Index> {
        let home = self.home(position);
        for bucket in [home, self.neighbour(home)] {
            // SAFETY: every position falls in a bucket of the segment.
            if let Some(index) = unsafe { self.find_in(bucket, fingerprint, &mut is_it) } {
                return Some(index);
            }
        }
        if self.header().stashed_homes >> home & 1 == 0 {
            return None;
        }
        self.find_stashed(fingerprint, name, is_it)
    }

    /// # Safety
    /// The segment has this bucket.
    #[inline]
    unsafe fn find_in(
        self,
        bucket: usize,
        fingerprint: u16,
        mut is_it: impl FnMut(Entry) -> bool,
    ) -> Option<Index> {
        // SAFETY: callers pass a bucket of this segment.
        let mut lanes = unsafe {
            bucket_search::of_fingerprint(self.word_pointer(bucket * LANES), fingerprint)
        };
        while lanes != 0 {
            let index = bucket * LANES + lanes.trailing_zeros() as usize;
            // SAFETY: a lane of a bucket of this segment.
            let word = unsafe { self.word_pointer(index).read() };
            if word.entry().is_some_and(&mut is_it) {
                return Some(index);
            }
            lanes &= lanes - 1;
        }
        None
    }

    #[cold]
    fn find_stashed<'n>(
        self,
        fingerprint: u16,
        name: impl FnOnce() -> Name<'n>,
        mut is_it: impl FnMut(Entry) -> bool,
    ) -> Option<Index> {
        let Geometry { homes, lines } = self.geometry();
        // SAFETY: all lines but the last are buckets.
        let find_in = |bucket| unsafe { self.find_in(bucket, fingerprint, &mut is_it) };
        let in_stash = (homes..lines - 1).find_map(find_in);
        let in_overflow = || Some(lines * LANES + self.header().overflow.as_ref()?.find(name())?);
        in_stash.or_else(in_overflow)
    }

    /// Adds a word at `home` and returns its place; `None` if there is no room. `half` is the half
    /// of its home's positions that contains it, if known.
    ///
    /// # Safety
    /// The segment has this home.
    pub(crate) unsafe fn insert(
        &mut self,
        home: usize,
        half: Option<Half>,
        word: Word,
    ) -> Option<Index> {
        let word = word.in_half(half.unwrap_or_default());
        let Geometry { homes, lines } = self.geometry();
        let next = self.neighbour(home);
        // SAFETY: the caller guarantees it; the bucket after a home is one as well.
        let (here, there) = unsafe { (self.empty_lanes(home), self.empty_lanes(next)) };
        let place = if here.count_ones() < there.count_ones() {
            Some((first_of(next, there), word.displaced(true)))
        } else if here != 0 {
            Some((first_of(home, here), word.displaced(false)))
        } else {
            // SAFETY: the caller guarantees it.
            unsafe { self.make_room(home, word) }
        };
        let place = place.or_else(|| {
            // SAFETY: all lines but the last are buckets.
            let stash =
                (homes..lines - 1).find_map(|bucket| unsafe { self.first_empty(bucket) })?;
            self.header_mut().stashed_homes |= 1 << home;
            Some((stash, word.displaced(false)))
        });
        let (index, word) = place?;
        // SAFETY: the place is in a bucket of this segment.
        unsafe { self.set_word(index, word) };
        self.count_in(word);
        if half.is_none() {
            self.header_mut().recorded_halves &= !(1 << (index / LANES));
        }
        Some(index)
    }

    /// Adds a word to the overflow list and returns its place.
    pub(crate) fn insert_overflow(&mut self, home: usize, word: Word) -> Index {
        let words = self.geometry().lines * LANES;
        self.count_in(word);
        let header = self.header_mut();
        header.stashed_homes |= 1 << home;
        words + header.overflow.get_or_insert_default().insert(word.displaced(false))
    }

    /// Returns the number of entries in the overflow list.
    pub(crate) fn overflow_len(&self) -> usize {
        self.header().overflow.as_ref().map_or(0, |list| list.len())
    }

    /// Returns an exclusive upper bound of the indexes, some of which are unused.
    pub(crate) fn end(&self) -> Index {
        let overflow = self.header().overflow.as_ref();
        self.geometry().lines * LANES + overflow.map_or(0, |list| list.end())
    }

    /// Iterates over the indexes of the overflow list.
    fn overflow_indices(&self) -> impl Iterator<Item = Index> + Clone + '_ {
        let words = self.geometry().lines * LANES;
        let list = self.header().overflow.iter();
        list.flat_map(|list| list.indices()).map(move |index| words + index)
    }

    /// Empties a place.
    pub(crate) fn remove(&mut self, index: Index) {
        let word = self.word(index);
        let Geometry { homes, lines } = self.geometry();
        let header = self.header_mut();
        header.live -= 1;
        header.volatile -= u32::from(word.is_volatile());
        if index < (lines - 1) * LANES {
            // SAFETY: the place is in a bucket.
            unsafe { self.set_word(index, Word::EMPTY) };
        } else if let Some(overflow) = &mut header.overflow {
            overflow.remove(index - lines * LANES);
            if overflow.len() == 0 {
                header.overflow = None;
            }
        }
        // SAFETY: all lines but the last are buckets.
        let is_empty = |bucket| unsafe { self.empty_lanes(bucket) }.count_ones() as usize == LANES;
        let stash_is_empty = || (homes..lines - 1).all(is_empty);
        if index >= homes * LANES && self.overflow_len() == 0 && stash_is_empty() {
            self.header_mut().stashed_homes = 0;
        }
    }

    /// Replaces an entry by another of the same key, or by the same entry after a move.
    pub(crate) fn replace(&mut self, index: Index, word: Word) {
        let old = self.word(index);
        let lines = self.geometry().lines;
        if index < (lines - 1) * LANES {
            let word = word.displaced(old.is_displaced()).in_half(old.half());
            // SAFETY: the place is in a bucket.
            unsafe { self.set_word(index, word) };
        } else if let Some(list) = &mut self.header_mut().overflow {
            list.replace(index - lines * LANES, word);
        }
        let header = self.header_mut();
        header.volatile += u32::from(word.is_volatile());
        header.volatile -= u32::from(old.is_volatile());
    }

    /// Returns the word at a place; an empty word if the place does not exist.
    pub(crate) fn word(&self, index: Index) -> Word {
        let lines = self.geometry().lines;
        if index < (lines - 1) * LANES {
            // SAFETY: the index is within the buckets, which only the latch's holder writes.
            return unsafe { self.word_pointer(index).read() };
        }
        let (overflow, index) = (self.header().overflow.as_ref(), index.checked_sub(lines * LANES));
        overflow.zip(index).and_then(|(list, index)| list.get(index)).unwrap_or(Word::EMPTY)
    }

    /// Iterates over all occupied places.
    pub(crate) fn occupied_places(&self) -> impl Iterator<Item = (Index, Word)> + '_ {
        let Geometry { lines, .. } = self.geometry();
        (0..(lines - 1) * LANES)
            .chain(self.overflow_indices())
            .map(|index| (index, self.word(index)))
            .filter(|(_, word)| !word.is_empty())
    }

    /// Iterates over the words of a bucket and their places.
    pub(crate) fn words_of(&self, bucket: usize) -> impl Iterator<Item = (Index, Word)> + use<> {
        let segment = *self;
        let words = (bucket * LANES..(bucket + 1) * LANES).map(move |at| (at, segment.word(at)));
        words.filter(|(_, word)| !word.is_empty())
    }

    /// Iterates over the words of a bucket in which every word has its half recorded, with their
    /// homes and halves.
    pub(crate) fn homes_and_halves(
        &self,
        bucket: usize,
    ) -> impl Iterator<Item = (usize, Half, Word)> + use<> {
        let previous = bucket.checked_sub(1).unwrap_or(FULL_HOMES - 1);
        self.words_of(bucket).map(move |(_, word)| {
            (if word.is_displaced() { previous } else { bucket }, word.half(), word)
        })
    }

    /// Whether any bucket may have words without a recorded half.
    #[inline]
    pub(crate) fn has_unrecorded_halves(&self) -> bool {
        self.is_full_size() && !self.header().recorded_halves & HOMES != 0
    }

    /// Iterates over the buckets of homes in which words may have no recorded half.
    pub(crate) fn unrecorded_buckets(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        ones(!self.header().recorded_halves & HOMES)
    }

    /// Iterates over the buckets of homes in which every word has its half recorded.
    pub(crate) fn recorded_buckets(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        ones(self.header().recorded_halves & HOMES)
    }

    /// Iterates over all words that may have no recorded half: those of
    /// [`Self::unrecorded_buckets`], of the stash and of the overflow list.
    pub(crate) fn unrecorded_words(&self) -> impl Iterator<Item = Word> + '_ {
        let stash = FULL_HOMES..self.geometry().lines - 1;
        let buckets = self.unrecorded_buckets().chain(stash);
        let overflow = self.overflow_indices().map(|index| self.word(index));
        buckets.flat_map(|bucket| self.words_of(bucket)).map(|(_, word)| word).chain(overflow)
    }

    /// Records the half of the word at a place.
    pub(crate) fn record_half(&mut self, index: Index, half: Half) {
        if index < (self.geometry().lines - 1) * LANES {
            // SAFETY: the place is in a bucket.
            unsafe { self.set_word(index, self.word(index).in_half(half)) };
        }
    }

    /// Records that every word of a bucket has its half recorded.
    pub(crate) fn mark_recorded(&mut self, bucket: usize) {
        self.header_mut().recorded_halves |= 1 << bucket;
    }

    /// Returns the places of entries that can expire.
    pub(crate) fn volatile_places(&self) -> Vec<Index> {
        let volatile = self.occupied_places().filter(|(_, word)| word.is_volatile());
        volatile.map(|(index, _)| index).collect()
    }

    /// Returns the places of up to `count` entries, spread over the segment starting from a random
    /// place, so that no region is sampled more often than another.
    pub(crate) fn sample(
        &self,
        random: usize,
        only_volatile: bool,
        count: usize,
    ) -> impl Iterator<Item = Index> + Clone + '_ {
        let Geometry { lines, .. } = self.geometry();
        let words = (lines - 1) * LANES;
        let strided = move |step: usize| (random % words + step * STRIDE) % words;
        let overflow = self.overflow_indices();
        let none_wanted = only_volatile && self.header().volatile == 0;
        let wanted = move |index: &Index| {
            let word = self.word(*index);
            !word.is_empty() && (word.is_volatile() || !only_volatile)
        };
        let places = (0..words).map(strided).chain(overflow);
        places.filter(wanted).take(if none_wanted { 0 } else { count })
    }

    /// Iterates over the entries at `home` that are in the lines. `home_of` computes the home of an
    /// entry from its key, which is needed only for those outside their home's two buckets.
    pub(crate) fn homed_at(
        &self,
        home: usize,
        home_of: impl Fn(Entry) -> usize,
        mut visit: impl FnMut(Entry),
    ) {
        let Geometry { homes, lines } = self.geometry();
        for (bucket, displaced) in [(home, false), ((home + 1) % homes, true)] {
            let words = (0..LANES).map(|lane| self.word(bucket * LANES + lane));
            let homed = words.filter(|word| word.is_displaced() == displaced);
            homed.filter_map(Word::entry).for_each(&mut visit);
        }
        if self.header().stashed_homes >> home & 1 == 1 {
            let stash = (homes * LANES..(lines - 1) * LANES).map(|index| self.word(index));
            let homed = stash.filter_map(Word::entry).filter(|entry| home_of(*entry) == home);
            homed.for_each(visit);
        }
    }

    /// Iterates over the entries of the overflow list after a name, ordered by name; some may
    /// belong to `home`.
    pub(crate) fn overflowed<'a>(
        &'a self,
        home: usize,
        name: Option<Name<'a>>,
    ) -> impl Iterator<Item = Entry> + 'a {
        let is_stashed = self.header().stashed_homes >> home & 1 == 1;
        let list = self.header().overflow.as_ref().filter(|_| is_stashed);
        list.into_iter().flat_map(move |list| list.after(name)).filter_map(Word::entry)
    }

    /// Moves a word to make room for another one at `home`, whose two buckets are full.
    ///
    /// # Safety
    /// The segment has this home.
    unsafe fn make_room(&mut self, home: usize, word: Word) -> Option<(Index, Word)> {
        let homes = self.geometry().homes;
        let (previous, next) = ((home + homes - 1) % homes, (home + 1) % homes);
        let moves = [
            // A word displaced into this bucket moves back to its home.
            (home, true, previous, false),
            // A word at home in the next bucket is displaced by one.
            (next, false, (next + 1) % homes, true),
        ];
        for (from, displaced, to, becomes_displaced) in moves {
            // SAFETY: the caller guarantees it; the buckets before and after a home exist as well.
            let Some(empty) = (unsafe { self.first_empty(to) }) else { continue };
            let movable = (from * LANES..(from + 1) * LANES)
                .find(|index| self.word(*index).is_displaced() == displaced);
            let Some(index) = movable else { continue };
            // SAFETY: the place is in that bucket.
            unsafe { self.set_word(empty, self.word(index).displaced(becomes_displaced)) };
            if self.header().recorded_halves >> from & 1 == 0 {
                self.header_mut().recorded_halves &= !(1 << to);
            }
            return Some((index, word.displaced(from != home)));
        }
        None
    }

    fn count_in(&mut self, word: Word) {
        let header = self.header_mut();
        header.live += 1;
        header.volatile += u32::from(word.is_volatile());
    }

    /// # Safety
    /// The segment has this bucket.
    unsafe fn first_empty(&self, bucket: usize) -> Option<Index> {
        // SAFETY: the caller guarantees it.
        let empty = unsafe { self.empty_lanes(bucket) };
        (empty != 0).then(|| first_of(bucket, empty))
    }

    /// Returns a bit mask of the empty places of a bucket.
    ///
    /// # Safety
    /// The segment has this bucket.
    #[inline]
    unsafe fn empty_lanes(&self, bucket: usize) -> u32 {
        // SAFETY: the caller guarantees it; the latch is held.
        unsafe { bucket_search::empty(self.word_pointer(bucket * LANES)) }
    }

    /// # Safety
    /// The place is in a bucket of this segment.
    unsafe fn set_word(&mut self, index: Index, word: Word) {
        debug_assert!(index < (self.geometry().lines - 1) * LANES, "a place in the buckets");
        // SAFETY: the caller guarantees it; the latch is held exclusively.
        unsafe { word.store(self.word_pointer(index)) };
    }

    fn tag(self) -> usize {
        self.0.addr().get() & TAG_BITS
    }

    fn base(self) -> NonNull<u8> {
        // SAFETY: removing the tag leaves the address of an allocation, which is not null.
        unsafe { NonNull::new_unchecked(self.0.as_ptr().map_addr(|address| address & !TAG_BITS)) }
    }

    /// # Safety
    /// The index is within the segment's lines.
    #[inline]
    unsafe fn word_pointer(self, index: usize) -> NonNull<Word> {
        // SAFETY: the caller guarantees it.
        unsafe { self.base().cast::<Word>().add(index) }
    }

    fn header_pointer(self) -> NonNull<Header> {
        // SAFETY: the header is in the last line.
        unsafe { self.word_pointer((self.geometry().lines - 1) * LANES) }.cast()
    }
}

impl UnlatchedSegment {
    #[cfg(all(test, loom))]
    pub(crate) fn raw(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// Returns the segment that [`Segment::raw`] was called on; `None` for null.
    ///
    /// # Safety
    /// The pool from which the segment was allocated outlives the result.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut u8) -> Option<Self> {
        NonNull::new(raw).map(UnlatchedSegment)
    }

    /// Returns the bucket that contains a position, if this is a full segment: the memory of
    /// smaller ones is not reserved for segments, and a table that has one is likely to be cached
    /// anyway.
    #[inline]
    pub(crate) fn bucket(self, position: u64) -> Option<Bucket> {
        // Only the tag is read.
        let segment = Segment(self.0);
        // SAFETY: every position is in a bucket. The memory of a full segment stays mapped as long
        // as the pool exists, even if the segment is freed.
        let words = || unsafe { segment.word_pointer(segment.home(position) * LANES) };
        segment.is_full_size().then(|| Bucket(words()))
    }
}

impl Bucket {
    /// Prefetches the lines in which a word with this home is looked up.
    #[inline]
    pub(crate) fn prefetch(self) {
        prefetch(self.0.cast());
        prefetch(self.neighbour().0.cast());
    }

    /// Prefetches the entry of a word with this fingerprint and home.
    #[inline]
    pub(crate) fn prefetch_entry(self, fingerprint: u16) {
        for Bucket(words) in [self, self.neighbour()] {
            // SAFETY: the bucket of a full segment, whose memory is never used for anything else.
            let lanes = unsafe { bucket_search::of_fingerprint_unlatched(words, fingerprint) };
            if lanes != 0 {
                let lane = lanes.trailing_zeros() as usize;
                // SAFETY: a lane of that bucket.
                let word = unsafe { UnlatchedWord::load(words.add(lane)) };
                if let Some(entry) = word.pointer() {
                    // Most entries span two cache lines.
                    prefetch(entry);
                    return prefetch(entry.map_addr(|it| it.saturating_add(LINE_BYTES)));
                }
            }
        }
    }

    /// Returns the bucket for entries that do not fit in this one.
    #[inline]
    fn neighbour(self) -> Bucket {
        const HOMES_BYTES: usize = FULL_HOMES * LINE_BYTES;
        let offset = self.0.addr().get() % PAGE_BYTES;
        let first_or_next = if offset + LINE_BYTES == HOMES_BYTES {
            // SAFETY: full segments are aligned to their size.
            unsafe { self.0.byte_sub(offset) }
        } else {
            // SAFETY: the last home is not the segment's last line.
            unsafe { self.0.byte_add(LINE_BYTES) }
        };
        Bucket(first_or_next)
    }
}

/// Returns the indexes of a number's set bits, in ascending order.
fn ones(number: u64) -> impl Iterator<Item = usize> + Clone {
    let mut left = number;
    std::iter::from_fn(move || {
        let place = (left != 0).then(|| left.trailing_zeros() as usize);
        left &= left.wrapping_sub(1);
        place
    })
}

/// Returns the first place of a bucket whose bit is set in `lanes`; at least one must be set.
fn first_of(bucket: usize, lanes: u32) -> Index {
    bucket * LANES + lanes.trailing_zeros() as usize
}

fn geometry(tag: usize) -> Geometry {
    let full = Geometry { lines: 64, homes: FULL_HOMES };
    GEOMETRIES.get(tag.min(FULL)).copied().unwrap_or(full)
}

/// Returns the tag of the smallest geometry with room for this many entries.
fn fitting(entries: usize) -> usize {
    let fits = |geometry: &Geometry| entries <= geometry.homes * LANES * 3 / 4;
    GEOMETRIES.iter().position(fits).unwrap_or(FULL).min(FULL)
}

fn small_layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, LINE_BYTES).unwrap_or(Layout::new::<[u64; 8]>())
}

const _: () = assert!(size_of::<Header>() <= LINE_BYTES);

#[cfg(test)]
mod tests;
