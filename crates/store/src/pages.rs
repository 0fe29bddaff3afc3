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

use crate::latch::Latch;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};

/// Size and alignment of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// What a page's owner may note beside it.
pub(crate) const NOTE_BYTES: usize = 24;
const REGION_BYTES: usize = if cfg!(miri) { 64 * PAGE_BYTES } else { 1024 * PAGE_BYTES };
const REGION_PAGES: usize = REGION_BYTES / PAGE_BYTES;
/// Pages at a region's start that hold the notes.
const NOTE_PAGES: usize = (REGION_PAGES * NOTE_BYTES).div_ceil(PAGE_BYTES);
/// Idle pages of each kind that keep their memory: 8 MiB.
const WARM_PAGES: usize = 2048;

/// A page: aligned memory of [`PAGE_BYTES`], contents undefined.
pub(crate) type Page = NonNull<u8>;

/// Hands out pages to all shards.
#[derive(Debug, Default)]
pub(crate) struct PagePool {
    inner: Latch<Inner>,
    /// Bytes of pages handed out.
    used_bytes: AtomicUsize,
    /// Bytes of these that their owners have no use for now.
    idle_bytes: AtomicIsize,
}

#[derive(Debug, Default)]
struct Inner {
    regions: Vec<NonNull<u8>>,
    /// Pages of the newest region that nobody has had yet.
    untouched: usize,
    blocks: Idle,
    segments: Idle,
}

/// Pages that nobody uses now.
#[derive(Debug, Default)]
struct Idle {
    warm: Vec<Page>,
    cold: Vec<Page>,
}

// SAFETY: the pointers are to memory that the pool owns; a page is in one list or handed out.
unsafe impl Send for Inner {}

impl PagePool {
    /// A page of undefined contents.
    pub(crate) fn take(&self) -> Page {
        self.used_bytes.fetch_add(PAGE_BYTES, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        inner.blocks.take().unwrap_or_else(|| inner.carve())
    }

    /// Takes a page back.
    pub(crate) fn give(&self, page: Page) {
        self.used_bytes.fetch_sub(PAGE_BYTES, Ordering::Relaxed);
        self.inner.lock().blocks.give(page);
    }

    /// A page of undefined contents, which is a segment's for good.
    pub(crate) fn take_segment(&self) -> Page {
        self.used_bytes.fetch_add(PAGE_BYTES, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        inner.segments.take().unwrap_or_else(|| inner.carve())
    }

    /// Takes a segment's page back.
    pub(crate) fn give_segment(&self, page: Page) {
        self.used_bytes.fetch_sub(PAGE_BYTES, Ordering::Relaxed);
        self.inner.lock().segments.give(page);
    }

    /// Bytes of the pages handed out.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Notes that owners of pages have so many more bytes on them free, or fewer.
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

impl Idle {
    fn take(&mut self) -> Option<Page> {
        self.warm.pop().or_else(|| self.cold.pop())
    }

    fn give(&mut self, page: Page) {
        if self.warm.len() < WARM_PAGES {
            self.warm.push(page);
        } else {
            region::release(page);
            self.cold.push(page);
        }
    }
}

impl Inner {
    fn carve(&mut self) -> Page {
        if self.untouched == 0 {
            self.regions.push(region::map());
            self.untouched = REGION_PAGES - NOTE_PAGES;
        }
        let offset = (REGION_PAGES - self.untouched) * PAGE_BYTES;
        self.untouched -= 1;
        let region = self.regions.last().copied().unwrap_or(NonNull::dangling());
        // SAFETY: the offset lies within the region that was mapped last.
        unsafe { region.add(offset) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for region in &self.regions {
            // SAFETY: the shards that had its pages hold the pool alive, so nobody has any now.
            unsafe { region::unmap(*region) };
        }
    }
}

/// Regions straight from the kernel: a general allocator would add to their size.
#[cfg(not(miri))]
mod region {
    use super::{PAGE_BYTES, Page, REGION_BYTES};
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

    /// # Safety
    /// Nobody refers to the region.
    pub(super) unsafe fn unmap(region: NonNull<u8>) {
        // SAFETY: the caller's promise.
        let unmapped = unsafe { munmap(region.as_ptr().cast(), REGION_BYTES) };
        debug_assert!(unmapped.is_ok(), "it was mapped: {unmapped:?}");
    }

    /// Gives an idle page's memory back to the kernel; reading it afterwards shows zeros.
    pub(super) fn release(page: Page) {
        // SAFETY: the page belongs to the pool and nobody refers to its contents.
        let released = unsafe { madvise(page.as_ptr().cast(), PAGE_BYTES, Advice::LinuxDontNeed) };
        debug_assert!(released.is_ok(), "it is mapped: {released:?}");
    }
}

/// Regions from the allocator that Miri watches, which knows no `mmap`.
#[cfg(miri)]
mod region {
    use super::{Page, REGION_BYTES};
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

    pub(super) fn release(_: Page) {}
}

#[cfg(test)]
mod tests {
    use super::*;

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
