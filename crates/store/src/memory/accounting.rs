//! Accounts for the memory of the process where it is allocated, and distinguishes data from the
//! memory of clients.
//!
//! The binary wraps its allocator in [`Counting`]. Each thread adds up the bytes that it allocates
//! and frees, and publishes the sum when it exceeds a threshold, so that accounting costs one
//! addition per allocation. Totals are exact to within [`STEP_BYTES`] per busy thread, since each
//! thread also publishes its sum from time to time. The store's pages come directly from the kernel
//! and are counted by their pool, and so are the chunks of long strings, and longer allocations.
//!
//! Data is what remains after subtracting three amounts. The first is a [`Charge`] for each buffer
//! of requests and replies. The second is what the process and its workers use without any data,
//! which is measured after they have started ([`note_startup`]). The third is the [`Overhead`] of
//! later allocations, such as the statistics of each kind of command, logs, and the buffers that a
//! worker uses for all its connections. If the latter two counted as data, a memory limit would
//! have to grow with the number of workers, and a first command, or a first long reply, would evict
//! thousands of small entries. All memory of threads that never use the keyspace is overhead
//! ([`count_as_overhead`]). A chunk is data while it is in the keyspace, and counts in full there
//! even if it holds only zeros, which take no memory until they are written to. So does a long key.

use crate::memory::mapped;
use crate::sync::cache_line::Line;
use nagi_chunk::pool;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, Ordering};

/// The number of bytes up to which a thread does not publish its sum.
const STEP_BYTES: i64 = 32 * 1024;

static ALLOCATED_BYTES: Line<AtomicI64> = Line(AtomicI64::new(0));
/// The part of `ALLOCATED_BYTES` that belongs to clients.
static CHARGED_BYTES: Line<AtomicI64> = Line(AtomicI64::new(0));
/// The part of `ALLOCATED_BYTES` that the process and its workers allocated at the start.
static STARTUP_BYTES: Line<AtomicI64> = Line(AtomicI64::new(0));
/// The part of `ALLOCATED_BYTES` that is overhead added later.
static ADDED_BYTES: Line<AtomicI64> = Line(AtomicI64::new(0));
/// The part of mapped memory that is overhead added later.
static ADDED_MAPPED_BYTES: Line<AtomicI64> = Line(AtomicI64::new(0));
/// The bytes of chunks and longer pieces in the keyspace.
static KEPT_BYTES: Line<AtomicI64> = Line(AtomicI64::new(0));

thread_local! {
    static UNPUBLISHED_BYTES: Cell<i64> = const { Cell::new(0) };
    /// The sum of what this thread has published.
    static PUBLISHED_BYTES: Cell<i64> = const { Cell::new(0) };
    /// The part of the published sum that counts in [`STARTUP_BYTES`] and in [`ADDED_BYTES`].
    static OVERHEAD_BY_THREAD: Cell<i64> = const { Cell::new(0) };
    /// The use of the memory that this thread publishes.
    static USE: Cell<Use> = const { Cell::new(Use::Any) };
}

/// The use of the memory that a thread allocates.
#[derive(Clone, Copy)]
enum Use {
    /// Data, clients or overhead.
    Any,
    /// Overhead from the start, which also counts in [`STARTUP_BYTES`].
    Startup,
    /// Overhead added later, which also counts in [`ADDED_BYTES`].
    Overhead,
}

/// Memory other than the store's pages, in bytes; 0 unless the allocator is wrapped by
/// [`Counting`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// All memory that is in none of the other parts.
    pub(crate) data: u64,
    /// Allocated by the process and its workers at the start.
    pub(crate) startup: u64,
    /// Overhead added later: mainly statistics.
    pub(crate) added: u64,
    /// Requests and replies, outside the keyspace.
    pub(crate) clients: u64,
}

