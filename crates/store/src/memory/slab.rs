//! Memory for a shard's entries: blocks of one size per page, in steps of eight bytes.
//!
//! A general allocator rounds 56 bytes to 64 and 132 to 160; at the size of a cache's entries, that
//! rounding is most of what can be saved. Nevertheless, a shard's first few blocks of a size come
//! from the general allocator, so that a small database does not use half-empty pages. Blocks
//! larger than [`LARGEST_BLOCK`] are in [`Arenas`], and those that do not fit there in the general
//! allocator. Everything here happens under the shard's latch.
//!
//! ```text
//!  page of a class                                              note beside it
//!  +-------+-------+-------+--  --+-------+--  --+-------+      live blocks, first free one,
//!  | block | free  | block | ...  | free  | ...  | never |      first never used, links
//!  |   0   |   -------------------->  --> |      | used  |
//!  +-------+-------+-------+--  --+-------+--  --+-------+
//!  classes[size] -> page with a free block <-> ... <-> sparsest page
//! ```
//!
//! New blocks come from the front of a class's list; a page that has become sparse moves to its end
//! and is emptied there ([`Slab::relocation`]), so that memory is freed when the sizes of values
//! change.

use crate::memory::accounting::vector_bytes;
use crate::memory::arenas::{Arenas, LARGEST_PIECE, piece_bytes};
use crate::memory::idle::NOTE_BYTES;
use crate::memory::pages::{Page, PagePool, note};
use crate::memory::region::PAGE_BYTES;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

/// Larger blocks have no class.
pub(crate) const LARGEST_BLOCK: usize = 512;
/// Up to this many free bytes are not reported to the pool, so that workers do not contend for its
/// counter.
const UNREPORTED_BYTES: usize = 1024;
/// How many bytes larger blocks take from the general allocator before the first arena is used.
const FEW_BYTES: usize = 4096;
/// The first byte of a free block; no block in use begins with it.
pub(crate) const FREE: u8 = 0xff;
/// The end of a list of free blocks.
const NONE: u16 = u16::MAX;

/// A piece of memory for one entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) memory: NonNull<u8>,
    /// Whether the memory came from the general allocator.
    pub(crate) on_heap: bool,
}

/// One shard's blocks.
#[derive(Debug)]
pub(crate) struct Slab {
    pool: Arc<PagePool>,
    /// By class, up to the largest that was ever requested.
    classes: Vec<Class>,
    /// The change in the free bytes on pages since the last report to the pool.
    unreported_idle_bytes: isize,
    larger: Option<Box<Larger>>,
}

/// Blocks of more than [`LARGEST_BLOCK`].
#[derive(Debug)]
struct Larger {
    arenas: Arenas,
    /// The bytes of blocks that would fit in an arena but are elsewhere, rounded up.
    on_heap_bytes: usize,
}

/// The memory of a [`Larger`] without blocks. It stays when all blocks have been freed, and does
/// not count as data: otherwise eviction could not meet the smallest limits.
const LARGER_BYTES: isize = size_of::<Larger>().cast_signed();

#[derive(Clone, Debug, Default)]
struct Class {
    /// The first and the last page with a free block.
    first: Option<Page>,
    last: Option<Page>,
    pages: u32,
    /// The number of blocks in use, on pages and in the general allocator.
    live_on_pages: u32,
    live_on_heap: u32,
}

/// The note on a page.
#[derive(Debug)]
struct Note {
    next: Option<Page>,
    previous: Option<Page>,
    live: u16,
    /// The first free block; each has the index of the next in its third and fourth byte.
    free: u16,
    /// Blocks from this one on have never been used.
    fresh: u16,
    listed: bool,
}

const _: () = assert!(size_of::<Note>() == NOTE_BYTES);

// SAFETY: a slab's pages are reached only under the shard's latch.
unsafe impl Send for Slab {}

/// Returns the class of a size, if there is one.
fn class_of(bytes: usize) -> Option<usize> {
    match bytes {
        0..=256 => Some(bytes.div_ceil(8)),
        257..=LARGEST_BLOCK => Some(32 + (bytes - 256).div_ceil(16)),
        _ => None,
    }
}

