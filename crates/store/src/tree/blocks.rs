//! Allocates memory for nodes from the store's pages: whole pages, halves and quarters.
//!
//! The note beside a divided page records which of its parts are free. Pages with free parts are in
//! one list for each size; a page whose parts are all free is returned to the pool. The thread that
//! drops the last reference to a node frees it, so blocks may be returned by any thread.

use crate::memory::idle::NOTE_BYTES;
use crate::memory::pages::{self, Page, PagePool};
use crate::memory::region::PAGE_BYTES;
use crate::sync::latch::Latch;
use std::ptr::NonNull;
use std::sync::Arc;

/// The size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Size {
    Quarter = 0,
    Half = 1,
    Whole = 2,
}

impl Size {
    pub(crate) const fn bytes(self) -> usize {
        (PAGE_BYTES / 4) << self as usize
    }

    /// The next larger size.
    pub(crate) fn larger(self) -> Option<Self> {
        match self {
            Size::Quarter => Some(Size::Half),
            Size::Half => Some(Size::Whole),
            Size::Whole => None,
        }
    }

    fn parts(self) -> u32 {
        (PAGE_BYTES / self.bytes()) as u32
    }
}

/// The state of a divided page, kept in its note.
#[derive(Clone, Copy, Debug)]
struct Divided {
    previous: Option<Page>,
    next: Option<Page>,
    /// A bit for each free part.
    free: u32,
}

const _: () = assert!(size_of::<Divided>() <= NOTE_BYTES);

/// An allocator of blocks.
#[derive(Debug)]
pub(crate) struct Blocks {
    pool: Arc<PagePool>,
    /// The first page with free parts, of the list for quarters and of the list for halves.
    lists: Latch<[Option<Page>; 2]>,
}

// SAFETY: pages in the lists belong to these blocks, no matter which thread takes parts of them.
unsafe impl Send for Blocks {}
// SAFETY: as above; the latch guards the lists and the notes of pages in them.
unsafe impl Sync for Blocks {}

impl Blocks {
    pub(crate) fn new(pool: Arc<PagePool>) -> Arc<Self> {
        Arc::new(Blocks { pool, lists: Latch::new([None; 2]) })
    }

    /// Allocates a block, aligned to its size. Its contents are undefined.
    pub(crate) fn take(&self, size: Size) -> NonNull<u8> {
        if size == Size::Whole {
            return self.pool.take();
        }
        let mut lists = self.lists.lock_nested();
        let Some(first) = lists.get_mut(size as usize) else { return self.pool.take() };
        let page = first.unwrap_or_else(|| {
            let page = self.pool.take();
            let free = (1 << size.parts()) - 1;
            write(page, Divided { previous: None, next: None, free });
            self.pool.add_idle_bytes(PAGE_BYTES.cast_signed());
            *first = Some(page);
            page
        });
        self.pool.add_idle_bytes(-size.bytes().cast_signed());
        let divided = read(page);
        let part = divided.free.trailing_zeros();
        let free = divided.free & !(1 << part);
        if free == 0 {
            *first = divided.next;
            first.iter().for_each(|next| write(*next, Divided { previous: None, ..read(*next) }));
        }
        write(page, Divided { previous: None, next: divided.next, free });
        // SAFETY: the part lies on the page.
        unsafe { page.add(part as usize * size.bytes()) }
    }

    /// Frees a block.
    ///
    /// # Safety
    /// The block was allocated by these `Blocks` with this size, and is no longer referenced.
    pub(crate) unsafe fn free(&self, block: NonNull<u8>, size: Size) {
        if size == Size::Whole {
            // SAFETY: a whole block is a page of the pool; the caller guarantees the rest.
            return unsafe { self.pool.free(block) };
        }
        let mut lists = self.lists.lock_nested();
        let Some(first) = lists.get_mut(size as usize) else { return };
        let offset = block.addr().get() % PAGE_BYTES;
        // SAFETY: a page is aligned to its size.
        let page = unsafe { block.sub(offset) };
        let before = read(page);
        let free = before.free | 1 << (offset / size.bytes());
        self.pool.add_idle_bytes(size.bytes().cast_signed());
        if free.count_ones() == size.parts() {
            unlink(first, before);
            self.pool.add_idle_bytes(-PAGE_BYTES.cast_signed());
            // SAFETY: the page came from the pool, and all of its parts are free.
            unsafe { self.pool.free(page) };
        } else if before.free == 0 {
            let next = first.replace(page);
            write(page, Divided { previous: None, next, free });
            let linked = |next: Page| Divided { previous: Some(page), ..read(next) };
            next.into_iter().for_each(|next| write(next, linked(next)));
        } else {
            write(page, Divided { free, ..before });
        }
    }
}

/// Removes a page from its list.
fn unlink(first: &mut Option<Page>, page: Divided) {
    let Divided { previous, next, .. } = page;
    match previous {
        Some(previous) => write(previous, Divided { next, ..read(previous) }),
        None => *first = next,
    }
    next.into_iter().for_each(|next| write(next, Divided { previous, ..read(next) }));
}

fn read(page: Page) -> Divided {
    // SAFETY: the page is divided, so its note has been written; the latch is held.
    unsafe { pages::note(page).cast().read() }
}

fn write(page: Page, divided: Divided) {
    // SAFETY: these blocks own the page, and the latch is held.
    unsafe { pages::note(page).cast().write(divided) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_pages_are_reused_and_pages_are_freed() {
        let pool = Arc::new(PagePool::default());
        let blocks = Blocks::new(Arc::clone(&pool));
        let mut state = 7_u64;
        let mut taken: Vec<(NonNull<u8>, Size)> = vec![];
        for _ in 0..if cfg!(miri) { 200 } else { 5000 } {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let random = (state >> 33) as usize;
            let size = [Size::Quarter, Size::Half, Size::Whole][random % 3];
            if taken.len() < 40 || random % 5 < 2 {
                let block = blocks.take(size);
                assert_eq!(block.addr().get() % size.bytes(), 0);
                // SAFETY: the block was just allocated and is not shared.
                unsafe { block.write_bytes(taken.len() as u8, size.bytes()) };
                taken.push((block, size));
            } else {
                let (block, size) = taken.swap_remove(random / 5 % taken.len());
                // SAFETY: it was allocated above; all of its bytes equal the first one.
                unsafe {
                    let bytes = std::slice::from_raw_parts(block.as_ptr(), size.bytes());
                    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
                    blocks.free(block, size);
                }
            }
        }
        let used = taken.iter().map(|(_, size)| size.bytes()).sum::<usize>();
        assert_eq!(pool.used_bytes() - pool.idle_bytes(), used);
        // SAFETY: each was allocated above.
        taken.into_iter().for_each(|(block, size)| unsafe { blocks.free(block, size) });
        assert_eq!((pool.used_bytes(), pool.idle_bytes()), (0, 0));
    }
}
