//! Entries encoded for a file by the thread that holds their latch.
//!
//! Workers fill blocks under a shard's latch, so they only copy bytes. The saver thread later
//! compresses the strings that a block marks.

use super::collection::{
    CollectionForm, CollectionHead, Element, ElementSink, ElementText, walk_elements,
};
use super::kind::ValueType;
use super::note::{Memcached, NotesOut};
use super::opcode;
use super::version::Version;
use crate::encoding::{MIN_COMPRESSED_BYTES, encode_integer, encode_spelled_integer};
use crate::length;
use nagi_store::types::restore::Usage;
use nagi_store::{SharedValue, StringValue, Value};
use std::convert::Infallible;
use std::ops::ControlFlow;

/// A key with everything that is saved of it.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value of the key.
    pub value: Value<'a>,
    /// When it expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// The access time or frequency, if the policy uses it. Idle times are saved in seconds.
    pub usage: Option<Usage>,
    /// memcached's metadata.
    pub memcached: Memcached,
}

/// A key whose value is a collection, without its elements.
#[derive(Clone, Copy, Debug)]
pub struct CollectionEntry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The head of the value.
    pub head: CollectionHead,
    /// When it expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// The access time or frequency, as in [`Entry`].
    pub usage: Option<Usage>,
    /// memcached's metadata.
    pub memcached: Memcached,
}

/// The data before a value.
struct Head<'a> {
    key: &'a [u8],
    value_type: ValueType,
    expire_at_ms: Option<u64>,
    usage: Option<Usage>,
    memcached: Memcached,
}

/// A key whose value is too long to be copied under a latch.
#[derive(Clone, Debug)]
pub struct LongEntry {
    pub(super) value: SharedValue,
    /// The encoded data before the value.
    pub(super) head: Block,
}

/// Encoded entries, all of one database.
#[derive(Clone, Debug, Default)]
pub struct Block {
    pub(super) bytes: Vec<u8>,
    /// The strings that may be worth compressing, in order.
    pub(super) strings: Vec<Piece>,
    pub(super) notes: NotesOut,
    pub(super) keys: u64,
    /// The version of the file.
    version: Version,
}

/// The offsets of a string in a block: of its length, of its first byte, and of its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) length_at: usize,
    pub(super) at: usize,
    pub(super) end: usize,
}

impl<'a> Entry<'a> {
    fn head(&self, version: Version) -> Head<'a> {
        let Entry { key, expire_at_ms, usage, memcached, .. } = *self;
        let head = CollectionHead::of(&self.value, version);
        let value_type = head.map_or(ValueType::String, |head| head.form.value_type());
        Head { key, value_type, expire_at_ms, usage, memcached }
    }
}

impl ElementSink for Block {
    type Error = Infallible;

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn text(&mut self, text: &ElementText<'_>) -> Result<(), Infallible> {
        match text {
            ElementText::Int(number) => self.push_int(*number),
            ElementText::Bytes(bytes) => self.push_text(bytes),
            ElementText::Long(_) => self.push_plain(&text.to_vec()),
        }
        Ok(())
    }
}

impl Block {
    /// Creates a block for a file of this version.
    #[must_use]
    pub fn of_version(version: Version) -> Self {
        Block { version, ..Block::default() }
    }

    /// Appends a collection, all of whose elements must follow.
    pub fn push_collection(&mut self, entry: &CollectionEntry<'_>) {
        let CollectionEntry { key, head, expire_at_ms, usage, memcached } = *entry;
        let value_type = head.form.value_type();
        self.push_head(&Head { key, value_type, expire_at_ms, usage, memcached });
        let Ok(()) = head.encode(self);
    }

    /// Appends the next element of the last collection, which has this form. Long elements are
    /// copied, unlike in [`super::Writer::element`].
    pub fn push_element(&mut self, form: CollectionForm, element: &Element<'_>) {
        let Ok(()) = form.encode(element, self);
    }