/// Returns the size of a class's blocks in bytes.
const fn block_bytes(class: usize) -> usize {
    if class <= 32 { class * 8 } else { 256 + (class - 32) * 16 }
}

const fn blocks_per_page(class: usize) -> usize {
    PAGE_BYTES / block_bytes(class)
}

/// Returns the number of bytes of a page that its blocks can use.
const fn page_bytes(class: usize) -> isize {
    (blocks_per_page(class) * block_bytes(class)).cast_signed()
}

/// Returns the memory of a block of `bytes`, after rounding.
pub(crate) fn rounded_bytes(bytes: usize) -> usize {
    match class_of(bytes) {
        Some(class) => block_bytes(class),
        None if bytes <= LARGEST_PIECE => piece_bytes(bytes),
        None => bytes.next_multiple_of(8),
    }
}

impl Slab {
    pub(crate) fn new(pool: Arc<PagePool>) -> Self {
        Slab { pool, classes: Vec::new(), unreported_idle_bytes: 0, larger: None }
    }

    /// Allocates memory for an entry of `bytes`, aligned to 8. The contents are undefined.
    pub(crate) fn take(&mut self, bytes: usize) -> Block {
        let Some(index) = class_of(bytes) else { return self.take_larger(bytes) };
        if self.classes.len() <= index {
            let before = vector_bytes(&self.classes);
            self.classes.resize(index + 1, Class::default());
            self.pool.add_idle_bytes(vector_bytes(&self.classes) - before);
        }
        let Some(class) = self.classes.get_mut(index) else { return take_from_heap(bytes) };
        if class.first.is_none() {
            if class.pages == 0 && (class.live_on_heap as usize) < blocks_per_page(index) / 2 {
                class.live_on_heap += 1;
                return take_from_heap(bytes);
            }
            let page = self.pool.take();
            // SAFETY: the page is allocated, and so is its note.
            unsafe {
                note(page).cast::<Note>().write(Note::NEW);
                class.list_first(page);
            }
            class.pages += 1;
            self.unreported_idle_bytes += page_bytes(index);
        }
        // SAFETY: there is a page with a free block now, and its blocks are of this class.
        let block = unsafe { class.take(index) };
        self.unreported_idle_bytes -= block_bytes(index).cast_signed();
        self.report_idle_bytes(UNREPORTED_BYTES);
        block
    }

    fn take_larger(&mut self, bytes: usize) -> Block {
        if bytes > LARGEST_PIECE {
            return take_from_heap(bytes);
        }
        let arenas = || Arenas::new(Arc::clone(&self.pool));
        let new = || {
            self.pool.add_idle_bytes(LARGER_BYTES);
            Box::new(Larger { arenas: arenas(), on_heap_bytes: 0 })
        };
        let larger = self.larger.get_or_insert_with(new);
        let rounded = rounded_bytes(bytes);
        if larger.arenas.is_empty() && larger.on_heap_bytes + rounded <= FEW_BYTES {
            larger.on_heap_bytes += rounded;
            return take_from_heap(bytes);
        }
        Block { memory: larger.arenas.take(bytes), on_heap: false }
    }

    /// # Safety
    /// As for [`Slab::free`], and the block does not belong to a class.
    unsafe fn free_larger(&mut self, block: Block, bytes: usize) {
        let larger = self.larger.as_mut().filter(|_| bytes <= LARGEST_PIECE);
        if let Some(larger) = larger {
            if !block.on_heap {
                // SAFETY: the caller guarantees it.
                return unsafe { larger.arenas.free(block.memory) };
            }
            larger.on_heap_bytes -= rounded_bytes(bytes);
        }
        // SAFETY: it came from the general allocator with this layout.
        unsafe { dealloc(block.memory.as_ptr(), heap_layout(bytes)) };
    }

    /// Reports to the pool how much free memory there is on this slab's pages. Eviction reads that
    /// number after every entry, and would evict hundreds too many if each of hundreds of shards
    /// left a part unreported.
    pub(crate) fn report_all_idle_bytes(&mut self) {
        self.report_idle_bytes(0);
    }

