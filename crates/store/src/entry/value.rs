//! Values of any type: borrowed for reading, to be stored, and owned.

use crate::collections::form::FormRef;
use crate::collections::hash::{Hash, HashRef};
use crate::collections::list::{List, ListForm, ListRef};
use crate::collections::set::{Set, SetRef};
use crate::collections::sorted_set::{SortedSet, SortedSetForm, SortedSetRef};
use crate::collections::stream::Stream;
use crate::entry::collection::Collection;
pub(crate) use crate::entry::encoding::Encoding;
pub use crate::entry::encoding::Kind;
use crate::entry::root::{Root, RootRef};
use crate::value::rope::Rope;
use crate::value::string::{StringInput, StringValue};
use nagi_chunk::CHUNK_BYTES;

/// The error for a value of a type that the operation does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// A value as returned to a reader, borrowed while the latch is held.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A string.
    String(StringValue<'a>),
    /// A hash.
    Hash(HashRef<'a>),
    /// A set.
    Set(SetRef<'a>),
    /// A sorted set.
    SortedSet(SortedSetRef<'a>),
    /// A list.
    List(ListRef<'a>),
    /// A stream.
    Stream(&'a Stream),
}

impl<'a> Value<'a> {
    /// Returns a contiguous value that is not an integer.
    pub(crate) fn of_piece(encoding: Encoding, bytes: &'a [u8]) -> Self {
        match encoding.kind() {
            // A stream is never contiguous.
            Kind::String | Kind::Stream => Value::String(StringValue::Bytes(bytes)),
            Kind::Hash => Value::Hash(Hash::read_packed(bytes)),
            Kind::Set => Value::Set(Set::read_packed(bytes)),
            Kind::SortedSet => Value::SortedSet(SortedSet::read_packed(bytes)),
            Kind::List => Value::List(List::read_packed(bytes)),
        }
    }

    /// Returns a value that is a root.
    pub(crate) fn of_root(root: RootRef<'a>) -> Self {
        match root {
            RootRef::Rope(rope) => Value::String(StringValue::Rope(rope)),
            RootRef::Hash(tree) => Value::Hash(HashRef(FormRef::Tree(tree))),
            RootRef::Set(tree) => Value::Set(SetRef(FormRef::Tree(tree))),
            RootRef::SortedSet(trees) => Value::SortedSet(SortedSetRef(SortedSetForm::Tree(trees))),
            RootRef::List(tree) => Value::List(ListRef(ListForm::Tree(tree))),
            RootRef::Stream(stream) => Value::Stream(stream),
        }
    }

    /// Returns the number of elements; for a string, of bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no stored collection is empty")]
    pub fn len(&self) -> u64 {
        match self {
            Value::String(string) => string.len() as u64,
            Value::Hash(hash) => hash.len(),
            Value::Set(set) => set.len(),
            Value::SortedSet(set) => set.len(),
            Value::List(list) => list.len(),
            Value::Stream(stream) => stream.len(),
        }
    }

    /// Returns a shared copy for reading without the latch, if the value is large and shares its
    /// parts.
    #[must_use]
    pub fn share_root(&self) -> Option<SharedValue> {
        let root = match self {
            Value::String(StringValue::Rope(rope)) => RootRef::Rope(rope),
            Value::Hash(HashRef(FormRef::Tree(tree))) => RootRef::Hash(tree),
            Value::Set(SetRef(FormRef::Tree(tree))) => RootRef::Set(tree),
            Value::SortedSet(SortedSetRef(SortedSetForm::Tree(trees))) => RootRef::SortedSet(trees),
            Value::List(ListRef(ListForm::Tree(tree))) => RootRef::List(tree),
            Value::Stream(stream) => RootRef::Stream(stream),
            _ => return None,
        };
        Some(SharedValue(OwnedValue::Root(root.share())))
    }

    /// Returns a copy for reading without the latch. A string's OBJECT ENCODING is not preserved.
    #[must_use]
    pub fn share(&self) -> SharedValue {
        let packed = |encoding, bytes: &[u8]| OwnedValue::Piece(encoding, bytes.into());
        let owned = match self {
            Value::String(StringValue::Int(number)) => OwnedValue::Int(*number),
            Value::String(StringValue::Bytes(bytes)) => packed(Encoding::Bytes, bytes),
            Value::Hash(HashRef(FormRef::Packed(hash))) => {
                packed(Encoding::PackedHash, hash.as_bytes())
            }
            Value::Set(SetRef(FormRef::Packed(set))) => packed(Encoding::PackedSet, set.as_bytes()),
            Value::SortedSet(SortedSetRef(SortedSetForm::Packed(set))) => {
                packed(Encoding::PackedSortedSet, set.as_bytes())
            }
            Value::List(ListRef(ListForm::Packed(list))) => {
                packed(Encoding::PackedList, list.as_bytes())
            }
            root => return root.share_root().unwrap_or(SharedValue(OwnedValue::Int(0))),
        };
        SharedValue(owned)
    }

    /// Returns a collection's memory outside its entry, in bytes.
    #[must_use]
    pub fn collection_bytes_out_of_line(&self) -> usize {
        match self {
            Value::Hash(HashRef(FormRef::Tree(tree))) => RootRef::Hash(tree).bytes(),
            Value::Set(SetRef(FormRef::Tree(tree))) => RootRef::Set(tree).bytes(),
            Value::SortedSet(SortedSetRef(SortedSetForm::Tree(trees))) => {
                RootRef::SortedSet(trees).bytes()
            }
            Value::List(ListRef(ListForm::Tree(tree))) => RootRef::List(tree).bytes(),
            Value::Stream(stream) => RootRef::Stream(stream).bytes(),
            _ => 0,
        }
    }

    /// Returns the value as a set.
    ///
    /// # Errors
    /// The value is of another type.
    pub fn set(self) -> Result<SetRef<'a>, WrongType> {
        match self {
            Value::Set(set) => Ok(set),
            _ => Err(WrongType),
        }
    }

    /// Returns the value as a hash.
    ///
    /// # Errors
    /// The value is of another type.
    pub fn hash(self) -> Result<HashRef<'a>, WrongType> {
        match self {
            Value::Hash(hash) => Ok(hash),
            _ => Err(WrongType),
        }
    }

    /// Returns the value as a sorted set.
    ///
    /// # Errors
    /// The value is of another type.
    pub fn sorted_set(self) -> Result<SortedSetRef<'a>, WrongType> {
        match self {
            Value::SortedSet(set) => Ok(set),
            _ => Err(WrongType),
        }
    }

    /// Returns the value as a list.
    ///
    /// # Errors
    /// The value is of another type.
    pub fn list(self) -> Result<ListRef<'a>, WrongType> {
        match self {
            Value::List(list) => Ok(list),
            _ => Err(WrongType),
        }
    }

    /// Returns the value as a stream.
    ///
    /// # Errors
    /// The value is of another type.
    pub fn stream(self) -> Result<&'a Stream, WrongType> {
        match self {
            Value::Stream(stream) => Ok(stream),
            _ => Err(WrongType),
        }
    }
}

