//! The store's memory in pages of 4 KiB, for segments and for small entries.
//!
//! ```text
//!  region, 4 MiB, aligned to its size
//!  +----------------------------------+--------+--------+--   --+-----------+
//!  | notes: 24 bytes about each page  | page 6 | page 7 |  ...  | page 1023 |
//!  +----------------------------------+--------+--------+--   --+-----------+
//! ```
//!
//! What the owner of a page must remember of it stands in the region's notes and not on the page,
//! so that blocks of 128 bytes fill a page to the last byte. A freed page is kept warm for the
//! next one who asks; when many are idle, their memory goes back to the kernel while their
//! addresses stay ours. A page that was a segment's becomes only another segment's: it may still
//! be read without a latch (`directory.rs`).

use crate::latch::{self, Held, Latch};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::thread::Thread;

/// Size and alignment of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// What a page's owner may note beside it.
pub(crate) const NOTE_BYTES: usize = 24;
const REGION_BYTES: usize = if cfg!(miri) { 64 * PAGE_BYTES } else { 1024 * PAGE_BYTES };
const REGION_PAGES: usize = REGION_BYTES / PAGE_BYTES;
/// Pages at a region's start that hold the notes.
const NOTE_PAGES: usize = (REGION_PAGES * NOTE_BYTES).div_ceil(PAGE_BYTES);
/// Pages that the kernel is asked to provide at once: those of a large page.
const BLOCK_PAGES: usize = REGION_PAGES / 2;
/// So many pages before a block is used up, the next one is asked for: what a worker fills in a
/// few milliseconds.
const AHEAD_PAGES: usize = BLOCK_PAGES / 4;
/// Idle pages of each kind that keep their memory while such pages are asked for: 4 MiB.
const WARM_PAGES: usize = 1024;
/// More idle pages than this lose their memory at once, and not when somebody has the time.
const MOST_WARM_PAGES: usize = 2 * WARM_PAGES;

/// What is given back to the kernel at a time: about 20 microseconds' worth.
const SLICE_PAGES: usize = 64;

/// A page: aligned memory of [`PAGE_BYTES`], contents undefined.
pub(crate) type Page = NonNull<u8>;

/// Size and alignment of an arena.
pub(crate) const ARENA_BYTES: usize = 128 * 1024;
/// The same two bounds for the memory of idle arenas.
const WARM_ARENA_BYTES: usize = 4 << 20;
const MOST_WARM_ARENA_BYTES: usize = 2 * WARM_ARENA_BYTES;

/// Aligned memory of [`ARENA_BYTES`], contents undefined, to be written from its start on.
pub(crate) type Arena = NonNull<u8>;

/// Hands out pages and arenas to all shards.
#[derive(Debug, Default)]
pub(crate) struct PagePool {
    inner: Latch<Inner>,
    arenas: Latch<Arenas>,
    /// Bytes of pages handed out, and of arenas as far as they were ever written.
    used_bytes: AtomicUsize,
    /// Bytes of these that their owners have no use for now.
    idle_bytes: AtomicIsize,
    /// Bytes of idle pages and arenas that keep their memory.
    warm_bytes: AtomicUsize,
    /// Who prepares the next block, if anybody does.
    preparer: OnceLock<Thread>,
    is_block_wanted: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    regions: Vec<NonNull<u8>>,
    /// Pages of the newest region that nobody has had yet.
    untouched: usize,
    /// The region that comes next, if it is there already.
    prepared: Option<NonNull<u8>>,
    blocks: Idle,
    segments: Idle,
}

/// Pages that nobody uses now.
#[derive(Debug, Default)]
struct Idle {
    warm: Vec<Page>,
    cold: Vec<Page>,
    /// Whether anyone has asked for a page since the last look.
    asked: bool,
}

#[derive(Debug, Default)]
struct Arenas {
    regions: Vec<NonNull<u8>>,
    /// Bytes of the newest region that nobody has had yet.
    untouched: usize,
    /// With how much of it was written.
    warm: Vec<(Arena, usize)>,
    warm_bytes: usize,
    cold: Vec<Arena>,
    asked: bool,
}

// SAFETY: the pointers are to memory that the pool owns; a page is in one list or handed out.
unsafe impl Send for Inner {}
// SAFETY: as for `Inner`.
unsafe impl Send for Arenas {}

impl PagePool {
    /// A page of undefined contents.
    pub(crate) fn take(&self) -> Page {
        self.take_of(|inner| &mut inner.blocks)
    }

    /// Takes a page back.
    pub(crate) fn give(&self, page: Page) {
        self.give_to(page, |inner| &mut inner.blocks);
    }

