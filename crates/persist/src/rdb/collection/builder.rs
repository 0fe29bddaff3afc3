//! The interface for building collections: elements are added one by one, and the complete value is
//! stored under its key.

use super::decoder::Elements;
use super::{CollectionType, Element};
use crate::rdb::fault::Fault;
use crate::rdb::input::Input;
use crate::rdb::kind::ValueType;
use std::convert::Infallible;
use std::io::Read;

/// Why an element is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The member or field is there already, or a part of a stream does not fit those before.
    Duplicate,
    /// Such a value cannot be kept.
    Unsupported,
}

/// A collection that is being made.
pub trait Builder {
    /// What becomes of it.
    type Value;

    /// Adds an element, of the type that the value began with.
    ///
    /// # Errors
    /// If it cannot be added; then the value is given up.
    fn add(&mut self, element: Element<'_>) -> Result<(), Rejected>;

    /// The value, of at least one element.
    fn end(self) -> Self::Value;
}

/// Makes collections, on any thread and several at a time.
pub trait Builders: Sync {
    /// What they become.
    type Value: Send;
    /// What makes one.
    type Builder: Builder<Value = Self::Value>;

    /// Begins a value of a type, of `expected` elements if the file says so, which is unverified;
    /// nothing where values of this type cannot be kept.
    fn begin(&self, collection: CollectionType, expected: Option<u64>) -> Option<Self::Builder>;
}

/// Keeps none.
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

/// A value on its way out of a file into a builder.
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

    /// Adds elements until they have so many bytes. Returns whether there may be more.
    pub(crate) fn go_on<R: Read>(
        &mut self,
        input: &mut Input<R>,
        bytes: u64,
    ) -> Result<bool, Fault> {
        /// What an element takes at least, in time if not in bytes.
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

    /// The value, unless it is empty, which none is that Redis keeps.
    pub(crate) fn end(self) -> Option<B::Value> {
        (self.elements.found() > 0).then(|| self.builder.end())
    }
}

/// Makes what the builders make of a value; nothing if it is empty.
pub(in crate::rdb) fn build<R: Read, B: Builders>(
    input: &mut Input<R>,
    value_type: ValueType,
    builders: &B,
) -> Result<Option<B::Value>, Fault> {
    let mut build = Build::begin(input, value_type, builders)?;
    while build.go_on(input, u64::MAX)? {}
    Ok(build.end())
}
