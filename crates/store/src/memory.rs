//! How much memory the process uses, counted where it is allocated.
//!
//! The binary wraps its allocator in [`Counting`]. Each thread adds up what it takes and gives
//! back and tells the rest of the process only when that comes to something, so that the count
//! costs an addition per allocation; it is exact to within [`STEP_BYTES`] per thread. Pages of the
//! store come straight from the kernel and are counted by their pool.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

/// What a thread keeps to itself.
const STEP_BYTES: i64 = 32 * 1024;

static ALLOCATED_BYTES: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static UNTOLD_BYTES: Cell<i64> = const { Cell::new(0) };
}

/// Bytes allocated now from the allocator that [`Counting`] wraps; 0 where none is wrapped.
#[must_use]
pub fn allocated_bytes() -> u64 {
    u64::try_from(ALLOCATED_BYTES.load(Ordering::Relaxed)).unwrap_or(0)
}

/// Tells what this thread has kept to itself. Who is about to evict must know: a count that stands
/// still while [`STEP_BYTES`] are freed drives out hundreds of entries too many.
pub(crate) fn tell() {
    let untold = UNTOLD_BYTES.try_with(Cell::take).unwrap_or(0);
    if untold != 0 {
        ALLOCATED_BYTES.fetch_add(untold, Ordering::Relaxed);
    }
}

/// An allocator that counts.
#[derive(Debug, Default)]
pub struct Counting<A>(pub A);

// SAFETY: everything is handed on as it came.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(rounded(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-rounded(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(rounded(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(rounded(new_size) - rounded(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { self.0.realloc(pointer, layout, new_size) }
    }
}

/// What an allocation really takes: size classes divide every doubling into four, as mimalloc's
/// do (Leijen et al., "Mimalloc: Free List Sharding in Action", 2019).
fn rounded(bytes: usize) -> i64 {
    let step = (bytes.next_power_of_two() / 8).clamp(8, 4096);
    i64::try_from(bytes.next_multiple_of(step)).unwrap_or(i64::MAX)
}

/// Bytes that a vector takes.
pub(crate) fn vector_bytes<T>(vector: &Vec<T>) -> isize {
    let bytes = vector.capacity() * size_of::<T>();
    isize::try_from(rounded(bytes)).unwrap_or(isize::MAX)
}

#[inline]
fn count(bytes: i64) {
    // A thread that is ending has no counter any more; the little that it still frees is told at
    // once.
    let told = UNTOLD_BYTES.try_with(|untold| {
        let sum = untold.get() + bytes;
        let tell = sum.abs() >= STEP_BYTES;
        untold.set(if tell { 0 } else { sum });
        if tell { sum } else { 0 }
    });
    let told = told.unwrap_or(bytes);
    if told != 0 {
        ALLOCATED_BYTES.fetch_add(told, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn what_is_taken_and_given_back_comes_to_nothing() {
        let allocator = Counting(System);
        let layout = Layout::from_size_align(1 << 20, 8).unwrap();
        let before = ALLOCATED_BYTES.load(Ordering::Relaxed);
        // SAFETY: the size is not zero; the memory is freed once, with its layout.
        let during = unsafe {
            let memory = allocator.alloc(layout);
            let memory = allocator.realloc(memory, layout, 3 << 20);
            let during = ALLOCATED_BYTES.load(Ordering::Relaxed);
            allocator.dealloc(memory, Layout::from_size_align(3 << 20, 8).unwrap());
            during
        };
        assert_eq!(during - before, 3 << 20);
        assert!((ALLOCATED_BYTES.load(Ordering::Relaxed) - before).abs() < STEP_BYTES);
    }

    #[test]
    fn rounding_is_at_most_a_quarter() {
        for bytes in 33..100_000_usize {
            let rounded = rounded(bytes) as usize;
            assert!(rounded >= bytes && rounded <= bytes * 5 / 4, "{bytes} -> {rounded}");
        }
        assert_eq!(rounded(4128), 5120);
    }
}
