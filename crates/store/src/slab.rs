//! Memory for a shard's entries: blocks of one size per page, in steps of eight bytes.
//!
//! A general allocator rounds 56 bytes to 64 and 132 to 160, which at the size of a cache's
//! entries is most of what there is to save. A shard's first few blocks of a size come from the
//! general allocator all the same, so that a small database does not pay for half-empty pages;
//! so does whatever is larger than [`LARGEST_BLOCK`]. Everything here happens under the shard's
//! latch.
//!
//! ```text
//!  page, 4096 bytes
//!  +---------------------+-------+-------+-------+--   --+-------+------+
//!  | header: free bitmap,| block | block | block |  ...  | block | rest |
//!  | live count, links   |   0   |   1   |   2   |       |  n-1  |      |
//!  +---------------------+-------+-------+-------+--   --+-------+------+
//!  classes[size] -> page with a free block <-> ... <-> sparsest page
//! ```
//!
//! New blocks come from the front of a class' list; a page that has become sparse moves to its
//! end and is emptied from there ([`Slab::relocation`]), so that memory follows the data when the
//! sizes of values change.

use crate::pages::{PAGE_BYTES, Page, PagePool};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;

/// Blocks of more bytes come from the general allocator.
pub(crate) const LARGEST_BLOCK: usize = 512;
const HEADER_BYTES: usize = size_of::<PageHeader>();

/// A piece of memory for one entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) memory: NonNull<u8>,
    /// Whether it came from the general allocator.
    pub(crate) on_heap: bool,
}

/// One shard's blocks.
#[derive(Debug)]
pub(crate) struct Slab {
    pool: Arc<PagePool>,
    /// By class, as far as the largest that was ever asked for.
    classes: Vec<Class>,
}

#[derive(Clone, Debug, Default)]
struct Class {
    /// The first and the last page with a free block.
    first: Option<Page>,
    last: Option<Page>,
    pages: u32,
    /// Blocks in use, on pages and in the general allocator.
    live_on_pages: u32,
    live_on_heap: u32,
}

struct PageHeader {
    /// A set bit is a free block.
    free: [u64; 4],
    next: Option<Page>,
    previous: Option<Page>,
    live: u16,
    class: u16,
    listed: bool,
}

// SAFETY: a slab's pages are reached only by whoever holds the shard's latch.
unsafe impl Send for Slab {}

/// The class of a size, if it has one.
fn class_of(bytes: usize) -> Option<usize> {
    match bytes {
        0..=256 => Some(bytes.div_ceil(8).max(2)),
        257..=LARGEST_BLOCK => Some(32 + (bytes - 256).div_ceil(16)),
        _ => None,
    }
}

/// Size of a class' blocks in bytes.
const fn block_bytes(class: usize) -> usize {
    if class <= 32 { class * 8 } else { 256 + (class - 32) * 16 }
}

const fn blocks_per_page(class: usize) -> usize {
    (PAGE_BYTES - HEADER_BYTES) / block_bytes(class)
}

/// What a block of `bytes` really takes.
pub(crate) fn rounded_bytes(bytes: usize) -> usize {
    class_of(bytes).map_or(bytes.next_multiple_of(8), block_bytes)
}

impl Slab {
    pub(crate) fn new(pool: Arc<PagePool>) -> Self {
        Slab { pool, classes: Vec::new() }
    }

    /// Memory for an entry of `bytes`, aligned to 8, its contents undefined.
    pub(crate) fn take(&mut self, bytes: usize) -> Block {
        let Some(index) = class_of(bytes) else { return take_from_heap(bytes) };
        if self.classes.len() <= index {
            self.classes.resize(index + 1, Class::default());
        }
        let Some(class) = self.classes.get_mut(index) else { return take_from_heap(bytes) };
        if class.first.is_none() {
            if class.pages == 0 && (class.live_on_heap as usize) < blocks_per_page(index) / 2 {
                class.live_on_heap += 1;
                return take_from_heap(bytes);
            }
            let page = self.pool.take();
            // SAFETY: the page is ours and holds nothing.
            unsafe { page.cast::<PageHeader>().write(PageHeader::new(index)) };
            class.pages += 1;
            class.list_first(page);
        }
        class.take(index)
    }