    /// A page of undefined contents, which is a segment's for good.
    pub(crate) fn take_segment(&self) -> Page {
        self.take_of(|inner| &mut inner.segments)
    }

    /// Takes a segment's page back.
    pub(crate) fn give_segment(&self, page: Page) {
        self.give_to(page, |inner| &mut inner.segments);
    }

    fn take_of(&self, kind: Kind) -> Page {
        latch::slow();
        self.used_bytes.fetch_add(PAGE_BYTES, Ordering::Relaxed);
        let mut inner = self.inner.lock_nested();
        let idle = kind(&mut inner);
        idle.asked = true;
        if let Some(page) = idle.warm.pop() {
            self.warm_bytes.fetch_sub(PAGE_BYTES, Ordering::Relaxed);
            return page;
        }
        let cold = idle.cold.pop();
        cold.unwrap_or_else(|| self.carve(inner))
    }

    /// A page that nobody has had yet.
    fn carve(&self, mut inner: Held<'_, Inner>) -> Page {
        let page = inner.carve();
        let is_block_wanted = inner.untouched % BLOCK_PAGES == AHEAD_PAGES;
        drop(inner);
        if is_block_wanted && let Some(preparer) = self.preparer.get() {
            self.is_block_wanted.store(true, Ordering::Release);
            preparer.unpark();
        }
        page
    }

    /// Says who calls [`PagePool::prepare`] whenever it is unparked.
    pub(crate) fn set_preparer(&self, preparer: Thread) {
        let _ = self.preparer.set(preparer);
    }

    /// Has the kernel provide the block that comes next, if that is wanted; whether it was. The
    /// kernel fills a large page with zeros first, for which nobody should have to hold a latch.
    pub(crate) fn prepare(&self) -> bool {
        if !self.is_block_wanted.swap(false, Ordering::AcqRel) {
            return false;
        }
        let inner = self.inner.lock_nested();
        let (untouched, is_prepared) = (inner.untouched, inner.prepared.is_some());
        let newest = inner.regions.last().copied();
        drop(inner);
        if untouched >= BLOCK_PAGES {
            // SAFETY: the second half of a region that is not unmapped while the pool is there.
            let second = newest.map(|region| unsafe { region.add(BLOCK_PAGES * PAGE_BYTES) });
            second.into_iter().for_each(region::populate);
        } else if !is_prepared {
            let region = region::map();
            region::populate(region);
            self.inner.lock_nested().prepared = Some(region);
        }
        true
    }

    fn give_to(&self, page: Page, kind: Kind) {
        self.used_bytes.fetch_sub(PAGE_BYTES, Ordering::Relaxed);
        let mut inner = self.inner.lock_nested();
        let idle = kind(&mut inner);
        if idle.warm.len() < MOST_WARM_PAGES {
            idle.warm.push(page);
            self.warm_bytes.fetch_add(PAGE_BYTES, Ordering::Relaxed);
        } else {
            release_pages(&[page]);
            idle.cold.push(page);
        }
    }

    /// An arena, and how many bytes from its start on have been written before.
    pub(crate) fn take_arena(&self) -> (Arena, usize) {
        latch::slow();
        let mut arenas = self.arenas.lock_nested();
        arenas.asked = true;
        if let Some((arena, touched)) = arenas.warm.pop() {
            arenas.warm_bytes -= touched;
            self.warm_bytes.fetch_sub(touched, Ordering::Relaxed);
            self.touch(touched);
            return (arena, touched);
        }
        let idle = arenas.cold.pop();
        (idle.unwrap_or_else(|| arenas.carve()), 0)
    }

    /// Takes back an arena of which so many bytes have been written.
    pub(crate) fn give_arena(&self, arena: Arena, touched: usize) {
        self.used_bytes.fetch_sub(touched, Ordering::Relaxed);
        self.add_idle_bytes(-touched.cast_signed());
        let mut arenas = self.arenas.lock_nested();
        if arenas.warm_bytes + touched <= MOST_WARM_ARENA_BYTES {
            arenas.warm.push((arena, touched));
            arenas.warm_bytes += touched;
            self.warm_bytes.fetch_add(touched, Ordering::Relaxed);
        } else {
            region::release(arena, touched);
            arenas.cold.push(arena);
        }
    }

