//! Decodes the elements of collections in all encodings that Redis and Valkey have written.

use super::packed::Entries;
use super::stream::StreamParts;
use super::text::{TextBuffer, parse_score};
use super::{CollectionType, Element};
use crate::rdb::fault::{Fault, Found};
use crate::rdb::input::Input;
use crate::rdb::kind::{Layout, Packing, ValueType};
use std::io::Read;

const COUNT: &str = "a number of elements";
const ELEMENT: &str = "an element";
const FIELD_VALUE: &str = "the value of a field";
const SCORE: &str = "a score";
const TIME: &str = "a time at which a field expires";
const NODE: &str = "a list's node, plain or packed";
const PLAIN_NODE: &str = "an element of a list in a node of its own";

/// The latest expiry of a field that Redis accepts in a file, in milliseconds since 1970.
const LATEST_MS: u64 = (1 << 48) - 1;

/// The remaining elements of a value.
pub(in crate::rdb) struct Elements {
    collection: CollectionType,
    layout: Layout,
    /// The number of elements or nodes left, if a count precedes them.
    left: u64,
    /// The offset of the value.
    offset: u64,
    /// The string that contains the next elements.
    entries: Option<Entries>,
    /// The base of expiry times; arbitrary if no field expires.
    earliest_ms: i64,
    expected: Option<u64>,
    found: u64,
    /// The parts of a stream.
    parts: Option<StreamParts>,
    // The parts of the last element.
    name: TextBuffer,
    value: TextBuffer,
    score: f64,
    expire_at_ms: Option<u64>,
}

impl Elements {
    /// Reads the data before the first element; `None` if the type is not a collection.
    pub(in crate::rdb) fn begin<R: Read>(
        input: &mut Input<R>,
        value_type: ValueType,
    ) -> Result<Option<Self>, Fault> {
        let Some(collection) = value_type.collection() else { return Ok(None) };
        let mut elements = Elements {
            collection,
            layout: value_type.layout(),
            left: 0,
            offset: input.offset(),
            entries: None,
            earliest_ms: 0,
            expected: None,
            found: 0,
            parts: None,
            name: TextBuffer::default(),
            value: TextBuffer::default(),
            score: 0.0,
            expire_at_ms: None,
        };
        elements.read_head(input)?;
        Ok(Some(elements))
    }

    fn read_head<R: Read>(&mut self, input: &mut Input<R>) -> Result<(), Fault> {
        if let Layout::ExpiringFields { first: true } | Layout::ExpiringListpack { first: true } =
            self.layout
        {
            self.earliest_ms = i64::from_le_bytes(input.array(TIME)?);
        }
        let packing = match self.layout {
            Layout::Packed(packing, _) => packing,
            Layout::ExpiringListpack { .. } => Packing::Listpack,
            Layout::Ziplists | Layout::Quicklist => {
                self.left = input.number(COUNT)?;
                return Ok(());
            }
            Layout::Stream(form) => {
                self.parts = Some(StreamParts::new(form, input.number(COUNT)?));
                return Ok(());
            }
            _ => {
                self.left = input.number(COUNT)?;
                self.expected = Some(self.left);
                return Ok(());
            }
        };
        let entries = Entries::begin(input, packing)?;
        self.expected = entries.count().map(|count| count / self.parts());
        self.entries = Some(entries);
        Ok(())
    }

    /// Returns how many packed strings make up an element.
    fn parts(&self) -> u64 {
        match self.layout {
            Layout::Packed(_, parts) => parts,
            Layout::ExpiringListpack { .. } => 3,
            _ => 1,
        }
    }

    /// Returns the type of the value.
    pub(in crate::rdb) fn collection(&self) -> CollectionType {
        self.collection
    }

    /// Returns the number of elements, if the file contains it; it is not verified.
    pub(in crate::rdb) fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// Returns the number of elements read.
    pub(in crate::rdb) fn found(&self) -> u64 {
        self.found
    }

    /// Returns the fault that the last element is a duplicate.
    pub(in crate::rdb) fn duplicate(&self) -> Fault {
        let expected = match self.collection {
            CollectionType::Hash => "a hash without a field that is there twice",
            CollectionType::Stream => "a stream whose parts fit together",
            _ => "a set without a member that is there twice",
        };
        Fault::Damaged { offset: self.offset, expected, found: Found::Other }
    }

