//! Values as they come in, and as readers see them.

use crate::value::rope::{CHUNK_BYTES, Rope};

/// The type of a value, by the name that TYPE gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string, of whatever encoding.
    String,
}

impl Kind {
    /// Redis' name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
        }
    }
}

/// How an entry keeps its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Encoding {
    /// In one piece, as it was stored.
    Bytes = 0,
    /// In one piece, and changed since or made by changes: OBJECT ENCODING tells them apart.
    Raw = 1,
    /// In one piece, and no number to OBJECT ENCODING even where it reads like one.
    Text = 2,
    Int = 3,
    Rope = 4,
}

/// A value as a reader sees it, for as long as the latch is held.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A string in one piece.
    Bytes(&'a [u8]),
    /// A string that is the canonical spelling of an integer.
    Int(i64),
    /// A long string.
    Rope(&'a Rope),
}

impl Value<'_> {
    /// Length of the string in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Value::Bytes(bytes) => bytes.len(),
            Value::Int(value) => itoa::Buffer::new().format(*value).len(),
            Value::Rope(rope) => rope.len(),
        }
    }

    /// Whether the string is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands the string to `take` in one piece, assembling it first if it lies in several.
    pub fn with_bytes<R>(&self, take: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Value::Bytes(bytes) => take(bytes),
            Value::Int(value) => take(itoa::Buffer::new().format(*value).as_bytes()),
            Value::Rope(rope) => {
                let mut bytes = Vec::with_capacity(rope.len());
                rope.copy_range(0..rope.len(), &mut bytes);
                take(&bytes)
            }
        }
    }
}

/// A string that a caller hands over to be kept.
#[derive(Debug)]
pub enum Given<'a> {
    /// In one piece, to be copied.
    Bytes(&'a [u8]),
    /// In chunks, to be kept as they are: more than [`CHUNK_BYTES`].
    Rope(Rope),
}

impl Given<'_> {
    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Given::Bytes(bytes) => bytes.len(),
            Given::Rope(rope) => rope.len(),
        }
    }

    /// Whether there is no byte at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> From<&'a [u8]> for Given<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Given::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Given<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Given::Bytes(bytes)
    }
}

impl<'a, const LEN: usize> From<&'a [u8; LEN]> for Given<'a> {
    fn from(bytes: &'a [u8; LEN]) -> Self {
        Given::Bytes(bytes)
    }
}

/// A value on its way into the store.
#[derive(Debug)]
pub(crate) enum NewValue<'a> {
    Bytes(&'a [u8]),
    Raw(&'a [u8]),
    Text(&'a [u8]),
    Int(i64),
    Rope(Rope),
}

impl<'a> NewValue<'a> {
    /// Chooses the form for a string; what is long is copied here, before any latch is taken.
    pub(crate) fn from_bytes(bytes: &'a [u8]) -> Self {
        if bytes.len() > CHUNK_BYTES {
            NewValue::Rope(Rope::from_bytes(bytes))
        } else {
            NewValue::Bytes(bytes)
        }
    }

    /// The form of what a caller has handed over.
    pub(crate) fn from_given(given: impl Into<Given<'a>>) -> Self {
        match given.into() {
            Given::Rope(rope) => NewValue::Rope(rope),
            Given::Bytes(bytes) => NewValue::from_bytes(bytes),
        }
    }

    /// The same for a string that comes of a change.
    pub(crate) fn changed(bytes: &'a [u8]) -> Self {
        match NewValue::from_bytes(bytes) {
            NewValue::Bytes(bytes) => NewValue::Raw(bytes),
            value => value,
        }
    }

    pub(crate) fn encoding(&self) -> Encoding {
        match self {
            NewValue::Bytes(_) => Encoding::Bytes,
            NewValue::Raw(_) => Encoding::Raw,
            NewValue::Text(_) => Encoding::Text,
            NewValue::Int(_) => Encoding::Int,
            NewValue::Rope(_) => Encoding::Rope,
        }
    }
}

/// A value between two places.
#[derive(Debug)]
pub(crate) enum OwnedValue {
    Bytes(Box<[u8]>),
    Raw(Box<[u8]>),
    Text(Box<[u8]>),
    Int(i64),
    Rope(Rope),
}

impl OwnedValue {
    pub(crate) fn as_new(&self) -> NewValue<'_> {
        match self {
            OwnedValue::Bytes(bytes) => NewValue::Bytes(bytes),
            OwnedValue::Raw(bytes) => NewValue::Raw(bytes),
            OwnedValue::Text(bytes) => NewValue::Text(bytes),
            OwnedValue::Int(value) => NewValue::Int(*value),
            OwnedValue::Rope(rope) => NewValue::Rope(rope.clone()),
        }
    }
}

/// What an entry has beside its value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes {
    /// When it expires, in milliseconds since 1970.
    pub(crate) expire_at_ms: Option<u64>,
    /// memcached's client flags.
    pub(crate) flags: u32,
    /// memcached's unique number of this version; absent until a `gets` asks for it.
    pub(crate) cas: Option<u64>,
    /// What memcached's clients have been told of this version.
    pub(crate) marks: Marks,
}

/// What memcached's clients have been told of a version of an entry. A value that is stored
/// begins without marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// It has been read since it was stored.
    pub fetched: bool,
    /// It was declared out of date, and is still given out until somebody replaces it.
    pub stale: bool,
    /// One client has been told that it is the one to replace the value.
    pub won: bool,
}
