//! The interface for building collections: elements are added one by one, and the complete value is
//! stored under its key.

use super::decoder::Elements;
use super::{CollectionType, Element};
use crate::rdb::fault::Fault;
use crate::rdb::input::Input;
use crate::rdb::kind::ValueType;
use std::convert::Infallible;
use std::io::Read;

/// Why an element is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The member or field exists already, or a part of a stream is inconsistent with earlier
    /// parts.
    Duplicate,
    /// Values of this type are not supported.
    Unsupported,
}

/// Builds a collection.
pub trait Builder {
    /// The result.
    type Value;

    /// Adds an element, of the type with which the value began.
    ///
    /// # Errors
    /// The element is rejected; then the value is dropped.
    fn add(&mut self, element: Element<'_>) -> Result<(), Rejected>;

    /// Returns the value, which has at least one element.
    fn end(self) -> Self::Value;
}

/// Creates builders, on any thread and several at a time.
pub trait Builders: Sync {
    /// The result of the builders.
    type Value: Send;
    /// The type of the builders.
    type Builder: Builder<Value = Self::Value>;

    /// Begins a value of a type, with `expected` elements according to the file, which is not
    /// verified; `None` if values of this type are not supported.
    fn begin(&self, collection: CollectionType, expected: Option<u64>) -> Option<Self::Builder>;
}

/// Supports no collections.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCollections;

impl Builders for NoCollections {
    type Value = Infallible;
    type Builder = Infallible;

    fn begin(&self, _: CollectionType, _: Option<u64>) -> Option<Infallible> {
        None
    }
}

impl Builder for Infallible {
    type Value = Infallible;

    fn add(&mut self, _: Element<'_>) -> Result<(), Rejected> {
        match *self {}
    }

    fn end(self) -> Infallible {
        self
    }
}

/// The transfer of a value from a file to a builder.
pub(crate) struct Build<B> {
    elements: Elements,
    builder: B,
    value_type: ValueType,
    offset: u64,
}

impl<B: Builder> Build<B> {
    /// Begins with a value.
    pub(crate) fn begin<R: Read>(
        input: &mut Input<R>,
        value_type: ValueType,
        builders: &impl Builders<Builder = B>,
    ) -> Result<Self, Fault> {
        let offset = input.offset();
        let unsupported = || Fault::unsupported(offset, value_type);
        let elements = Elements::begin(input, value_type)?.ok_or_else(unsupported)?;
        let builder = builders.begin(elements.collection(), elements.expected());
        let builder = builder.ok_or_else(unsupported)?;
        Ok(Build { elements, builder, value_type, offset })
    }

    /// Adds elements of about `bytes` bytes. Returns whether there may be more.
    pub(crate) fn go_on<R: Read>(
        &mut self,
        input: &mut Input<R>,
        bytes: u64,
    ) -> Result<bool, Fault> {
        /// The minimum size at which an element counts, because of the time that it takes.
        const MIN_BYTES: u64 = 64;
        let mut left = bytes;
        while left > 0 {
            let Some(element) = self.elements.next(input)? else { return Ok(false) };
            left = left.saturating_sub(element.bytes().max(MIN_BYTES));
            let added = self.builder.add(element);
            added.map_err(|rejected| match rejected {
                Rejected::Duplicate => self.elements.duplicate(),
                Rejected::Unsupported => Fault::unsupported(self.offset, self.value_type),
            })?;
        }
        Ok(true)
    }

    /// Returns the value, unless it is empty: Redis stores no empty collections.
    pub(crate) fn end(self) -> Option<B::Value> {
        (self.elements.found() > 0).then(|| self.builder.end())
    }
}

/// Builds a complete value; `None` if it is empty.
pub(in crate::rdb) fn build<R: Read, B: Builders>(
    input: &mut Input<R>,
    value_type: ValueType,
    builders: &B,
) -> Result<Option<B::Value>, Fault> {
    let mut build = Build::begin(input, value_type, builders)?;
    while build.go_on(input, u64::MAX)? {}
    Ok(build.end())
}
