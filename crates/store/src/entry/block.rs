//! One allocation per key: a header of eight bytes, optional fields, the key and the value.
//!
//! ```text
//!   63        48 47     40 39          16 15 14 13        8 7        0
//!  +------------+---------+--------------+-----+-----------+----------+
//!  | value len  | key len | access clock |epoch|   flags   | encoding |  header
//!  +------------+---------+--------------+-----+-----------+----------+
//!  | value len (32)       | key len (32)                              |  if LONG
//!  +----------------------+-------------------------------------------+
//!  | hash of the key, which would take long to compute again          |  if LONG
//!  +------------------------------------------------------------------+
//!  | expiry, ms since 1970                                            |  if EXPIRY
//!  +------------------------------------------------------------------+
//!  | CAS number                                                       |  if CAS
//!  +------------------+-----------------------------------------------+
//!  | client flags (32)|  if FLAGS
//!  +------------------+-----------------+-----------------------------+
//!  | key              | value           |  bytes | i64 | word of a root
//!  +------------------+-----------------+
//! ```
//!
//! A key of more than 2 KiB is stored out of line ([`crate::entry::long_key`]); the entry has its
//! address instead.
//!
//! Three bits are memcached's marks (`Marks`): two above the six of the encoding, one among the
//! flags. They change no offset, so they take no space.
//!
//! An entry is read and written only under its shard's latch, so it may be moved whenever the latch
//! is held.

use crate::entry::attributes::{Attributes, Marks};
use crate::entry::key::{Key, Name, OwnedName};
use crate::entry::long_key::{self, Kept, LongKey};
use crate::entry::root::{Root, RootRef};
use crate::entry::value::{Encoding, NewValue};
use crate::memory::slab::FREE;
use crate::sync::holds::{self, Work};
use crate::sync::latch;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

const ENCODING: u64 = 0x3f;
pub(super) const STALE: u64 = 1 << 6;
pub(super) const WON: u64 = 1 << 7;
pub(super) const EXPIRY: u64 = 1 << 8;
const CAS: u64 = 1 << 9;
pub(super) const FLAGS: u64 = 1 << 10;
const LONG: u64 = 1 << 11;
const ON_HEAP: u64 = 1 << 12;
pub(super) const FETCHED: u64 = 1 << 13;
pub(super) const MARKS: u64 = STALE | WON | FETCHED;
const EPOCH_SHIFT: u32 = 14;
const EPOCH: u64 = 0b11 << EPOCH_SHIFT;
const ACCESS_SHIFT: u32 = 16;
const ACCESS: u64 = 0xff_ffff << ACCESS_SHIFT;
const KEY_LEN_SHIFT: u32 = 40;
const VALUE_LEN_SHIFT: u32 = 48;
/// The key is stored out of line. Only a long entry, which has its lengths in other fields, has
/// this bit.
const OUTSIDE: u64 = LONG | 1 << KEY_LEN_SHIFT;
const HEADER_BYTES: usize = 8;

// No entry begins as a free block does: no encoding has these six bits.
const _: () = assert!(FREE as u64 & ENCODING == ENCODING && (Encoding::Rope as u64) < ENCODING);

/// The bytes of an integer, or of the word of a root.
const WORD_BYTES: usize = 8;
/// The bytes of a long entry's lengths and hash.
const LONG_BYTES: usize = 16;

/// An entry's address. Copying this does not copy the entry; an unlinked entry is freed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(super) NonNull<u8>);

/// The memory that an entry owns outside its block.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    pub(crate) root: Option<Root>,
    pub(crate) key: Option<LongKey>,
}

/// The parameters that determine an entry's size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(super) header: u64,
    key_len: usize,
    value_len: usize,
    /// The hash of the key, which long entries store.
    hash: u64,
}

