//! Lists, sets, sorted sets, hashes and streams in files, read and written one element at a time,
//! so that whole values need not be in memory.

mod blob;
mod builder;
mod decoder;
mod encoder;
mod extent;
mod packed;
mod store;
mod stream;
mod text;

pub(crate) use builder::Build;
pub(super) use builder::build;
pub use builder::{Builder, Builders, NoCollections, Rejected};
pub(super) use decoder::Elements;
pub(crate) use encoder::ElementSink;
pub use encoder::{CollectionForm, CollectionHead};
pub(super) use extent::extent;
pub(super) use packed::Entries;
pub(crate) use store::walk_elements;
pub use store::{StoreBuilder, StoreBuilders};
pub(super) use text::TextBuffer;

use nagi_store::{Rope, StreamPart};

/// The types of values that consist of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectionType {
    /// Elements in insertion order.
    List,
    /// Distinct members.
    Set,
    /// Distinct members, each with a score.
    SortedSet,
    /// Fields, each with a value.
    Hash,
    /// Entries with ids, and groups that read them.
    Stream,
}

/// The bytes of an element, or of a part such as a field's name.
#[derive(Clone, Debug)]
pub enum ElementText<'a> {
    /// An integer, which stands for its canonical form; the same bytes may also occur as `Bytes`.
    Int(i64),
    /// Contiguous, of at most [`nagi_store::CHUNK_BYTES`].
    Bytes(&'a [u8]),
    /// A string longer than [`nagi_store::CHUNK_BYTES`].
    Long(Rope),
}

/// One element of a collection.
#[derive(Clone, Debug)]
pub enum Element<'a> {
    /// The next element of a list, from head to tail.
    Item(ElementText<'a>),
    /// A member of a set.
    Member(ElementText<'a>),
    /// A member of a sorted set and its score, which is not NaN.
    Scored(ElementText<'a>, f64),
    /// A field of a hash.
    Field {
        /// The field's name.
        name: ElementText<'a>,
        /// The field's value.
        value: ElementText<'a>,
        /// The field's expiry in milliseconds since 1970, which may have passed.
        expire_at_ms: Option<u64>,
    },
    /// The next part of a stream.
    Part(StreamPart<'a>),
}

impl ElementText<'_> {
    /// Returns the length of the text in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            ElementText::Int(number) => itoa::Buffer::new().format(*number).len(),
            ElementText::Bytes(bytes) => bytes.len(),
            ElementText::Long(rope) => rope.len(),
        }
    }

    /// Whether the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a contiguous copy.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            ElementText::Int(number) => itoa::Buffer::new().format(*number).as_bytes().to_vec(),
            ElementText::Bytes(bytes) => bytes.to_vec(),
            ElementText::Long(rope) => {
                let mut bytes = Vec::with_capacity(rope.len());
                rope.copy_range(0..rope.len(), &mut bytes);
                bytes
            }
        }
    }
}

impl Element<'_> {
    /// Returns the bytes of the element's strings, plus eight for a score or a time.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Element::Item(text) | Element::Member(text) => text.len(),
            Element::Scored(member, _) => member.len() + 8,
            Element::Part(part) => bytes_of_part(part),
            Element::Field { name, value, expire_at_ms } => {
                name.len() + value.len() + if expire_at_ms.is_some() { 8 } else { 0 }
            }
        };
        bytes as u64
    }
}

/// Returns the bytes of a part: those of its strings and ids, plus eight for each time.
fn bytes_of_part(part: &StreamPart<'_>) -> usize {
    match part {
        StreamPart::Node { listpack, .. } => 16 + listpack.len(),
        StreamPart::Head { .. } | StreamPart::Consumers(_) => 0,
        StreamPart::Group { name, .. } => name.len(),
        StreamPart::Pending { .. } => 24,
        StreamPart::Consumer { name, .. } => name.len() + 8,
        StreamPart::Owned(_) => 16,
    }
}
