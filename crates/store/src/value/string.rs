//! Strings as arguments, and as returned to readers.

use crate::value::rope::Rope;

/// A string as returned to a reader, borrowed while the latch is held.
#[derive(Clone, Copy, Debug)]
pub enum StringValue<'a> {
    /// A contiguous string.
    Bytes(&'a [u8]),
    /// A string that is the canonical form of an integer.
    Int(i64),
    /// A long string.
    Rope(&'a Rope),
}

impl StringValue<'_> {
    /// Returns the length of the string in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            StringValue::Bytes(bytes) => bytes.len(),
            StringValue::Int(value) => itoa::Buffer::new().format(*value).len(),
            StringValue::Rope(rope) => rope.len(),
        }
    }

    /// Whether the string is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Passes the string to `take` as one slice, assembling it first if it consists of chunks.
    pub fn with_bytes<R>(&self, take: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            StringValue::Bytes(bytes) => take(bytes),
            StringValue::Int(value) => take(itoa::Buffer::new().format(*value).as_bytes()),
            StringValue::Rope(rope) => {
                let mut bytes = Vec::with_capacity(rope.len());
                rope.copy_range(0..rope.len(), &mut bytes);
                take(&bytes)
            }
        }
    }
}

/// A string that a caller hands over to be stored.
#[derive(Debug)]
pub enum StringInput<'a> {
    /// A contiguous string, which is copied.
    Bytes(&'a [u8]),
    /// A string in chunks, which are stored without a copy: more than
    /// [`CHUNK_BYTES`](crate::CHUNK_BYTES).
    Rope(Rope),
}

impl StringInput<'_> {
    /// Returns the length of the string in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            StringInput::Bytes(bytes) => bytes.len(),
            StringInput::Rope(rope) => rope.len(),
        }
    }

    /// Whether the string is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> From<&'a [u8]> for StringInput<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        StringInput::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for StringInput<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        StringInput::Bytes(bytes)
    }
}

impl<'a, const LEN: usize> From<&'a [u8; LEN]> for StringInput<'a> {
    fn from(bytes: &'a [u8; LEN]) -> Self {
        StringInput::Bytes(bytes)
    }
}
