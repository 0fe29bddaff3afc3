//! Copies of entries as they were at the cut, outside the store.

use crate::entry::block::Entry;
use crate::entry::view::EntryView;
use std::ptr::NonNull;

/// The number of bytes copied while a latch is held once, not counting the last entry.
pub(crate) const HOLD_BYTES: usize = 16 * 1024;
/// The size of a block of the walk.
pub(crate) const FULL_BYTES: usize = 64 * 1024;
/// The bytes of values shared with the store at which a block of the walk is sent.
pub(crate) const FULL_SHARED_BYTES: usize = 1024 * 1024;
/// The size of a block of images of changed entries. Every table has its own block.
pub(crate) const FULL_PRE_IMAGES_BYTES: usize = 16 * 1024;

/// Copies of entries of one database, in the same format as in the store. Long strings share their
/// chunks with the store.
#[derive(Debug)]
pub struct Images {
    database: usize,
    /// The entries, each rounded up to words.
    words: Vec<u64>,
    /// The bytes that only these images keep from being freed.
    kept_bytes: usize,
    /// Those of them that are not counted as data.
    uncounted_bytes: usize,
    /// The bytes of values shared with the store, which are not freed with the store's share.
    shared_bytes: usize,
}

// SAFETY: the images own everything that they point to.
unsafe impl Send for Images {}

impl Images {
    /// Creates an empty block of this size.
    pub(crate) fn new(database: usize, bytes: usize) -> Self {
        Images {
            database,
            words: Vec::with_capacity(bytes / 8),
            kept_bytes: 0,
            uncounted_bytes: 0,
            shared_bytes: 0,
        }
    }

    /// Whether there is room for one more entry.
    pub(crate) fn has_room_for(&self, entry: Entry) -> bool {
        self.words.len() + entry.bytes().div_ceil(8) <= self.words.capacity()
    }

    /// Returns the database that they belonged to at the cut.
    #[must_use]
    pub fn database(&self) -> usize {
        self.database
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the bytes of memory used only by these images. The rest of the block was never
    /// touched.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.copied_bytes() + self.kept_bytes
    }

    /// Sets the database of the images, before any is added.
    pub(crate) fn set_database(&mut self, database: usize) {
        debug_assert!(self.is_empty());
        self.database = database;
    }

    /// Returns the bytes that entries take in the block itself.
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

    /// Records that the store drops its share of this many bytes, which then belong only to an
    /// image. At most `chunk_bytes` of them are chunks of a rope, which are only counted as data
    /// with the rope of the store.
    pub(crate) fn keep(&mut self, bytes: usize, chunk_bytes: usize) {
        self.kept_bytes += bytes;
        self.uncounted_bytes += chunk_bytes.min(bytes);
    }

    /// Adds a copy of an entry that stays in the store and shares its value.
    pub(crate) fn push_shared(&mut self, entry: Entry) {
        self.push(entry);
        // SAFETY: the latch is held.
        self.shared_bytes += unsafe { entry.bytes_out_of_line() };
    }

    /// Returns the bytes of values shared with the store.
    pub(crate) fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// Returns the bytes of memory used only by these images that are not counted as data.
    pub(crate) fn uncounted_bytes(&self) -> usize {
        self.uncounted_bytes
    }

    /// Iterates over the entries, in the order in which they were added.
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
            // SAFETY: the images are dropped, and with them all references to their memory.
            drop(unsafe { entry.take_owned() });
        }
    }
}