    /// Notes that so many bytes more of an arena are about to be written for the first time; they
    /// are idle still.
    pub(crate) fn touch(&self, bytes: usize) {
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.add_idle_bytes(bytes.cast_signed());
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
        if self.warm_bytes() > 2 * WARM_PAGES * PAGE_BYTES + WARM_ARENA_BYTES {
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
    fn release_warm(&self, keeps: impl Fn(&mut bool) -> bool) {
        let kinds: [Kind; 2] = [|inner| &mut inner.blocks, |inner| &mut inner.segments];
        for kind in kinds {
            let pages = kind(&mut self.inner.lock()).take_warm(&keeps);
            release_pages(&pages);
            self.warm_bytes.fetch_sub(pages.len() * PAGE_BYTES, Ordering::Relaxed);
            kind(&mut self.inner.lock()).cold.extend(pages);
        }
        let arenas = self.arenas.lock().take_warm(&keeps);
        arenas.iter().for_each(|(arena, touched)| region::release(*arena, *touched));
        let arena_bytes = arenas.iter().map(|(_, touched)| touched).sum();
        self.warm_bytes.fetch_sub(arena_bytes, Ordering::Relaxed);
        self.arenas.lock().cold.extend(arenas.into_iter().map(|(arena, _)| arena));
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
    let offset = address.addr().get() % REGION_BYTES;
    // SAFETY: the region begins `offset` before the address, with a note for each of its pages.
    unsafe { address.sub(offset).add(offset / PAGE_BYTES * NOTE_BYTES) }
}

/// Which of the two kinds of pages is meant.
type Kind = fn(&mut Inner) -> &mut Idle;

impl Idle {
    /// Some of the pages that have been warm for longest.
    fn take_warm(&mut self, keeps: impl Fn(&mut bool) -> bool) -> Vec<Page> {
        let keep = if keeps(&mut self.asked) { WARM_PAGES } else { 0 };
        let count = self.warm.len().saturating_sub(keep).min(SLICE_PAGES);
        self.warm.drain(..count).collect()
    }
}

impl Inner {
    fn carve(&mut self) -> Page {
        if self.untouched == 0 {
            let region = self.prepared.take().unwrap_or_else(region::map);
            self.regions.push(region);
            self.untouched = REGION_PAGES - NOTE_PAGES;
        }
        let offset = (REGION_PAGES - self.untouched) * PAGE_BYTES;
        self.untouched -= 1;
        let region = self.regions.last().copied().unwrap_or(NonNull::dangling());
        // SAFETY: the offset lies within the region that was mapped last.
        unsafe { region.add(offset) }
    }
}

impl Arenas {
    /// Some of the arenas that have been warm for longest.
    fn take_warm(&mut self, keeps: impl Fn(&mut bool) -> bool) -> Vec<(Arena, usize)> {
        let keep_bytes = if keeps(&mut self.asked) { WARM_ARENA_BYTES } else { 0 };
        let mut taken_bytes = 0;
        let surplus = self.warm_bytes.saturating_sub(keep_bytes).min(SLICE_PAGES * PAGE_BYTES);
        let count = self.warm.iter().take_while(|(_, touched)| {
            let wanted = taken_bytes < surplus;
            taken_bytes += if wanted { *touched } else { 0 };
            wanted
        });
        let count = count.count();
        self.warm_bytes -= taken_bytes;
        self.warm.drain(..count).collect()
    }

    fn carve(&mut self) -> Arena {
        if self.untouched == 0 {
            let region = region::map();
            region::want_small_pages(region);
            self.regions.push(region);
            self.untouched = REGION_BYTES;
        }
        let offset = REGION_BYTES - self.untouched;
        self.untouched -= ARENA_BYTES;
        let region = self.regions.last().copied().unwrap_or(NonNull::dangling());
        // SAFETY: the offset lies within the region that was mapped last.
        unsafe { region.add(offset) }
    }
}

/// Gives the memory of pages back, side by side ones at once.
fn release_pages(pages: &[Page]) {
    let mut pages = pages.to_vec();
    pages.sort_unstable();
    let follows = |a: &Page, b: &Page| a.addr().get() + PAGE_BYTES == b.addr().get();
    for run in pages.chunk_by(follows) {
        if let Some(first) = run.first() {
            break_up(*first);
            region::release(*first, run.len() * PAGE_BYTES);
        }
    }
}

/// Has the region of a page come in small pages from now on, since parts of it are in no use.
fn break_up(page: Page) {
    // SAFETY: the region begins so much before the page, with a note on the notes themselves that
    // nobody else needs; its memory is zero until something is noted.
    let (region, done) = unsafe {
        let region = page.sub(page.addr().get() % REGION_BYTES);
        (region, AtomicBool::from_ptr(region.cast().as_ptr()))
    };
    if !done.swap(true, Ordering::Relaxed) {
        region::want_small_pages(region);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.regions.extend(self.prepared);
        unmap_all(&self.regions);
    }
}

impl Drop for Arenas {
    fn drop(&mut self) {
        unmap_all(&self.regions);
    }
}

fn unmap_all(regions: &[NonNull<u8>]) {
    for region in regions {
        // SAFETY: the shards that had its pages hold the pool alive, so nobody has any now.
        unsafe { region::unmap(*region) };
    }
}

/// Regions straight from the kernel: a general allocator would add to their size.
#[cfg(not(miri))]
mod region {
    use super::{BLOCK_PAGES, PAGE_BYTES, REGION_BYTES};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    use std::alloc::{Layout, handle_alloc_error};
    use std::ptr::NonNull;

    /// A region of zeros, aligned to its size.
    pub(super) fn map() -> NonNull<u8> {
        let twice = 2 * REGION_BYTES;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping overlaps nothing.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), twice, access, MapFlags::PRIVATE) };
        let start = mapped.ok().and_then(|start| NonNull::new(start.cast::<u8>()));
        let Some(start) = start else { handle_alloc_error(Layout::new::<[u8; REGION_BYTES]>()) };
        let before = start.addr().get().next_multiple_of(REGION_BYTES) - start.addr().get();
        // SAFETY: what lies before and behind the aligned half is ours and in no use.
        unsafe {
            let region = start.add(before);
            let trims = [(start, before), (region.add(REGION_BYTES), REGION_BYTES - before)];
            for (trim, len) in trims.into_iter().filter(|(_, len)| *len > 0) {
                let unmapped = munmap(trim.as_ptr().cast(), len);
                debug_assert!(unmapped.is_ok(), "it was mapped: {unmapped:?}");
            }
            // A lookup goes to three places of the whole memory; with small pages it would have to
            // look up each page first. A kernel without large pages does as well without.
            let _ = madvise(region.as_ptr().cast(), REGION_BYTES, Advice::LinuxHugepage);
            region
        }
    }