/// Returns the current size of each part.
#[inline]
pub(crate) fn now() -> Memory {
    #[cfg(test)]
    if tests::sees_pages_alone() {
        return Memory { data: 0, startup: 0, added: 0, clients: 0 };
    }
    let charged = CHARGED_BYTES.load(Ordering::Relaxed);
    let kept = KEPT_BYTES.load(Ordering::Relaxed);
    let added_mapped = ADDED_MAPPED_BYTES.load(Ordering::Relaxed);
    let others = (pool::used_bytes() + mapped::used_bytes()) as i64 - kept - added_mapped;
    let startup = STARTUP_BYTES.load(Ordering::Relaxed);
    let added = ADDED_BYTES.load(Ordering::Relaxed);
    let data = ALLOCATED_BYTES.load(Ordering::Relaxed) - charged - startup - added + kept;
    Memory {
        data: data.max(0) as u64,
        startup: startup.max(0) as u64,
        added: (added + added_mapped).max(0) as u64,
        clients: (charged + others.max(0)) as u64,
    }
}

/// Returns the bytes of separately mapped memory that a reference-counted allocation takes: 0
/// unless it is very long.
pub(crate) fn own_bytes(len: usize) -> isize {
    let align = align_of::<usize>();
    let bytes = (len + 2 * size_of::<usize>()).next_multiple_of(align);
    match Layout::from_size_align(bytes, align) {
        Ok(layout) if mapped::is_for(layout) => mapped::rounded(bytes).cast_signed(),
        _ => 0,
    }
}

/// Returns the bytes of the general allocator that memory for this many elements takes, for a
/// [`Charge`] or an [`Overhead`]: 0 if it is so long that it is mapped separately, which does not
/// count as data anyway.
#[must_use]
#[inline]
pub fn room_bytes<T>(capacity: usize) -> usize {
    match Layout::array::<T>(capacity) {
        Ok(room) if !mapped::is_for(room) => usize::try_from(rounded(room.size())).unwrap_or(0),
        _ => 0,
    }
}

/// The size of a full chunk of a string.
pub(crate) const BLOCK_BYTES: usize = pool::BLOCK_BYTES;

/// Adds to the bytes of chunks and longer pieces in the keyspace.
pub(crate) fn keep(bytes: isize) {
    if bytes != 0 {
        KEPT_BYTES.fetch_add(bytes as i64, Ordering::Relaxed);
    }
}

/// Returns unused memory of chunks to the kernel. Call it from time to time.
pub(crate) fn cool() {
    pool::cool();
}

/// The bytes of a client's buffer of requests or replies, which are not data. Dropping this
/// releases them.
#[derive(Debug, Default)]
pub struct Charge(usize);

impl Charge {
    /// Sets the number of bytes.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        if bytes != self.0 {
            let more = bytes as i64 - self.0 as i64;
            CHARGED_BYTES.fetch_add(more, Ordering::Relaxed);
            self.0 = bytes;
        }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Memory that belongs neither to data nor to a client and was allocated after the start:
/// statistics, logs, and buffers that a worker uses for all its connections. Dropping this releases
/// it.
#[derive(Debug, Default)]
pub struct Overhead(usize);

impl Overhead {
    /// Adds an allocation by this thread.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let mut overhead = Overhead::default();
        overhead.set(bytes);
        overhead
    }

    /// Sets the number of bytes.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        if bytes != self.0 {
            self.change(bytes);
        }
    }

    #[cold]
    fn change(&mut self, bytes: usize) {
        add_overhead(rounded(bytes) - rounded(self.0));
        self.0 = bytes;
    }
}

/// Adds to the overhead what this thread has allocated, or subtracts what it has freed. The
/// thread's own counts are published too, in an order in which data never appears larger than it
/// is.
fn add_overhead(more: i64) {
    if more < 0 {
        publish();
    }
    ADDED_BYTES.fetch_add(more, Ordering::Relaxed);
    if more > 0 {
        publish();
    }
    let _ = OVERHEAD_BY_THREAD.try_with(|known| known.set(known.get() + more));
}

impl Drop for Overhead {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Overhead in many allocations, as measured while one thread makes and frees them. Dropping this
/// releases it, by the same thread.
#[derive(Debug, Default)]
pub struct MeasuredOverhead(i64);

impl MeasuredOverhead {
    /// Runs `run`, and adds what this thread allocates meanwhile, or subtracts what it frees.
    pub fn measure<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let before = allocated_by_thread();
        let outcome = run();
        self.add(allocated_by_thread() - before);
        outcome
    }

