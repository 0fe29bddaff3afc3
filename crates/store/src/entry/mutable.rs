//! All mutating operations of an entry. They exist only for an entry that has passed the mutation
//! barrier, so that no change can bypass a snapshot.

use super::block::{
    EXPIRY, Entry, FETCHED, FLAGS, MARKS, STALE, Shape, WON, cas_offset, expiry_offset,
    flags_offset,
};
use crate::entry::attributes::{Attributes, Marks};
use crate::entry::value::Encoding;
use crate::value::rope::Rope;
use std::ptr::NonNull;

/// An entry that may be changed, moved or removed.
#[derive(Debug)]
pub(crate) struct Mutable {
    entry: Entry,
}

impl Mutable {
    /// An entry that has passed the mutation barrier.
    ///
    /// # Safety
    /// The latch is held, and an active snapshot has an image of the entry if it needs one.
    pub(crate) unsafe fn new(entry: Entry) -> Self {
        Mutable { entry }
    }

    /// Returns the entry, for reading, moving or removing it.
    pub(crate) fn entry(&self) -> Entry {
        self.entry
    }

    /// Changes the marks; the shape stays the same.
    pub(crate) fn replace_marks(&mut self, marks: Marks) {
        let mut header = self.entry.header() & !MARKS;
        let mut flag = |present: bool, flag: u64| header |= if present { flag } else { 0 };
        flag(marks.stale, STALE);
        flag(marks.won, WON);
        flag(marks.fetched, FETCHED);
        self.entry.set_header(header);
    }

    /// Changes the expiry of an entry that has one; the shape stays the same.
    ///
    /// # Safety
    /// The entry has an expiry.
    pub(crate) unsafe fn replace_expiry(&mut self, at_ms: u64) {
        let header = self.entry.header();
        debug_assert!(header & EXPIRY != 0, "the entry has room for an expiry");
        // SAFETY: the caller guarantees that the entry has an expiry, so the offset is within it.
        unsafe { self.entry.put::<u64>(expiry_offset(header), at_ms) };
    }

    /// Overwrites the value and attributes of an entry that is stored contiguously.
    ///
    /// # Safety
    /// [`Entry::has_shape`] is true for the shape, which was made from this value and these
    /// attributes.
    pub(crate) unsafe fn overwrite(
        &mut self,
        bytes: &[u8],
        shape: &Shape,
        attributes: &Attributes,
    ) {
        let header = self.entry.header() & !MARKS | shape.header & MARKS;
        self.entry.set_header(header);
        debug_assert!(
            self.entry.encoding().is_in_one_piece() && self.entry.value_len() == bytes.len()
        );
        // SAFETY: according to the shape, each of these fits at its offset in the entry.
        unsafe {
            if let Some(at_ms) = attributes.expire_at_ms {
                self.entry.put::<u64>(expiry_offset(header), at_ms);
            }
            if let Some(cas) = attributes.cas {
                self.entry.put::<u64>(cas_offset(header), cas);
            }
            if header & FLAGS != 0 {
                self.entry.put::<u32>(flags_offset(header), attributes.flags);
            }
            self.entry.copy_in(self.entry.value_offset(), bytes);
        }
    }

    /// Changes the value of an entry that is an integer.
    ///
    /// # Safety
    /// The value is an integer.
    pub(crate) unsafe fn replace_int(&mut self, value: i64) {
        debug_assert!(self.entry.encoding() == Encoding::Int, "the entry is an integer");
        // SAFETY: an integer's value takes a word after the key; the caller guarantees that it is
        // one.
        unsafe { self.entry.put::<i64>(self.entry.value_offset(), value) };
    }

    /// Returns the string of an entry that stores it contiguously, for modification; its encoding
    /// becomes raw.
    ///
    /// # Safety
    /// The latch is held exclusively for `'a`, and nothing else borrows the value.
    pub(crate) unsafe fn bytes_mut<'a>(&mut self) -> Option<&'a mut [u8]> {
        if self.entry.encoding_number() > Encoding::Text as u8 {
            return None;
        }
        let header = self.entry.header();
        self.entry.set_header(header & !0xff | Encoding::Raw as u64);
        let at = self.entry.value_offset();
        // SAFETY: the value is at this offset with this length; the caller guarantees the exclusive
        // borrow.
        unsafe {
            let start = self.entry.0.add(at).as_ptr();
            Some(std::slice::from_raw_parts_mut(start, self.entry.value_len()))
        }
    }

    /// Returns the rope of an entry that has one.
    ///
    /// # Safety
    /// The latch is held exclusively for `'a`, and nothing else borrows the rope.
    pub(crate) unsafe fn rope_mut<'a>(&mut self) -> Option<&'a mut Rope> {
        if self.entry.encoding_number() != Encoding::Rope as u8 {
            return None;
        }
        let at = self.entry.value_offset();
        // SAFETY: such an entry has the pointer of a box that it owns; the caller guarantees the
        // exclusive borrow.
        unsafe { Some(&mut *self.entry.peek::<*mut Rope>(at)) }
    }

    /// Returns the word of an entry with a root, for modifying it. The entry still owns it.
    pub(crate) fn root_word(&mut self) -> Option<NonNull<u8>> {
        let has_root = self.entry.encoding().has_root();
        // SAFETY: such an entry has the pointer of a box that it owns.
        has_root.then(|| unsafe { self.entry.peek(self.entry.value_offset()) })
    }
}