    /// Reports to the pool how much free memory there is on this slab's pages, if that has changed
    /// by more than `tolerance`.
    fn report_idle_bytes(&mut self, tolerance: usize) {
        if self.unreported_idle_bytes.unsigned_abs() > tolerance {
            self.pool.add_idle_bytes(std::mem::take(&mut self.unreported_idle_bytes));
        }
    }

    /// Frees a block of `bytes`.
    ///
    /// # Safety
    /// The block came from this slab for the same `bytes`, and is no longer referenced.
    pub(crate) unsafe fn free(&mut self, block: Block, bytes: usize) {
        let class = class_of(bytes).and_then(|index| Some((index, self.classes.get_mut(index)?)));
        match class {
            // SAFETY: the caller guarantees it.
            None => unsafe { self.free_larger(block, bytes) },
            Some((index, class)) if !block.on_heap => {
                self.unreported_idle_bytes += block_bytes(index).cast_signed();
                // SAFETY: the block is on a page of this class.
                if let Some(page) = unsafe { class.free(index, block.memory) } {
                    self.unreported_idle_bytes -= page_bytes(index);
                    // SAFETY: it came from this pool, and no block of it is in use.
                    unsafe { self.pool.free(page) };
                }
                self.report_idle_bytes(UNREPORTED_BYTES);
            }
            Some((_, class)) => {
                class.live_on_heap -= 1;
                // SAFETY: it came from the general allocator with this layout.
                unsafe { dealloc(block.memory.as_ptr(), heap_layout(bytes)) };
            }
        }
    }

    /// Returns a block in use to be moved, if enough blocks of the size of `bytes` are free to
    /// empty its page, or enough bytes to empty its arena. The caller allocates a new block, copies
    /// the contents, and frees this one.
    pub(crate) fn relocation(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let from = class_of(bytes).and_then(|index| self.relocation_of(index));
        // The arenas are checked for every size: if all entries have become small, no block in an
        // arena is freed.
        from.or_else(|| self.larger.as_mut()?.arenas.relocation())
    }

    /// Returns a block of this class to be moved.
    fn relocation_of(&self, index: usize) -> Option<NonNull<u8>> {
        let class = self.classes.get(index)?;
        let capacity = class.pages as usize * blocks_per_page(index);
        let free = capacity - class.live_on_pages as usize;
        if free <= blocks_per_page(index) + capacity / 8 {
            return None;
        }
        let page = class.last.filter(|last| Some(*last) != class.first)?;
        // SAFETY: the page is one of this class.
        let fresh = usize::from(unsafe { note_of(page) }.fresh);
        // SAFETY: the blocks are on the page, and those below `fresh` have been written.
        let mut used = (0..fresh).map(|block| unsafe { page.add(block * block_bytes(index)) });
        // SAFETY: as above.
        used.find(|block| unsafe { block.read() } != FREE)
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        self.unreported_idle_bytes -= vector_bytes(&self.classes);
        if self.larger.is_some() {
            self.unreported_idle_bytes -= LARGER_BYTES;
        }
        self.report_idle_bytes(0);
    }
}

impl Class {
    /// Allocates a block from the first page.
    ///
    /// # Safety
    /// There is a first page, it has a free block, and `index` is this class's.
    unsafe fn take(&mut self, index: usize) -> Block {
        let page = self.first.unwrap_or(NonNull::dangling());
        // SAFETY: the page is one of this class.
        let note = unsafe { note_of(page) };
        let block = if note.free == NONE {
            note.fresh += 1;
            note.fresh - 1
        } else {
            note.free
        };
        // SAFETY: the block is on the page.
        let memory = unsafe { page.add(usize::from(block) * block_bytes(index)) };
        if block == note.free {
            // SAFETY: a free block has the index of the next one there.
            note.free = unsafe { memory.cast::<u16>().add(1).read() };
        }
        note.live += 1;
        self.live_on_pages += 1;
        if usize::from(note.live) == blocks_per_page(index) {
            // SAFETY: the page is one of this class.
            unsafe { self.unlist(page) };
        }
        Block { memory, on_heap: false }
    }