impl Shape {
    /// Returns the shape of an entry with this key, value and attributes.
    pub(crate) fn new(key: Key<'_>, value: &NewValue<'_>, attributes: &Attributes) -> Self {
        let Key { bytes: key, hash, long: outside } = key;
        let value_len = value.piece().map_or(WORD_BYTES, <[u8]>::len);
        let mut header = value.encoding() as u64;
        let mut flag = |present: bool, flag: u64| header |= if present { flag } else { 0 };
        flag(attributes.expire_at_ms.is_some(), EXPIRY);
        flag(attributes.cas.is_some(), CAS);
        flag(attributes.flags != 0, FLAGS);
        flag(attributes.marks.stale, STALE);
        flag(attributes.marks.won, WON);
        flag(attributes.marks.fetched, FETCHED);
        let long = key.len() > 0xff || value_len > 0xffff;
        flag(long, LONG);
        flag(outside.is_some(), OUTSIDE);
        if !long {
            header |= (key.len() as u64) << KEY_LEN_SHIFT | (value_len as u64) << VALUE_LEN_SHIFT;
        }
        Shape { header, key_len: key.len(), value_len, hash }
    }

    /// Returns the size in bytes, not rounded up.
    pub(crate) fn bytes(&self) -> usize {
        key_offset(self.header) + key_room(self.header, self.key_len) + self.value_len
    }
}

/// The offset of the key, by the four flags that determine it.
const KEY_OFFSETS: [u8; 16] = {
    let mut offsets = [0; 16];
    let mut flags = 0;
    while flags < offsets.len() {
        let header = (flags as u64) << 8;
        let words = u64::count_ones(header & (EXPIRY | CAS)) as usize;
        let long = if header & LONG == 0 { 0 } else { LONG_BYTES };
        let flags_bytes = if header & FLAGS == 0 { 0 } else { 4 };
        let len = HEADER_BYTES + long + words * WORD_BYTES + flags_bytes;
        #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
        {
            offsets[flags] = len as u8;
        }
        flags += 1;
    }
    offsets
};

#[inline]
#[expect(clippy::indexing_slicing, reason = "four bits index sixteen elements")]
fn key_offset(header: u64) -> usize {
    usize::from(KEY_OFFSETS[(header >> 8 & 0xf) as usize])
}

/// Returns the bytes that the key takes in the entry.
#[inline]
fn key_room(header: u64, key_len: usize) -> usize {
    if header & OUTSIDE == OUTSIDE { WORD_BYTES } else { key_len }
}

pub(super) const fn expiry_offset(header: u64) -> usize {
    HEADER_BYTES + if header & LONG == 0 { 0 } else { LONG_BYTES }
}

pub(super) const fn cas_offset(header: u64) -> usize {
    expiry_offset(header) + if header & EXPIRY == 0 { 0 } else { WORD_BYTES }
}

pub(super) const fn flags_offset(header: u64) -> usize {
    cas_offset(header) + if header & CAS == 0 { 0 } else { WORD_BYTES }
}

impl Entry {
    /// Writes a new entry of `shape` into `memory`; a root moves into it.
    ///
    /// # Safety
    /// `memory` is aligned to 8, has room for `shape.bytes()`, and belongs to the caller. The shape
    /// was made from this key, value and attributes.
    pub(crate) unsafe fn write(
        memory: NonNull<u8>,
        on_heap: bool,
        shape: &Shape,
        key: Key<'_>,
        value: NewValue<'_>,
        attributes: &Attributes,
    ) -> Entry {
        let header = shape.header | if on_heap { ON_HEAP } else { 0 };
        let entry = Entry(memory);
        // SAFETY: every offset is within the shape's bytes, which the caller owns.
        unsafe {
            entry.set_header(header);
            if header & LONG != 0 {
                entry.put::<u32>(HEADER_BYTES, shape.key_len as u32);
                entry.put::<u32>(HEADER_BYTES + 4, shape.value_len as u32);
                entry.put::<u64>(HEADER_BYTES + 8, shape.hash);
            }
            if let Some(at_ms) = attributes.expire_at_ms {
                entry.put::<u64>(expiry_offset(header), at_ms);
            }
            if let Some(cas) = attributes.cas {
                entry.put::<u64>(cas_offset(header), cas);
            }
            if header & FLAGS != 0 {
                entry.put::<u32>(flags_offset(header), attributes.flags);
            }
            let at = key_offset(header);
            match key.long {
                None => entry.copy_in(at, key.bytes),
                Some(long) => entry.put::<*const Kept>(at, long.clone().into_entry()),
            }
            let at = at + key_room(header, key.bytes.len());
            match value {
                NewValue::Piece(_, bytes) => entry.copy_in(at, bytes),
                NewValue::Int(value) => entry.put::<i64>(at, value),
                NewValue::Root(root) => entry.put::<NonNull<u8>>(at, root.into_word()),
            }
        }
        entry
    }