    /// Takes back a block of `bytes`.
    ///
    /// # Safety
    /// It came from this slab for the same `bytes`, and nobody refers to it any more.
    pub(crate) unsafe fn give(&mut self, block: Block, bytes: usize) {
        let class = class_of(bytes).and_then(|index| Some((index, self.classes.get_mut(index)?)));
        match class {
            Some((index, class)) if !block.on_heap => {
                // SAFETY: the block lies on a page of this class.
                if let Some(page) = unsafe { class.give(index, block.memory) } {
                    self.pool.give(page);
                }
            }
            class => {
                if let Some((_, class)) = class {
                    class.live_on_heap -= 1;
                }
                // SAFETY: it came from the general allocator with this layout.
                unsafe { dealloc(block.memory.as_ptr(), heap_layout(bytes)) };
            }
        }
    }

    /// A block in use that should move elsewhere, because so many blocks of the size of `bytes`
    /// are free that its page could go; the caller takes a new block, copies, and gives this one
    /// back.
    pub(crate) fn relocation(&self, bytes: usize) -> Option<NonNull<u8>> {
        let index = class_of(bytes)?;
        let class = self.classes.get(index)?;
        let capacity = class.pages as usize * blocks_per_page(index);
        let free = capacity - class.live_on_pages as usize;
        if free <= blocks_per_page(index) + capacity / 8 {
            return None;
        }
        let page = class.last.filter(|last| Some(*last) != class.first)?;
        // SAFETY: a listed page has a header, and the latch is ours.
        let header = unsafe { page.cast::<PageHeader>().as_ref() };
        let used = (0..blocks_per_page(index)).find(|block| !header.is_free(*block))?;
        // SAFETY: the block lies on the page.
        Some(unsafe { page.add(HEADER_BYTES + used * block_bytes(index)) })
    }
}

impl Class {
    /// A block of the first page, which has one.
    fn take(&mut self, index: usize) -> Block {
        let page = self.first.unwrap_or(NonNull::dangling());
        // SAFETY: a listed page has a header and the latch is ours.
        let header = unsafe { page.cast::<PageHeader>().as_mut() };
        let block = header.take();
        self.live_on_pages += 1;
        if usize::from(header.live) == blocks_per_page(index) {
            self.unlist(page);
        }
        // SAFETY: the block lies on the page.
        let memory = unsafe { page.add(HEADER_BYTES + block * block_bytes(index)) };
        Block { memory, on_heap: false }
    }

    /// Takes a block back; the page, if it is empty now and another has room.
    ///
    /// # Safety
    /// The block is in use and on a page of this class.
    unsafe fn give(&mut self, index: usize, memory: NonNull<u8>) -> Option<Page> {
        let offset = memory.addr().get() % PAGE_BYTES;
        // SAFETY: pages are aligned, so the page begins this much before the block.
        let page = unsafe { memory.sub(offset) };
        // SAFETY: a page in use has a header and the latch is ours.
        let header = unsafe { page.cast::<PageHeader>().as_mut() };
        header.give((offset - HEADER_BYTES) / block_bytes(index));
        let (live, listed) = (usize::from(header.live), header.listed);
        self.live_on_pages -= 1;
        let sparse = blocks_per_page(index) / 4;
        if live == 0 && (self.first != Some(page) || self.last != Some(page)) {
            self.unlist(page);
            self.pages -= 1;
            return Some(page);
        }
        if live == sparse && live > 0 {
            self.unlist(page);
            self.list_last(page);
        } else if !listed {
            self.list_first(page);
        }
        None
    }

    fn list_first(&mut self, page: Page) {
        let next = self.first.replace(page);
        // SAFETY: pages of the list have headers and the latch is ours; the two are distinct.
        unsafe {
            page.cast::<PageHeader>().as_mut().link(None, next);
            match next {
                Some(next) => next.cast::<PageHeader>().as_mut().previous = Some(page),
                None => self.last = Some(page),
            }
        }
    }

    fn list_last(&mut self, page: Page) {
        let previous = self.last.replace(page);
        // SAFETY: pages of the list have headers and the latch is ours; the two are distinct.
        unsafe {
            page.cast::<PageHeader>().as_mut().link(previous, None);
            match previous {
                Some(previous) => previous.cast::<PageHeader>().as_mut().next = Some(page),
                None => self.first = Some(page),
            }
        }
    }

