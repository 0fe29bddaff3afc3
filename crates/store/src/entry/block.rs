//! One allocation per key: a header of eight bytes, what this entry has, its key, its value.
//!
//! ```text
//!   63        48 47     40 39          16 15 14 13        8 7        0
//!  +------------+---------+--------------+-----+-----------+----------+
//!  | value len  | key len | access clock |epoch|   flags   | encoding |  header
//!  +------------+---------+--------------+-----+-----------+----------+
//!  | value len (32)       | key len (32)                              |  if LONG
//!  +----------------------+-------------------------------------------+
//!  | hash of the key, which would take long to work out again         |  if LONG
//!  +------------------------------------------------------------------+
//!  | expiry, ms since 1970                                            |  if EXPIRY
//!  +------------------------------------------------------------------+
//!  | CAS number                                                       |  if CAS
//!  +------------------+-----------------------------------------------+
//!  | client flags (32)|  if FLAGS
//!  +------------------+-----------------+-----------------------------+
//!  | key              | value           |  bytes | i64 | pointer to a rope
//!  +------------------+-----------------+
//! ```
//!
//! A key of more than 2 KiB stands elsewhere ([`crate::entry::long_key`]), and its address in its
//! place.
//!
//! Three bits are memcached's marks (`Marks`): two above the six of the encoding, one among the
//! flags. They change no offset, so an entry without them costs nothing and none grows by them.
//!
//! An entry is read and written only under its shard's latch, so it may be moved at any time that
//! the latch is held.

use crate::entry::key::{Key, Name, OwnedName};
use crate::entry::long_key::{self, Kept, LongKey};
use crate::memory::slab::FREE;
use crate::sync::holds::{self, Work};
use crate::sync::latch;
use crate::value::number::parse_i64;
use crate::value::rope::Rope;
use crate::value::string::{Attributes, Encoding, Kind, Marks, NewValue, Value};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

const ENCODING: u64 = 0x3f;
const STALE: u64 = 1 << 6;
const WON: u64 = 1 << 7;
const EXPIRY: u64 = 1 << 8;
const CAS: u64 = 1 << 9;
const FLAGS: u64 = 1 << 10;
const LONG: u64 = 1 << 11;
const ON_HEAP: u64 = 1 << 12;
const FETCHED: u64 = 1 << 13;
const MARKS: u64 = STALE | WON | FETCHED;
const EPOCH_SHIFT: u32 = 14;
const EPOCH: u64 = 0b11 << EPOCH_SHIFT;
const ACCESS_SHIFT: u32 = 16;
const ACCESS: u64 = 0xff_ffff << ACCESS_SHIFT;
const KEY_LEN_SHIFT: u32 = 40;
const VALUE_LEN_SHIFT: u32 = 48;
/// The key stands elsewhere; only a long entry, which has its lengths elsewhere, has this bit.
const OUTSIDE: u64 = LONG | 1 << KEY_LEN_SHIFT;
const HEADER_BYTES: usize = 8;

// No entry begins as a free block does: no encoding has these six bits.
const _: () = assert!(FREE as u64 & ENCODING == ENCODING && (Encoding::Rope as u64) < ENCODING);

/// Bytes that the value of an integer or the pointer to a rope takes.
const WORD_BYTES: usize = 8;
/// Bytes of a long entry's lengths and hash.
const LONG_BYTES: usize = 16;

/// An entry's place in memory. Copying it copies no entry: whoever unlinks one frees it, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(NonNull<u8>);

/// What an entry owns beside its block.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    pub(crate) rope: Option<Box<Rope>>,
    pub(crate) key: Option<LongKey>,
}

/// What an entry's size depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    header: u64,
    key_len: usize,
    value_len: usize,
    /// Of the key.
    hash: u64,
}