    /// Returns the entry at an address that [`Entry::pointer`] returned.
    ///
    /// # Safety
    /// The entry, or a copy of it, is at that address, and no other data is stored there while the
    /// result is used to read or write it.
    pub(crate) unsafe fn from_pointer(pointer: NonNull<u8>) -> Self {
        Entry(pointer)
    }

    pub(crate) fn pointer(self) -> NonNull<u8> {
        self.0
    }

    /// Returns the size in bytes, not rounded up.
    pub(crate) fn bytes(self) -> usize {
        self.value_offset() + self.value_len()
    }

    /// Whether its memory came from the general allocator.
    pub(crate) fn on_heap(self) -> bool {
        self.header() & ON_HEAP != 0
    }

    /// Records where its memory came from, after a move.
    pub(crate) fn set_on_heap(self, on_heap: bool) {
        self.set_header(self.header() & !ON_HEAP | if on_heap { ON_HEAP } else { 0 });
    }

    /// Returns the two bits of the epoch of its last change.
    pub(crate) fn epoch(self) -> u8 {
        ((self.header() & EPOCH) >> EPOCH_SHIFT) as u8
    }

    pub(crate) fn set_epoch(self, epoch: u8) {
        let bits = u64::from(epoch) << EPOCH_SHIFT & EPOCH;
        self.set_header(self.header() & !EPOCH | bits);
    }

    /// Returns the 24 bits in which eviction records accesses.
    pub(crate) fn access(self) -> u32 {
        ((self.header() & ACCESS) >> ACCESS_SHIFT) as u32
    }

    pub(crate) fn set_access(self, access: u32) {
        let bits = u64::from(access) << ACCESS_SHIFT & ACCESS;
        self.change_header(self.header() & !ACCESS | bits);
    }

    /// Records that a client has fetched the value.
    pub(crate) fn mark_fetched(self) {
        self.change_header(self.header() | FETCHED);
    }

    /// Writes the header only if it changes, so that a read does not dirty the cache line.
    #[inline]
    fn change_header(self, header: u64) {
        if header != self.header() {
            self.set_header(header);
        }
    }

    pub(crate) fn marks(self) -> Marks {
        let has = |flag: u64| self.header() & flag != 0;
        Marks { fetched: has(FETCHED), stale: has(STALE), won: has(WON) }
    }

    /// Whether an entry of `shape` has every field at the same offset as this one.
    #[inline]
    pub(crate) fn has_shape(self, shape: &Shape) -> bool {
        let header = self.header();
        header & !(ON_HEAP | EPOCH | ACCESS | MARKS) == shape.header & !MARKS
            && (header & LONG == 0
                || (self.key_len(), self.value_len()) == (shape.key_len, shape.value_len))
    }

    /// Copies the entry to other memory. The copy shares a root's parts and a long key.
    ///
    /// # Safety
    /// The latch is held. `memory` is aligned to 8, has room for [`Entry::bytes`], and belongs to
    /// the caller.
    pub(crate) unsafe fn copy_to(self, memory: NonNull<u8>) {
        let copy = Entry(memory);
        // SAFETY: the caller guarantees it; the copy has the same fields at the same offsets.
        unsafe {
            self.0.copy_to_nonoverlapping(memory, self.bytes());
            if let Some(root) = self.root() {
                copy.put::<NonNull<u8>>(copy.value_offset(), root.share().into_image_word());
            }
            if let Some(key) = self.long_key() {
                let clone = LongKey::clone(&key).into_entry();
                copy.put::<*const Kept>(key_offset(copy.header()), clone);
            }
        }
    }

