//! A table's directory, in memory that can be read without the latch for prefetching.
//!
//! ```text
//!  Directories: database, shard --> [ depth | address ] --> [ segment | segment | ... ]   2^depth
//! ```
//!
//! Prefetching follows the arrows with plain loads, while the latch's holder may be replacing any
//! of them. It may reach a directory or a segment that has been freed; what it reads is only a
//! hint. This is sound because memory never changes its type while the store lives: a directory's
//! memory is reused only for directories of the same depth, a full segment's only for full
//! segments, and both are written only by atomic stores. So workers need not announce prefetches,
//! and nothing waits for one to end. All shallower directories that a table has had take less
//! memory together than the deepest.

use crate::index::placement::POSITION_BITS;
use crate::index::segment::{Segment, UnlatchedSegment};
use crate::memory::accounting::{Overhead, room_bytes};
use crate::sync::holds::{self, Work};
use crate::sync::latch::Latch;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

#[cfg(loom)]
use loom::sync::atomic::{AtomicPtr, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicPtr, Ordering};

/// The bit at which the depth begins in a published word; the address has the bits below.
const DEPTH_SHIFT: u32 = 48;
const ADDRESS: usize = (1 << DEPTH_SHIFT) - 1;

/// A segment's element in a directory.
type Element = AtomicPtr<u8>;

/// One database's directories.
#[derive(Debug)]
struct Row {
    /// By shard: address and depth.
    shards: Box<[AtomicPtr<Element>]>,
    /// Counts the row's 2 KB as overhead, so that they do not count as data of the database's first
    /// key.
    _overhead: Overhead,
}

impl Row {
    fn new(shards: usize) -> Self {
        Row {
            shards: (0..shards).map(|_| AtomicPtr::default()).collect(),
            _overhead: Overhead::new(room_bytes::<AtomicPtr<Element>>(shards)),
        }
    }
}

/// 2^depth elements.
#[derive(Clone, Copy, Debug)]
struct Elements(NonNull<[Element]>);

/// The directories of all tables, in use or waiting to be reused.
#[derive(Debug)]
pub(crate) struct Directories {
    /// By database, then by shard; a database that has always been empty has no row.
    published: Box<[OnceLock<Row>]>,
    shards: usize,
    /// Directories that can be reused, by depth.
    idle: Latch<Vec<Vec<Elements>>>,
}

// SAFETY: elements are atomic, and are freed only when no thread can reach them.
unsafe impl Send for Directories {}
// SAFETY: as above.
unsafe impl Sync for Directories {}

/// The table that a directory belongs to.
#[derive(Clone, Debug)]
pub(crate) struct DirectoryOwner {
    pub(crate) directories: Arc<Directories>,
    pub(crate) database: usize,
    pub(crate) shard: usize,
}

/// The segments of one table, by the leading bits of positions. Only the latch's holder uses it.
#[derive(Debug)]
pub(crate) struct Directory {
    elements: Option<Elements>,
    /// The directory has 2^depth elements, if there is a segment.
    depth: u32,
    owner: DirectoryOwner,
}

impl Directories {
    pub(crate) fn new(databases: usize, shards: usize) -> Self {
        let published = (0..databases).map(|_| OnceLock::new()).collect();
        Directories { published, shards, idle: Latch::default() }
    }

    /// Returns the segment that contained a position when it was published, perhaps long ago. Takes
    /// no latch.
    #[inline]
    pub(crate) fn peek(
        &self,
        database: usize,
        shard: usize,
        position: u64,
    ) -> Option<UnlatchedSegment> {
        let published =
            self.published.get(database)?.get()?.shards.get(shard)?.load(Ordering::Acquire);
        let depth = (published.addr() >> DEPTH_SHIFT) as u32;
        let start = NonNull::new(published.map_addr(|address| address & ADDRESS))?;
        // SAFETY: the published address is the start of 2^depth elements, which live as long as
        // `self`, and a position has no more than POSITION_BITS.
        let element = unsafe { start.add(index(position, depth)).as_ref() };
        // SAFETY: the pool lives as long as the store, which the caller borrows.
        unsafe { UnlatchedSegment::from_raw(element.load(Ordering::Acquire)) }
    }