/// A value to be stored.
#[derive(Debug)]
pub(crate) enum NewValue<'a> {
    /// Bytes to be copied into the entry, with a contiguous encoding.
    Piece(Encoding, &'a [u8]),
    Int(i64),
    Root(Root),
}

impl<'a> NewValue<'a> {
    /// Chooses the form of a string. A long one is copied here, before any latch is taken.
    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Self {
        if bytes.len() > CHUNK_BYTES {
            NewValue::rope(Rope::from_bytes(bytes))
        } else {
            NewValue::Piece(Encoding::Bytes, bytes)
        }
    }

    /// Chooses the form of a caller's string.
    pub(crate) fn from_input(given: impl Into<StringInput<'a>>) -> Self {
        match given.into() {
            StringInput::Rope(rope) => NewValue::rope(rope),
            StringInput::Bytes(bytes) => NewValue::from_bytes(bytes),
        }
    }

    /// Returns a collection in either form; the bytes of a packed one are moved to `packed`.
    pub(crate) fn from_collection<C: Collection>(collection: C, packed: &'a mut Vec<u8>) -> Self {
        match collection.into_root() {
            Ok(root) => NewValue::Root(root),
            Err(bytes) => {
                *packed = bytes;
                NewValue::Piece(C::PACKED, packed)
            }
        }
    }

    /// Chooses the form of a string that a change has produced.
    pub(crate) fn changed(bytes: &'a [u8]) -> Self {
        match NewValue::from_bytes(bytes) {
            NewValue::Piece(_, bytes) => NewValue::raw(bytes),
            value => value,
        }
    }

    /// Returns a contiguous string that a change has produced.
    pub(crate) fn raw(bytes: &'a [u8]) -> Self {
        NewValue::Piece(Encoding::Raw, bytes)
    }

    pub(crate) fn rope(rope: Rope) -> Self {
        NewValue::Root(Root::Rope(Box::new(rope)))
    }

    /// Returns the bytes to store in the entry, if the value is contiguous.
    #[inline]
    pub(crate) fn piece(&self) -> Option<&'a [u8]> {
        match self {
            NewValue::Piece(_, bytes) => Some(bytes),
            NewValue::Int(_) | NewValue::Root(_) => None,
        }
    }

    pub(crate) fn encoding(&self) -> Encoding {
        match self {
            NewValue::Piece(encoding, _) => *encoding,
            NewValue::Int(_) => Encoding::Int,
            NewValue::Root(root) => root.encoding(),
        }
    }
}

/// A value that has been copied or taken out of an entry.
#[derive(Debug)]
pub(crate) enum OwnedValue {
    Piece(Encoding, Box<[u8]>),
    Int(i64),
    Root(Root),
}

impl OwnedValue {
    pub(crate) fn as_new(&self) -> NewValue<'_> {
        match self {
            OwnedValue::Piece(encoding, bytes) => NewValue::Piece(*encoding, bytes),
            OwnedValue::Int(value) => NewValue::Int(*value),
            OwnedValue::Root(root) => NewValue::Root(root.share()),
        }
    }
}

/// A value of any type at one moment, for reading without the latch. A large one shares its parts
/// with the keyspace, whose changes copy them.
#[derive(Debug)]
pub struct SharedValue(pub(crate) OwnedValue);

impl SharedValue {
    /// Borrows the value for reading.
    #[must_use]
    pub fn read(&self) -> Value<'_> {
        match &self.0 {
            OwnedValue::Piece(encoding, bytes) => Value::of_piece(*encoding, bytes),
            OwnedValue::Int(value) => Value::String(StringValue::Int(*value)),
            OwnedValue::Root(root) => Value::of_root(root.borrow()),
        }
    }
}

impl Clone for SharedValue {
    fn clone(&self) -> Self {
        SharedValue(match &self.0 {
            OwnedValue::Piece(encoding, bytes) => OwnedValue::Piece(*encoding, bytes.clone()),
            OwnedValue::Int(value) => OwnedValue::Int(*value),
            OwnedValue::Root(root) => OwnedValue::Root(root.share()),
        })
    }
}