    /// Appends an entry. A large value is not copied: it is returned as an entry that shares its
    /// parts, for [`super::Writer::long`].
    pub fn push(&mut self, entry: &Entry<'_>) -> Option<LongEntry> {
        if let Some(value) = entry.value.share_root() {
            let mut head = Block::default();
            head.push_head(&entry.head(self.version));
            return Some(LongEntry { value, head });
        }
        self.push_head(&entry.head(self.version));
        match entry.value {
            Value::String(StringValue::Int(number)) => self.push_int(number),
            Value::String(StringValue::Bytes(bytes)) => self.push_text(bytes),
            Value::String(StringValue::Rope(_)) => {}
            collection => self.push_elements(collection),
        }
        None
    }

    /// Appends the elements of a small collection, which is stored in its entry.
    fn push_elements(&mut self, value: Value<'_>) {
        let Some(head) = CollectionHead::of(&value, self.version) else { return };
        let Ok(()) = head.encode(self);
        walk_elements(value, 0, |element| {
            self.push_element(head.form, element);
            ControlFlow::<()>::Continue(())
        });
    }

    /// Appends the metadata of a key, its type and the key.
    fn push_head(&mut self, entry: &Head<'_>) {
        if let Some(at_ms) = entry.expire_at_ms {
            self.bytes.push(opcode::EXPIRY_MS);
            // The format's times are signed.
            let at_ms = i64::try_from(at_ms).unwrap_or(i64::MAX);
            self.bytes.extend_from_slice(&at_ms.to_le_bytes());
        }
        match entry.usage {
            Some(Usage::IdleMs(idle_ms)) => {
                self.bytes.push(opcode::IDLE);
                length::write(&mut self.bytes, idle_ms / 1000);
            }
            Some(Usage::Frequency(counter)) => {
                self.bytes.extend_from_slice(&[opcode::FREQUENCY, counter]);
            }
            None => {}
        }
        self.bytes.push(entry.value_type.number());
        self.push_text(entry.key);
        self.notes.push(&entry.memcached);
        self.keys += 1;
    }

    fn push_int(&mut self, number: i64) {
        if !encode_integer(&mut self.bytes, number) {
            self.push_plain(itoa::Buffer::new().format(number).as_bytes());
        }
    }

    /// Appends a string, as an integer if it is the canonical form of a short one.
    fn push_text(&mut self, text: &[u8]) {
        if !encode_spelled_integer(&mut self.bytes, text) {
            self.push_plain(text);
        }
    }

    fn push_plain(&mut self, text: &[u8]) {
        let length_at = self.bytes.len();
        length::write(&mut self.bytes, text.len() as u64);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(text);
        if text.len() >= MIN_COMPRESSED_BYTES {
            self.strings.push(Piece { length_at, at, end: self.bytes.len() });
        }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.notes.bytes.len()
    }

    /// Whether nothing was appended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Empties it, and keeps its memory for reuse.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.strings.clear();
        self.notes.clear();
        self.keys = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_store::types::collection::{Limits, NewCollections, NewElement};
    use nagi_store::types::restore::Known;
    use nagi_store::{Kind, Store, StoreOptions, Text};

    #[test]
    fn hash_is_written_as_a_count_and_strings() {
        let fields = [(&b"field"[..], &b"value"[..]), (b"n", b"12")];
        let (store, known) = (Store::new(&StoreOptions::default()), Known::default());
        let counters = store.counters(0);
        let db = store.database(0, &counters, 1);
        let new = NewCollections::new(&store, Limits::default());
        let mut hash = new.begin(Kind::Hash).unwrap();
        for (name, value) in fields {
            let pair = (&Text::new(name), &Text::new(value));
            assert_eq!(hash.add(NewElement::Field(pair.0, pair.1, None)), Ok(true));
        }
        assert!(db.load_collection(db.key(b"h"), hash, &known));
        let mut block = Block::default();
        db.get(db.key(b"h"), |entry| {
            let value = entry.unwrap().value();
            let (expire_at_ms, usage, memcached) = (None, None, Memcached::default());
            let entry = Entry { key: b"h", value, expire_at_ms, usage, memcached };
            assert!(block.push(&entry).is_none());
        });
        assert_eq!(block.bytes, b"\x04\x01h\x02\x05field\x05value\x01n\xc0\x0c");
    }
}
