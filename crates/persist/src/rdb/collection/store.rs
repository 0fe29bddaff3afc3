//! Collections of the store: building them from files, and iterating over them for writing.

use super::builder::{Builder, Builders, Rejected};
use super::{CollectionForm, CollectionHead, CollectionType, Element, ElementText};
use crate::rdb::kind::ValueType;
use crate::rdb::version::Version;
use nagi_store::types::collection::{NewCollection, NewCollections, NewElement};
use nagi_store::{Kind, StreamBuilder, StringInput, StringValue, Text, Value};
use std::ops::ControlFlow;

/// Builds collections for a store.
#[derive(Clone, Debug)]
pub struct StoreBuilders(pub NewCollections);

/// A collection under construction.
#[derive(Debug)]
pub struct StoreBuilder(Making);

#[derive(Debug)]
enum Making {
    Elements(NewCollection),
    Stream(Box<StreamBuilder>, NewCollections),
}

impl Builders for StoreBuilders {
    type Value = NewCollection;
    type Builder = StoreBuilder;

    fn begin(&self, collection: CollectionType, _: Option<u64>) -> Option<StoreBuilder> {
        let kind = match collection {
            CollectionType::List => Kind::List,
            CollectionType::Set => Kind::Set,
            CollectionType::SortedSet => Kind::SortedSet,
            CollectionType::Hash => Kind::Hash,
            CollectionType::Stream => {
                return Some(StoreBuilder(Making::Stream(Box::default(), self.0.clone())));
            }
        };
        self.0.begin(kind).map(Making::Elements).map(StoreBuilder)
    }
}

impl Builder for StoreBuilder {
    type Value = NewCollection;

    fn add(&mut self, element: Element<'_>) -> Result<(), Rejected> {
        let collection = match (&mut self.0, &element) {
            (Making::Elements(collection), _) => collection,
            (Making::Stream(stream, _), Element::Part(part)) => {
                return if stream.add(*part) { Ok(()) } else { Err(Rejected::Duplicate) };
            }
            (Making::Stream(..), _) => return Err(Rejected::Unsupported),
        };
        let is_new = match element {
            Element::Item(item) => with_value(item, |item| collection.add(NewElement::Item(item))),
            Element::Member(member) => {
                with_text(member, |member| collection.add(NewElement::Member(member)))
            }
            Element::Scored(member, score) => {
                with_text(member, |member| collection.add(NewElement::Scored(member, score)))
            }
            Element::Field { name, value, expire_at_ms } => with_text(name, |name| {
                with_value(value, |value| {
                    collection.add(NewElement::Field(name, value, expire_at_ms))
                })
            }),
            Element::Part(_) => return Err(Rejected::Unsupported),
        };
        match is_new {
            Ok(true) => Ok(()),
            Ok(false) => Err(Rejected::Duplicate),
            Err(_) => Err(Rejected::Unsupported),
        }
    }

    fn end(self) -> NewCollection {
        match self.0 {
            Making::Elements(collection) => collection,
            // All of its parts have been added, and each was consistent.
            Making::Stream(stream, new) => new.stream(stream.end().unwrap_or_default()),
        }
    }
}

/// Calls `take` with a text in the form that the store looks up: contiguous.
fn with_text<R>(text: ElementText<'_>, take: impl FnOnce(&Text<'_>) -> R) -> R {
    match text {
        long @ ElementText::Long(_) => take(&Text::to_store(&long.to_vec())),
        text => with_value(text, take),
    }
}

/// Calls `take` with a text that is not looked up, and so may stay in chunks.
fn with_value<R>(text: ElementText<'_>, take: impl FnOnce(&Text<'_>) -> R) -> R {
    match text {
        ElementText::Int(number) => {
            take(&Text::to_store(itoa::Buffer::new().format(number).as_bytes()))
        }
        ElementText::Bytes(bytes) => take(&Text::to_store(bytes)),
        ElementText::Long(rope) => take(&Text::from_input(StringInput::Rope(rope))),
    }
}

impl CollectionHead {
    /// Returns the head of a value for a file of this version, unless it is a string.
    pub(crate) fn of(value: &Value<'_>, version: Version) -> Option<Self> {
        let collection = match value {
            Value::String(_) => return None,
            Value::Hash(hash) => match hash.earliest_ms() {
                None => CollectionType::Hash,
                Some(earliest_ms) => {
                    let form = match version {
                        Version::Valkey(_) => CollectionForm::ExpiringFieldsOfValkey,
                        Version::Redis(_) => CollectionForm::ExpiringFields { earliest_ms },
                    };
                    return Some(CollectionHead { form, len: value.len() });
                }
            },
            Value::Set(_) => CollectionType::Set,
            Value::SortedSet(_) => CollectionType::SortedSet,
            Value::List(_) => CollectionType::List,
            Value::Stream(stream) => {
                let form = match version.holds(ValueType::Stream3) && stream.has_consumers() {
                    true => CollectionForm::StreamWithConsumers,
                    false => CollectionForm::Plain(CollectionType::Stream),
                };
                return Some(CollectionHead { form, len: stream.nodes() });
            }
        };
        Some(CollectionHead { form: CollectionForm::Plain(collection), len: value.len() })
    }
}

fn text(string: StringValue<'_>) -> ElementText<'_> {
    match string {
        StringValue::Int(number) => ElementText::Int(number),
        StringValue::Bytes(bytes) => ElementText::Bytes(bytes),
        StringValue::Rope(rope) => ElementText::Long(rope.clone()),
    }
}

/// Visits the elements of a collection from a rank on, until `visit` breaks. A string has none.
pub(crate) fn walk_elements<B>(
    value: Value<'_>,
    rank: u64,
    mut visit: impl FnMut(&Element<'_>) -> ControlFlow<B>,
) -> Option<B> {
    match value {
        Value::String(_) => None,
        Value::Hash(hash) => hash.walk(rank, |field| {
            let (name, value) = (text(field.name), text(field.value));
            visit(&Element::Field { name, value, expire_at_ms: field.expires_at_ms })
        }),
        Value::Set(set) => set.walk(rank, |member| visit(&Element::Member(text(member)))),
        Value::SortedSet(set) => {
            set.walk(rank, |member| visit(&Element::Scored(text(member.name), member.score)))
        }
        Value::List(list) => list.walk(rank, |item| visit(&Element::Item(text(item)))),
        Value::Stream(stream) => stream.walk_parts(rank, |part| visit(&Element::Part(part))),
    }
}