impl Shape {
    /// The shape of an entry of this key, value and attributes.
    pub(crate) fn new(key: Key<'_>, value: &NewValue<'_>, attributes: &Attributes) -> Self {
        let Key { bytes: key, hash, long: outside } = key;
        let value_len = match value {
            NewValue::Bytes(bytes) | NewValue::Raw(bytes) | NewValue::Text(bytes) => bytes.len(),
            NewValue::Int(_) | NewValue::Rope(_) => WORD_BYTES,
        };
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

    /// Size in bytes, unrounded.
    pub(crate) fn bytes(&self) -> usize {
        key_offset(self.header) + key_room(self.header, self.key_len) + self.value_len
    }
}

/// Where the key begins, by the four flags that decide it.
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

/// Bytes that the key takes in the entry.
#[inline]
fn key_room(header: u64, key_len: usize) -> usize {
    if header & OUTSIDE == OUTSIDE { WORD_BYTES } else { key_len }
}

const fn expiry_offset(header: u64) -> usize {
    HEADER_BYTES + if header & LONG == 0 { 0 } else { LONG_BYTES }
}

const fn cas_offset(header: u64) -> usize {
    expiry_offset(header) + if header & EXPIRY == 0 { 0 } else { WORD_BYTES }
}

const fn flags_offset(header: u64) -> usize {
    cas_offset(header) + if header & CAS == 0 { 0 } else { WORD_BYTES }
}

impl Entry {
    /// Writes a new entry of `shape` into `memory`; a rope moves into it.
    ///
    /// # Safety
    /// `memory` is aligned to 8, has room for `shape.bytes()`, and is the caller's to write. The
    /// shape was made from this key, value and attributes.
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
        // SAFETY: every offset lies within the shape's bytes, and the caller gave us those.
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
                NewValue::Bytes(bytes) | NewValue::Raw(bytes) | NewValue::Text(bytes) => {
                    entry.copy_in(at, bytes);
                }
                NewValue::Int(value) => entry.put::<i64>(at, value),
                NewValue::Rope(mut rope) => {
                    rope.keep();
                    entry.put::<*mut Rope>(at, Box::into_raw(Box::new(rope)));
                }
            }
        }
        entry
    }

    /// An entry from the pointer that [`Entry::pointer`] gave.
    pub(crate) fn from_pointer(pointer: NonNull<u8>) -> Self {
        Entry(pointer)
    }

    pub(crate) fn pointer(self) -> NonNull<u8> {
        self.0
    }

    /// Size in bytes, unrounded.
    pub(crate) fn bytes(self) -> usize {
        self.value_offset() + self.value_len()
    }

    /// Whether its memory came from the general allocator.
    pub(crate) fn on_heap(self) -> bool {
        self.header() & ON_HEAP != 0
    }

    /// Notes where its memory came from, after it was moved.
    pub(crate) fn set_on_heap(self, on_heap: bool) {
        self.set_header(self.header() & !ON_HEAP | if on_heap { ON_HEAP } else { 0 });
    }

    /// The two bits of the epoch in which it was last changed.
    pub(crate) fn epoch(self) -> u8 {
        ((self.header() & EPOCH) >> EPOCH_SHIFT) as u8
    }

    pub(crate) fn set_epoch(self, epoch: u8) {
        let bits = u64::from(epoch) << EPOCH_SHIFT & EPOCH;
        self.set_header(self.header() & !EPOCH | bits);
    }

    /// The 24 bits in which eviction notes accesses.
    pub(crate) fn access(self) -> u32 {
        ((self.header() & ACCESS) >> ACCESS_SHIFT) as u32
    }

    pub(crate) fn set_access(self, access: u32) {
        let bits = u64::from(access) << ACCESS_SHIFT & ACCESS;
        self.change_header(self.header() & !ACCESS | bits);
    }

    /// Notes that a client has been given the value.
    pub(crate) fn mark_fetched(self) {
        self.change_header(self.header() | FETCHED);
    }

    /// Writes the header unless it is so already, which would make memory of what was only read.
    #[inline]
    fn change_header(self, header: u64) {
        if header != self.header() {
            self.set_header(header);
        }
    }

    /// Changes the marks; the shape stays.
    pub(crate) fn replace_marks(self, marks: Marks) {
        let mut header = self.header() & !MARKS;
        let mut flag = |present: bool, flag: u64| header |= if present { flag } else { 0 };
        flag(marks.stale, STALE);
        flag(marks.won, WON);
        flag(marks.fetched, FETCHED);
        self.set_header(header);
    }

    pub(crate) fn marks(self) -> Marks {
        let has = |flag: u64| self.header() & flag != 0;
        Marks { fetched: has(FETCHED), stale: has(STALE), won: has(WON) }
    }

    /// Moves the expiry of an entry that has one; its shape stays.
    pub(crate) fn replace_expiry(self, at_ms: u64) {
        let header = self.header();
        debug_assert!(header & EXPIRY != 0, "the entry has room for an expiry");
        // SAFETY: the entry has an expiry, so the offset lies within it.
        unsafe { self.put::<u64>(expiry_offset(header), at_ms) };
    }

    /// Whether an entry of `shape` has everything where this one has it.
    #[inline]
    pub(crate) fn has_shape(self, shape: &Shape) -> bool {
        let header = self.header();
        header & !(ON_HEAP | EPOCH | ACCESS | MARKS) == shape.header & !MARKS
            && (header & LONG == 0
                || (self.key_len(), self.value_len()) == (shape.key_len, shape.value_len))
    }

    /// Overwrites value and attributes of an entry in one piece that [`Entry::has_shape`] says
    /// are of the same size.
    pub(crate) fn overwrite(self, bytes: &[u8], shape: &Shape, attributes: &Attributes) {
        let header = self.header() & !MARKS | shape.header & MARKS;
        self.set_header(header);
        debug_assert!(self.is_one_piece() && self.value_len() == bytes.len());
        // SAFETY: the shape says that each of these has its room.
        unsafe {
            if let Some(at_ms) = attributes.expire_at_ms {
                self.put::<u64>(expiry_offset(header), at_ms);
            }
            if let Some(cas) = attributes.cas {
                self.put::<u64>(cas_offset(header), cas);
            }
            if header & FLAGS != 0 {
                self.put::<u32>(flags_offset(header), attributes.flags);
            }
            self.copy_in(self.value_offset(), bytes);
        }
    }

    /// Changes the value of an entry that is an integer.
    pub(crate) fn replace_int(self, value: i64) {
        debug_assert!(self.encoding() == Encoding::Int as u8, "the entry is an integer");
        // SAFETY: an integer's value takes a word behind the key.
        unsafe { self.put::<i64>(self.value_offset(), value) };
    }

    /// The string of an entry that has it in one piece, to be changed: it is raw from now on.
    ///
    /// # Safety
    /// The latch is held exclusively for `'a`, and nothing else borrows the value.
    pub(crate) unsafe fn bytes_mut<'a>(self) -> Option<&'a mut [u8]> {
        if !self.is_one_piece() {
            return None;
        }
        let header = self.header();
        self.set_header(header & !0xff | Encoding::Raw as u64);
        let at = self.value_offset();
        // SAFETY: the value lies there in full; the caller vouches for the exclusive borrow.
        unsafe {
            let start = self.0.add(at).as_ptr();
            Some(std::slice::from_raw_parts_mut(start, self.value_len()))
        }
    }

    fn is_one_piece(self) -> bool {
        self.encoding() <= Encoding::Text as u8
    }

    /// The rope of an entry that has one.
    ///
    /// # Safety
    /// The latch is held exclusively for `'a`, and nothing else borrows the rope.
    pub(crate) unsafe fn rope_mut<'a>(self) -> Option<&'a mut Rope> {
        if self.encoding() != Encoding::Rope as u8 {
            return None;
        }
        let at = self.value_offset();
        // SAFETY: such an entry holds the pointer of a box that it owns; the caller vouches for
        // the exclusive borrow.
        unsafe { Some(&mut *self.peek::<*mut Rope>(at)) }
    }

    /// Writes a copy of the entry elsewhere, which shares a rope's chunks and a long key.
    ///
    /// # Safety
    /// The latch is held. `memory` is aligned to 8, has room for [`Entry::bytes`], and is the
    /// caller's to write.
    pub(crate) unsafe fn copy_to(self, memory: NonNull<u8>) {
        let copy = Entry(memory);
        // SAFETY: the caller's promise; the copy has room for whatever this entry has, at the
        // same offset.
        unsafe {
            self.0.copy_to_nonoverlapping(memory, self.bytes());
            if let Some(rope) = self.rope_mut() {
                let clone = Box::into_raw(Box::new(rope.clone()));
                copy.put::<*mut Rope>(copy.value_offset(), clone);
            }
            if let Some(key) = self.long_key() {
                let clone = LongKey::clone(&key).into_entry();
                copy.put::<*const Kept>(key_offset(copy.header()), clone);
            }
        }
    }

    /// Bytes of a string that is a rope and of a key that stands elsewhere.
    ///
    /// # Safety
    /// The latch is held.
    pub(crate) unsafe fn bytes_elsewhere(self) -> usize {
        // SAFETY: the caller's promise; the borrow ends here.
        let rope_bytes = unsafe { self.rope_mut() }.map_or(0, |rope| rope.len());
        rope_bytes + if self.is_key_outside() { self.key_len() } else { 0 }
    }

    /// Takes out what an entry owns that is about to be freed or overwritten.
    ///
    /// # Safety
    /// The entry is never read again.
    pub(crate) unsafe fn take_owned(self) -> Owned {
        let is_rope = self.encoding() == Encoding::Rope as u8;
        // SAFETY: the pointer came from a box and is given up by the caller's promise.
        let rope = || unsafe { Box::from_raw(self.peek::<*mut Rope>(self.value_offset())) };
        let key = self.long_key().map(LongKey::from_entry);
        Owned { rope: is_rope.then(rope), key }
    }

    /// Whether this is the entry of `key`. No bytes of a long key are looked at.
    ///
    /// # Safety
    /// The latch is held.
    #[inline]
    pub(crate) unsafe fn is_of(self, key: Key<'_>) -> bool {
        let header = self.header();
        if header & LONG != 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.is_long_of(key) };
        }
        let len = (header >> KEY_LEN_SHIFT & 0xff) as usize;
        // SAFETY: the key lies at this offset; the borrow ends here, within the latch.
        unsafe {
            let start = self.0.add(key_offset(header)).as_ptr();
            std::slice::from_raw_parts(start, len) == key.bytes
        }
    }

    /// # Safety
    /// As for [`Entry::is_of`].
    #[cold]
    unsafe fn is_long_of(self, key: Key<'_>) -> bool {
        latch::slow();
        // SAFETY: the caller's promise; the borrow ends here.
        let name = unsafe { self.name() };
        if let Name::Inline(bytes) = name {
            holds::note(Work { bytes: bytes.len() as u64, ..Work::default() });
        }
        name == key.name()
    }

    /// What tells the key from all others, for as long as the caller holds the latch.
    ///
    /// # Safety
    /// As for [`Entry::key`].
    pub(crate) unsafe fn name<'a>(self) -> Name<'a> {
        match self.long_key() {
            Some(long) => Name::Elsewhere(long.address()),
            // SAFETY: the caller's promise.
            None => Name::Inline(unsafe { self.key() }),
        }
    }

    /// The same, to be kept.
    ///
    /// # Safety
    /// The latch is held.
    pub(crate) unsafe fn owned_name(self) -> OwnedName {
        match self.long_key() {
            Some(long) => OwnedName::Elsewhere(LongKey::clone(&long)),
            // SAFETY: the caller's promise; the borrow ends here.
            None => OwnedName::Inline(unsafe { self.key() }.into()),
        }
    }

    /// The key, if it stands elsewhere. The entry owns it.
    fn long_key(self) -> Option<ManuallyDrop<LongKey>> {
        self.is_key_outside().then(|| {
            // SAFETY: such an entry holds the address of a long key that it owns.
            unsafe { LongKey::of_entry(self.peek(key_offset(self.header()))) }
        })
    }

    fn is_key_outside(self) -> bool {
        self.header() & OUTSIDE == OUTSIDE
    }

    /// The key, for as long as the caller holds the latch.
    ///
    /// # Safety
    /// The entry is neither freed, moved nor overwritten during `'a`.
    #[inline]
    pub(crate) unsafe fn key<'a>(self) -> &'a [u8] {
        if let Some(long) = self.long_key() {
            long_key::note(self.key_len());
            let bytes: *const [u8] = &raw const **long.bytes();
            // SAFETY: the entry owns the key, and the caller vouches for the lifetime.
            return unsafe { &*bytes };
        }
        // SAFETY: the key lies at this offset; the caller vouches for the lifetime.
        unsafe {
            let start = self.0.add(key_offset(self.header()));
            std::slice::from_raw_parts(start.as_ptr(), self.key_len())
        }
    }

    pub(crate) fn expire_at_ms(self) -> Option<u64> {
        let header = self.header();
        // SAFETY: the flag says that the expiry is there.
        (header & EXPIRY != 0).then(|| unsafe { self.peek(expiry_offset(header)) })
    }

    fn cas(self) -> Option<u64> {
        let header = self.header();
        // SAFETY: the flag says that the number is there.
        (header & CAS != 0).then(|| unsafe { self.peek(cas_offset(header)) })
    }

    fn client_flags(self) -> u32 {
        let header = self.header();
        // SAFETY: the flag says that the client flags are there.
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

    pub(crate) fn encoding(self) -> u8 {
        (self.header() & ENCODING) as u8
    }

    fn key_len(self) -> usize {
        let header = self.header();
        if header & LONG == 0 {
            return (header >> KEY_LEN_SHIFT & 0xff) as usize;
        }
        // SAFETY: a long entry keeps its lengths behind the header.
        unsafe { self.peek::<u32>(HEADER_BYTES) as usize }
    }

    #[inline]
    fn value_offset(self) -> usize {
        let header = self.header();
        let key_bytes = match header & LONG {
            0 => (header >> KEY_LEN_SHIFT & 0xff) as usize,
            _ => key_room(header, self.key_len()),
        };
        key_offset(header) + key_bytes
    }

    /// The hash of the key, where it is kept since the key is long.
    pub(crate) fn kept_hash(self) -> Option<u64> {
        // SAFETY: a long entry keeps the hash behind its lengths.
        (self.header() & LONG != 0).then(|| unsafe { self.peek::<u64>(HEADER_BYTES + 8) })
    }

    fn value_len(self) -> usize {
        let header = self.header();
        if header & LONG == 0 {
            return (header >> VALUE_LEN_SHIFT) as usize;
        }
        // SAFETY: a long entry keeps its lengths behind the header.
        unsafe { self.peek::<u32>(HEADER_BYTES + 4) as usize }
    }

    #[inline]
    fn header(self) -> u64 {
        // SAFETY: an entry is aligned to 8 and begins with its header.
        unsafe { self.0.cast::<u64>().read() }
    }

    #[inline]
    fn set_header(self, header: u64) {
        // SAFETY: as in `header`; only the latch's holder writes.
        unsafe { self.0.cast::<u64>().write(header) };
    }

    /// # Safety
    /// A `T` was written at this offset.
    unsafe fn peek<T: Copy>(self, offset: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(offset).cast::<T>().read_unaligned() }
    }

    /// # Safety
    /// The entry has room for a `T` at this offset.
    unsafe fn put<T>(self, offset: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(offset).cast::<T>().write_unaligned(value) };
    }

    /// # Safety
    /// The entry has room for `bytes` at this offset, and `bytes` lies outside the entry.
    unsafe fn copy_in(self, offset: usize, bytes: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe {
            let to = self.0.add(offset).as_ptr();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
    }
}

