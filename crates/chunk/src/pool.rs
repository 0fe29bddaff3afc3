//! Memory for full chunks, mapped directly: a general allocator caches memory for the thread that
//! frees it, and large values are freed by the reclaimer thread.
//!
//! Freed memory is kept for the next requests, and returned to the kernel if there are none for
//! some time.

use parking_lot::{Mutex, MutexGuard};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The size of a block in bytes; a block holds one chunk.
pub const BLOCK_BYTES: usize = 64 * 1024;
/// The number of blocks that are requested from the kernel at a time.
const REGION_BLOCKS: usize = 64;
/// The maximum number of blocks that are taken out of the pool while it is locked once.
const STRIDE: usize = 16;

static POOL: Mutex<Pool> = Mutex::new(Pool { warm: Vec::new(), cold: Vec::new(), spared: 0 });
static USED_BLOCKS: Count = Count(AtomicUsize::new(0));

/// A counter on its own cache lines, because every worker writes to it.
#[repr(align(128))]
struct Count(AtomicUsize);

/// Unused blocks.
struct Pool {
    /// Blocks with memory; the one freed last is at the end.
    warm: Vec<Address>,
    /// Blocks whose memory the kernel has not provided yet, or has taken back.
    cold: Vec<Address>,
    /// The minimum number of warm blocks since the last [`cool`].
    spared: usize,
}

/// The address of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Address(NonNull<[MaybeUninit<u8>; BLOCK_BYTES]>);

impl Address {
    /// Whether another block follows directly.
    fn is_before(&self, other: &Address) -> bool {
        self.0.addr().get() + BLOCK_BYTES == other.0.addr().get()
    }
}

// SAFETY: a block in the pool is unused, no matter which thread takes it.
unsafe impl Send for Address {}

/// A block in use, which returns to the pool when this is dropped.
#[derive(Debug)]
pub(crate) struct Block(Address);

// SAFETY: only the owner of a block writes to its memory, on whichever thread.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates a block with undefined contents; `None` if the kernel has no more memory.
    pub(crate) fn take() -> Option<Self> {
        let mut pool = pool();
        let warm = pool.warm.pop();
        pool.spared = pool.spared.min(pool.warm.len());
        if warm.is_none() && pool.cold.is_empty() {
            let region = kernel::map()?;
            // SAFETY: the region has this many blocks.
            let blocks = (0..REGION_BLOCKS).map(|at| Address(unsafe { region.add(at) }));
            pool.cold.extend(blocks.rev());
        }
        let block = warm.or_else(|| pool.cold.pop())?;
        USED_BLOCKS.0.fetch_add(1, Ordering::Relaxed);
        Some(Block(block))
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[MaybeUninit<u8>] {
        // SAFETY: the block is in use, and mapped as long as the process lives.
        unsafe { self.0.0.as_ref() }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: as above, and it is borrowed exclusively.
        unsafe { self.0.0.as_mut() }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        USED_BLOCKS.0.fetch_sub(1, Ordering::Relaxed);
        pool().warm.push(self.0);
    }
}

/// Returns the total size of all full chunks in use, in bytes.
#[must_use]
pub fn used_bytes() -> usize {
    USED_BLOCKS.0.load(Ordering::Relaxed) * BLOCK_BYTES
}

/// Returns approximately how many full chunks can be allocated without memory from the kernel. The
/// first write to any further chunk takes many times as long.
#[must_use]
pub fn warm() -> usize {
    pool().warm.len()
}

/// Returns memory to the kernel that was not needed since the last call. Call it from time to time
/// on an idle thread.
pub fn cool() {
    let mut left = {
        let mut pool = pool();
        let spared = pool.spared;
        pool.spared = pool.warm.len() - spared.min(pool.warm.len());
        spared
    };
    while left > 0 {
        let mut pool = pool();
        let some = left.min(STRIDE).min(pool.warm.len());
        // Blocks that have been unused for longest come first.
        let mut idle: Vec<Address> = pool.warm.drain(..some).collect();
        drop(pool);
        if idle.is_empty() {
            return;
        }
        left -= some;
        // Adjacent blocks are released together, because each call interrupts all threads of the
        // process.
        idle.sort_unstable();
        for run in idle.chunk_by(Address::is_before) {
            // SAFETY: the blocks have been removed from the pool's list of unused blocks.
            let release = |first: &Address| unsafe { kernel::release(first.0, run.len()) };
            run.first().into_iter().for_each(release);
        }
        self::pool().cold.extend(idle.into_iter().rev());
    }
}

/// Locks the pool. No operation under this lock can panic halfway.
fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock()
}

#[cfg(not(miri))]
mod kernel {
    use super::{BLOCK_BYTES, REGION_BLOCKS};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    use std::mem::MaybeUninit;
    use std::ptr::NonNull;

    /// Maps a region of zeros, aligned to a page.
    pub(super) fn map() -> Option<NonNull<[MaybeUninit<u8>; BLOCK_BYTES]>> {
        let (bytes, access) = (REGION_BLOCKS * BLOCK_BYTES, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping overlaps nothing.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
        let region = NonNull::new(mapped.ok()?.cast::<[MaybeUninit<u8>; BLOCK_BYTES]>())?;
        // Memory should be provided page by page and returned chunk by chunk, not two megabytes at
        // a time. SAFETY: the region is ours. A kernel without large pages may ignore the request.
        let _ = unsafe { madvise(region.as_ptr().cast(), bytes, Advice::LinuxNoHugepage) };
        Some(region)
    }

    /// Returns the memory of consecutive blocks to the kernel; afterwards it reads as zeros.
    ///
    /// # Safety
    /// The blocks belong to the pool, and their contents are not needed.
    pub(super) unsafe fn release(first: NonNull<[MaybeUninit<u8>; BLOCK_BYTES]>, blocks: usize) {
        let bytes = blocks * BLOCK_BYTES;
        // SAFETY: the caller guarantees it.
        let released = unsafe { madvise(first.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
        debug_assert!(released.is_ok(), "it is mapped: {released:?}");
    }
}

/// Miri does not support `mmap`: chunks use the general allocator.
#[cfg(miri)]
mod kernel {
    use super::BLOCK_BYTES;
    use std::mem::MaybeUninit;
    use std::ptr::NonNull;

    pub(super) fn map() -> Option<NonNull<[MaybeUninit<u8>; BLOCK_BYTES]>> {
        None
    }

    pub(super) unsafe fn release(_: NonNull<[MaybeUninit<u8>; BLOCK_BYTES]>, _: usize) {}
}