    /// Returns the next element, unless all have been read.
    pub(in crate::rdb) fn next<R: Read>(
        &mut self,
        input: &mut Input<R>,
    ) -> Result<Option<Element<'_>>, Fault> {
        if self.parts.is_some() {
            return self.next_part(input);
        }
        let there = match self.layout {
            Layout::Packed(..) | Layout::ExpiringListpack { .. } => self.next_packed(input)?,
            Layout::Ziplists | Layout::Quicklist => self.next_of_nodes(input)?,
            _ => self.next_counted(input)?,
        };
        if !there {
            return Ok(None);
        }
        self.found += 1;
        let (name, expire_at_ms) = (self.name.take(), self.expire_at_ms);
        Ok(Some(match self.collection {
            // A stream consists of parts.
            CollectionType::List | CollectionType::Stream => Element::Item(name),
            CollectionType::Set => Element::Member(name),
            CollectionType::SortedSet => Element::Scored(name, self.score),
            CollectionType::Hash => Element::Field { name, value: self.value.take(), expire_at_ms },
        }))
    }

    fn next_part<R: Read>(&mut self, input: &mut Input<R>) -> Result<Option<Element<'_>>, Fault> {
        let Some(parts) = &mut self.parts else { return Ok(None) };
        let part = parts.next(input)?;
        self.found += u64::from(part.is_some());
        Ok(part)
    }

    /// Reads the next of a counted number of elements.
    fn next_counted<R: Read>(&mut self, input: &mut Input<R>) -> Result<bool, Fault> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        if let Layout::ExpiringFields { .. } = self.layout {
            let offset = input.offset();
            let number = input.number(TIME)?;
            self.expire_at_ms = self.expiry(number).ok_or(Fault::Damaged {
                offset,
                expected: TIME,
                found: Found::Number(number),
            })?;
        }
        self.name.read(input, ELEMENT)?;
        match self.layout {
            Layout::Scored => {
                let score = f64::from_le_bytes(input.array(SCORE)?);
                self.score = a_number(score).ok_or(input.damaged(8, SCORE, Found::Other))?;
            }
            Layout::ScoredInDigits => self.score = score_in_digits(input)?,
            Layout::Texts(2) | Layout::ExpiringFields { .. } => {
                self.value.read(input, FIELD_VALUE)?;
            }
            Layout::FieldsThenExpiry => {
                self.value.read(input, FIELD_VALUE)?;
                let at_ms = i64::from_le_bytes(input.array(TIME)?);
                self.expire_at_ms = match at_ms {
                    -1 => None,
                    at_ms => {
                        let damaged = input.damaged(8, TIME, Found::Other);
                        Some(u64::try_from(at_ms).map_err(|_| damaged)?)
                    }
                };
            }
            _ => {}
        }
        Ok(true)
    }

    /// Decodes the expiry of a field, `Some(None)` if it does not expire; `None` if it is too late.
    fn expiry(&self, number: u64) -> Option<Option<u64>> {
        let counts_from_earliest = self.layout == Layout::ExpiringFields { first: true };
        let at_ms = match number {
            0 => return Some(None),
            number if counts_from_earliest => (number - 1).checked_add_signed(self.earliest_ms)?,
            number => number,
        };
        (at_ms <= LATEST_MS).then_some(Some(at_ms))
    }

    /// Reads the next element of those in one string.
    fn next_packed<R: Read>(&mut self, input: &mut Input<R>) -> Result<bool, Fault> {
        let Some(mut entries) = self.entries.take() else { return Ok(false) };
        if !entries.next(input, &mut self.name)? {
            return Ok(false);
        }
        let parts = self.parts();
        if parts > 1 && !entries.next(input, &mut self.value)? {
            return Err(entries.damaged());
        }
        if parts > 2 {
            let mut time = TextBuffer::default();
            let there = entries.next(input, &mut time)?;
            let number = time.integer().filter(|_| there).and_then(|it| u64::try_from(it).ok());
            let at_ms = number.and_then(|number| self.expiry(number)).ok_or(entries.damaged())?;
            // Fields are sorted by expiry; those without one are last.
            let order = |at_ms: Option<u64>| at_ms.unwrap_or(u64::MAX);
            if self.found > 0 && order(self.expire_at_ms) > order(at_ms) {
                return Err(entries.damaged());
            }
            self.expire_at_ms = at_ms;
        }
        if self.collection == CollectionType::SortedSet {
            self.score = self.value.score().ok_or(entries.damaged())?;
        }
        self.entries = Some(entries);
        Ok(true)
    }

    /// Reads the next element of a list in several strings.
    fn next_of_nodes<R: Read>(&mut self, input: &mut Input<R>) -> Result<bool, Fault> {
        loop {
            if let Some(entries) = &mut self.entries {
                if entries.next(input, &mut self.name)? {
                    return Ok(true);
                }
                self.entries = None;
            }
            if self.left == 0 {
                return Ok(false);
            }
            self.left -= 1;
            let (container, packing) = match self.layout {
                Layout::Quicklist => (input.number(NODE)?, Packing::Listpack),
                _ => (2, Packing::Ziplist),
            };
            match container {
                1 => {
                    let offset = input.offset();
                    self.name.read(input, PLAIN_NODE)?;
                    if self.name.is_empty() {
                        let expected = PLAIN_NODE;
                        return Err(Fault::Damaged { offset, expected, found: Found::Other });
                    }
                    return Ok(true);
                }
                2 => self.entries = Some(Entries::begin(input, packing)?),
                other => return Err(input.damaged(1, NODE, Found::Number(other))),
            }
        }
    }
}

fn a_number(score: f64) -> Option<f64> {
    (!score.is_nan()).then_some(score)
}

/// Reads a score in the format of versions before 8.
fn score_in_digits<R: Read>(input: &mut Input<R>) -> Result<f64, Fault> {
    let offset = input.offset();
    let score = match input.byte(SCORE)? {
        255 => Some(f64::NEG_INFINITY),
        254 => Some(f64::INFINITY),
        253 => None,
        len => parse_score(input.take(len.into(), SCORE)?),
    };
    score.ok_or(Fault::Damaged { offset, expected: SCORE, found: Found::Other })
}
