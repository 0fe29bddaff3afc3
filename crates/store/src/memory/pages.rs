//! The store's memory in pages of 4 KiB, for segments and for small entries, and in arenas.
//!
//! ```text
//!  region, 4 MiB, aligned to its size
//!  +----------------------------------+--------+--------+--   --+-----------+
//!  | notes: 24 bytes about each page  | page 6 | page 7 |  ...  | page 1023 |
//!  +----------------------------------+--------+--------+--   --+-----------+
//!  | notes about each arena           | arena 1         |  ...  | arena 31  |
//!  +----------------------------------+-----------------+--   --+-----------+
//! ```
//!
//! The owner of a page keeps its metadata in the region's notes instead of on the page, so that
//! blocks of 128 bytes fill a page completely. A freed page is kept warm for the next request; if
//! many are idle, their memory is returned to the kernel, but the pool keeps their addresses. A
//! page that was a segment's is reused only for segments, because it may still be read without a
//! latch (`directory.rs`).
//!
//! Pages are allocated and freed under the latches of shards, where no thread should wait for the
//! kernel. So the preparer requests memory from the kernel in advance (`provide`), without a latch:
//! for the next pages, for some pages whose memory was returned, and, in a large store, for whole
//! arenas. Only if it is late does a worker do some of this, between batches (`maintain`). The
//! preparer also returns idle memory. Pages are freed in any order and each request to the kernel
//! interrupts every worker, so it gathers many pages and returns adjacent ones together.

use crate::memory::accounting::{Overhead, room_bytes};
use crate::memory::idle::{self, Idle, NOTE_BYTES, Unit};
use crate::memory::region::{self, PAGE_BYTES, REGION_BYTES};
use crate::sync::holds::{self, Work};
use crate::sync::latch::{self, Latch};
use crate::sync::{pace, ticks};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

const REGION_PAGES: usize = REGION_BYTES / PAGE_BYTES;
/// The number of pages at a region's start that hold the notes.
const NOTE_PAGES: usize = (REGION_PAGES * NOTE_BYTES).div_ceil(PAGE_BYTES);

/// How many pages are requested from the kernel at once. With large pages, the first access
/// provides all of one, and the rest costs nothing.
const STEP_PAGES: usize = if cfg!(miri) { 8 } else { 64 };
/// The preparer keeps one in this many of a store's pages ahead of workers, within bounds. At least
/// as many as workers fill in a millisecond. At most a large page, since the kernel may take
/// milliseconds for one, while workers fill the pages before it.
const AHEAD_PART: usize = 128;
const MIN_AHEAD_PAGES: usize = STEP_PAGES;
const MAX_AHEAD_PAGES: usize = if cfg!(miri) { STEP_PAGES } else { 8 * STEP_PAGES };
const _: () = assert!(MAX_AHEAD_PAGES < REGION_PAGES - NOTE_PAGES, "two regions suffice");
/// With this few left, a worker provides pages itself. They suffice for one batch.
const CRITICAL_PAGES: usize = STEP_PAGES / 2;
/// The corresponding numbers for arenas, of which only addresses are reserved.
const LOW_ARENAS: usize = 16;
const CRITICAL_ARENAS: usize = 4;

/// Arenas are provided whole if this many bytes are announced: all but the last of each table will
/// be full, and the others take at most a sixteenth of this.
const MANY_BYTES: u64 = 256 << 20;
/// Arenas are also provided whole in a store that already has this many bytes, because clients
/// would notice the waits.
const LARGE_BYTES: usize = 128 << 20;
/// Arenas are not provided whole, however, if more than one in this many bytes of the store's
/// memory is free on pages and in arenas, as with many databases that have a few large entries
/// each.
const MAX_IDLE_PART: usize = 4;
/// The maximum number of arenas in use whose memory the preparer has yet to provide.
const MAX_LATE: usize = 512;

/// How much memory is kept ready, while pages whose memory was returned to the kernel, or whole
/// arenas, are requested: as much as workers fill while the preparer waits for a processor.
const READY_BYTES: usize = 1 << 20;
/// A small store keeps only one in this many of its bytes ready, but at least a slice.
const READY_PART: usize = 64;

