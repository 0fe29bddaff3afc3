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
//! What the owner of a page must remember of it stands in the region's notes and not on the page,
//! so that blocks of 128 bytes fill a page to the last byte. A freed page is kept warm for the
//! next one who asks; when many are idle, their memory goes back to the kernel while their
//! addresses stay ours. A page that was a segment's becomes only another segment's: it may still
//! be read without a latch (`directory.rs`).
//!
//! Pages are taken and given back under the latches of shards, where nobody should wait for the
//! kernel. So what the kernel is asked for is asked for between batches (`tend`): the memory that
//! comes next by the preparer, or by a worker if the preparer was not in time, and idle memory is
//! given back a slice at a time.

use crate::holds::{self, Work};
use crate::idle::{self, Idle, Unit};
use crate::latch::{self, Latch};
use crate::region::{self, REGION_BYTES};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;

/// Size and alignment of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// What a page's owner may note beside it.
pub(crate) const NOTE_BYTES: usize = 24;
const REGION_PAGES: usize = REGION_BYTES / PAGE_BYTES;
/// Pages at a region's start that hold the notes.
const NOTE_PAGES: usize = (REGION_PAGES * NOTE_BYTES).div_ceil(PAGE_BYTES);

/// Pages that the kernel is asked to provide at once; where it has large pages, it provides one of
/// those with the first of them and has nothing left to do for the others.
const STEP_PAGES: usize = if cfg!(miri) { 8 } else { 64 };
/// With so many provided pages left the preparer is told to see to the next: what workers fill in
/// a millisecond. More would be memory for nothing, of which a large page may bring enough.
const LOW_PAGES: usize = STEP_PAGES;
/// With so few left a worker sees to it itself: more than are taken within a batch.
const CRITICAL_PAGES: usize = STEP_PAGES / 2;
/// The same for arenas, of which only the addresses are seen to.
const LOW_ARENAS: usize = 16;
const CRITICAL_ARENAS: usize = 4;

/// Arenas are provided whole if so many bytes are to be stored: all but the last of each table
/// will be full, and those that are not take no more than a sixteenth of this.
const MANY_BYTES: u64 = 256 << 20;

/// Bytes of each kind of idle memory that stay warm while such memory is asked for.
const WARM_BYTES: usize = 4 << 20;
/// More than this of all kinds together, and workers give some back between batches.
const MOST_WARM_BYTES: usize = 3 * WARM_BYTES;
/// What is given back to the kernel at a time: about 20 microseconds' worth.
const SLICE_BYTES: usize = 64 * PAGE_BYTES;

/// A page: aligned memory of [`PAGE_BYTES`], contents undefined.
pub(crate) type Page = Unit;

/// Size and alignment of an arena.
pub(crate) const ARENA_BYTES: usize = 128 * 1024;

/// Aligned memory of [`ARENA_BYTES`], contents undefined, to be written from its start on.
pub(crate) type Arena = Unit;

/// How far what comes next has been seen to.
const FINE: u8 = 0;
const LOW: u8 = 1;
const CRITICAL: u8 = 2;

/// Hands out pages and arenas to all shards.
#[derive(Debug)]
pub(crate) struct PagePool {
    pages: Latch<Pages>,
    arenas: Latch<Arenas>,
    /// Bytes of pages handed out, and of arenas as far as they were ever written.
    used_bytes: AtomicUsize,
    /// Bytes of these that their owners have no use for now.
    idle_bytes: AtomicIsize,
    /// Bytes of idle pages and arenas that keep their memory.
    warm_bytes: AtomicUsize,
    /// [`FINE`], [`LOW`] or [`CRITICAL`].
    stock: AtomicU8,
    /// Whether so much is going to be stored that arenas are provided before they are used.
    provides_arenas: AtomicBool,
    /// Held by whoever sees to what comes next.
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
}

/// Where units come from that nobody has had yet.
#[derive(Debug)]
struct Regions {
    all: Vec<NonNull<u8>>,
    /// Pages that a unit takes, and that the notes take at a region's start.
    unit_pages: usize,
    note_pages: usize,
    current: Option<Frontier>,
    /// The region that comes next, if it is there already.
    next: Option<Frontier>,
}

/// How far a region is in use.
#[derive(Clone, Copy, Debug)]
struct Frontier {
    region: NonNull<u8>,
    /// Pages from its start that are handed out, or hold notes.
    carved: usize,
    /// Pages from its start that the kernel has provided.
    provided: usize,
}

