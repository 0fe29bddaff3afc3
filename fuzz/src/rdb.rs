//! The invariants of files and payloads in RDB's format: a file reads the same in pieces of any
//! length, and a value has the same meaning in a file and in a payload.

use nagi_persist::Checksum;
use nagi_persist::payload::{Dump, Restore, Restored};
use nagi_persist::rdb::{
    Batch, Builder, Builders, CollectionType, Element, ElementText, Fault, Item, LoadOptions,
    LoadedValue, Measure, Progress, Reader, Rejected, Text, load, unpack,
};
use nagi_store::{Rope, Stream, StreamBuilder, StreamId, StreamPart, StringInput, Value as Stored};
use std::collections::HashSet;
use std::io::{self, Read};
use std::ops::ControlFlow;

/// Builds collections as lists of bytes that contain all of their elements. Streams are also built
/// as streams and, if `looks_at_streams`, checked.
struct Lists {
    looks_at_streams: bool,
}

#[derive(Default)]
struct List {
    seen: Vec<u8>,
    elements: u64,
    names: HashSet<Vec<u8>>,
    stream: Option<StreamBuilder>,
    looks_at_stream: bool,
}

impl Builders for Lists {
    type Value = List;
    type Builder = List;

    fn begin(&self, _: CollectionType, _: Option<u64>) -> Option<List> {
        Some(List { looks_at_stream: self.looks_at_streams, ..List::default() })
    }
}

impl List {
    fn text(&mut self, text: &ElementText<'_>) {
        self.seen.extend_from_slice(&text.len().to_le_bytes());
        self.seen.extend_from_slice(&text.to_vec());
    }
}

impl Builder for List {
    type Value = List;

    fn add(&mut self, element: Element<'_>) -> Result<(), Rejected> {
        self.elements += 1;
        let name = match &element {
            Element::Item(item) => {
                self.text(item);
                return Ok(());
            }
            Element::Part(part) => {
                self.seen.extend(shown(part));
                let is_added = self.stream.get_or_insert_default().add(*part);
                return if is_added { Ok(()) } else { Err(Rejected::Duplicate) };
            }
            Element::Member(name) => name,
            Element::Scored(name, score) => {
                assert!(!score.is_nan());
                self.seen.extend_from_slice(&score.to_le_bytes());
                name
            }
            Element::Field { name, value, expire_at_ms } => {
                self.text(value);
                self.seen.extend_from_slice(format!("{expire_at_ms:?}").as_bytes());
                name
            }
        };
        self.text(name);
        let is_new = self.names.insert(name.to_vec());
        if is_new { Ok(()) } else { Err(Rejected::Duplicate) }
    }

    fn end(mut self) -> List {
        assert!(self.elements > 0);
        if let Some(stream) = self.stream.take().filter(|_| self.looks_at_stream) {
            look_at(&stream.end().expect("all parts have come"));
        }
        self
    }
}

fn shown(part: &StreamPart<'_>) -> Vec<u8> {
    format!("{part:?}").into_bytes()
}

/// Checks that a stream is consistent: its entries are the same forwards, backwards and one by one,
/// and it survives being dumped and restored.
fn look_at(stream: &Stream) {
    let (mut forwards, mut backwards) = (Vec::new(), Vec::new());
    let (from, to) = (StreamId::MIN, StreamId::MAX);
    let _ = stream.walk(from, to, |entry| {
        for text in entry.fields().flat_map(|(name, value)| [name, value]) {
            text.with_bytes(<[u8]>::len);
        }
        forwards.push(entry.id);
        ControlFlow::<()>::Continue(())
    });
    let _ = stream.walk_back(from, to, |entry| {
        backwards.push(entry.id);
        ControlFlow::<()>::Continue(())
    });
    assert!(forwards.is_sorted_by(|one, other| one < other), "{forwards:?}");
    assert!(forwards.iter().eq(backwards.iter().rev()), "{forwards:?} and {backwards:?}");
    assert_eq!(stream.len(), forwards.len() as u64);
    assert!(forwards.iter().all(|id| stream.get(*id).is_some_and(|entry| entry.id == *id)));
    assert!(forwards.last().is_none_or(|last| *last <= stream.last_id()));
    let mut parts = Vec::new();
    let _ = stream.walk_parts(0, |part| {
        parts.extend(shown(&part));
        ControlFlow::<()>::Continue(())
    });
    let mut dump = Dump::new(Stored::Stream(stream), true);
    let payload = std::iter::repeat_with(|| dump.step()).flatten().next().expect("it ends");
    let again = finish(Restore::new(payload, usize::MAX, Lists { looks_at_streams: false }));
    let again = again.map_or(Vec::new(), |it| it.seen);
    let [again, parts] = [&again, &parts].map(|it| String::from_utf8_lossy(it));
    assert_eq!(again, parts, "from a payload of its own");
}