/// How much of each kind of idle memory stays warm while it is requested: more than is kept ready,
/// so that the preparer does not return memory that it has just provided.
const WARM_BYTES: usize = 4 * READY_BYTES;
/// With more than this of all kinds together, the preparer returns some of it.
const MAX_WARM_BYTES: usize = 3 * WARM_BYTES;
/// The time between two checks of whether idle memory is requested.
const CHECK_INTERVAL: Duration = Duration::from_millis(80);
/// How many bytes are taken off a list while its latch is held once, and returned to the kernel by
/// threads other than the preparer.
const SLICE_BYTES: usize = 64 * PAGE_BYTES;
/// How many bytes the preparer gathers before it returns them to the kernel.
const GATHERED_BYTES: usize = 64 << 20;

/// A page: aligned memory of [`PAGE_BYTES`], contents undefined.
pub(crate) type Page = Unit;

/// Size and alignment of an arena.
pub(crate) const ARENA_BYTES: usize = 128 * 1024;

/// Aligned memory of [`ARENA_BYTES`], contents undefined, written from its start.
pub(crate) type Arena = Unit;

/// The state of the reserve.
const FINE: u8 = 0;
const LOW: u8 = 1;
const CRITICAL: u8 = 2;

/// Provides pages and arenas to all shards.
#[derive(Debug)]
pub(crate) struct PagePool {
    pages: Latch<Pages>,
    arenas: Latch<Arenas>,
    /// The bytes of pages in use, and of arenas in use up to the last byte ever written.
    used_bytes: AtomicUsize,
    /// How many of these bytes their owners do not use at the moment.
    idle_bytes: AtomicIsize,
    /// The bytes of idle pages and arenas that keep their memory.
    warm_bytes: AtomicUsize,
    /// [`FINE`], [`LOW`] or [`CRITICAL`].
    stock: AtomicU8,
    /// Whether so much data is expected that arenas are provided before they are used.
    expects_much: AtomicBool,
    /// When requests for idle memory were last checked, in ticks.
    checked_at: AtomicU64,
    /// Whether the preparer should return memory that was not requested recently.
    rests: AtomicBool,
    /// Held by the thread that provides new memory.
    preparing: Mutex<()>,
    preparer: OnceLock<Thread>,
}

#[derive(Debug)]
struct Pages {
    regions: Regions,
    blocks: Idle,
    segments: Idle,
}

#[derive(Debug)]
struct Arenas {
    regions: Regions,
    idle: Idle,
    /// Arenas in use that count as provided although the preparer has yet to provide the rest of
    /// their memory.
    late: VecDeque<Arena>,
}

/// The source of new units.
#[derive(Debug)]
struct Regions {
    all: Vec<NonNull<u8>>,
    /// The number of pages of a unit, and of a region's notes.
    unit_pages: usize,
    note_pages: usize,
    current: Option<Frontier>,
    /// The next region, if it is mapped already.
    next: Option<Frontier>,
}

/// A region from which units are allocated.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    region: NonNull<u8>,
    /// The number of pages from its start that are allocated or hold notes.
    carved: usize,
    /// The number of pages from its start that the kernel has provided.
    provided: usize,
}

/// The next step of preparation, so that no thread has to wait for the kernel.
enum PreparerTask {
    /// Map another region. The flag tells whether it is the first.
    Region(bool),
    Memory(Frontier),
}

// SAFETY: the pointers are to memory that the pool owns; a unit is in one list or allocated.
unsafe impl Send for Pages {}
// SAFETY: as for `Pages`.
unsafe impl Send for Arenas {}