/// What is to be done next so that nobody has to wait for the kernel.
enum Want {
    /// Another region; whether it will be the first.
    Region(bool),
    Memory(Frontier),
}

// SAFETY: the pointers are to memory that the pool owns; a unit is in one list or handed out.
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
            arenas: Latch::new(Arenas { regions: arenas, idle: Idle::new(ARENA_BYTES) }),
            used_bytes: AtomicUsize::default(),
            idle_bytes: AtomicIsize::default(),
            warm_bytes: AtomicUsize::default(),
            stock: AtomicU8::new(FINE),
            provides_arenas: AtomicBool::default(),
            preparing: Mutex::default(),
            preparer: OnceLock::new(),
        }
    }
}

impl PagePool {
    /// A page of undefined contents.
    pub(crate) fn take(&self) -> Page {
        self.take_of(|pages| &mut pages.blocks)
    }

    /// Takes a page back.
    pub(crate) fn give(&self, page: Page) {
        self.give_to(page, |pages| &mut pages.blocks);
    }

    /// A page of undefined contents, which is a segment's for good.
    pub(crate) fn take_segment(&self) -> Page {
        self.take_of(|pages| &mut pages.segments)
    }

    /// Takes a segment's page back.
    pub(crate) fn give_segment(&self, page: Page) {
        self.give_to(page, |pages| &mut pages.segments);
    }

    fn take_of(&self, kind: Kind) -> Page {
        note_unit();
        self.used_bytes.fetch_add(PAGE_BYTES, Ordering::Relaxed);
        let mut pages = self.pages.lock_nested();
        let idle = kind(&mut pages);
        idle.asked = true;
        if let Some((page, bytes)) = idle.warm.pop() {
            self.warm_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return page;
        }
        if let Some((page, _)) = idle.cold.pop() {
            return page;
        }
        let provided_pages = pages.regions.provided_pages();
        if provided_pages == 0 {
            // Whoever touches it first waits for the kernel.
            holds::note(Work { requests: 1, ..Work::default() });
        }
        let page = pages.regions.carve();
        match provided_pages {
            0..CRITICAL_PAGES => self.stock.store(CRITICAL, Ordering::Relaxed),
            LOW_PAGES => self.stock.store(LOW, Ordering::Relaxed),
            _ => {}
        }
        page
    }

    fn give_to(&self, page: Page, kind: Kind) {
        note_unit();
        self.used_bytes.fetch_sub(PAGE_BYTES, Ordering::Relaxed);
        self.warm_bytes.fetch_add(PAGE_BYTES, Ordering::Relaxed);
        kind(&mut self.pages.lock_nested()).warm.push(page, PAGE_BYTES);
    }

    /// An arena, and how many bytes from its start on have been written before.
    pub(crate) fn take_arena(&self) -> (Arena, usize) {
        note_unit();
        let mut arenas = self.arenas.lock_nested();
        arenas.idle.asked = true;
        if let Some((arena, touched)) = arenas.idle.warm.pop() {
            self.warm_bytes.fetch_sub(touched, Ordering::Relaxed);
            self.touch(touched);
            return (arena, touched);
        }
        if let Some((arena, _)) = arenas.idle.cold.pop() {
            return (arena, 0);
        }
        let arena = arenas.regions.carve();
        match arenas.regions.left() {
            0..CRITICAL_ARENAS => self.stock.store(CRITICAL, Ordering::Relaxed),
            LOW_ARENAS => self.stock.store(LOW, Ordering::Relaxed),
            _ => {}
        }
        (arena, 0)
    }

    /// Takes back an arena of which so many bytes have been written.
    pub(crate) fn give_arena(&self, arena: Arena, touched: usize) {
        note_unit();
        self.used_bytes.fetch_sub(touched, Ordering::Relaxed);
        self.add_idle_bytes(-touched.cast_signed());
        self.warm_bytes.fetch_add(touched, Ordering::Relaxed);
        self.arenas.lock_nested().idle.warm.push(arena, touched);
    }

    /// Notes that so many bytes more of an arena are about to be written for the first time; they
    /// are idle still.
    pub(crate) fn touch(&self, bytes: usize) {
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.add_idle_bytes(bytes.cast_signed());
    }

    /// Says who calls [`PagePool::prepare`] whenever it is unparked.
    pub(crate) fn set_preparer(&self, preparer: Thread) {
        let _ = self.preparer.set(preparer);
    }