    fn add(&mut self, more: i64) {
        add_overhead(more);
        self.0 += more;
    }
}

impl Drop for MeasuredOverhead {
    fn drop(&mut self) {
        self.add(-self.0);
    }
}

/// Counts everything that this thread has allocated and allocates until [`note_startup`] as memory
/// that is needed with or without data. Otherwise it would be data for other threads that serve
/// clients already, and with many workers more than a small limit.
pub fn begin_startup() {
    note_startup();
    USE.set(Use::Startup);
}

/// Counts everything that this thread has allocated and not freed as memory that is needed with or
/// without data. Call it when the process or a worker has finished its initial allocations, before
/// it creates data or a [`Charge`].
pub fn note_startup() {
    USE.set(Use::Any);
    let made = allocated_by_thread();
    let known = OVERHEAD_BY_THREAD.try_with(|known| known.replace(made)).unwrap_or(made);
    STARTUP_BYTES.fetch_add(made - known, Ordering::Relaxed);
    publish();
}

/// Overhead that may be large enough to have its own mapping, which would otherwise count as the
/// clients' memory.
#[derive(Debug, Default)]
pub struct LargeOverhead {
    general: Overhead,
    mapped_bytes: usize,
}

impl LargeOverhead {
    /// Returns the overhead of `len` reference-counted bytes that this thread has allocated.
    #[must_use]
    pub fn of_shared(len: usize) -> Self {
        let mut overhead = LargeOverhead::default();
        match own_bytes(len).unsigned_abs() {
            0 => overhead.set(len + 2 * size_of::<usize>(), 0),
            mapped => overhead.set(0, mapped),
        }
        overhead
    }

    /// Sets the number of bytes: those of the general allocator, and those that are mapped.
    pub fn set(&mut self, general: usize, mapped: usize) {
        self.general.set(general);
        if mapped != self.mapped_bytes {
            let more = mapped as i64 - self.mapped_bytes as i64;
            ADDED_MAPPED_BYTES.fetch_add(more, Ordering::Relaxed);
            self.mapped_bytes = mapped;
        }
    }
}

impl Drop for LargeOverhead {
    fn drop(&mut self) {
        self.set(0, 0);
    }
}

/// Counts everything that this thread allocates and frees from now on as overhead: for a thread
/// that renders pages or collects statistics, and has neither data nor a [`Charge`] nor an
/// [`Overhead`].
pub fn count_as_overhead() {
    publish();
    USE.set(Use::Overhead);
}

/// Returns the bytes that this thread has allocated minus those that it has freed.
#[must_use]
pub fn allocated_by_thread() -> i64 {
    let of = |bytes: &Cell<i64>| bytes.get();
    UNPUBLISHED_BYTES.try_with(of).unwrap_or(0) + PUBLISHED_BYTES.try_with(of).unwrap_or(0)
}

/// Publishes this thread's counts. Eviction needs that: a count that is not updated while
/// [`STEP_BYTES`] are freed causes hundreds of unnecessary evictions.
pub(crate) fn publish() {
    let unpublished = UNPUBLISHED_BYTES.try_with(Cell::take).unwrap_or(0);
    if unpublished != 0 {
        add_published(unpublished);
    }
}

fn add_published(bytes: i64) {
    // The thread-local sum of a thread that is ending has been destroyed; the thread measures
    // nothing.
    let _ = PUBLISHED_BYTES.try_with(|sum| sum.set(sum.get() + bytes));
    match USE.try_with(Cell::get).unwrap_or(Use::Any) {
        Use::Any => {}
        Use::Startup => {
            let _ = OVERHEAD_BY_THREAD.try_with(|known| known.set(known.get() + bytes));
            STARTUP_BYTES.fetch_add(bytes, Ordering::Relaxed);
        }
        Use::Overhead => {
            ADDED_BYTES.fetch_add(bytes, Ordering::Relaxed);
        }
    }
    ALLOCATED_BYTES.fetch_add(bytes, Ordering::Relaxed);
}

/// An allocator that counts, and maps very long allocations separately.
#[derive(Debug, Default)]
pub struct Counting<A>(pub A);