    fn publish(&self, owner: &DirectoryOwner, directory: *mut Element) {
        let row = self.published.get(owner.database);
        let row = row.map(|row| row.get_or_init(|| Row::new(self.shards)));
        if let Some(published) = row.and_then(|row| row.shards.get(owner.shard)) {
            published.store(directory, Ordering::Release);
        }
    }

    fn take(&self, depth: u32) -> Elements {
        let mut idle = self.idle.lock_nested();
        idle.get_mut(depth as usize).and_then(Vec::pop).unwrap_or_else(|| {
            let elements: Box<[Element]> = (0..1 << depth).map(|_| AtomicPtr::default()).collect();
            Elements(NonNull::from(Box::leak(elements)))
        })
    }

    fn recycle(&self, elements: Elements) {
        let mut idle = self.idle.lock_nested();
        let depth = elements.0.len().ilog2() as usize;
        if idle.len() <= depth {
            idle.resize_with(depth + 1, Vec::new);
        }
        idle.get_mut(depth).into_iter().for_each(|list| list.push(elements));
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        for Elements(elements) in self.idle.lock_nested().drain(..).flatten() {
            // SAFETY: it was leaked by `take`; prefetching borrows the store, which owns `self`.
            drop(unsafe { Box::from_raw(elements.as_ptr()) });
        }
    }
}

impl Directory {
    /// Creates the directory of an empty table, not yet published.
    pub(crate) fn new(owner: DirectoryOwner) -> Self {
        Directory { elements: None, depth: 0, owner }
    }

    pub(crate) fn owner(&self) -> &DirectoryOwner {
        &self.owner
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns the segment that contains a position, if there are any segments.
    #[inline]
    pub(crate) fn get(&self, position: u64) -> Option<Segment> {
        segment_of(self.elements()?.get(index(position, self.depth))?)
    }

    /// Iterates over the segments, each once.
    pub(crate) fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let segment = segment_of(self.elements()?.get(next)?)?;
            next += 1 << (self.depth - segment.depth());
            Some(segment)
        })
    }

    /// Makes this a directory of one segment, of depth 0.
    pub(crate) fn begin(&mut self, segment: Segment) {
        let elements = self.filled(0, |_| Some(segment));
        self.exchange(Some(elements), 0);
    }

    /// Makes this a directory without segments.
    pub(crate) fn clear(&mut self) {
        self.exchange(None, 0);
    }

    /// Doubles the directory.
    pub(crate) fn double(&mut self) {
        let elements = self.filled(self.depth + 1, |position| self.get(position));
        self.exchange(Some(elements), self.depth + 1);
    }

    /// Halves the directory; no segment has the full depth.
    pub(crate) fn halve(&mut self) {
        let elements = self.filled(self.depth - 1, |position| self.get(position));
        self.exchange(Some(elements), self.depth - 1);
    }

    /// Points the elements for `segment`, which begins at position `start`, to it.
    pub(crate) fn enter(&mut self, segment: Segment, start: u64) {
        let first = index(start, self.depth);
        let count = 1 << (self.depth - segment.depth());
        let share = self.elements().and_then(|elements| elements.get(first..first + count));
        for element in share.into_iter().flatten() {
            element.store(segment.raw(), Ordering::Release);
        }
    }

    /// Moves to another database of the same shard.
    pub(crate) fn move_to(&mut self, database: usize) {
        self.owner.database = database;
        self.publish();
    }

    /// Publishes this directory for prefetching.
    pub(crate) fn publish(&self) {
        let directory = self.elements.map_or(std::ptr::null_mut(), |elements| {
            let depth = (self.depth as usize) << DEPTH_SHIFT;
            elements.0.cast::<Element>().as_ptr().map_addr(|address| address | depth)
        });
        self.owner.directories.publish(&self.owner, directory);
    }

    /// Returns the elements for a depth, each pointing to the segment that `segment_at` returns for
    /// its first position.
    fn filled(&self, depth: u32, segment_at: impl Fn(u64) -> Option<Segment>) -> Elements {
        let elements = self.owner.directories.take(depth);
        holds::note(Work { directory: 1 << depth, ..Work::default() });
        // SAFETY: elements live as long as `directories`.
        for (index, element) in unsafe { elements.0.as_ref() }.iter().enumerate() {
            let segment = segment_at((index as u64) << (POSITION_BITS - depth));
            element.store(segment.map_or(std::ptr::null_mut(), Segment::raw), Ordering::Release);
        }
        elements
    }

    fn exchange(&mut self, elements: Option<Elements>, depth: u32) {
        let old = std::mem::replace(&mut self.elements, elements);
        self.depth = depth;
        self.publish();
        old.into_iter().for_each(|elements| self.owner.directories.recycle(elements));
    }

    #[inline]
    fn elements(&self) -> Option<&[Element]> {
        // SAFETY: elements live as long as `directories`.
        self.elements.map(|elements| unsafe { elements.0.as_ref() })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.elements.into_iter().for_each(|elements| self.owner.directories.recycle(elements));
    }
}

