//! Encodes collections as a count and the elements, in types that every version can read. Only
//! fields that expire and consumers of streams need newer types.

use super::{CollectionType, Element, ElementText};
use crate::length;
use crate::rdb::kind::ValueType;
use nagi_store::{CHUNK_BYTES, Rope, StreamId, StreamPart};

/// The form of a collection to write, and its number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionHead {
    /// Its form.
    pub form: CollectionForm,
    /// The number of elements that follow; for streams, the number of nodes, which are the first
    /// parts.
    pub len: u64,
}

/// The forms in which collections are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionForm {
    /// A form that every version can read. No field of a hash expires.
    Plain(CollectionType),
    /// A hash with fields that expire, for Redis' versions from 12 on.
    ExpiringFields {
        /// The earliest expiry of a field, in milliseconds since 1970.
        earliest_ms: u64,
    },
    /// A hash with fields that expire, for Valkey's own versions.
    ExpiringFieldsOfValkey,
    /// A stream with the times at which its consumers last received an entry, for versions from 11
    /// on.
    StreamWithConsumers,
}

impl CollectionForm {
    /// Returns the type with which such a value is written.
    #[must_use]
    pub fn value_type(self) -> ValueType {
        match self {
            CollectionForm::Plain(CollectionType::List) => ValueType::List,
            CollectionForm::Plain(CollectionType::Set) => ValueType::Set,
            CollectionForm::Plain(CollectionType::SortedSet) => ValueType::SortedSet2,
            CollectionForm::Plain(CollectionType::Hash) => ValueType::Hash,
            CollectionForm::Plain(CollectionType::Stream) => ValueType::Stream2,
            CollectionForm::ExpiringFields { .. } => ValueType::HashExpiring,
            CollectionForm::ExpiringFieldsOfValkey => ValueType::HashExpiringOfValkey,
            CollectionForm::StreamWithConsumers => ValueType::Stream3,
        }
    }
}

/// The destination of an encoded collection.
pub(crate) trait ElementSink {
    /// The error if writing fails.
    type Error;

    /// Writes bytes unchanged.
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Writes a string in its shortest form.
    fn text(&mut self, text: &ElementText<'_>) -> Result<(), Self::Error>;
}

impl CollectionHead {
    /// Writes the data between the key and the first element.
    pub(crate) fn encode<S: ElementSink>(&self, sink: &mut S) -> Result<(), S::Error> {
        if let CollectionForm::ExpiringFields { earliest_ms } = self.form {
            sink.bytes(&earliest_ms.to_le_bytes())?;
        }
        number(self.len, sink)
    }
}

impl CollectionForm {
    /// Writes the next element.
    pub(crate) fn encode<S: ElementSink>(
        self,
        element: &Element<'_>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        match element {
            Element::Item(text) | Element::Member(text) => sink.text(text),
            Element::Part(part) => {
                encode_part(part, self == CollectionForm::StreamWithConsumers, sink)
            }
            Element::Scored(member, score) => {
                sink.text(member)?;
                sink.bytes(&score.to_le_bytes())
            }
            Element::Field { name, value, expire_at_ms } => {
                if let CollectionForm::ExpiringFields { earliest_ms } = self {
                    // The first has 1, because 0 is for fields that do not expire.
                    let after = |at_ms: u64| at_ms.saturating_sub(earliest_ms).saturating_add(1);
                    number(expire_at_ms.map_or(0, after), sink)?;
                }
                sink.text(name)?;
                sink.text(value)?;
                if self == CollectionForm::ExpiringFieldsOfValkey {
                    let at_ms = expire_at_ms.and_then(|at_ms| i64::try_from(at_ms).ok());
                    sink.bytes(&at_ms.unwrap_or(-1).to_le_bytes())?;
                }
                Ok(())
            }
        }
    }
}

fn number<S: ElementSink>(number: u64, sink: &mut S) -> Result<(), S::Error> {
    let mut bytes = Vec::with_capacity(9);
    length::write(&mut bytes, number);
    sink.bytes(&bytes)
}

/// Written if the number of entries that a group has read is not known.
const UNKNOWN: u64 = u64::MAX;

fn bytes_of(id: StreamId) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

/// Writes the next part, in the second format, or in the third, which contains when a consumer last
/// received an entry.
fn encode_part<S: ElementSink>(
    part: &StreamPart<'_>,
    has_active_times: bool,
    sink: &mut S,
) -> Result<(), S::Error> {
    let numbers = |sink: &mut S, all: &[u64]| all.iter().try_for_each(|it| number(*it, sink));
    match *part {
        StreamPart::Node { first, listpack } => {
            sink.text(&ElementText::Bytes(&bytes_of(first)))?;
            sink.text(&match listpack.len() {
                ..=CHUNK_BYTES => ElementText::Bytes(listpack),
                _ => ElementText::Long(Rope::from_bytes(listpack)),
            })
        }
        StreamPart::Head { len, last_id, first_id, max_deleted_id, entries_added, groups } => {
            numbers(sink, &[len, last_id.ms, last_id.seq, first_id.ms, first_id.seq])?;
            let added = entries_added.unwrap_or(len);
            numbers(sink, &[max_deleted_id.ms, max_deleted_id.seq, added, groups])
        }
        StreamPart::Group { name, last_id, entries_read, pending } => {
            sink.text(&ElementText::Bytes(name))?;
            let entries_read = entries_read.unwrap_or(UNKNOWN);
            numbers(sink, &[last_id.ms, last_id.seq, entries_read, pending])
        }
        StreamPart::Pending { id, delivered_ms, deliveries } => {
            sink.bytes(&bytes_of(id))?;
            sink.bytes(&delivered_ms.to_le_bytes())?;
            number(deliveries, sink)
        }
        StreamPart::Consumers(count) => number(count, sink),
        StreamPart::Consumer { name, seen_ms, active_ms, pending } => {
            sink.text(&ElementText::Bytes(name))?;
            sink.bytes(&seen_ms.to_le_bytes())?;
            if has_active_times {
                let at_ms = active_ms.and_then(|at_ms| i64::try_from(at_ms).ok());
                sink.bytes(&at_ms.unwrap_or(-1).to_le_bytes())?;
            }
            number(pending, sink)
        }
        StreamPart::Owned(id) => sink.bytes(&bytes_of(id)),
    }
}