// SAFETY: a mapping has the requested length, is aligned to a page, and is unmapped once. All other
// requests are passed on unchanged.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if mapped::is_for(layout) {
            return mapped::map(layout.size()).map_or(std::ptr::null_mut(), NonNull::as_ptr);
        }
        count(rounded(layout.size()));
        // SAFETY: the caller guarantees it.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if !mapped::is_for(layout) {
            count(-rounded(layout.size()));
            // SAFETY: the caller guarantees it.
            return unsafe { self.0.dealloc(pointer, layout) };
        }
        let Some(memory) = NonNull::new(pointer) else { return };
        // SAFETY: memory of this layout was mapped, and the caller guarantees that it is no longer
        // used.
        unsafe { mapped::unmap(memory, layout.size()) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if mapped::is_for(layout) {
            return mapped::map(layout.size()).map_or(std::ptr::null_mut(), NonNull::as_ptr);
        }
        count(rounded(layout.size()));
        // SAFETY: the caller guarantees it.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that the size is valid with this alignment.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: the caller guarantees that the memory has the old layout.
        unsafe {
            match (mapped::is_for(layout), mapped::is_for(new_layout)) {
                (false, false) => {
                    count(rounded(new_size) - rounded(layout.size()));
                    self.0.realloc(pointer, layout, new_size)
                }
                (true, true) => {
                    let memory = NonNull::new(pointer);
                    let moved = memory.and_then(|it| mapped::remap(it, layout.size(), new_size));
                    moved.map_or(std::ptr::null_mut(), NonNull::as_ptr)
                }
                _ => self.move_to(pointer, layout, new_layout),
            }
        }
    }
}

impl<A: GlobalAlloc> Counting<A> {
    /// # Safety
    /// As for `realloc`.
    #[cold]
    unsafe fn move_to(&self, pointer: *mut u8, layout: Layout, new_layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees it; the new memory does not overlap.
        unsafe {
            let new = self.alloc(new_layout);
            if !new.is_null() {
                new.copy_from_nonoverlapping(pointer, layout.size().min(new_layout.size()));
                self.dealloc(pointer, layout);
            }
            new
        }
    }
}

/// Returns the memory of an allocation after rounding: size classes divide every doubling into
/// four, as in mimalloc (Leijen et al., "Mimalloc: Free List Sharding in Action", 2019).
fn rounded(bytes: usize) -> i64 {
    let step = (bytes.next_power_of_two() / 8).clamp(8, 4096);
    i64::try_from(bytes.next_multiple_of(step)).unwrap_or(i64::MAX)
}

/// Returns the memory of a vector in bytes.
pub(crate) fn vector_bytes<T>(vector: &Vec<T>) -> isize {
    let bytes = vector.capacity() * size_of::<T>();
    isize::try_from(rounded(bytes)).unwrap_or(isize::MAX)
}