/// A source that returns at most `most` bytes per read.
struct Pieces<'a> {
    rest: &'a [u8],
    most: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.most).min(self.rest.len());
        let (taken, rest) = self.rest.split_at(count);
        buffer[..count].copy_from_slice(taken);
        self.rest = rest;
        Ok(count)
    }
}

/// The first byte selects the version, and whether a correct checksum is appended. The second byte
/// selects the number of bytes per read, and whether values are read or skipped.
pub fn file(data: &[u8]) {
    let [head, second, body @ ..] = data else { return };
    let magic = match head & 0xf {
        0 => "VALKEY080".to_owned(),
        version => format!("REDIS{version:04}"),
    };
    let mut file = [magic.as_bytes(), body].concat();
    if head & 0x10 != 0 {
        file.push(0xff);
        let mut checksum = Checksum::default();
        checksum.add(&file);
        file.extend_from_slice(&checksum.value().to_le_bytes());
    }
    let texts = second & 0x80 != 0;
    let whole = items(Reader::new(&file[..], true), texts);
    let most = usize::from(second & 0x7f) + 1;
    let pieces = items(Reader::new(Pieces { rest: &file, most }, true), texts);
    assert_eq!(whole, pieces, "in pieces of {most}");
}

/// The items and values that were read, and the error at the end, if any.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    items: Vec<Item>,
    measures: Vec<Measure>,
    bytes: Vec<u8>,
    fault: Option<String>,
}

fn items<R: Read>(reader: Result<Reader<R>, Fault>, texts: bool) -> Seen {
    let mut seen = Seen::default();
    seen.fault = reader.and_then(|reader| read(reader, texts, &mut seen)).err().map(|fault| {
        assert!(!matches!(fault, Fault::Unreadable { .. }), "memory can be read");
        fault.to_string()
    });
    seen
}

fn read<R: Read>(mut reader: Reader<R>, texts: bool, seen: &mut Seen) -> Result<(), Fault> {
    loop {
        let item = reader.next_item()?;
        let (is_key, is_end) = (matches!(item, Item::Key(_)), item == Item::End);
        seen.items.push(item);
        if is_end {
            return Ok(());
        }
        let is_collection = matches!(
            seen.items.last(), Some(Item::Key(record)) if record.value_type.collection().is_some()
        );
        if is_key && texts && is_collection {
            let mut list = List::default();
            reader.elements(&mut |element| list.add(element))?;
            seen.bytes.extend_from_slice(&list.seen);
        } else if is_key && texts {
            if let Text::Rope(rope) = reader.text(&mut seen.bytes)? {
                rope.copy_range(0..rope.len(), &mut seen.bytes);
            }
        } else if is_key {
            seen.measures.push(reader.skip_value()?);
        }
    }
}