    /// Returns the memory of a root, and of a key stored out of line, in bytes.
    ///
    /// # Safety
    /// The latch is held.
    pub(crate) unsafe fn bytes_out_of_line(self) -> usize {
        // SAFETY: the caller guarantees it; the borrow ends here.
        let root_bytes = unsafe { self.root() }.map_or(0, RootRef::bytes);
        root_bytes + if self.is_key_outside() { self.key_len() } else { 0 }
    }

    /// Returns those bytes of a root that are chunks, see [`RootRef::chunk_bytes`].
    ///
    /// # Safety
    /// The latch is held.
    pub(crate) unsafe fn chunk_bytes(self) -> usize {
        // SAFETY: the caller guarantees it; the borrow ends here.
        unsafe { self.root() }.map_or(0, RootRef::chunk_bytes)
    }

    /// The value, if it is a root.
    ///
    /// # Safety
    /// The latch is held for `'a`, and the entry is neither freed nor changed meanwhile.
    pub(super) unsafe fn root<'a>(self) -> Option<RootRef<'a>> {
        // SAFETY: the encoding says that an entry with a root has its word there; the caller
        // guarantees the rest.
        unsafe { RootRef::of_word(self.encoding(), || self.peek(self.value_offset())) }
    }

    /// Takes the memory that an entry owns, before it is freed or overwritten.
    ///
    /// # Safety
    /// The entry is never read again.
    pub(crate) unsafe fn take_owned(self) -> Owned {
        // SAFETY: the encoding says that an entry with a root has its word there, which is not used
        // again.
        let root = unsafe { Root::take(self.encoding(), || self.peek(self.value_offset())) };
        Owned { root, key: self.long_key().map(LongKey::from_entry) }
    }

    /// Whether this is the entry of `key`. The bytes of a long key are not compared.
    ///
    /// # Safety
    /// The latch is held.
    #[inline]
    pub(crate) unsafe fn is_of(self, key: Key<'_>) -> bool {
        let header = self.header();
        if header & LONG != 0 {
            // SAFETY: the caller guarantees it.
            return unsafe { self.is_long_of(key) };
        }
        let len = (header >> KEY_LEN_SHIFT & 0xff) as usize;
        // SAFETY: the key is at this offset; the borrow ends here, within the latch.
        unsafe {
            let start = self.0.add(key_offset(header)).as_ptr();
            std::slice::from_raw_parts(start, len) == key.bytes
        }
    }

    /// # Safety
    /// As for [`Entry::is_of`].
    #[cold]
    unsafe fn is_long_of(self, key: Key<'_>) -> bool {
        latch::time_from_here();
        // SAFETY: the caller guarantees it; the borrow ends here.
        let name = unsafe { self.name() };
        if let Name::Inline(bytes) = name {
            holds::note(Work { bytes: bytes.len() as u64, ..Work::default() });
        }
        name == key.name()
    }

    /// Returns the identity of the key, for as long as the caller holds the latch.
    ///
    /// # Safety
    /// As for [`Entry::key`].
    pub(crate) unsafe fn name<'a>(self) -> Name<'a> {
        match self.long_key() {
            Some(long) => Name::Elsewhere(long.address()),
            // SAFETY: the caller guarantees it.
            None => Name::Inline(unsafe { self.key() }),
        }
    }

    /// Returns an owned copy of the key's identity ([`Entry::name`]).
    ///
    /// # Safety
    /// The latch is held.
    pub(crate) unsafe fn owned_name(self) -> OwnedName {
        match self.long_key() {
            Some(long) => OwnedName::Elsewhere(LongKey::clone(&long)),
            // SAFETY: the caller guarantees it; the borrow ends here.
            None => OwnedName::Inline(unsafe { self.key() }.into()),
        }
    }

    /// Returns the key if it is stored out of line. The entry owns it.
    pub(super) fn long_key(self) -> Option<ManuallyDrop<LongKey>> {
        self.is_key_outside().then(|| {
            // SAFETY: such an entry holds the address of a long key that it owns.
            unsafe { LongKey::of_entry(self.peek(key_offset(self.header()))) }
        })
    }