impl Default for PagePool {
    fn default() -> Self {
        let idle = || Idle::new(PAGE_BYTES);
        let pages = Regions::new(1, NOTE_PAGES);
        let arenas = Regions::new(ARENA_BYTES / PAGE_BYTES, ARENA_BYTES / PAGE_BYTES);
        PagePool {
            pages: Latch::new(Pages { regions: pages, blocks: idle(), segments: idle() }),
            arenas: Latch::new(Arenas {
                regions: arenas,
                idle: Idle::new(ARENA_BYTES),
                late: VecDeque::with_capacity(MAX_LATE),
            }),
            used_bytes: AtomicUsize::default(),
            idle_bytes: AtomicIsize::default(),
            warm_bytes: AtomicUsize::default(),
            stock: AtomicU8::new(FINE),
            expects_much: AtomicBool::default(),
            checked_at: AtomicU64::default(),
            rests: AtomicBool::default(),
            preparing: Mutex::default(),
            preparer: OnceLock::new(),
        }
    }
}

impl PagePool {
    /// Allocates a page with undefined contents.
    pub(crate) fn take(&self) -> Page {
        self.take_of(|pages| &mut pages.blocks)
    }

    /// Frees a page.
    ///
    /// # Safety
    /// The page came from [`PagePool::take`] of this pool, and is no longer referenced.
    pub(crate) unsafe fn free(&self, page: Page) {
        // SAFETY: the caller guarantees it.
        unsafe { self.free_to(page, |pages| &mut pages.blocks) };
    }

    /// Allocates a page with undefined contents, from now on only for segments.
    pub(crate) fn take_segment(&self) -> Page {
        self.take_of(|pages| &mut pages.segments)
    }

    /// Frees a segment's page.
    ///
    /// # Safety
    /// The page came from [`PagePool::take_segment`] of this pool, and is no longer referenced
    /// except by prefetching, which reads it as a segment.
    pub(crate) unsafe fn free_segment(&self, page: Page) {
        // SAFETY: the caller guarantees it.
        unsafe { self.free_to(page, |pages| &mut pages.segments) };
    }

    fn take_of(&self, kind: Kind) -> Page {
        note_unit();
        self.used_bytes.fetch_add(PAGE_BYTES, Ordering::Relaxed);
        let mut pages = self.pages.lock_nested();
        let idle = kind(&mut pages);
        if let Some((page, bytes)) = idle.take() {
            self.warm_bytes.fetch_sub(bytes, Ordering::Relaxed);
            if bytes == 0 {
                note_wait();
            }
            if idle.ready_bytes() < self.ready_bytes() && idle.has_unready() {
                self.stock.fetch_max(LOW, Ordering::Relaxed);
            }
            return page;
        }
        let provided_pages = pages.regions.provided_pages();
        if provided_pages == 0 {
            note_wait();
        }
        let page = pages.regions.carve();
        if provided_pages < CRITICAL_PAGES {
            self.stock.fetch_max(CRITICAL, Ordering::Relaxed);
        } else if provided_pages <= self.ahead_pages() {
            self.stock.fetch_max(LOW, Ordering::Relaxed);
        }
        page
    }

    /// # Safety
    /// The page is of that kind, came from this pool, and is no longer referenced.
    unsafe fn free_to(&self, page: Page, kind: Kind) {
        note_unit();
        self.used_bytes.fetch_sub(PAGE_BYTES, Ordering::Relaxed);
        self.warm_bytes.fetch_add(PAGE_BYTES, Ordering::Relaxed);
        // SAFETY: the caller guarantees it; pages are in regions with notes.
        unsafe { kind(&mut self.pages.lock_nested()).free(page, PAGE_BYTES) };
    }

    /// Allocates an arena. Returns it and how many bytes from its start have memory.
    pub(crate) fn take_arena(&self) -> (Arena, usize) {
        note_unit();
        let mut arenas = self.arenas.lock_nested();
        let idle = if self.is_small() { arenas.take_untouched() } else { arenas.idle.take() };
        if arenas.idle.ready_bytes() < READY_BYTES && self.provides_arenas() {
            self.stock.fetch_max(LOW, Ordering::Relaxed);
        }
        if let Some((arena, touched)) = idle {
            self.warm_bytes.fetch_sub(touched, Ordering::Relaxed);
            self.count_touched(touched);
            return (arena, touched);
        }
        let arena = arenas.regions.carve();
        match arenas.regions.left() {
            0..CRITICAL_ARENAS => self.stock.fetch_max(CRITICAL, Ordering::Relaxed),
            LOW_ARENAS => self.stock.fetch_max(LOW, Ordering::Relaxed),
            _ => FINE,
        };
        (arena, 0)
    }

