//! Encodes and decodes collections in payloads, an element at a time.

use crate::checksum::Checksum;
use crate::damage::Damage;
use crate::encoding::{MIN_COMPRESSED_BYTES, MIN_SAVED_BYTES, VERSION};
use crate::encoding::{encode_integer, encode_spelled_integer};
use crate::length::{self, Length};
use crate::lzf::Compressor;
use crate::rdb::{
    Build, Builder, Builders, CollectionForm, CollectionHead, CollectionType, Element, ElementSink,
    ElementText, Input, ValueType, Version, walk_elements,
};
use nagi_store::{CHUNK_BYTES, Rope, SharedValue, Value};
use std::convert::Infallible;
use std::io::{self, Read};
use std::ops::ControlFlow;

/// The number of bytes processed in one step.
const STEP_BYTES: u64 = CHUNK_BYTES as u64;
/// The minimum size at which an element counts, because of the time that it takes.
const MIN_ELEMENT_BYTES: u64 = 64;
/// The lowest version with the times at which consumers last received an entry.
const CONSUMERS_VERSION: u16 = 11;
/// The lowest version with fields that expire.
const EXPIRING_VERSION: u16 = 12;
const EXPIRING_VERSION_OF_VALKEY: u16 = 80;

/// Encodes a collection as a payload.
pub struct DumpCollection {
    form: CollectionForm,
    compress: bool,
    compressor: Option<Compressor>,
    packed: Vec<u8>,
    /// Encoded bytes that are not in the payload yet.
    pending: Vec<u8>,
    out: Rope,
    checksum: Checksum,
}

impl DumpCollection {
    /// Begins with a collection, all of whose elements must follow; `compress` is the setting
    /// `rdbcompression`.
    #[must_use]
    pub fn new(head: &CollectionHead, compress: bool) -> Self {
        let mut dump = DumpCollection {
            form: head.form,
            compress,
            compressor: None,
            packed: Vec::new(),
            pending: vec![head.form.value_type().number()],
            out: Rope::default(),
            checksum: Checksum::default(),
        };
        let Ok(()) = head.encode(&mut dump);
        dump
    }

    /// Appends the next element.
    pub fn element(&mut self, element: &Element<'_>) {
        let Ok(()) = self.form.encode(element, self);
        if self.pending.len() >= CHUNK_BYTES {
            self.flush();
        }
    }

    /// Returns the payload, once all elements have been added.
    #[must_use]
    pub fn finish(&mut self) -> Rope {
        let version = match self.form {
            CollectionForm::Plain(_) => VERSION,
            CollectionForm::StreamWithConsumers => CONSUMERS_VERSION,
            CollectionForm::ExpiringFields { .. } => EXPIRING_VERSION,
            CollectionForm::ExpiringFieldsOfValkey => EXPIRING_VERSION_OF_VALKEY,
        };
        self.pending.extend_from_slice(&version.to_le_bytes());
        self.flush();
        let checksum = std::mem::take(&mut self.checksum).value();
        self.out.append(&checksum.to_le_bytes());
        std::mem::take(&mut self.out)
    }

    fn flush(&mut self) {
        self.checksum.add(&self.pending);
        self.out.append(&self.pending);
        self.pending.clear();
    }

    /// Appends a string, compressed if that makes it shorter.
    fn push_text(&mut self, text: &[u8]) {
        if self.compress && text.len() >= MIN_COMPRESSED_BYTES {
            self.packed.clear();
            let compressor = self.compressor.get_or_insert_default();
            if compressor.compress_if_repetitive(text, &mut self.packed)
                && self.packed.len() + MIN_SAVED_BYTES <= text.len()
            {
                self.pending.push(0xc0 | Length::LZF);
                length::write(&mut self.pending, self.packed.len() as u64);
                length::write(&mut self.pending, text.len() as u64);
                self.pending.extend_from_slice(&self.packed);
                return;
            }
        }
        length::write(&mut self.pending, text.len() as u64);
        self.pending.extend_from_slice(text);
    }
}

