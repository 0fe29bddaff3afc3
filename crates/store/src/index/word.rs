//! A word of a bucket: an entry's address with bits of its hash.

use crate::entry::block::Entry;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The number of words in a bucket.
pub(crate) const LANES: usize = 8;

const DISPLACED: usize = 1 << 0;
const VOLATILE: usize = 1 << 1;
const UPPER: usize = 1 << 2;
const POINTER: usize = (1 << 48) - 8;
const FINGERPRINT_SHIFT: u32 = 48;

/// The lower (0) or the upper (1) half of a home's positions.
pub(crate) type Half = usize;

/// A pointer to an entry, with bits of its hash. Null marks an empty place. It is valid under the
/// latch of the entry's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Word(*mut u8);

impl Word {
    pub(crate) const EMPTY: Word = Word(std::ptr::null_mut());

    pub(crate) fn new(entry: Entry, fingerprint: u16, volatile: bool) -> Self {
        let tag =
            usize::from(fingerprint) << FINGERPRINT_SHIFT | if volatile { VOLATILE } else { 0 };
        Word(entry.pointer().as_ptr().map_addr(|address| address | tag))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.entry().is_none()
    }

    /// Returns the entry, if the place is not empty.
    #[inline]
    pub(crate) fn entry(self) -> Option<Entry> {
        let pointer = pointer_of(self.0)?;
        // SAFETY: words are made from entries that are linked, and an entry is freed or moved only
        // after its word has been removed or replaced.
        Some(unsafe { Entry::from_pointer(pointer) })
    }

    pub(crate) fn is_volatile(self) -> bool {
        self.0.addr() & VOLATILE != 0
    }

    #[cfg(test)]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Word(std::ptr::without_provenance_mut(bits as usize))
    }

    /// Writes the word at a place, which another thread may be reading.
    ///
    /// # Safety
    /// The place is in the buckets of a segment whose latch is held.
    #[inline]
    pub(crate) unsafe fn store(self, place: NonNull<Word>) {
        // SAFETY: a word is a pointer. Only this function writes buckets, while any thread may read
        // them without the latch.
        let place = unsafe { AtomicPtr::from_ptr(place.as_ptr().cast::<*mut u8>()) };
        place.store(self.0, Ordering::Relaxed);
    }

    pub(crate) fn is_displaced(self) -> bool {
        self.0.addr() & DISPLACED != 0
    }

    pub(crate) fn displaced(self, displaced: bool) -> Self {
        let bit = if displaced { DISPLACED } else { 0 };
        Word(self.0.map_addr(|address| address & !DISPLACED | bit))
    }

    pub(crate) fn half(self) -> Half {
        usize::from(self.0.addr() & UPPER != 0)
    }

    pub(crate) fn in_half(self, half: Half) -> Self {
        let bit = if half == 0 { 0 } else { UPPER };
        Word(self.0.map_addr(|address| address & !UPPER | bit))
    }
}

/// A word that was read without the latch: the entry may have been freed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnlatchedWord(*mut u8);

impl UnlatchedWord {
    /// Reads the word at a place, which another thread may be writing.
    ///
    /// # Safety
    /// The place is in the buckets of a segment, which may have been freed.
    #[inline]
    pub(crate) unsafe fn load(place: NonNull<Word>) -> Self {
        // SAFETY: a word is a pointer, and only `Word::store` writes buckets while any thread may
        // read them without the latch. The memory of a segment is never used for anything else.
        let place = unsafe { AtomicPtr::from_ptr(place.as_ptr().cast::<*mut u8>()) };
        UnlatchedWord(place.load(Ordering::Relaxed))
    }

    /// Returns the address of the entry, which may have been freed.
    #[inline]
    pub(crate) fn pointer(self) -> Option<NonNull<u8>> {
        pointer_of(self.0)
    }

    #[cfg(any(test, miri, not(target_arch = "x86_64")))]
    pub(crate) fn fingerprint(self) -> u16 {
        (self.0.addr() >> FINGERPRINT_SHIFT) as u16
    }

    #[cfg(any(test, miri, not(target_arch = "x86_64")))]
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

#[inline]
fn pointer_of(word: *mut u8) -> Option<NonNull<u8>> {
    NonNull::new(word.map_addr(|address| address & POINTER))
}
