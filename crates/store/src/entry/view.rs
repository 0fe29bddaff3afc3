//! Read access to an entry.

use super::block::Entry;
use crate::collections::hash::Hash;
use crate::entry::attributes::{Attributes, Marks};
use crate::entry::collection::Collection;
use crate::entry::value::{Encoding, Kind, OwnedValue, SharedValue, Value, WrongType};
use crate::value::number::parse_i64;
use crate::value::rope::Rope;
use crate::value::string::StringValue;
use nagi_chunk::Chunk;
use std::marker::PhantomData;
use std::sync::Arc;

/// An entry as returned to a reader, borrowed while the latch is held.
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

    /// Returns the key. A caller that holds a latch and needs more than a few of its bytes uses
    /// [`EntryView::long_key`] instead, if there is one.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        // SAFETY: guaranteed when the view was created.
        unsafe { self.entry.key() }
    }

    /// Returns the key if it is longer than 2 KiB, so that the caller can keep a reference to it.
    #[must_use]
    pub fn long_key(&self) -> Option<Chunk> {
        self.entry.long_key().map(|key| Arc::clone(key.bytes()).into())
    }

    /// Returns a copy of the key.
    pub(crate) fn kept_key(&self) -> Chunk {
        self.long_key().unwrap_or_else(|| self.key().into())
    }

    /// Returns the value, if it is a string.
    ///
    /// # Errors
    /// The value is of another type.
    #[inline]
    pub fn string(&self) -> Result<StringValue<'a>, WrongType> {
        let entry = self.entry;
        let at = entry.value_offset();
        // SAFETY: the encoding tells what follows the key; the borrow was guaranteed when the view
        // was created.
        unsafe {
            match entry.encoding_number() {
                code if code <= Encoding::Text as u8 => Ok(StringValue::Bytes(self.piece())),
                code if code == Encoding::Int as u8 => Ok(StringValue::Int(entry.peek(at))),
                code if code == Encoding::Rope as u8 => {
                    Ok(StringValue::Rope(&*entry.peek::<*mut Rope>(at)))
                }
                _ => Err(WrongType),
            }
        }
    }

    /// Returns the value, of any type.
    #[must_use]
    pub fn value(&self) -> Value<'a> {
        let encoding = self.entry.encoding();
        if encoding.is_in_one_piece() {
            return Value::of_piece(encoding, self.piece());
        }
        // SAFETY: guaranteed when the view was created.
        match unsafe { self.entry.root() } {
            Some(root) => Value::of_root(root),
            None => Value::String(self.string().unwrap_or(StringValue::Bytes(&[]))),
        }
    }

    /// Returns the value, if it is a collection of this type.
    #[inline]
    pub(crate) fn collection<C: Collection>(&self) -> Result<C::Ref<'a>, WrongType> {
        let encoding = self.entry.encoding();
        if encoding == C::PACKED {
            return Ok(C::read_packed(self.piece()));
        }
        // SAFETY: guaranteed when the view was created.
        unsafe { self.entry.root() }.and_then(C::read_root).ok_or(WrongType)
    }

    /// Returns the bytes of a small collection of this type; `None` if it is a root.
    pub(crate) fn packed_collection<C: Collection>(&self) -> Result<Option<&'a [u8]>, WrongType> {
        if self.entry.encoding() == C::PACKED {
            return Ok(Some(self.piece()));
        }
        self.collection::<C>().map(|_| None)
    }

    /// Returns when fields of a hash next have to be swept, in milliseconds since 1970; `None` if
    /// no field expires, and for other types.
    #[inline]
    pub(crate) fn fields_due_ms(&self) -> Option<u64> {
        match self.entry.encoding() {
            Encoding::PackedHash | Encoding::TreeHash => self.fields_of_hash_due_ms(),
            _ => None,
        }
    }

    #[cold]
    fn fields_of_hash_due_ms(&self) -> Option<u64> {
        self.collection::<Hash>().ok()?.sweep_at_ms()
    }

    /// Returns the type of the value.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.entry.encoding().kind()
    }

    /// Returns the bytes after the key.
    #[inline]
    pub(super) fn piece(&self) -> &'a [u8] {
        let entry = self.entry;
        // SAFETY: the entry's value is `len` bytes after its key; the borrow was guaranteed when
        // the view was created.
        unsafe {
            let start = entry.0.add(entry.value_offset()).as_ptr();
            std::slice::from_raw_parts(start, entry.value_len())
        }
    }

    /// Returns the length of a string in bytes; for other types, the memory of the value.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        match self.value() {
            Value::String(string) => string.len(),
            Value::Hash(hash) => hash.bytes() as usize,
            Value::Set(set) => set.bytes() as usize,
            Value::SortedSet(set) => set.bytes() as usize,
            Value::List(list) => list.bytes() as usize,
            Value::Stream(stream) => stream.bytes() as usize,
        }
    }

    /// Returns the encoding that Redis would use, as OBJECT ENCODING names it.
    #[must_use]
    pub fn encoding_name(&self) -> &'static str {
        /// The longest string that Redis allocates together with its header.
        const EMBEDDED_BYTES: usize = 44;
        let encoding = self.entry.encoding();
        match self.value() {
            Value::Hash(hash) => hash.encoding_name(),
            Value::Set(set) => set.encoding_name(),
            Value::SortedSet(set) => set.encoding_name(),
            Value::List(list) => list.encoding_name(),
            Value::Stream(_) => "stream",
            Value::String(string) => match string {
                StringValue::Int(_) => "int",
                StringValue::Rope(_) => "raw",
                StringValue::Bytes(_) if encoding == Encoding::Raw => "raw",
                StringValue::Bytes(bytes)
                    if encoding != Encoding::Text && parse_i64(bytes).is_some() =>
                {
                    "int"
                }
                StringValue::Bytes(bytes) if bytes.len() <= EMBEDDED_BYTES => "embstr",
                StringValue::Bytes(_) => "raw",
            },
        }
    }

    /// Returns a copy of the value; a root's parts are shared.
    pub(crate) fn to_owned_value(self) -> OwnedValue {
        // SAFETY: guaranteed when the view was created.
        if let Some(root) = unsafe { self.entry.root() } {
            return OwnedValue::Root(root.share());
        }
        match self.string() {
            Ok(StringValue::Int(value)) => OwnedValue::Int(value),
            _ => OwnedValue::Piece(self.entry.encoding(), self.piece().into()),
        }
    }

    /// Returns a copy for reading after the latch is released.
    #[must_use]
    pub fn share_value(&self) -> SharedValue {
        SharedValue(self.to_owned_value())
    }

    /// Returns the bits in which eviction records accesses.
    pub(crate) fn access(&self) -> u32 {
        self.entry.access()
    }

    /// Returns the attributes.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        self.entry.attributes()
    }

    /// Returns when it expires, in milliseconds since 1970; `None` for never.
    #[must_use]
    pub fn expire_at_ms(&self) -> Option<u64> {
        self.entry.expire_at_ms()
    }

    /// Returns memcached's client flags.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.entry.client_flags()
    }

    /// Returns memcached's unique number of this version, if a `gets` has requested one.
    #[must_use]
    pub fn cas(&self) -> Option<u64> {
        self.entry.cas()
    }

    /// Returns memcached's marks on this version.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.entry.marks()
    }

    /// Returns the bytes of the entry and its key, not rounded up.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let key_bytes = if self.entry.is_key_outside() { self.entry.key_len() } else { 0 };
        self.entry.bytes() + key_bytes
    }
}
