//! Memory for the chunks of long strings, straight from the kernel: a general allocator keeps what
//! one thread frees for another, and a large value is freed by the reclaimer.
//!
//! What was freed of late is kept for those who ask next, and given back to the kernel if nobody
//! has asked for it in a while.

use crate::sync::cache_line::Line;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a block, which holds one chunk.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;
/// Bytes of payload in every chunk but the last: with the reference counts in front, a block of
/// 64 KiB, less what makes its size unlike any other's.
pub const CHUNK_BYTES: usize = BLOCK_BYTES - 16 - 8;
/// Blocks that are asked of the kernel at a time.
const REGION_BLOCKS: usize = 64;
/// Blocks given back between two looks at what others need.
const STRIDE: usize = 16;

static POOL: Mutex<Pool> = Mutex::new(Pool { warm: Vec::new(), cold: Vec::new(), spared: 0 });
static USED_BLOCKS: Line<AtomicUsize> = Line(AtomicUsize::new(0));

/// Blocks that nobody uses.
struct Pool {
    /// Those that have memory, the last to be freed at the end.
    warm: Vec<Block>,
    /// Those that have none.
    cold: Vec<Block>,
    /// The fewest that were warm since the last [`cool`].
    spared: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Block(NonNull<u8>);

impl Block {
    /// Whether another one lies right behind it.
    fn is_before(&self, other: &Block) -> bool {
        self.0.addr().get() + BLOCK_BYTES == other.0.addr().get()
    }
}

// SAFETY: a block in the pool is nobody's, whichever thread takes it.
unsafe impl Send for Block {}

/// Bytes that chunks take.
pub(crate) fn used_bytes() -> usize {
    USED_BLOCKS.load(Ordering::Relaxed) * BLOCK_BYTES
}

/// Blocks at hand that have memory.
pub(crate) fn warm() -> usize {
    pool().warm.len()
}

/// A block in no defined state, aligned to a page; `None` if the kernel has no more.
pub(crate) fn take() -> Option<NonNull<u8>> {
    let mut pool = pool();
    let warm = pool.warm.pop();
    pool.spared = pool.spared.min(pool.warm.len());
    if warm.is_none() && pool.cold.is_empty() {
        let region = kernel::map()?;
        // SAFETY: the region has so many blocks.
        let blocks = (0..REGION_BLOCKS).map(|at| Block(unsafe { region.add(at * BLOCK_BYTES) }));
        pool.cold.extend(blocks.rev());
    }
    let block = warm.or_else(|| pool.cold.pop())?;
    USED_BLOCKS.fetch_add(1, Ordering::Relaxed);
    Some(block.0)
}

/// Gives a block back.
///
/// # Safety
/// It is one that was taken, and nobody refers to it any more.
pub(crate) unsafe fn give(block: NonNull<u8>) {
    USED_BLOCKS.fetch_sub(1, Ordering::Relaxed);
    pool().warm.push(Block(block));
}

/// Gives back to the kernel what nobody has needed since the last time. To be called now and then
/// by a thread that has the time.
pub(crate) fn cool() {
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
        let mut idle: Vec<Block> = pool.warm.drain(..some).collect();
        drop(pool);
        if idle.is_empty() {
            return;
        }
        left -= some;
        // Each call interrupts all threads of the process.
        idle.sort_unstable();
        for run in idle.chunk_by(Block::is_before) {
            // SAFETY: they were taken out of the pool's list of those that nobody uses.
            let release = |first: &Block| unsafe { kernel::release(first.0, run.len()) };
            run.first().into_iter().for_each(release);
        }
        self::pool().cold.extend(idle.into_iter().rev());
    }
}

/// Nothing that is done under this lock can leave it half-done.
fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

mod kernel {
    use super::{BLOCK_BYTES, REGION_BLOCKS};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    use std::ptr::NonNull;

    /// A region of zeros.
    pub(super) fn map() -> Option<NonNull<u8>> {
        let (bytes, access) = (REGION_BLOCKS * BLOCK_BYTES, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping overlaps nothing.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
        let region = NonNull::new(mapped.ok()?.cast::<u8>())?;
        // Memory is to come as bytes do, and to go as chunks do: not two megabytes at a time.
        // SAFETY: the region is ours. A kernel without large pages does as well without.
        let _ = unsafe { madvise(region.as_ptr().cast(), bytes, Advice::LinuxNoHugepage) };
        Some(region)
    }

    /// Gives the memory of blocks in a row back to the kernel; reading it afterwards shows zeros.
    ///
    /// # Safety
    /// The blocks belong to the pool, and nobody needs what is in them.
    pub(super) unsafe fn release(first: NonNull<u8>, blocks: usize) {
        let bytes = blocks * BLOCK_BYTES;
        // SAFETY: the caller's promise.
        let released = unsafe { madvise(first.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
        debug_assert!(released.is_ok(), "it is mapped: {released:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_used_again_and_given_back_when_nobody_asks() {
        let _alone = crate::memory::accounting::tests::alone();
        let before = used_bytes();
        let blocks: Vec<NonNull<u8>> = (0..200).map(|_| take().unwrap()).collect();
        assert_eq!(used_bytes() - before, 200 * BLOCK_BYTES);
        for block in &blocks {
            // SAFETY: the block is ours, and of this length.
            unsafe { block.write_bytes(7, BLOCK_BYTES) };
        }
        // SAFETY: each was taken above.
        blocks.iter().for_each(|block| unsafe { give(*block) });
        assert_eq!(used_bytes(), before);
        cool();
        assert!(warm() >= 200, "they have been in use of late");
        cool();
        assert_eq!(warm(), 0, "and now they have not");
        let again = take().unwrap();
        assert!(blocks.contains(&again), "addresses are kept");
        // SAFETY: it is mapped, and of this length.
        let bytes = unsafe { std::slice::from_raw_parts(again.as_ptr(), BLOCK_BYTES) };
        assert!(bytes.iter().all(|byte| *byte == 0), "the kernel has taken what was there");
        // SAFETY: it was taken above.
        unsafe { give(again) };
    }
}
