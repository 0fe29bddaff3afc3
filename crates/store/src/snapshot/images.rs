//! Entries as they were at the cut, outside the store.

use crate::entry::block::Entry;
use crate::entry::view::EntryView;
use std::ptr::NonNull;

/// Bytes that are copied at one hold of a latch, but for the last entry.
pub(crate) const HOLD_BYTES: usize = 16 * 1024;
/// Bytes that a block of the walk holds.
pub(crate) const FULL_BYTES: usize = 64 * 1024;
/// The same of what writers leave. Every table has a block of its own that is not full yet.
pub(crate) const FULL_PRE_IMAGES_BYTES: usize = 16 * 1024;

/// Copies of entries of one database, one after the other in the form that they have in the
/// store. Long strings share their chunks with it.
#[derive(Debug)]
pub struct Images {
    database: usize,
    /// What each entry takes, rounded up to words.
    words: Vec<u64>,
    /// Bytes that would have been free again if they were not kept for these images.
    kept_bytes: usize,
}

// SAFETY: the images own all that they point to.
unsafe impl Send for Images {}

impl Images {
    /// An empty block with room for so much.
    pub(crate) fn new(database: usize, bytes: usize) -> Self {
        Images { database, words: Vec::with_capacity(bytes / 8), kept_bytes: 0 }
    }

    /// Whether there is room for one more entry.
    pub(crate) fn has_room_for(&self, entry: Entry) -> bool {
        self.words.len() + entry.bytes().div_ceil(8) <= self.words.capacity()
    }

    /// The database that they belonged to at the cut.
    #[must_use]
    pub fn database(&self) -> usize {
        self.database
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Bytes of memory that are there for these images alone. The rest of the block was never
    /// touched.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.copied_bytes() + self.kept_bytes
    }

    /// Says to which database they belong, before any is added.
    pub(crate) fn set_database(&mut self, database: usize) {
        debug_assert!(self.is_empty());
        self.database = database;
    }

    /// Bytes that entries take in the block itself.
    pub(crate) fn copied_bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Adds a copy of an entry, whose latch is held.
    pub(crate) fn push(&mut self, entry: Entry) {
        let at = self.words.len();
        let words = entry.bytes().div_ceil(8);
        self.words.reserve_exact(words);
        self.words.resize(at + words, 0);
        if let Some(room) = self.words.get_mut(at..) {
            let room = NonNull::from(room).cast::<u8>();
            // SAFETY: the room is aligned to 8 and as large as the entry, whose latch is held.
            unsafe { entry.copy_to(room) };
        }
    }

    /// Notes that so many bytes, which an image shares with the store, will be its alone.
    pub(crate) fn keep(&mut self, bytes: usize) {
        self.kept_bytes += bytes;
    }

    /// The entries, in the order in which they came.
    pub fn entries(&self) -> impl Iterator<Item = EntryView<'_>> {
        // SAFETY: nothing changes the images while they are borrowed.
        self.places().map(|entry| unsafe { EntryView::new(entry) })
    }

    fn places(&self) -> impl Iterator<Item = Entry> + '_ {
        let mut rest = self.words.as_slice();
        std::iter::from_fn(move || {
            let start = NonNull::from(rest).cast::<u8>();
            // SAFETY: the words are copies of entries, one after the other.
            let entry = (!rest.is_empty()).then(|| unsafe { Entry::from_pointer(start) })?;
            rest = rest.get(entry.bytes().div_ceil(8)..).unwrap_or_default();
            Some(entry)
        })
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        for entry in self.places() {
            // SAFETY: the images go, and with them all that refers to what they own.
            drop(unsafe { entry.take_owned() });
        }
    }
}