    /// Frees an arena of which `touched` bytes have memory.
    ///
    /// # Safety
    /// The arena came from this pool, and is no longer referenced.
    pub(crate) unsafe fn free_arena(&self, arena: Arena, touched: usize) {
        note_unit();
        self.used_bytes.fetch_sub(touched, Ordering::Relaxed);
        self.add_idle_bytes(-touched.cast_signed());
        self.warm_bytes.fetch_add(touched, Ordering::Relaxed);
        let provides = self.provides_arenas();
        let mut arenas = self.arenas.lock_nested();
        if provides && touched < ARENA_BYTES {
            // SAFETY: the caller guarantees it. The preparer provides the rest of its memory first.
            unsafe { arenas.idle.free_last(arena, touched) };
        } else {
            // SAFETY: the caller guarantees it.
            unsafe { arenas.idle.free(arena, touched) };
        }
    }

    /// Records that an arena of which `touched` bytes have memory is about to be written up to
    /// `end`. Returns the new end of the part that counts as having memory. It may be beyond `end`,
    /// since the preparer provides the rest soon; until then the bytes beyond `end` count as idle.
    ///
    /// # Safety
    /// It is an arena of this pool.
    pub(crate) unsafe fn touch(&self, arena: Arena, touched: usize, end: usize) -> usize {
        latch::time_from_here();
        let mut now = end.next_multiple_of(PAGE_BYTES);
        if self.provides_arenas() {
            let late = &mut self.arenas.lock_nested().late;
            // No allocation under the latch.
            if late.len() < MAX_LATE {
                late.push_back(arena);
                self.stock.fetch_max(LOW, Ordering::Relaxed);
                now = ARENA_BYTES;
            }
        }
        self.count_touched(now - touched);
        now
    }

    fn count_touched(&self, bytes: usize) {
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.add_idle_bytes(bytes.cast_signed());
    }

    /// Whether arenas get all of their memory before they are written.
    fn provides_arenas(&self) -> bool {
        let used_bytes = self.used_bytes();
        let is_large = used_bytes >= LARGE_BYTES && self.idle_bytes() < used_bytes / MAX_IDLE_PART;
        is_large || self.expects_much.load(Ordering::Relaxed)
    }

    /// Whether idle memory in arenas is to be reclaimed as the data shrinks. Never while arenas are
    /// provided whole, because the store is large then.
    pub(crate) fn is_small(&self) -> bool {
        let live_bytes = self.used_bytes().saturating_sub(self.idle_bytes());
        let is_small = live_bytes < LARGE_BYTES - LARGE_BYTES / MAX_IDLE_PART;
        is_small && !self.expects_much.load(Ordering::Relaxed)
    }

    /// Returns how much of a kind of pages to keep ready, once some were returned to the kernel.
    fn ready_bytes(&self) -> usize {
        (self.used_bytes() / READY_PART).clamp(SLICE_BYTES, READY_BYTES)
    }

    /// Returns how many new pages to provide ahead of workers.
    fn ahead_pages(&self) -> usize {
        let pages = self.used_bytes() / PAGE_BYTES / AHEAD_PART;
        pages.clamp(MIN_AHEAD_PAGES, MAX_AHEAD_PAGES)
    }

    /// Sets the thread that calls [`PagePool::provide`] whenever it is unparked.
    pub(crate) fn set_preparer(&self, preparer: Thread) {
        let _ = self.preparer.set(preparer);
    }

    /// Announces that about this many bytes will be stored.
    pub(crate) fn expect(&self, bytes: u64) {
        let expects_much = bytes >= MANY_BYTES;
        self.expects_much.store(expects_much, Ordering::Relaxed);
        if expects_much {
            self.arenas.lock().idle.note_request();
        }
    }