/// Encodes the elements of a value as a payload.
pub(super) struct DumpElements {
    value: SharedValue,
    dump: DumpCollection,
    /// The number of elements encoded.
    rank: u64,
}

impl DumpElements {
    /// Begins with a collection.
    pub(super) fn new(value: &Value<'_>, compress: bool) -> Self {
        let form = CollectionForm::Plain(CollectionType::Hash);
        let newest = Version::WITH_EXPIRING_FIELDS;
        let head = CollectionHead::of(value, newest).unwrap_or(CollectionHead { form, len: 0 });
        DumpElements { value: value.share(), dump: DumpCollection::new(&head, compress), rank: 0 }
    }

    /// Encodes elements of about a chunk. Returns the payload once all are encoded.
    pub(super) fn step(&mut self) -> Option<Rope> {
        let DumpElements { value, dump, rank } = self;
        let mut left = STEP_BYTES;
        let is_unfinished = walk_elements(value.read(), *rank, |element| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left = left.saturating_sub(element.bytes().max(MIN_ELEMENT_BYTES));
            *rank += 1;
            dump.element(element);
            ControlFlow::Continue(())
        });
        is_unfinished.is_none().then(|| dump.finish())
    }
}

impl ElementSink for DumpCollection {
    type Error = Infallible;

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    fn text(&mut self, text: &ElementText<'_>) -> Result<(), Infallible> {
        match text {
            ElementText::Int(number) => {
                if !encode_integer(&mut self.pending, *number) {
                    self.push_text(itoa::Buffer::new().format(*number).as_bytes());
                }
            }
            ElementText::Bytes(bytes) => {
                if !encode_spelled_integer(&mut self.pending, bytes) {
                    self.push_text(bytes);
                }
            }
            ElementText::Long(rope) => {
                length::write(&mut self.pending, rope.len() as u64);
                for chunk in rope.chunks() {
                    self.pending.extend_from_slice(chunk);
                    self.flush();
                }
            }
        }
        Ok(())
    }
}

/// Decodes a collection of a payload.
pub(super) struct RestoreCollection<B> {
    input: Input<Body>,
    build: Option<Build<B>>,
    end: u64,
}

/// The part of a payload that contains the value.
struct Body {
    payload: Rope,
    at: usize,
    end: usize,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let chunk = self.payload.chunk(self.at / CHUNK_BYTES);
        let rest = chunk.and_then(|chunk| chunk.get(self.at % CHUNK_BYTES..)).unwrap_or_default();
        let count = buffer.len().min(rest.len()).min(self.end - self.at);
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.at += count;
        Ok(count)
    }
}

impl<B: Builder> RestoreCollection<B> {
    /// Begins with a value between the payload's first byte and `end`.
    pub(super) fn begin(
        payload: Rope,
        end: usize,
        value_type: ValueType,
        longest_bytes: usize,
        builders: &impl Builders<Builder = B, Value = B::Value>,
    ) -> Result<Self, Damage> {
        let body = Body { payload, at: 1, end };
        let mut input = Input::of_payload(body, end, longest_bytes as u64);
        let build = Build::begin(&mut input, value_type, builders).map_err(|_| Damage)?;
        Ok(RestoreCollection { input, build: Some(build), end: end as u64 - 1 })
    }

    /// Decodes about one chunk. Returns the value once it is complete.
    pub(super) fn step(&mut self) -> Result<Option<B::Value>, Damage> {
        let Some(build) = &mut self.build else { return Err(Damage) };
        if build.go_on(&mut self.input, STEP_BYTES).map_err(|_| Damage)? {
            return Ok(None);
        }
        // Empty collections are invalid, and so are bytes after the value.
        let value = self.build.take().and_then(Build::end);
        match value {
            Some(value) if self.input.offset() == self.end => Ok(Some(value)),
            _ => Err(Damage),
        }
    }
}