/// Checks that a payload with a correct checksum restores to the same value as its body in a file.
/// The first byte selects the type, and whether type numbers are Valkey's.
pub fn restore(data: &[u8]) {
    const LONGEST_BYTES: usize = 1 << 20;
    let [first, data @ ..] = data else { return };
    let value_type = first & 0x1f;
    let (version, magic) = match first & 0x80 {
        0 => (12_u16, "REDIS0012"),
        _ => (80, "VALKEY080"),
    };
    let mut payload = [&[value_type], data, &version.to_le_bytes()].concat();
    let mut checksum = Checksum::default();
    checksum.add(&payload);
    payload.extend_from_slice(&checksum.value().to_le_bytes());
    let lists = Lists { looks_at_streams: true };
    let restored = finish(Restore::new(Rope::from_bytes(&payload), LONGEST_BYTES, lists));

    // The file contains the type, a key of one letter, the value, and the end without a checksum.
    let file = [magic.as_bytes(), &[value_type], b"\x01k", data, b"\xff", &[0; 8]].concat();
    let loaded = load_one(&file);
    // A string in which elements are packed may be longer than a payload allows.
    let may_be_too_long =
        |it: &Value| it.seen.len() as u64 + 300 * it.elements > LONGEST_BYTES as u64;
    if restored.is_none() && loaded.as_ref().is_some_and(may_be_too_long) {
        return;
    }
    assert_eq!(restored, loaded, "as a payload and in a file");
}

/// The contents of a value.
#[derive(Debug, PartialEq)]
struct Value {
    seen: Vec<u8>,
    elements: u64,
}

impl Value {
    fn of_list(list: List) -> Self {
        Value { seen: list.seen, elements: list.elements }
    }

    fn of_rope(rope: &Rope) -> Self {
        let mut seen = Vec::new();
        rope.copy_range(0..rope.len(), &mut seen);
        Value { seen, elements: 0 }
    }
}

fn finish(mut restore: Restore<Lists>) -> Option<Value> {
    loop {
        match restore.step().ok()? {
            Some(Restored::String(rope)) => return Some(Value::of_rope(&rope)),
            Some(Restored::Collection(list)) => return Some(Value::of_list(list)),
            None => {}
        }
    }
}

/// Returns the only value of a file that ends after it. Asserts that the reader and the loader
/// agree.
fn load_one(file: &[u8]) -> Option<Value> {
    let mut reader = Reader::new(file, true).ok()?;
    let Item::Key(record) = reader.next_item().ok()? else { return None };
    let value = if record.value_type.collection().is_some() {
        let mut list = List::default();
        reader.elements(&mut |element| list.add(element)).ok()?;
        (list.elements > 0).then(|| Value::of_list(list))
    } else {
        let (mut bytes, mut seen) = (Vec::new(), Vec::new());
        match reader.text(&mut bytes).ok()? {
            Text::Int(number) => seen = number.to_string().into_bytes(),
            Text::Plain(_) => seen = bytes,
            Text::Packed(_, len) => unpack(&bytes, len, &mut seen).then_some(())?,
            Text::Rope(rope) => rope.copy_range(0..rope.len(), &mut seen),
        }
        Some(Value { seen, elements: 0 })
    };
    // A file may have other items between the value and the end, but a payload may not.
    let at_end = reader.offset() == file.len() as u64 - 9;
    let is_one = at_end && reader.next_item().ok()? == Item::End;
    let value = value.filter(|_| is_one);
    if is_one {
        assert_eq!(load_all(file), value, "the reader and the loader");
    }
    value
}

/// Returns the last value of a file, as the loader reads it.
fn load_all(file: &[u8]) -> Option<Value> {
    let options = LoadOptions { databases: 16, now_ms: None, verify_checksum: true };
    let lists = Lists { looks_at_streams: false };
    let mut last = None;
    let mut take = |mut batch: Batch<List>| {
        while let Some(loaded) = batch.next_key(&lists)? {
            last = Some(match loaded.value {
                LoadedValue::Collection(list) => Value::of_list(list),
                LoadedValue::String(StringInput::Bytes(bytes)) => {
                    Value { seen: bytes.to_vec(), elements: 0 }
                }
                LoadedValue::String(StringInput::Rope(rope)) => Value::of_rope(&rope),
            });
        }
        Ok(())
    };
    load(file, &options, &Progress::default(), &lists, &mut take).ok()?;
    last
}
