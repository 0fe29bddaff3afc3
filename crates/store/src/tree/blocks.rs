//! Memory for nodes, of the store's pages: whole ones, halves and quarters.
//!
//! The note beside a page that is divided says which of its parts are free. Pages with free parts
//! are in a list for each size; one whose parts are all free goes back to the pool. Nodes are freed
//! by the holder of the last reference, on any thread.

use crate::memory::idle::NOTE_BYTES;
use crate::memory::pages::{self, Page, PagePool};
use crate::memory::region::PAGE_BYTES;
use crate::sync::latch::Latch;
use std::ptr::NonNull;
use std::sync::Arc;

/// How large a block is.
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

/// In the note about a page that is divided.
#[derive(Clone, Copy, Debug)]
struct Divided {
    previous: Option<Page>,
    next: Option<Page>,
    /// A bit for each part that is free.
    free: u32,
}

const _: () = assert!(size_of::<Divided>() <= NOTE_BYTES);

/// Hands out blocks.
#[derive(Debug)]
pub(crate) struct Blocks {
    pool: Arc<PagePool>,
    /// The first page with free parts, for quarters and for halves.
    lists: Latch<[Option<Page>; 2]>,
}

// SAFETY: pages in the lists belong to these blocks, whichever thread takes parts of them.
unsafe impl Send for Blocks {}
// SAFETY: as above; the latch guards the lists and the notes of pages in them.
unsafe impl Sync for Blocks {}

impl Blocks {
    pub(crate) fn new(pool: Arc<PagePool>) -> Arc<Self> {
        Arc::new(Blocks { pool, lists: Latch::new([None; 2]) })
    }

    /// A block of undefined contents, aligned to its size.
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

    /// Takes a block back.
    ///
    /// # Safety
    /// It was taken here with this size, and there is no reference to it any more.
    pub(crate) unsafe fn give(&self, block: NonNull<u8>, size: Size) {
        if size == Size::Whole {
            // SAFETY: a whole block is a page of the pool; the caller's promise.
            return unsafe { self.pool.give(block) };
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
            // SAFETY: the page came from the pool, and all of its parts have been given back.
            unsafe { self.pool.give(page) };
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

/// Takes a page that is in the list out of it.
fn unlink(first: &mut Option<Page>, page: Divided) {
    let Divided { previous, next, .. } = page;
    match previous {
        Some(previous) => write(previous, Divided { next, ..read(previous) }),
        None => *first = next,
    }
    next.into_iter().for_each(|next| write(next, Divided { previous, ..read(next) }));
}

fn read(page: Page) -> Divided {
    // SAFETY: the page is divided and was noted then; the latch is held.
    unsafe { pages::note(page).cast().read() }
}

fn write(page: Page, divided: Divided) {
    // SAFETY: the page is ours, and the latch is held.
    unsafe { pages::note(page).cast().write(divided) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_pages_are_used_again_and_pages_go_back() {
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
                // SAFETY: the block is ours.
                unsafe { block.write_bytes(taken.len() as u8, size.bytes()) };
                taken.push((block, size));
            } else {
                let (block, size) = taken.swap_remove(random / 5 % taken.len());
                // SAFETY: it was taken above; all of it has what its first byte has.
                unsafe {
                    let bytes = std::slice::from_raw_parts(block.as_ptr(), size.bytes());
                    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
                    blocks.give(block, size);
                }
            }
        }
        let used = taken.iter().map(|(_, size)| size.bytes()).sum::<usize>();
        assert_eq!(pool.used_bytes() - pool.idle_bytes(), used);
        // SAFETY: each was taken above.
        taken.into_iter().for_each(|(block, size)| unsafe { blocks.give(block, size) });
        assert_eq!((pool.used_bytes(), pool.idle_bytes()), (0, 0));
    }
}
