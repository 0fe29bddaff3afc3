//! Memory for full chunks, straight from the kernel: a general allocator keeps what
//! one thread frees for another, and a large value is freed by the reclaimer.
//!
//! Freed memory is kept for the next requests, and returned to the kernel if there are none for a
//! while.

use parking_lot::{Mutex, MutexGuard};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a block, which holds one chunk.
pub const BLOCK_BYTES: usize = 64 * 1024;
/// Blocks that are requested from the kernel at a time.
const REGION_BLOCKS: usize = 64;
/// Blocks returned between two looks at the pool.
const STRIDE: usize = 16;

static POOL: Mutex<Pool> = Mutex::new(Pool { warm: Vec::new(), cold: Vec::new(), spared: 0 });
static USED_BLOCKS: Count = Count(AtomicUsize::new(0));

/// On cache lines of its own: every worker writes it.
#[repr(align(128))]
struct Count(AtomicUsize);

/// Unused blocks.
struct Pool {
    /// Those that have memory, the last to be freed at the end.
    warm: Vec<Address>,
    /// Those that have none.
    cold: Vec<Address>,
    /// The fewest that were warm since the last [`cool`].
    spared: usize,
}

/// A block by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Address(NonNull<[MaybeUninit<u8>; BLOCK_BYTES]>);

impl Address {
    /// Whether another one lies right after it.
    fn is_before(&self, other: &Address) -> bool {
        self.0.addr().get() + BLOCK_BYTES == other.0.addr().get()
    }
}

// SAFETY: a block in the pool is unused, whichever thread takes it.
unsafe impl Send for Address {}

/// A block that is in use, and goes back to the pool when this is dropped.
#[derive(Debug)]
pub(crate) struct Block(Address);

// SAFETY: a block is memory that its owner alone writes to, whichever thread that is on.
unsafe impl Sync for Block {}

impl Block {
    /// A block in no defined state; `None` if the kernel has no more.
    pub(crate) fn take() -> Option<Self> {
        let mut pool = pool();
        let warm = pool.warm.pop();
        pool.spared = pool.spared.min(pool.warm.len());
        if warm.is_none() && pool.cold.is_empty() {
            let region = kernel::map()?;
            // SAFETY: the region has so many blocks.
            let blocks = (0..REGION_BLOCKS).map(|at| Address(unsafe { region.add(at) }));
            pool.cold.extend(blocks.rev());
        }
        let block = warm.or_else(|| pool.cold.pop())?;
        USED_BLOCKS.0.fetch_add(1, Ordering::Relaxed);
        Some(Block(block))
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[MaybeUninit<u8>] {
        // SAFETY: the block is ours, and mapped for as long as the process lives.
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

/// Bytes that full chunks take.
#[must_use]
pub fn used_bytes() -> usize {
    USED_BLOCKS.0.load(Ordering::Relaxed) * BLOCK_BYTES
}

/// About how many full chunks are available without memory from the kernel.
/// The first write to any other takes many times as long.
#[must_use]
pub fn warm() -> usize {
    pool().warm.len()
}

/// Returns to the kernel what was not needed since the last time. To be called now and then
/// by a thread that has the time.
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
        // The longest unused first.
        let mut idle: Vec<Address> = pool.warm.drain(..some).collect();
        drop(pool);
        if idle.is_empty() {
            return;
        }
        left -= some;
        // Each call interrupts all threads of the process.
        idle.sort_unstable();
        for run in idle.chunk_by(Address::is_before) {
            // SAFETY: they were taken out of the pool's list of unused ones.
            let release = |first: &Address| unsafe { kernel::release(first.0, run.len()) };
            run.first().into_iter().for_each(release);
        }
        self::pool().cold.extend(idle.into_iter().rev());
    }
}

/// Nothing that is done under this lock can leave it half-done.
fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock()
}

#[cfg(not(miri))]
mod kernel {
    use super::{BLOCK_BYTES, REGION_BLOCKS};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    use std::mem::MaybeUninit;
    use std::ptr::NonNull;

    /// A region of zeros, aligned to a page.
    pub(super) fn map() -> Option<NonNull<[MaybeUninit<u8>; BLOCK_BYTES]>> {
        let (bytes, access) = (REGION_BLOCKS * BLOCK_BYTES, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping overlaps nothing.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
        let region = NonNull::new(mapped.ok()?.cast::<[MaybeUninit<u8>; BLOCK_BYTES]>())?;
        // Memory is to come as bytes do, and to go as chunks do: not two megabytes at a time.
        // SAFETY: the region is ours. A kernel without large pages does as well without.
        let _ = unsafe { madvise(region.as_ptr().cast(), bytes, Advice::LinuxNoHugepage) };
        Some(region)
    }

    /// Gives the memory of blocks in a row back to the kernel; reading it afterwards shows zeros.
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

/// Under Miri, which knows no `mmap`, chunks lie in the general allocator.
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
