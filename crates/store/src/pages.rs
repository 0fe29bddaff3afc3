//! The store's memory in pages of 4 KiB, for segments and for small entries.
//!
//! Pages are carved from large regions. A freed page is kept warm for the next one who asks; when
//! many are idle, their memory goes back to the kernel while their addresses stay ours.

use crate::latch::Latch;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Size and alignment of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
const REGION_PAGES: usize = 512;
/// Idle pages that keep their memory: 8 MiB.
const WARM_PAGES: usize = 2048;

/// A page: aligned memory of [`PAGE_BYTES`], contents undefined.
pub(crate) type Page = NonNull<u8>;

/// Hands out pages to all shards.
#[derive(Debug, Default)]
pub(crate) struct PagePool {
    inner: Latch<Inner>,
    /// Bytes of pages handed out.
    used_bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inner {
    regions: Vec<NonNull<u8>>,
    /// Pages of the newest region that nobody has had yet.
    untouched: usize,
    warm: Vec<Page>,
    cold: Vec<Page>,
}

// SAFETY: the pointers are to memory that the pool owns; a page is in one list or handed out.
unsafe impl Send for Inner {}

const REGION: Layout = match Layout::from_size_align(PAGE_BYTES * REGION_PAGES, PAGE_BYTES) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

impl PagePool {
    /// A page of undefined contents.
    pub(crate) fn take(&self) -> Page {
        self.used_bytes.fetch_add(PAGE_BYTES, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        let idle = inner.warm.pop().or_else(|| inner.cold.pop());
        idle.unwrap_or_else(|| inner.carve())
    }

    /// Takes a page back.
    pub(crate) fn give(&self, page: Page) {
        self.used_bytes.fetch_sub(PAGE_BYTES, Ordering::Relaxed);
        let mut inner = self.inner.lock();
        if inner.warm.len() < WARM_PAGES {
            inner.warm.push(page);
        } else {
            release_memory(page);
            inner.cold.push(page);
        }
    }

    /// Bytes of the pages handed out.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

impl Inner {
    fn carve(&mut self) -> Page {
        if self.untouched == 0 {
            // SAFETY: the layout's size is not zero.
            let region = unsafe { alloc(REGION) };
            self.regions.push(NonNull::new(region).unwrap_or_else(|| handle_alloc_error(REGION)));
            self.untouched = REGION_PAGES;
        }
        self.untouched -= 1;
        let region = self.regions.last().copied().unwrap_or(NonNull::dangling());
        let first = (REGION_PAGES - 1 - self.untouched) * PAGE_BYTES;
        // SAFETY: `first` lies within the region that was allocated last.
        unsafe { region.add(first) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for region in &self.regions {
            // SAFETY: each region was allocated with this layout; the shards that had its pages
            // hold the pool alive, so nobody has any now.
            unsafe { dealloc(region.as_ptr(), REGION) };
        }
    }
}

/// Gives a page's memory back to the kernel; reading it afterwards shows zeros.
#[cfg(not(miri))]
fn release_memory(page: Page) {
    // SAFETY: the page belongs to the pool and nobody refers to its contents.
    let released = unsafe {
        rustix::mm::madvise(page.as_ptr().cast(), PAGE_BYTES, rustix::mm::Advice::LinuxDontNeed)
    };
    debug_assert!(released.is_ok(), "the page is mapped: {released:?}");
}

#[cfg(miri)]
fn release_memory(_: Page) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_distinct_aligned_and_come_back() {
        let pool = PagePool::default();
        let mut pages: Vec<Page> = (0..REGION_PAGES * 6).map(|_| pool.take()).collect();
        assert_eq!(pool.used_bytes(), pages.len() * PAGE_BYTES);
        assert!(pages.iter().all(|page| page.addr().get() % PAGE_BYTES == 0));
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), REGION_PAGES * 6);
        for page in &pages {
            pool.give(*page);
        }
        assert_eq!(pool.used_bytes(), 0);
        let mut again: Vec<Page> = (0..REGION_PAGES * 6).map(|_| pool.take()).collect();
        again.sort_unstable();
        assert_eq!(again, pages, "all pages are used again before a region is added");
    }
}