    pub(super) fn is_key_outside(self) -> bool {
        self.header() & OUTSIDE == OUTSIDE
    }

    /// Returns the key, for as long as the caller holds the latch.
    ///
    /// # Safety
    /// The entry is neither freed, moved nor overwritten during `'a`.
    #[inline]
    pub(crate) unsafe fn key<'a>(self) -> &'a [u8] {
        if let Some(long) = self.long_key() {
            long_key::note(self.key_len());
            let bytes: *const [u8] = &raw const **long.bytes();
            // SAFETY: the entry owns the key, and the caller guarantees the lifetime.
            return unsafe { &*bytes };
        }
        // SAFETY: the key is at this offset; the caller guarantees the lifetime.
        unsafe {
            let start = self.0.add(key_offset(self.header()));
            std::slice::from_raw_parts(start.as_ptr(), self.key_len())
        }
    }

    pub(crate) fn expire_at_ms(self) -> Option<u64> {
        let header = self.header();
        // SAFETY: the flag says that the expiry is present.
        (header & EXPIRY != 0).then(|| unsafe { self.peek(expiry_offset(header)) })
    }

    pub(super) fn cas(self) -> Option<u64> {
        let header = self.header();
        // SAFETY: the flag says that the number is present.
        (header & CAS != 0).then(|| unsafe { self.peek(cas_offset(header)) })
    }

    pub(super) fn client_flags(self) -> u32 {
        let header = self.header();
        // SAFETY: the flag says that the client flags are present.
        if header & FLAGS == 0 { 0 } else { unsafe { self.peek(flags_offset(header)) } }
    }

    pub(crate) fn attributes(self) -> Attributes {
        Attributes {
            expire_at_ms: self.expire_at_ms(),
            flags: self.client_flags(),
            cas: self.cas(),
            marks: self.marks(),
        }
    }

    pub(crate) fn encoding(self) -> Encoding {
        Encoding::of_number(self.encoding_number())
    }

    #[inline]
    pub(super) fn encoding_number(self) -> u8 {
        (self.header() & ENCODING) as u8
    }

    pub(super) fn key_len(self) -> usize {
        let header = self.header();
        if header & LONG == 0 {
            return (header >> KEY_LEN_SHIFT & 0xff) as usize;
        }
        // SAFETY: a long entry stores its lengths after the header.
        unsafe { self.peek::<u32>(HEADER_BYTES) as usize }
    }

    #[inline]
    pub(super) fn value_offset(self) -> usize {
        let header = self.header();
        let key_bytes = match header & LONG {
            0 => (header >> KEY_LEN_SHIFT & 0xff) as usize,
            _ => key_room(header, self.key_len()),
        };
        key_offset(header) + key_bytes
    }

    /// Returns the hash of the key if the entry stores it, as long entries do.
    pub(crate) fn kept_hash(self) -> Option<u64> {
        // SAFETY: a long entry stores the hash after its lengths.
        (self.header() & LONG != 0).then(|| unsafe { self.peek::<u64>(HEADER_BYTES + 8) })
    }

    pub(super) fn value_len(self) -> usize {
        let header = self.header();
        if header & LONG == 0 {
            return (header >> VALUE_LEN_SHIFT) as usize;
        }
        // SAFETY: a long entry stores its lengths after the header.
        unsafe { self.peek::<u32>(HEADER_BYTES + 4) as usize }
    }

    #[inline]
    pub(super) fn header(self) -> u64 {
        // SAFETY: an entry is aligned to 8 and begins with its header.
        unsafe { self.0.cast::<u64>().read() }
    }

    #[inline]
    pub(super) fn set_header(self, header: u64) {
        // SAFETY: as in `header`; only the latch's holder writes.
        unsafe { self.0.cast::<u64>().write(header) };
    }

    /// # Safety
    /// A `T` was written at this offset.
    pub(super) unsafe fn peek<T: Copy>(self, offset: usize) -> T {
        // SAFETY: the caller guarantees it.
        unsafe { self.0.add(offset).cast::<T>().read_unaligned() }
    }