    /// Prepares memory so that no thread waits for the kernel under a latch, and wakes the preparer
    /// to return idle memory. Usually there is nothing to do. No latch may be held.
    #[inline]
    pub(crate) fn maintain(&self) {
        if self.stock.load(Ordering::Relaxed) == CRITICAL {
            self.prepare();
        }
        self.notify_preparer();
    }

    /// Wakes the preparer if there is work for it. No latch may be held.
    #[inline]
    pub(crate) fn notify_preparer(&self) {
        if self.stock.load(Ordering::Relaxed) != FINE || self.warm_bytes() > MAX_WARM_BYTES {
            self.wake_preparer();
        }
    }

    #[cold]
    fn wake_preparer(&self) {
        self.stock.store(FINE, Ordering::Relaxed);
        match self.preparer.get() {
            Some(preparer) => preparer.unpark(),
            None => _ = self.cool(),
        }
    }

    /// Performs all outstanding preparation, step by step.
    pub(crate) fn provide(&self) {
        loop {
            self.prepare_ahead(self.ahead_pages());
            let mut worked = self.complete_arena() | self.ready_arena();
            for kind in KINDS {
                worked |= self.ready_pages(kind);
            }
            if !worked && !self.cool_by(GATHERED_BYTES) {
                break;
            }
        }
        if self.rests.swap(false, Ordering::Relaxed) {
            self.release_unrequested(GATHERED_BYTES);
        }
    }

    /// Makes the kernel provide the rest of an arena in use. Returns whether there was one.
    fn complete_arena(&self) -> bool {
        let late = self.arenas.lock_nested().late.pop_front();
        // SAFETY: an arena is part of a region. Its contents stay.
        late.into_iter().for_each(|arena| unsafe { region::populate(arena, ARENA_BYTES) });
        late.is_some()
    }