    /// Says that about so many bytes are going to be stored, one after the other.
    pub(crate) fn expect(&self, bytes: u64) {
        self.provides_arenas.store(bytes >= MANY_BYTES, Ordering::Relaxed);
    }

    /// Sees to it that nobody has to wait for the kernel under a latch, and that idle memory goes
    /// back to it. Nearly always there is nothing to do. No latch may be held.
    #[inline]
    pub(crate) fn tend(&self) {
        if self.stock.load(Ordering::Relaxed) != FINE {
            self.replenish();
        }
        self.cool();
    }

    #[cold]
    fn replenish(&self) {
        match (self.stock.swap(FINE, Ordering::Relaxed), self.preparer.get()) {
            (LOW, Some(preparer)) => preparer.unpark(),
            (LOW, None) => {}
            _ => self.prepare(),
        }
    }

    /// Has the kernel provide what comes next, as far as that is wanted. It fills memory with
    /// zeros first, for which nobody should have to hold a latch.
    pub(crate) fn prepare(&self) {
        // Two would ask for the same.
        let _turn = self.preparing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.arenas.lock_nested().regions.lacks_next() {
            let region = region::map();
            // SAFETY: just mapped. Arenas are filled in no order, and many stay nearly empty.
            unsafe { region::want_small_pages(region) };
            if self.provides_arenas.load(Ordering::Relaxed) {
                // Each page that is met alone would be a page fault. The notes take only one.
                // SAFETY: what lies behind the notes is a region's.
                unsafe { region::populate(region.add(ARENA_BYTES), REGION_BYTES - ARENA_BYTES) };
            }
            self.arenas.lock_nested().regions.add(region);
        }
        loop {
            let want = self.pages.lock_nested().regions.want();
            match want {
                None => return,
                Some(Want::Region(is_first)) => {
                    let region = region::map();
                    if is_first {
                        // SAFETY: just mapped. A large page would be most of a small database.
                        unsafe { region::want_small_pages(region) };
                    }
                    self.pages.lock_nested().regions.add(region);
                }
                Some(Want::Memory(Frontier { region, provided, .. })) => {
                    // SAFETY: the pages lie within the region.
                    unsafe {
                        let start = region.add(provided * PAGE_BYTES);
                        region::populate(start, STEP_PAGES * PAGE_BYTES);
                    }
                    let now_provided = provided + STEP_PAGES;
                    self.pages.lock_nested().regions.note_provided(region, now_provided);
                }
            }
        }
    }

    /// Bytes of the pages and arenas handed out.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that are in no use, and not given back to the kernel.
    pub(crate) fn warm_bytes(&self) -> usize {
        self.warm_bytes.load(Ordering::Relaxed)
    }

    /// Gives memory back to the kernel if more of it is idle than serves those who will ask next;
    /// a slice of it, with no latch held meanwhile.
    #[inline]
    pub(crate) fn cool(&self) {
        if self.warm_bytes() > MOST_WARM_BYTES {
            self.release_warm(|_| true);
        }
    }

    /// The same, and if nobody has asked for memory since the last call, a slice of all that is
    /// idle.
    pub(crate) fn rest(&self) {
        self.release_warm(std::mem::take);
    }

    /// A slice of each kind of what is warm: beyond a bound, if `keeps` says so of whether any of
    /// that kind was asked for.
    #[cold]
    fn release_warm(&self, keeps: impl Fn(&mut bool) -> bool) {
        let kinds: [Kind; 2] = [|pages| &mut pages.blocks, |pages| &mut pages.segments];
        // Allocated here, so that nothing is under the latch.
        let mut taken = Vec::with_capacity(SLICE_BYTES / PAGE_BYTES);
        let take = |idle: &mut Idle, taken: &mut Vec<(Unit, usize)>| {
            let keep_bytes = if keeps(&mut idle.asked) { WARM_BYTES } else { 0 };
            idle.take_warm(keep_bytes, SLICE_BYTES, taken);
        };
        for kind in kinds {
            take(kind(&mut self.pages.lock()), &mut taken);
            self.release(&mut taken);
            let mut pages = self.pages.lock();
            taken.drain(..).for_each(|(page, _)| kind(&mut pages).cold.push(page, 0));
        }
        take(&mut self.arenas.lock().idle, &mut taken);
        self.release(&mut taken);
        let mut arenas = self.arenas.lock();
        taken.drain(..).for_each(|(arena, _)| arenas.idle.cold.push(arena, 0));
    }

