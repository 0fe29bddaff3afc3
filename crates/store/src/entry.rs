//! What is stored under a key: its value and, where it has them, expiry, memcached flags and CAS.

use crate::rope::{CHUNK_BYTES, Rope};

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

/// A value on its way into the store.
#[derive(Debug)]
pub(crate) enum NewValue<'a> {
    Bytes(&'a [u8]),
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
}

/// An entry as a reader sees it, for as long as the latch is held.
#[derive(Clone, Copy, Debug)]
pub struct EntryView<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) record: &'a Record,
}

/// An entry as it is kept.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) value: Stored,
    pub(crate) attributes: Attributes,
}

/// A value as it is kept.
#[derive(Debug)]
pub(crate) enum Stored {
    Bytes(Box<[u8]>),
    Int(i64),
    Rope(Rope),
}

impl<'a> EntryView<'a> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> Value<'a> {
        match &self.record.value {
            Stored::Bytes(bytes) => Value::Bytes(bytes),
            Stored::Int(value) => Value::Int(*value),
            Stored::Rope(rope) => Value::Rope(rope),
        }
    }

    /// The type of the value.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::String
    }

    /// When it expires, in milliseconds since 1970; `None` for never.
    #[must_use]
    pub fn expire_at_ms(&self) -> Option<u64> {
        self.record.attributes.expire_at_ms
    }

    /// memcached's client flags.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.record.attributes.flags
    }

    /// memcached's unique number of this version, if a `gets` has asked for one.
    #[must_use]
    pub fn cas(&self) -> Option<u64> {
        self.record.attributes.cas
    }
}