    /// Makes the kernel provide the memory of the next arena, if whole arenas are requested.
    fn ready_arena(&self) -> bool {
        let mut arenas = self.arenas.lock_nested();
        let expects_requests = self.provides_arenas() && arenas.idle.expects_requests();
        if !expects_requests || arenas.idle.ready_bytes() >= 2 * READY_BYTES {
            return false;
        }
        let unready = arenas.idle.take_unready();
        let fresh = || (arenas.regions.left() > 0).then(|| (arenas.regions.carve(), 0));
        let Some((arena, bytes)) = unready.or_else(fresh) else { return false };
        drop(arenas);
        // SAFETY: the arena is in no list and belongs to the pool.
        unsafe { region::populate(arena, ARENA_BYTES) };
        self.warm_bytes.fetch_add(ARENA_BYTES - bytes, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { self.arenas.lock_nested().idle.free(arena, ARENA_BYTES) };
        true
    }

    /// Makes the kernel provide the memory of some pages whose memory was returned to it, if such
    /// pages are requested.
    fn ready_pages(&self, kind: Kind) -> bool {
        let mut taken = Vec::with_capacity(STEP_PAGES);
        let mut pages = self.pages.lock_nested();
        let idle = kind(&mut pages);
        if idle.expects_requests() && idle.ready_bytes() < 2 * self.ready_bytes() {
            let cold = std::iter::from_fn(|| idle.take_unready()).take(STEP_PAGES);
            taken.extend(cold.map(|(page, _)| (page, PAGE_BYTES)));
        }
        drop(pages);
        for (first, bytes) in runs(&mut taken) {
            // SAFETY: the pages are in no list and belong to the pool.
            unsafe { region::populate(first, bytes) };
        }
        self.warm_bytes.fetch_add(taken.len() * PAGE_BYTES, Ordering::Relaxed);
        let mut pages = self.pages.lock_nested();
        // SAFETY: as above.
        taken.iter().for_each(|(page, _)| unsafe { kind(&mut pages).free(*page, PAGE_BYTES) });
        !taken.is_empty()
    }

    /// Makes the kernel provide the next new pages, and reserves addresses for arenas. The kernel
    /// zeroes the memory, which must not happen under a latch.
    pub(crate) fn prepare(&self) {
        self.prepare_ahead(MIN_AHEAD_PAGES);
    }

    /// Like [`PagePool::prepare`], until more than this many new pages are provided.
    fn prepare_ahead(&self, ahead_pages: usize) {
        self.reserve_arenas();
        while self.prepare_step(ahead_pages) {
            pace::pause();
        }
    }

    fn reserve_arenas(&self) {
        let _turn = self.preparing.lock();
        if self.arenas.lock_nested().regions.lacks_next() {
            let region = region::map();
            // SAFETY: just mapped. Arenas are filled in no order, and many stay nearly empty.
            unsafe { region::want_small_pages(region) };
            self.arenas.lock_nested().regions.add(region);
        }
    }

    /// Performs the next step towards more than `ahead_pages`. Returns whether there was one.
    fn prepare_step(&self, ahead_pages: usize) -> bool {
        // One thread at a time: two would request the same memory.
        let _turn = self.preparing.lock();
        let next_task = self.pages.lock_nested().regions.next_task(ahead_pages);
        match next_task {
            None => return false,
            Some(PreparerTask::Region(is_first)) => {
                let region = region::map();
                if is_first {
                    // SAFETY: just mapped. A large page would be most of a small database.
                    unsafe { region::want_small_pages(region) };
                }
                self.pages.lock_nested().regions.add(region);
            }
            Some(PreparerTask::Memory(Frontier { region, provided, .. })) => {
                // SAFETY: the pages are within the region.
                unsafe {
                    let start = region.add(provided * PAGE_BYTES);
                    region::populate(start, STEP_PAGES * PAGE_BYTES);
                }
                let now_provided = provided + STEP_PAGES;
                self.pages.lock_nested().regions.note_provided(region, now_provided);
            }
        }
        true
    }

    /// Returns the bytes of the pages and arenas in use.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Returns the idle bytes that have not been returned to the kernel.
    pub(crate) fn warm_bytes(&self) -> usize {
        self.warm_bytes.load(Ordering::Relaxed)
    }

    /// Returns a slice of memory to the kernel if more is idle than the next requests need. No
    /// latch is held meanwhile. The result tells whether memory was returned.
    pub(crate) fn cool(&self) -> bool {
        self.cool_by(SLICE_BYTES)
    }

    fn cool_by(&self, bytes: usize) -> bool {
        self.warm_bytes() > MAX_WARM_BYTES && self.release_warm(|_| WARM_BYTES, bytes) > 0
    }

    /// Like [`PagePool::cool`], but returns all idle memory of a kind that was not requested during
    /// the last second. Call it from time to time.
    pub(crate) fn rest(&self) {
        let (now, before) = (ticks::now(), self.checked_at.load(Ordering::Relaxed));
        let is_due = ticks::duration(now.wrapping_sub(before)) >= CHECK_INTERVAL;
        let order = Ordering::Relaxed;
        let is_own = is_due && self.checked_at.compare_exchange(before, now, order, order).is_ok();
        if is_own {
            self.check();
        }
        match self.preparer.get() {
            None => self.release_unrequested(SLICE_BYTES),
            Some(preparer) if is_own && self.warm_bytes() > 0 => {
                self.rests.store(true, Ordering::Relaxed);
                preparer.unpark();
            }
            Some(_) => {}
        }
    }

    /// Returns up to `bytes` of idle memory to the kernel, but keeps a part of each kind that is
    /// requested.
    fn release_unrequested(&self, bytes: usize) {
        self.release_warm(|idle| if idle.expects_requests() { WARM_BYTES } else { 0 }, bytes);
    }

    fn check(&self) {
        let mut pages = self.pages.lock();
        KINDS.into_iter().for_each(|kind| kind(&mut pages).check());
        drop(pages);
        self.arenas.lock().idle.check();
    }

    /// Returns a part of the idle memory to the kernel. The result is the number of bytes.
    pub(crate) fn purge(&self) -> usize {
        self.release_warm(|_| 0, SLICE_BYTES)
    }

    /// Returns up to `most_bytes` of each kind of warm memory to the kernel, beyond the part that
    /// `kept_bytes` keeps. The result is the number of bytes.
    #[cold]
    fn release_warm(&self, kept_bytes: impl Fn(&Idle) -> usize, most_bytes: usize) -> usize {
        let room = most_bytes / PAGE_BYTES;
        // Counted from before it is allocated until after it is freed, or it would be data
        // meanwhile and cause evictions.
        let _overhead = Overhead::new(room_bytes::<(Unit, usize)>(room));
        // Allocated here, not under the latch.
        let mut taken = Vec::with_capacity(room);
        let mut gave_bytes = 0;
        for kind in KINDS {
            // In slices, so that no thread waits for the latch for long.
            loop {
                let before = taken.len();
                let mut pages = self.pages.lock();
                let idle = kind(&mut pages);
                idle.take_warm(kept_bytes(idle), SLICE_BYTES, &mut taken);
                drop(pages);
                if taken.len() == before {
                    break;
                }
            }
            gave_bytes += bytes_of(&taken);
            // SAFETY: they were taken out of their list.
            unsafe { self.release(&mut taken) };
            for slice in taken.chunks(SLICE_BYTES / PAGE_BYTES) {
                let mut pages = self.pages.lock();
                // SAFETY: they were taken out of that list.
                slice.iter().for_each(|(page, _)| unsafe { kind(&mut pages).free(*page, 0) });
            }
            taken.clear();
        }
        let mut arenas = self.arenas.lock();
        // A small store uses cold arenas.
        let kept_bytes = if self.is_small() { 0 } else { kept_bytes(&arenas.idle) };
        arenas.idle.take_warm(kept_bytes, most_bytes, &mut taken);
        drop(arenas);
        gave_bytes += bytes_of(&taken);
        // SAFETY: they were taken out of their list.
        unsafe { self.release(&mut taken) };
        let mut arenas = self.arenas.lock();
        // SAFETY: they were taken out of that list.
        taken.drain(..).for_each(|(arena, _)| unsafe { arenas.idle.free(arena, 0) });
        gave_bytes
    }

    /// Returns the memory of units to the kernel.
    ///
    /// # Safety
    /// The units are unused, in no list, and belong to the pool.
    unsafe fn release(&self, units: &mut [(Unit, usize)]) {
        for (first, bytes) in runs(units) {
            // SAFETY: the caller guarantees it.
            unsafe {
                break_up(first);
                region::release(first, bytes);
            }
            self.warm_bytes.fetch_sub(bytes, Ordering::Relaxed);
            pace::pause();
        }
    }

    /// Adjusts the number of free bytes on owners' pages. It includes the memory of empty tables,
    /// which stays when entries are removed.
    pub(crate) fn add_idle_bytes(&self, bytes: isize) {
        self.idle_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the free bytes on the pages in use, as far as their owners have reported them.
    pub(crate) fn idle_bytes(&self) -> usize {
        usize::try_from(self.idle_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// Returns the note on the page that contains `address`: [`NOTE_BYTES`] for its owner, aligned to
/// 8.
///
/// # Safety
/// `address` is on a page that a pool allocated.
#[inline]
pub(crate) unsafe fn note(address: NonNull<u8>) -> NonNull<u8> {
    // SAFETY: the caller guarantees it.
    unsafe { idle::note(address, PAGE_BYTES) }
}

/// Selects one of the two kinds of pages.
type Kind = fn(&mut Pages) -> &mut Idle;

const KINDS: [Kind; 2] = [|pages| &mut pages.blocks, |pages| &mut pages.segments];

/// Counts a wait for the kernel: the first access to the unit.
fn note_wait() {
    holds::note(Work { requests: 1, ..Work::default() });
}

/// Returns the bytes of all units that have memory.
fn bytes_of(units: &[(Unit, usize)]) -> usize {
    units.iter().map(|(_, bytes)| bytes).sum()
}

/// Joins adjacent memory into as few pieces as possible.
fn runs(units: &mut [(Unit, usize)]) -> impl Iterator<Item = (Unit, usize)> {
    units.sort_unstable();
    let follows = |a: &(Unit, usize), b: &(Unit, usize)| a.0.addr().get() + a.1 == b.0.addr().get();
    units.chunk_by(follows).filter_map(|run| run.first().map(|(first, _)| (*first, bytes_of(run))))
}

/// Counts a page or an arena that is allocated or freed.
fn note_unit() {
    latch::time_from_here();
    holds::note(Work { pages: 1, ..Work::default() });
}

impl Arenas {
    /// Returns an arena without memory, so that a table uses no more than it writes to; if there is
    /// none and a new one would need the kernel, one with memory.
    fn take_untouched(&mut self) -> Option<(Arena, usize)> {
        let has_fresh = self.regions.left() > 0;
        self.idle.take_cold().or_else(|| if has_fresh { None } else { self.idle.take() })
    }
}

impl Regions {
    fn new(unit_pages: usize, note_pages: usize) -> Self {
        Regions { all: Vec::new(), unit_pages, note_pages, current: None, next: None }
    }

    /// Allocates a new unit.
    fn carve(&mut self) -> Unit {
        let current = self.current.filter(|it| it.carved < REGION_PAGES);
        let current = current.or_else(|| self.next.take());
        let mut current = current.unwrap_or_else(|| self.begin(region::map()));
        // SAFETY: the offset is within the region.
        let unit = unsafe { current.region.add(current.carved * PAGE_BYTES) };
        current.carved += self.unit_pages;
        self.current = Some(current);
        unit
    }

    fn begin(&mut self, region: NonNull<u8>) -> Frontier {
        self.all.push(region);
        Frontier { region, carved: self.note_pages, provided: 0 }
    }

    /// Adds the next region.
    fn add(&mut self, region: NonNull<u8>) {
        self.next = Some(self.begin(region));
    }

    fn lacks_next(&self) -> bool {
        self.next.is_none()
    }

    /// Returns the number of units left in the regions that are mapped.
    fn left(&self) -> usize {
        let left = |it: Frontier| (REGION_PAGES - it.carved) / self.unit_pages;
        [self.current, self.next].into_iter().flatten().map(left).sum()
    }

    /// Returns the number of new pages that the kernel has provided.
    fn provided_pages(&self) -> usize {
        let left = |it: Frontier| it.provided.saturating_sub(it.carved);
        [self.current, self.next].into_iter().flatten().map(left).sum()
    }

    /// Returns the step needed so that more than `ahead_pages` are provided.
    fn next_task(&self, ahead_pages: usize) -> Option<PreparerTask> {
        if self.provided_pages() > ahead_pages {
            return None;
        }
        let unfinished = |it: &Frontier| it.provided.max(it.carved) < REGION_PAGES;
        let frontier = [self.current, self.next].into_iter().flatten().find(unfinished);
        let begun_step = |it: Frontier| it.carved / STEP_PAGES * STEP_PAGES;
        frontier.map_or(Some(PreparerTask::Region(self.all.is_empty())), |it| {
            Some(PreparerTask::Memory(Frontier { provided: it.provided.max(begun_step(it)), ..it }))
        })
    }

    fn note_provided(&mut self, region: NonNull<u8>, pages: usize) {
        let frontiers = [&mut self.current, &mut self.next].into_iter().flatten();
        for frontier in frontiers.filter(|it| it.region == region) {
            frontier.provided = frontier.provided.max(pages);
        }
    }
}

/// Backs the region of a unit with small pages from now on, since parts of it are unused.
///
/// # Safety
/// The unit is in a region of the pool.
unsafe fn break_up(unit: Unit) {
    // SAFETY: the region begins `offset` bytes before the unit, with a note on the pages of notes
    // that no other code uses; its memory is zero until it is written.
    let (region, done) = unsafe {
        let region = unit.sub(unit.addr().get() % REGION_BYTES);
        (region, AtomicBool::from_ptr(region.cast().as_ptr()))
    };
    if !done.swap(true, Ordering::Relaxed) {
        // SAFETY: it is a region of the pool.
        unsafe { region::want_small_pages(region) };
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        for region in &self.all {
            // SAFETY: the shards that used its units hold a reference to the pool, so no unit is in
            // use now.
            unsafe { region::unmap(*region) };
        }
    }
}

#[cfg(test)]
mod tests;