/// An entry as a reader sees it, for as long as the latch is held.
#[derive(Clone, Copy, Debug)]
pub struct EntryView<'a> {
    entry: Entry,
    latch: PhantomData<&'a ()>,
}

impl<'a> EntryView<'a> {
    /// # Safety
    /// The entry is neither freed, moved nor changed during `'a`.
    pub(crate) unsafe fn new(entry: Entry) -> Self {
        EntryView { entry, latch: PhantomData }
    }

    /// The key. Whoever holds a latch and would do more with it than look at a few bytes takes
    /// [`EntryView::long_key`] instead, if there is one.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        // SAFETY: promised when the view was made.
        unsafe { self.entry.key() }
    }

    /// The key if it is longer than 2 KiB, to be kept by reference.
    #[must_use]
    pub fn long_key(&self) -> Option<Arc<[u8]>> {
        self.entry.long_key().map(|key| Arc::clone(key.bytes()))
    }

    /// The value.
    #[must_use]
    #[inline]
    pub fn value(&self) -> Value<'a> {
        let entry = self.entry;
        let at = entry.value_offset();
        // SAFETY: the encoding says what lies behind the key; the borrow was promised when the
        // view was made.
        unsafe {
            match entry.encoding() {
                code if code <= Encoding::Text as u8 => {
                    let start = entry.0.add(at).as_ptr();
                    Value::Bytes(std::slice::from_raw_parts(start, entry.value_len()))
                }
                code if code == Encoding::Int as u8 => Value::Int(entry.peek(at)),
                _ => Value::Rope(&*entry.peek::<*mut Rope>(at)),
            }
        }
    }

    /// The type of the value.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::String
    }

    /// How Redis would keep the string, by the name that OBJECT ENCODING gives it: `int`,
    /// `embstr` or `raw`.
    #[must_use]
    pub fn encoding_name(&self) -> &'static str {
        /// The longest string that Redis keeps beside its header.
        const EMBEDDED_BYTES: usize = 44;
        let is = |encoding: Encoding| self.entry.encoding() == encoding as u8;
        match self.value() {
            Value::Int(_) => "int",
            Value::Rope(_) => "raw",
            Value::Bytes(_) if is(Encoding::Raw) => "raw",
            Value::Bytes(bytes) if !is(Encoding::Text) && parse_i64(bytes).is_some() => "int",
            Value::Bytes(bytes) if bytes.len() <= EMBEDDED_BYTES => "embstr",
            Value::Bytes(_) => "raw",
        }
    }

    /// The bits in which eviction notes accesses.
    pub(crate) fn access(&self) -> u32 {
        self.entry.access()
    }

    /// When it expires, in milliseconds since 1970; `None` for never.
    #[must_use]
    pub fn expire_at_ms(&self) -> Option<u64> {
        self.entry.expire_at_ms()
    }

    /// memcached's client flags.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.entry.client_flags()
    }

    /// memcached's unique number of this version, if a `gets` has asked for one.
    #[must_use]
    pub fn cas(&self) -> Option<u64> {
        self.entry.cas()
    }

    /// What memcached's clients have been told of this version.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.entry.marks()
    }

    /// Bytes that the entry and its key take, before they are rounded up.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let key_bytes = if self.entry.is_key_outside() { self.entry.key_len() } else { 0 };
        self.entry.bytes() + key_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::long_key::LongKeys;
    use proptest::prelude::*;

    fn new_value(choice: u8, bytes: &[u8]) -> NewValue<'_> {
        match choice % 5 {
            0 => NewValue::Bytes(bytes),
            3 => NewValue::Raw(bytes),
            4 => NewValue::Text(bytes),
            1 => NewValue::Int(bytes.len() as i64 - 7),
            _ => NewValue::Rope(Rope::from_bytes(bytes)),
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
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
            // SAFETY: the entry stays where it is while the view lives.
            let view = unsafe { EntryView::new(entry) };
            prop_assert_eq!(view.key(), &key[..]);
            prop_assert_eq!(entry.kept_hash(), (key.len() > 255).then_some(hashed.hash));
            let text = new_value(choice, &bytes);
            let text = match &text {
                NewValue::Bytes(bytes) | NewValue::Raw(bytes) | NewValue::Text(bytes) => {
                    bytes.to_vec()
                }
                NewValue::Int(value) => value.to_string().into_bytes(),
                NewValue::Rope(_) => bytes.clone(),
            };
            prop_assert_eq!(view.value().with_bytes(<[u8]>::to_vec), text);
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