    /// Frees a block. Returns its page if that is empty now. No empty page is kept for the next
    /// block: with many shards and classes, empty databases would keep many.
    ///
    /// # Safety
    /// The block is in use and on a page of this class.
    unsafe fn free(&mut self, index: usize, memory: NonNull<u8>) -> Option<Page> {
        let offset = memory.addr().get() % PAGE_BYTES;
        // SAFETY: pages are aligned, so the page begins this much before the block, which is no
        // longer in use.
        let page = unsafe {
            memory.cast::<u16>().add(1).write(note_of(memory).free);
            memory.write(FREE);
            memory.sub(offset)
        };
        // SAFETY: the page is one of this class; the last borrow of its note has ended.
        let note = unsafe { note_of(page) };
        note.free = (offset / block_bytes(index)) as u16;
        note.live -= 1;
        let (live, listed) = (usize::from(note.live), note.listed);
        self.live_on_pages -= 1;
        let sparse = blocks_per_page(index) / 4;
        // SAFETY: the page is one of this class, and listed once at most.
        unsafe {
            if live == 0 {
                self.unlist(page);
                self.pages -= 1;
                return Some(page);
            }
            if live == sparse {
                self.unlist(page);
                self.list_last(page);
            } else if !listed {
                self.list_first(page);
            }
        }
        None
    }

    /// # Safety
    /// It is a page of this class that is not listed.
    unsafe fn list_first(&mut self, page: Page) {
        let next = self.first.replace(page);
        // SAFETY: both are pages of this class, and their notes are not borrowed.
        unsafe {
            note_of(page).link(None, next);
            match next {
                Some(next) => note_of(next).previous = Some(page),
                None => self.last = Some(page),
            }
        }
    }

    /// # Safety
    /// As for [`Class::list_first`].
    unsafe fn list_last(&mut self, page: Page) {
        let previous = self.last.replace(page);
        // SAFETY: as in `list_first`.
        unsafe {
            note_of(page).link(previous, None);
            match previous {
                Some(previous) => note_of(previous).next = Some(page),
                None => self.first = Some(page),
            }
        }
    }

    /// # Safety
    /// It is a page of this class.
    unsafe fn unlist(&mut self, page: Page) {
        // SAFETY: the caller guarantees it; linked pages are of this class too. Each borrow ends
        // before the next begins.
        unsafe {
            let note = note_of(page);
            if !note.listed {
                return;
            }
            let (previous, next) = (note.previous, note.next);
            note.listed = false;
            match previous {
                Some(previous) => note_of(previous).next = next,
                None => self.first = next,
            }
            match next {
                Some(next) => note_of(next).previous = previous,
                None => self.last = previous,
            }
        }
    }
}

impl Note {
    const NEW: Note =
        Note { next: None, previous: None, live: 0, free: NONE, fresh: 0, listed: false };

    fn link(&mut self, previous: Option<Page>, next: Option<Page>) {
        (self.previous, self.next, self.listed) = (previous, next, true);
    }
}

/// Returns the note on a class's page, or on the page that contains a block.
///
/// # Safety
/// The page belongs to a slab whose latch is held while the note is borrowed, and there is no other
/// borrow of the note.
unsafe fn note_of<'a>(page: NonNull<u8>) -> &'a mut Note {
    // SAFETY: the caller guarantees it; the note was written when the page was opened.
    unsafe { note(page).cast::<Note>().as_mut() }
}

fn heap_layout(bytes: usize) -> Layout {
    Layout::from_size_align(rounded_bytes(bytes), 8).unwrap_or(Layout::new::<u64>())
}