#[inline]
fn count(bytes: i64) {
    // The thread-local counter of a thread that is ending has been destroyed; its last allocations
    // and frees are published at once.
    let due = UNPUBLISHED_BYTES.try_with(|unpublished| {
        let sum = unpublished.get() + bytes;
        let is_due = sum.abs() >= STEP_BYTES;
        unpublished.set(if is_due { 0 } else { sum });
        if is_due { sum } else { 0 }
    });
    let due = due.unwrap_or(bytes);
    if due != 0 {
        add_published(due);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::memory::region::PAGE_BYTES;
    use parking_lot::{Mutex, MutexGuard};
    use std::alloc::System;

    thread_local! {
        static PAGES_ALONE: Cell<usize> = const { Cell::new(0) };
    }

    /// While this exists, the thread's memory totals include only pages: the rest is counted for
    /// the whole process, and other tests allocate and free megabytes at the same time.
    pub(crate) struct PagesAlone;

    impl PagesAlone {
        pub(crate) fn new() -> Self {
            PAGES_ALONE.set(PAGES_ALONE.get() + 1);
            PagesAlone
        }
    }

    impl Drop for PagesAlone {
        fn drop(&mut self) {
            PAGES_ALONE.set(PAGES_ALONE.get() - 1);
        }
    }

    pub(crate) fn sees_pages_alone() -> bool {
        PAGES_ALONE.get() > 0
    }

    /// While this is held, no other test allocates chunks or longer pieces.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock()
    }

    #[test]
    fn allocations_and_frees_add_up_to_zero() {
        let allocator = Counting(System);
        let layout = Layout::from_size_align(1 << 20, 1).unwrap();
        let before = ALLOCATED_BYTES.load(Ordering::Relaxed);
        // SAFETY: the size is not zero; the memory is freed once, with its layout.
        let during = unsafe {
            let memory = allocator.alloc(layout);
            let memory = allocator.realloc(memory, layout, 3 << 20);
            let during = ALLOCATED_BYTES.load(Ordering::Relaxed);
            allocator.dealloc(memory, Layout::from_size_align(3 << 20, 1).unwrap());
            during
        };
        assert_eq!(during - before, 3 << 20);
        assert!((ALLOCATED_BYTES.load(Ordering::Relaxed) - before).abs() < STEP_BYTES);
    }

    #[test]
    fn very_long_allocation_is_mapped_and_counts_as_clients_until_it_is_kept() {
        let _alone = alone();
        let allocator = Counting(System);
        let clients = || now().clients as isize;
        let (before, len) = (clients(), 3 << 20);
        let layout = Layout::from_size_align(len + 16, 8).unwrap();
        let own = own_bytes(len);
        assert_eq!(own, (len + PAGE_BYTES).cast_signed());
        // SAFETY: the size is not zero; the memory is freed once, with its current layout.
        unsafe {
            let memory = allocator.alloc(layout);
            memory.write(7);
            assert_eq!(clients() - before, own);
            keep(own);
            assert_eq!(clients(), before);
            keep(-own);
            let memory = allocator.realloc(memory, layout, 2 * len + 16);
            assert_eq!((clients() - before, memory.read()), (own_bytes(2 * len), 7));
            let layout = Layout::from_size_align(2 * len + 16, 8).unwrap();
            let memory = allocator.realloc(memory, layout, 1000);
            assert_eq!((clients(), memory.read()), (before, 7));
            let layout = Layout::from_size_align(1000, 8).unwrap();
            let memory = allocator.realloc(memory, layout, len + 16);
            assert_eq!((clients() - before, memory.read()), (own, 7));
            allocator.dealloc(memory, Layout::from_size_align(len + 16, 8).unwrap());
        }
        assert_eq!(clients(), before);
        assert_eq!((own_bytes(100), own_bytes(BLOCK_BYTES)), (0, 0));
    }

    #[test]
    fn mapped_room_uses_no_general_allocator_bytes() {
        assert_eq!(room_bytes::<u64>(1024), 8192);
        assert_eq!(room_bytes::<u64>(1025), 10240, "in classes of sizes");
        assert_eq!(room_bytes::<u64>(1 << 17), 0);
        assert_eq!(room_bytes::<u8>(1 << 20), 1 << 20);
        assert_eq!(room_bytes::<u64>(usize::MAX), 0);
    }

    #[test]
    fn rounding_is_at_most_a_quarter() {
        for bytes in 33..100_000_usize {
            let rounded = rounded(bytes) as usize;
            assert!(rounded >= bytes && rounded <= bytes * 5 / 4, "{bytes} -> {rounded}");
        }
        assert_eq!(rounded(4128), 5120);
    }

    #[test]
    fn mapped_overhead_does_not_count_as_clients() {
        let _alone = alone();
        let allocator = Counting(System);
        let (before, len) = (now(), 3 << 20);
        let layout = Layout::from_size_align(len + 16, 8).unwrap();
        // SAFETY: the size is not zero; the memory is freed once, with its layout.
        unsafe {
            let memory = allocator.alloc(layout);
            let overhead = LargeOverhead::of_shared(len);
            assert_eq!(now().clients, before.clients);
            assert!(now().added - before.added >= len as u64);
            drop(overhead);
            assert!(now().clients - before.clients >= len as u64);
            allocator.dealloc(memory, layout);
        }
        assert_eq!(now().clients, before.clients);
    }
}
