//! Values of any type: as readers see them, on their way in, and between two places.

pub(crate) use crate::value::encoding::Encoding;
pub use crate::value::encoding::Kind;
use crate::value::hash::{HashValue, PackedHash};
use crate::value::root::Root;
use crate::value::rope::Rope;
use crate::value::string::{Given, StringValue};
use nagi_chunk::CHUNK_BYTES;

/// A value is of another type than an operation works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// A value as a reader sees it, for as long as the latch is held.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A string.
    String(StringValue<'a>),
    /// A hash.
    Hash(HashValue<'a>),
}

/// A value on its way into the store.
#[derive(Debug)]
pub(crate) enum NewValue<'a> {
    /// Bytes to be copied into the entry, of an encoding in one piece.
    Piece(Encoding, &'a [u8]),
    Int(i64),
    Root(Root),
}

impl<'a> NewValue<'a> {
    /// Chooses the form for a string; what is long is copied here, before any latch is taken.
    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Self {
        if bytes.len() > CHUNK_BYTES {
            NewValue::rope(Rope::from_bytes(bytes))
        } else {
            NewValue::Piece(Encoding::Bytes, bytes)
        }
    }

    /// The form of what a caller has handed over.
    pub(crate) fn from_given(given: impl Into<Given<'a>>) -> Self {
        match given.into() {
            Given::Rope(rope) => NewValue::rope(rope),
            Given::Bytes(bytes) => NewValue::from_bytes(bytes),
        }
    }

    /// A hash that a caller has handed over.
    pub(crate) fn from_hash(hash: &'a PackedHash) -> Self {
        NewValue::Piece(Encoding::PackedHash, hash.bytes())
    }

    /// The form of a string that comes of a change.
    pub(crate) fn changed(bytes: &'a [u8]) -> Self {
        match NewValue::from_bytes(bytes) {
            NewValue::Piece(_, bytes) => NewValue::raw(bytes),
            value => value,
        }
    }

    /// A string in one piece that comes of a change.
    pub(crate) fn raw(bytes: &'a [u8]) -> Self {
        NewValue::Piece(Encoding::Raw, bytes)
    }

    pub(crate) fn rope(rope: Rope) -> Self {
        NewValue::Root(Root::Rope(Box::new(rope)))
    }

    /// What stands in the entry as it is, if the value is kept in one piece.
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

/// A value between two places.
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