    /// Has the kernel provide the memory of a block; what is in it stays. A kernel that cannot
    /// (before 5.14) provides it when it is used.
    pub(super) fn populate(block: NonNull<u8>) {
        let bytes = BLOCK_PAGES * PAGE_BYTES;
        // SAFETY: the block is mapped, and no byte of it changes.
        let _ = unsafe { madvise(block.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) };
    }

    /// # Safety
    /// Nobody refers to the region.
    pub(super) unsafe fn unmap(region: NonNull<u8>) {
        // SAFETY: the caller's promise.
        let unmapped = unsafe { munmap(region.as_ptr().cast(), REGION_BYTES) };
        debug_assert!(unmapped.is_ok(), "it was mapped: {unmapped:?}");
    }

    /// Gives the memory of idle pages back to the kernel; reading them afterwards shows zeros.
    pub(super) fn release(start: NonNull<u8>, bytes: usize) {
        // SAFETY: the pages belong to the pool and nobody refers to their contents.
        let released = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
        debug_assert!(released.is_ok(), "they are mapped: {released:?}");
    }

    /// Has memory come a page at a time to a region of which only parts are in use: a large page
    /// would bring what is idle with it.
    pub(super) fn want_small_pages(region: NonNull<u8>) {
        // SAFETY: the region is the pool's. A kernel without large pages does as well without.
        let _ = unsafe { madvise(region.as_ptr().cast(), REGION_BYTES, Advice::LinuxNoHugepage) };
    }
}

/// Regions from the allocator that Miri watches, which knows no `mmap`.
#[cfg(miri)]
mod region {
    use super::REGION_BYTES;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    const LAYOUT: Layout = match Layout::from_size_align(REGION_BYTES, REGION_BYTES) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    };

    pub(super) fn map() -> NonNull<u8> {
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { alloc_zeroed(LAYOUT) }).unwrap()
    }

    pub(super) unsafe fn unmap(region: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { dealloc(region.as_ptr(), LAYOUT) };
    }

    pub(super) fn populate(_: NonNull<u8>) {}

    pub(super) fn release(_: NonNull<u8>, _: usize) {}

    pub(super) fn want_small_pages(_: NonNull<u8>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_block_is_prepared_before_it_is_needed() {
        let pool = PagePool::default();
        pool.set_preparer(std::thread::current());
        let take = |pages: usize| (0..pages).for_each(|_| _ = pool.take());
        take(BLOCK_PAGES - AHEAD_PAGES - NOTE_PAGES - 1);
        assert!(!pool.prepare(), "there is enough left of the first block");
        take(1);
        assert!(pool.prepare());
        assert!(pool.inner.lock().prepared.is_none(), "the second block is in the same region");
        take(BLOCK_PAGES);
        assert!(pool.prepare());
        let prepared = pool.inner.lock().prepared;
        assert!(prepared.is_some());
        take(AHEAD_PAGES + 1);
        assert_eq!(pool.inner.lock().regions.last().copied(), prepared);
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