    /// Gives the memory of units back, side by side ones at once.
    fn release(&self, units: &mut [(Unit, usize)]) {
        units.sort_unstable();
        let follows =
            |a: &(Unit, usize), b: &(Unit, usize)| a.0.addr().get() + a.1 == b.0.addr().get();
        for run in units.chunk_by(follows) {
            let bytes = run.iter().map(|(_, bytes)| bytes).sum();
            if let Some((first, _)) = run.first() {
                break_up(*first);
                // SAFETY: the units are in no list and belong to the pool.
                unsafe { region::release(*first, bytes) };
            }
            self.warm_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Notes that owners of pages have so many more bytes on them free, or fewer; and what each of
    /// the many tables takes while it is empty, which stays when entries go.
    pub(crate) fn add_idle_bytes(&self, bytes: isize) {
        self.idle_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes on the pages handed out that their owners have free, as far as they have told.
    pub(crate) fn idle_bytes(&self) -> usize {
        usize::try_from(self.idle_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// The note about the page that `address` lies on: [`NOTE_BYTES`] for its owner, aligned to 8.
///
/// # Safety
/// `address` lies on a page that a pool handed out.
#[inline]
pub(crate) unsafe fn note(address: NonNull<u8>) -> NonNull<u8> {
    // SAFETY: the caller's promise.
    unsafe { idle::note(address, PAGE_BYTES) }
}

/// Which of the two kinds of pages is meant.
type Kind = fn(&mut Pages) -> &mut Idle;

/// A page or an arena is taken or given back.
fn note_unit() {
    latch::slow();
    holds::note(Work { pages: 1, ..Work::default() });
}

impl Regions {
    fn new(unit_pages: usize, note_pages: usize) -> Self {
        Regions { all: Vec::new(), unit_pages, note_pages, current: None, next: None }
    }

    /// A unit that nobody has had yet.
    fn carve(&mut self) -> Unit {
        let current = self.current.filter(|it| it.carved < REGION_PAGES);
        let current = current.or_else(|| self.next.take());
        let mut current = current.unwrap_or_else(|| self.begin(region::map()));
        // SAFETY: the offset lies within the region.
        let unit = unsafe { current.region.add(current.carved * PAGE_BYTES) };
        current.carved += self.unit_pages;
        self.current = Some(current);
        unit
    }

    fn begin(&mut self, region: NonNull<u8>) -> Frontier {
        self.all.push(region);
        Frontier { region, carved: self.note_pages, provided: 0 }
    }

    /// Adds the region that comes next.
    fn add(&mut self, region: NonNull<u8>) {
        self.next = Some(self.begin(region));
    }

    fn lacks_next(&self) -> bool {
        self.next.is_none()
    }

    /// Units of the regions that are there already.
    fn left(&self) -> usize {
        let left = |it: Frontier| (REGION_PAGES - it.carved) / self.unit_pages;
        [self.current, self.next].into_iter().flatten().map(left).sum()
    }

    /// Pages that the kernel has provided and nobody has had.
    fn provided_pages(&self) -> usize {
        let left = |it: Frontier| it.provided.saturating_sub(it.carved);
        [self.current, self.next].into_iter().flatten().map(left).sum()
    }

    /// What has to be done so that more than [`LOW_PAGES`] are provided.
    fn want(&self) -> Option<Want> {
        if self.provided_pages() > LOW_PAGES {
            return None;
        }
        let unfinished = |it: &Frontier| it.provided.max(it.carved) < REGION_PAGES;
        let frontier = [self.current, self.next].into_iter().flatten().find(unfinished);
        let begun_step = |it: Frontier| it.carved / STEP_PAGES * STEP_PAGES;
        frontier.map_or(Some(Want::Region(self.all.is_empty())), |it| {
            Some(Want::Memory(Frontier { provided: it.provided.max(begun_step(it)), ..it }))
        })
    }

    fn note_provided(&mut self, region: NonNull<u8>, pages: usize) {
        let frontiers = [&mut self.current, &mut self.next].into_iter().flatten();
        for frontier in frontiers.filter(|it| it.region == region) {
            frontier.provided = frontier.provided.max(pages);
        }
    }
}

/// Has the region of a unit come in small pages from now on, since parts of it are in no use.
fn break_up(unit: Unit) {
    // SAFETY: the region begins so much before the unit, with a note on the notes themselves that
    // nobody else needs; its memory is zero until something is noted.
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
            // SAFETY: the shards that had its units hold the pool alive, so nobody has any now.
            unsafe { region::unmap(*region) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages that are provided and have not been had.
    fn provided(pool: &PagePool) -> usize {
        pool.pages.lock().regions.provided_pages()
    }

    #[test]
    fn what_comes_next_is_provided_before_it_is_needed_and_no_more() {
        let pool = PagePool::default();
        pool.prepare();
        for _ in 0..3 * REGION_PAGES {
            let provided = provided(&pool);
            assert!((1..=LOW_PAGES + STEP_PAGES).contains(&provided), "{provided}");
            pool.take();
            pool.tend();
        }
        for _ in 0..3 * REGION_BYTES / ARENA_BYTES {
            assert!(pool.arenas.lock().regions.left() > 0);
            pool.take_arena();
            pool.tend();
        }
    }

    /// Page faults that this thread has met, by the tenth field that the kernel tells of it.
    #[cfg(not(miri))]
    fn faults() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = text.rsplit_once(") ").unwrap();
        fields.split(' ').nth(10 - 3).unwrap().parse().unwrap()
    }

    #[test]
    #[cfg(not(miri))]
    fn arenas_are_provided_before_they_are_used_where_much_is_expected() {
        let faults_of = |expected| {
            let pool = PagePool::default();
            pool.expect(expected);
            pool.prepare();
            let (arena, _) = pool.take_arena();
            let before = faults();
            // SAFETY: the arena is ours.
            unsafe { arena.write_bytes(1, ARENA_BYTES) };
            faults() - before
        };
        let pages = (ARENA_BYTES / PAGE_BYTES) as u64;
        // A sanitizer's own notes about the arena have to be provided as well.
        let provided = faults_of(MANY_BYTES);
        assert!(provided < pages / 2, "{provided}");
        assert!(faults_of(MANY_BYTES - 1) >= pages / 2, "a small store has what it uses");
    }

    #[test]
    fn the_preparer_is_told_before_a_worker_has_to_see_to_it() {
        let pool = PagePool::default();
        pool.set_preparer(std::thread::current());
        pool.prepare();
        while provided(&pool) > CRITICAL_PAGES {
            pool.take();
            pool.tend();
        }
        // Returns at once, since it was told; and forever waits for who was not.
        std::thread::park();
        pool.prepare();
        assert!(provided(&pool) > LOW_PAGES);
    }

    #[test]
    fn idle_memory_goes_back_a_slice_at_a_time() {
        let pool = PagePool::default();
        let pages: Vec<Page> = (0..4 * MOST_WARM_BYTES / PAGE_BYTES).map(|_| pool.take()).collect();
        let given = pages.len() * PAGE_BYTES;
        pages.into_iter().for_each(|page| pool.give(page));
        assert_eq!((pool.used_bytes(), pool.warm_bytes()), (0, given));
        pool.tend();
        assert_eq!(pool.warm_bytes(), given - SLICE_BYTES);
        (0..given / SLICE_BYTES).for_each(|_| pool.tend());
        assert_eq!(pool.warm_bytes(), MOST_WARM_BYTES);
        pool.take();
        (0..given / SLICE_BYTES).for_each(|_| pool.rest());
        assert_eq!(pool.warm_bytes(), 0, "nobody has asked since the first rest");
    }

    #[test]
    fn pages_are_distinct_aligned_and_come_back() {
        let pool = PagePool::default();
        let mut pages: Vec<Page> = (0..REGION_PAGES * 5).map(|_| pool.take()).collect();
        assert_eq!(pool.used_bytes(), pages.len() * PAGE_BYTES);
        assert!(pages.iter().all(|page| page.addr().get() % PAGE_BYTES == 0));
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), REGION_PAGES * 5);
        for page in &pages {
            pool.give(*page);
        }
        assert_eq!(pool.used_bytes(), 0);
        let mut again: Vec<Page> = (0..REGION_PAGES * 5).map(|_| pool.take()).collect();
        again.sort_unstable();
        for (index, page) in again.iter().enumerate() {
            // SAFETY: the pages are ours, and so are their notes.
            unsafe { note(page.add(index % PAGE_BYTES)).cast::<usize>().write(index) };
        }
        for (index, page) in again.iter().enumerate() {
            // SAFETY: written above.
            assert_eq!(unsafe { note(*page).cast::<usize>().read() }, index);
        }
        assert_eq!(again, pages, "all pages are used again before a region is added");
    }
}
