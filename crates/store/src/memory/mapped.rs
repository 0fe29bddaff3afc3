//! Memory for single allocations of a megabyte and more, straight from the kernel and back to it:
//! a general allocator keeps what one thread takes and another frees, which is what happens to the
//! bytes of long keys.
//!
//! Buffers of bytes, which grow and go with every large reply, stay with the general allocator:
//! the kernel fills what it gives with zeros.

use crate::memory::region::PAGE_BYTES;
use crate::sync::cache_line::Line;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap, munmap};
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The smallest allocation that has a mapping of its own. Processes may have some 65,000 of them.
pub(crate) const MIN_BYTES: usize = 1 << 20;

static USED_BYTES: Line<AtomicUsize> = Line(AtomicUsize::new(0));

/// Whether such an allocation has a mapping of its own.
#[inline]
pub(crate) fn is_for(layout: Layout) -> bool {
    layout.size() >= MIN_BYTES && (2..=PAGE_BYTES).contains(&layout.align())
}

/// What so many bytes of such an allocation really take.
pub(crate) fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_BYTES)
}

/// Bytes that are mapped now.
pub(crate) fn used_bytes() -> usize {
    USED_BYTES.load(Ordering::Relaxed)
}

/// So many zeros, aligned to a page; `None` if the kernel has no more.
pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (bytes, access) = (rounded(bytes), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a new mapping overlaps nothing.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
    let start = NonNull::new(mapped.ok()?.cast::<u8>())?;
    USED_BYTES.fetch_add(bytes, Ordering::Relaxed);
    Some(start)
}

/// The same memory with another length, perhaps elsewhere; `None`, and nothing has changed, if the
/// kernel has no more.
///
/// # Safety
/// It was mapped with `old` bytes, and only the caller refers to it.
pub(crate) unsafe fn remap(start: NonNull<u8>, old: usize, new: usize) -> Option<NonNull<u8>> {
    let (old, new) = (rounded(old), rounded(new));
    // SAFETY: the caller's promise.
    let moved = unsafe { mremap(start.as_ptr().cast(), old, new, MremapFlags::MAYMOVE) };
    let moved = NonNull::new(moved.ok()?.cast::<u8>())?;
    USED_BYTES.fetch_add(new, Ordering::Relaxed);
    USED_BYTES.fetch_sub(old, Ordering::Relaxed);
    Some(moved)
}

/// Gives the memory back.
///
/// # Safety
/// It was mapped with so many bytes, and nothing refers to it any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    let bytes = rounded(bytes);
    // SAFETY: the caller's promise.
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
        // SAFETY: each is given up as it was had, and written within its length.
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
