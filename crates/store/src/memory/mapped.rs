//! Mappings for single allocations of at least a megabyte, so that their memory goes back to the
//! kernel: a general allocator caches memory that one thread allocates and another frees, which is
//! the usual case for the bytes of long keys.
//!
//! Byte buffers, which are reallocated with every large reply, stay with the general allocator,
//! because the kernel zeroes all memory that it maps.

use crate::memory::region::PAGE_BYTES;
use crate::sync::cache_line::Line;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The smallest allocation that has its own mapping. A process may have some 65,000 mappings.
pub(crate) const MIN_BYTES: usize = 1 << 20;

static USED_BYTES: Line<AtomicUsize> = Line(AtomicUsize::new(0));

/// Whether an allocation has its own mapping.
#[inline]
pub(crate) fn is_for(layout: Layout) -> bool {
    layout.size() >= MIN_BYTES && (2..=PAGE_BYTES).contains(&layout.align())
}

/// Returns the memory that a mapping of `bytes` takes.
pub(crate) fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_BYTES)
}

/// Returns the number of mapped bytes.
pub(crate) fn used_bytes() -> usize {
    USED_BYTES.load(Ordering::Relaxed)
}

/// Maps `bytes` zeros, aligned to a page; `None` if the kernel has no more memory.
pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (bytes, access) = (rounded(bytes), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a new mapping overlaps nothing.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
    let start = NonNull::new(mapped.ok()?.cast::<u8>())?;
    USED_BYTES.fetch_add(bytes, Ordering::Relaxed);
    Some(start)
}

/// Changes the length of a mapping, whose address may change; `None`, with nothing changed, if the
/// kernel has no more memory.
///
/// # Safety
/// The memory was mapped with `old` bytes, and only the caller references it.
pub(crate) unsafe fn remap(start: NonNull<u8>, old: usize, new: usize) -> Option<NonNull<u8>> {
    let (old, new) = (rounded(old), rounded(new));
    // SAFETY: the caller guarantees it.
    let moved = unsafe { mremap(start.as_ptr().cast(), old, new, MremapFlags::MAYMOVE) };
    let moved = NonNull::new(moved.ok()?.cast::<u8>())?;
    USED_BYTES.fetch_add(new, Ordering::Relaxed);
    USED_BYTES.fetch_sub(old, Ordering::Relaxed);
    Some(moved)
}

/// Unmaps the memory.
///
/// # Safety
/// The memory was mapped with `bytes` bytes, and is no longer referenced.
pub(crate) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    let bytes = rounded(bytes);
    // SAFETY: the caller guarantees it.
    let unmapped = unsafe { munmap(start.as_ptr().cast(), bytes) };
    debug_assert!(unmapped.is_ok(), "it was mapped: {unmapped:?}");
    USED_BYTES.fetch_sub(bytes, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_memory_keeps_its_contents_when_it_grows() {
        let _alone = crate::memory::accounting::tests::alone();
        let (small, large) = (MIN_BYTES + 1, 40 * MIN_BYTES);
        // SAFETY: each mapping is freed with its own length, and written within it.
        unsafe {
            let memory = map(small).unwrap();
            assert_eq!((memory.read(), memory.add(MIN_BYTES).read()), (0, 0));
            memory.add(MIN_BYTES).write(7);
            let memory = remap(memory, small, large).unwrap();
            assert_eq!(memory.add(MIN_BYTES).read(), 7);
            memory.add(large - 1).write(8);
            let before = used_bytes();
            unmap(memory, large);
            assert_eq!(before - used_bytes(), large);
        }
    }
}
