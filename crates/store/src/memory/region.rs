//! Regions: aligned address ranges, mapped directly because a general allocator would add to their
//! size; and requests to the kernel for their memory. A request may take long, so none is made
//! while a shard's latch is held.

/// Size and alignment of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Size and alignment of a region.
pub(crate) const REGION_BYTES: usize = if cfg!(miri) { 64 * PAGE_BYTES } else { 1024 * PAGE_BYTES };

#[cfg(not(miri))]
pub(crate) use real::{map, populate, release, unmap, want_small_pages};

#[cfg(all(test, not(miri)))]
pub(crate) use real::{asked, releases};

#[cfg(miri)]
pub(crate) use watched::{map, populate, release, unmap, want_small_pages};

#[cfg(not(miri))]
mod real {
    use super::REGION_BYTES;
    use crate::sync::holds::{self, Work};
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    use std::alloc::{Layout, handle_alloc_error};
    use std::ptr::NonNull;

    #[cfg(test)]
    thread_local! {
        static ASKED: std::cell::Cell<(usize, usize)> = const { std::cell::Cell::new((0, 0)) };
        static RELEASES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// Returns how often this thread has returned memory.
    #[cfg(test)]
    pub(crate) fn releases() -> usize {
        RELEASES.get()
    }

    /// Returns the bytes that this thread has requested, and returned.
    #[cfg(test)]
    pub(crate) fn asked() -> (usize, usize) {
        ASKED.get()
    }

    /// Maps a region of zeros, aligned to its size.
    pub(crate) fn map() -> NonNull<u8> {
        holds::note(Work { requests: 1, ..Work::default() });
        let twice = 2 * REGION_BYTES;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping overlaps nothing.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), twice, access, MapFlags::PRIVATE) };
        let start = mapped.ok().and_then(|start| NonNull::new(start.cast::<u8>()));
        let Some(start) = start else { handle_alloc_error(Layout::new::<[u8; REGION_BYTES]>()) };
        let before = start.addr().get().next_multiple_of(REGION_BYTES) - start.addr().get();
        // SAFETY: the parts before and after the aligned half are mapped and unused.
        unsafe {
            let region = start.add(before);
            let trims = [(start, before), (region.add(REGION_BYTES), REGION_BYTES - before)];
            for (trim, len) in trims.into_iter().filter(|(_, len)| *len > 0) {
                let unmapped = munmap(trim.as_ptr().cast(), len);
                debug_assert!(unmapped.is_ok(), "it was mapped: {unmapped:?}");
            }
            // A lookup reads three random addresses, and with small pages each would need a page
            // walk first. It works without large pages too.
            let _ = madvise(region.as_ptr().cast(), REGION_BYTES, Advice::LinuxHugepage);
            region
        }
    }

    /// Makes the kernel provide memory; its contents stay. Kernels before 5.14 do not support it,
    /// and provide the memory on first use.
    ///
    /// # Safety
    /// The memory is part of a region.
    pub(crate) unsafe fn populate(start: NonNull<u8>, bytes: usize) {
        holds::note(Work { requests: 1, ..Work::default() });
        #[cfg(test)]
        ASKED.set((ASKED.get().0 + bytes, ASKED.get().1));
        // SAFETY: it is mapped, and no byte of it changes.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) };
    }

    /// # Safety
    /// The region is not referenced.
    pub(crate) unsafe fn unmap(region: NonNull<u8>) {
        // SAFETY: the caller guarantees it.
        let unmapped = unsafe { munmap(region.as_ptr().cast(), REGION_BYTES) };
        debug_assert!(unmapped.is_ok(), "it was mapped: {unmapped:?}");
    }

    /// Returns memory to the kernel; afterwards it reads as zeros.
    ///
    /// # Safety
    /// The memory is part of a region, and its contents are not needed.
    pub(crate) unsafe fn release(start: NonNull<u8>, bytes: usize) {
        holds::note(Work { requests: 1, ..Work::default() });
        #[cfg(test)]
        ASKED.set((ASKED.get().0, ASKED.get().1 + bytes));
        #[cfg(test)]
        RELEASES.set(RELEASES.get() + 1);
        // SAFETY: the caller guarantees it.
        let released = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
        debug_assert!(released.is_ok(), "they are mapped: {released:?}");
    }

    /// Backs a partly used region with small pages: a large page would provide memory for its idle
    /// parts too.
    ///
    /// # Safety
    /// The address is the start of a region.
    pub(crate) unsafe fn want_small_pages(region: NonNull<u8>) {
        holds::note(Work { requests: 1, ..Work::default() });
        // SAFETY: no byte changes. A kernel without large pages may ignore the request.
        let _ = unsafe { madvise(region.as_ptr().cast(), REGION_BYTES, Advice::LinuxNoHugepage) };
    }
}

/// Regions from the allocator under Miri, which does not support `mmap`.
#[cfg(miri)]
mod watched {
    use super::REGION_BYTES;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    const LAYOUT: Layout = match Layout::from_size_align(REGION_BYTES, REGION_BYTES) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    };

    pub(crate) fn map() -> NonNull<u8> {
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { alloc_zeroed(LAYOUT) }).unwrap()
    }

    pub(crate) unsafe fn unmap(region: NonNull<u8>) {
        // SAFETY: the caller guarantees it.
        unsafe { dealloc(region.as_ptr(), LAYOUT) };
    }

    pub(crate) unsafe fn populate(_: NonNull<u8>, _: usize) {}

    pub(crate) unsafe fn release(_: NonNull<u8>, _: usize) {}

    pub(crate) unsafe fn want_small_pages(_: NonNull<u8>) {}
}