    /// # Safety
    /// The entry has room for a `T` at this offset.
    pub(super) unsafe fn put<T>(self, offset: usize, value: T) {
        // SAFETY: the caller guarantees it.
        unsafe { self.0.add(offset).cast::<T>().write_unaligned(value) };
    }

    /// # Safety
    /// The entry has room for `bytes` at this offset, and `bytes` lies outside the entry.
    pub(super) unsafe fn copy_in(self, offset: usize, bytes: &[u8]) {
        // SAFETY: the caller guarantees it.
        unsafe {
            let to = self.0.add(offset).as_ptr();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::long_key::LongKeys;
    use crate::entry::value::WrongType;
    use crate::entry::view::EntryView;
    use crate::value::rope::Rope;
    use proptest::prelude::*;

    fn new_value(choice: u8, bytes: &[u8]) -> NewValue<'_> {
        match choice % 6 {
            0 => NewValue::Piece(Encoding::Bytes, bytes),
            3 => NewValue::raw(bytes),
            4 => NewValue::Piece(Encoding::Text, bytes),
            5 => NewValue::Piece(Encoding::PackedHash, bytes),
            1 => NewValue::Int(bytes.len() as i64 - 7),
            _ => NewValue::rope(Rope::from_bytes(bytes)),
        }
    }

    proptest! {
        #[test]
        fn written_entry_is_read_back(
            key in prop_oneof![
                9 => proptest::collection::vec(any::<u8>(), 0..300),
                1 => proptest::collection::vec(any::<u8>(), 2000..2100),
            ],
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            choice: u8,
            expire_at_ms: Option<u64>,
            flags in prop_oneof![Just(0_u32), any::<u32>()],
            cas: Option<u64>,
            (fetched, stale, won) in any::<(bool, bool, bool)>(),
        ) {
            let marks = Marks { fetched, stale, won };
            let attributes = Attributes { expire_at_ms, flags, cas, marks };
            let keys = LongKeys::new();
            let hashed = Key { bytes: &key, hash: 0x1234_5678_9abc_def0, long: None };
            let long = keys.made(hashed);
            let hashed = hashed.kept_as(long.as_ref());
            let shape = Shape::new(hashed, &new_value(choice, &bytes), &attributes);
            let mut memory = vec![0xee_u64; shape.bytes().div_ceil(8)];
            let start = NonNull::new(memory.as_mut_ptr().cast::<u8>()).unwrap();
            // SAFETY: the vector is aligned to 8 and large enough.
            let entry = unsafe {
                Entry::write(start, true, &shape, hashed, new_value(choice, &bytes), &attributes)
            };
            entry.set_access(0x12_3456);
            entry.set_epoch(2);
            // SAFETY: the entry does not move during the lifetime of the view.
            let view = unsafe { EntryView::new(entry) };
            prop_assert_eq!(view.key(), &key[..]);
            prop_assert_eq!(entry.kept_hash(), (key.len() > 255).then_some(hashed.hash));
            let value = new_value(choice, &bytes);
            prop_assert_eq!(entry.encoding(), value.encoding());
            prop_assert_eq!(view.kind(), value.encoding().kind());
            match (view.string(), value) {
                (Ok(string), NewValue::Int(value)) => {
                    let digits = value.to_string().into_bytes();
                    prop_assert_eq!(string.with_bytes(<[u8]>::to_vec), digits);
                }
                (Ok(string), _) => prop_assert_eq!(string.with_bytes(<[u8]>::to_vec), bytes),
                (Err(WrongType), value) => {
                    prop_assert_eq!(value.encoding(), Encoding::PackedHash);
                    prop_assert_eq!(view.piece(), bytes);
                }
            }
            prop_assert_eq!(view.expire_at_ms(), expire_at_ms);
            prop_assert_eq!((view.flags(), view.cas(), view.marks()), (flags, cas, marks));
            prop_assert_eq!((entry.access(), entry.epoch()), (0x12_3456, 2));
            prop_assert_eq!((entry.bytes(), entry.on_heap()), (shape.bytes(), true));
            // SAFETY: the entry is not read again.
            drop(unsafe { entry.take_owned() });
            drop(long);
            prop_assert_eq!(keys.len(), 0);
        }
    }
}