    fn unlist(&mut self, page: Page) {
        // SAFETY: pages of the list have headers and the latch is ours; each is borrowed alone.
        unsafe {
            let header = page.cast::<PageHeader>().as_mut();
            if !header.listed {
                return;
            }
            let (previous, next) = (header.previous, header.next);
            header.listed = false;
            match previous {
                Some(previous) => previous.cast::<PageHeader>().as_mut().next = next,
                None => self.first = next,
            }
            match next {
                Some(next) => next.cast::<PageHeader>().as_mut().previous = previous,
                None => self.last = previous,
            }
        }
    }
}

impl PageHeader {
    fn new(class: usize) -> Self {
        let blocks = blocks_per_page(class);
        let mut free = [0_u64; 4];
        for (index, word) in free.iter_mut().enumerate() {
            let bits = blocks.saturating_sub(index * 64).min(64);
            *word = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        }
        let class = class as u16;
        PageHeader { free, next: None, previous: None, live: 0, class, listed: false }
    }

    fn link(&mut self, previous: Option<Page>, next: Option<Page>) {
        (self.previous, self.next, self.listed) = (previous, next, true);
    }

    /// The lowest free block, which is in use from now on.
    fn take(&mut self) -> usize {
        for (index, word) in self.free.iter_mut().enumerate() {
            if *word != 0 {
                let bit = word.trailing_zeros() as usize;
                *word &= *word - 1;
                self.live += 1;
                return index * 64 + bit;
            }
        }
        debug_assert!(false, "a listed page of class {} has a free block", self.class);
        0
    }

    fn give(&mut self, block: usize) {
        debug_assert!(!self.is_free(block), "a block is given back once");
        if let Some(word) = self.free.get_mut(block / 64) {
            *word |= 1 << (block % 64);
            self.live -= 1;
        }
    }

    fn is_free(&self, block: usize) -> bool {
        self.free.get(block / 64).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }
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
            assert!(blocks_per_page(class) <= 256);
        }
    }

    #[test]
    fn a_shard_with_few_entries_opens_no_page() {
        let pool = Arc::new(PagePool::default());
        let mut slab = Slab::new(Arc::clone(&pool));
        let blocks: Vec<Block> = (0..30).map(|_| slab.take(56)).collect();
        assert_eq!(pool.used_bytes(), 0);
        for block in blocks {
            // SAFETY: taken above, given once.
            unsafe { slab.give(block, 56) };
        }
    }

    proptest! {
        /// Blocks never overlap, and moving what `relocation` names lets the pages go.
        #[test]
        fn blocks_are_disjoint_and_memory_follows_the_data(
            sizes in proptest::collection::vec(9_usize..600, 1..1500),
            keep in 0..100_usize,
        ) {
            let pool = Arc::new(PagePool::default());
            let mut slab = Slab::new(Arc::clone(&pool));
            let mut live: Vec<(Block, usize, u8)> = Vec::new();
            for (index, bytes) in sizes.iter().map(|size| if size % 3 == 0 { 56 } else { *size }).enumerate() {
                let block = slab.take(bytes);
                // SAFETY: the block is ours and as large as asked.
                unsafe { block.memory.write_bytes(index as u8, bytes) };
                live.push((block, bytes, index as u8));
            }
            let gone = live.len() * (100 - keep) / 100;
            for (block, bytes, fill) in live.drain(..gone) {
                // SAFETY: written above, given back once.
                unsafe {
                    let contents = std::slice::from_raw_parts(block.memory.as_ptr(), bytes);
                    prop_assert!(contents.iter().all(|byte| *byte == fill));
                    slab.give(block, bytes);
                }
            }
            while let Some(from) = slab.relocation(56) {
                let at = live.iter().position(|(block, ..)| block.memory == from).unwrap();
                let (old, bytes, _) = live[at];
                let new = slab.take(bytes);
                // SAFETY: both blocks are ours, distinct and of this size.
                unsafe {
                    new.memory.copy_from_nonoverlapping(old.memory, bytes);
                    slab.give(old, bytes);
                }
                live[at].0 = new;
            }
            let class = &slab.classes[7];
            let needed = (class.live_on_pages as usize).div_ceil(blocks_per_page(7));
            prop_assert!(class.pages as usize <= 2 + needed + needed / 4, "{class:?}");
            for (block, bytes, fill) in live.drain(..) {
                // SAFETY: as above.
                unsafe {
                    let contents = std::slice::from_raw_parts(block.memory.as_ptr(), bytes);
                    prop_assert!(contents.iter().all(|byte| *byte == fill));
                    slab.give(block, bytes);
                }
            }
        }
    }
}