fn take_from_heap(bytes: usize) -> Block {
    let layout = heap_layout(bytes);
    // SAFETY: an entry has at least a header, so the size is not zero.
    let memory = unsafe { alloc(layout) };
    let memory = NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
    Block { memory, on_heap: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounding_is_at_most_seven_bytes_for_small_and_fifteen_for_larger_entries() {
        for bytes in 9..=LARGEST_BLOCK {
            let class = class_of(bytes).unwrap();
            let slack = block_bytes(class) - bytes;
            assert!(slack < if bytes <= 256 { 8 } else { 16 }, "{bytes}");
        }
    }

    #[test]
    fn a_shard_with_few_entries_opens_no_page() {
        let pool = Arc::new(PagePool::default());
        let mut slab = Slab::new(Arc::clone(&pool));
        let blocks: Vec<Block> = (0..30).map(|_| slab.take(56)).collect();
        assert_eq!(pool.used_bytes(), 0);
        for block in blocks {
            // SAFETY: allocated above, freed once.
            unsafe { slab.free(block, 56) };
        }
    }

    #[test]
    fn free_blocks_are_idle_bytes_and_a_dropped_slab_leaves_none() {
        let pool = Arc::new(PagePool::default());
        let mut slab = Slab::new(Arc::clone(&pool));
        let blocks: Vec<Block> = (0..10_000).map(|_| slab.take(56)).collect();
        let full = pool.used_bytes();
        assert!(pool.idle_bytes() <= PAGE_BYTES + UNREPORTED_BYTES, "{}", pool.idle_bytes());
        for (_, block) in blocks.iter().enumerate().filter(|(index, _)| index % 4 != 0) {
            // SAFETY: allocated above, freed once.
            unsafe { slab.free(*block, 56) };
        }
        let share = pool.idle_bytes() as f64 / full as f64;
        assert!((0.7..0.8).contains(&share), "{share}");
        for block in blocks.iter().step_by(4) {
            // SAFETY: allocated above, freed once.
            unsafe { slab.free(*block, 56) };
        }
        drop(slab);
        assert_eq!((pool.used_bytes(), pool.idle_bytes()), (0, 0));
    }

    proptest! {
        /// Checks that blocks never overlap, and that moving the blocks that `relocation` returns
        /// frees pages.
        #[test]
        fn blocks_are_disjoint_and_memory_follows_the_data(
            sizes in proptest::collection::vec(9_usize..600, 1..1500),
            keep in 0..100_usize,
        ) {
            let pool = Arc::new(PagePool::default());
            let mut slab = Slab::new(Arc::clone(&pool));
            let mut live: Vec<(Block, usize, u8)> = Vec::new();
            let many_alike = |size: &usize| if size.is_multiple_of(3) { 56 } else { *size };
            for (index, bytes) in sizes.iter().map(many_alike).enumerate() {
                let block = slab.take(bytes);
                // SAFETY: the block was just allocated with this size.
                unsafe { block.memory.write_bytes(index as u8 & 0x7f, bytes) };
                live.push((block, bytes, index as u8 & 0x7f));
            }
            let gone = live.len() * (100 - keep) / 100;
            for (block, bytes, fill) in live.drain(..gone) {
                // SAFETY: written above, freed once.
                unsafe {
                    let contents = std::slice::from_raw_parts(block.memory.as_ptr(), bytes);
                    prop_assert!(contents.iter().all(|byte| *byte == fill));
                    slab.free(block, bytes);
                }
            }
            while let Some(from) = slab.relocation(56) {
                let at = live.iter().position(|(block, ..)| block.memory == from).unwrap();
                let (old, bytes, _) = live[at];
                let new = slab.take(bytes);
                // SAFETY: both blocks are allocated, distinct and of this size.
                unsafe {
                    new.memory.copy_from_nonoverlapping(old.memory, bytes);
                    slab.free(old, bytes);
                }
                live[at].0 = new;
            }
            let class = slab.classes.get(7).cloned().unwrap_or_default();
            let needed = (class.live_on_pages as usize).div_ceil(blocks_per_page(7));
            prop_assert!(class.pages as usize <= 2 + needed + needed / 4, "{class:?}");
            for (block, bytes, fill) in live.drain(..) {
                // SAFETY: as above.
                unsafe {
                    let contents = std::slice::from_raw_parts(block.memory.as_ptr(), bytes);
                    prop_assert!(contents.iter().all(|byte| *byte == fill));
                    slab.free(block, bytes);
                }
            }
        }
    }
}