/// Returns the segment that an element of a table's own directory points to.
#[inline]
fn segment_of(element: &Element) -> Option<Segment> {
    // SAFETY: only the latch's holder has a directory, and a segment is freed only once its table's
    // directory points elsewhere.
    unsafe { Segment::from_raw(element.load(Ordering::Relaxed)) }
}

/// Returns the index of a position's element in a directory of this depth.
#[inline]
fn index(position: u64, depth: u32) -> usize {
    (position >> (POSITION_BITS - depth)) as usize
}

/// Tests all interleavings with loom: `cargo xtask loom`.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::thread;

    /// A stand-in for a segment: the positions that it covers, written before it is published.
    #[repr(align(64))]
    struct Page(UnsafeCell<std::ops::Range<u64>>);

    const MIDDLE: u64 = 1 << (POSITION_BITS - 1);
    const END: u64 = 1 << POSITION_BITS;
    /// The tag of a full segment of depth 0.
    const DEPTH_0: usize = 2;

    fn segment(covers: std::ops::Range<u64>, depth: usize) -> Segment {
        let page = Box::into_raw(Box::new(Page(UnsafeCell::new(0..0))));
        // SAFETY: just created.
        unsafe { &*page }.0.with_mut(|to| unsafe { *to = covers });
        let raw = page.cast::<u8>().map_addr(|address| address | DEPTH_0 + depth);
        // SAFETY: pages live until the process ends.
        unsafe { Segment::from_raw(raw) }.unwrap()
    }

    fn covers(segment: UnlatchedSegment, position: u64) -> bool {
        let page = segment.raw().map_addr(|address| address & !63).cast::<Page>();
        // SAFETY: pages live until the process ends; loom reports a concurrent write.
        unsafe { &*page }.0.with(|covered| unsafe { (*covered).contains(&position) })
    }

    #[test]
    fn prefetch_reads_only_segments_that_covered_the_position() {
        loom::model(|| {
            let directories = Arc::new(Directories::new(1, 1));
            let owner =
                DirectoryOwner { directories: Arc::clone(&directories), database: 0, shard: 0 };
            let mut directory = Directory::new(owner);
            directory.begin(segment(0..END, 0));
            let reader = thread::spawn(move || {
                for position in [0, MIDDLE] {
                    let met = directories.peek(0, 0, position);
                    assert!(met.is_none_or(|segment| covers(segment, position)));
                }
            });
            // A split, then a merge that reuses the first elements, then an empty directory.
            directory.double();
            directory.enter(segment(0..MIDDLE, 1), 0);
            directory.enter(segment(MIDDLE..END, 1), MIDDLE);
            directory.begin(segment(0..END, 0));
            directory.clear();
            reader.join().unwrap();
        });
    }
}
