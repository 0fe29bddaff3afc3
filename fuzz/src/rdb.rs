//! What files and payloads in RDB's format have to hold to: bytes mean the same in whatever pieces
//! they are read, and a value means the same in a file and in a payload.

use nagi_persist::Checksum;
use nagi_persist::payload::{Restore, Restored};
use nagi_persist::rdb::{
    Batch, Builder, Builders, CollectionType, Element, ElementText, Fault, Item, LoadOptions,
    LoadedValue, Measure, Progress, Reader, Rejected, Text, load, unpack,
};
use nagi_store::{StringInput, Rope};
use std::collections::HashSet;
use std::io::{self, Read};

/// Collections as all that makes them up, one byte string for each.
struct Lists;

#[derive(Default)]
struct List {
    seen: Vec<u8>,
    elements: u64,
    names: HashSet<Vec<u8>>,
}

impl Builders for Lists {
    type Value = List;
    type Builder = List;

    fn begin(&self, _: CollectionType, _: Option<u64>) -> Option<List> {
        Some(List::default())
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
                self.seen.extend_from_slice(format!("{part:?}").as_bytes());
                return Ok(());
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

    fn end(self) -> List {
        assert!(self.elements > 0);
        self
    }
}

/// A source that gives at most so many bytes at once.
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

/// The first byte chooses the version and whether there is a right checksum, the second how many
/// bytes are read at once and whether values are read or passed over.
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

/// What was read, and what is wrong in the end.
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

/// A payload's body, sealed as it has to be, gives what the same body gives in a file. The first
/// byte is the type, and whether Valkey's numbers count.
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
    let restored = finish(Restore::new(Rope::from_bytes(&payload), LONGEST_BYTES, Lists));

    // The type, a key of one letter, the value, the end without a checksum.
    let file = [magic.as_bytes(), &[value_type], b"\x01k", data, b"\xff", &[0; 8]].concat();
    let loaded = load_one(&file);
    // Strings in which elements are packed may be too long for a payload.
    let may_be_too_long =
        |it: &Value| it.seen.len() as u64 + 300 * it.elements > LONGEST_BYTES as u64;
    if restored.is_none() && loaded.as_ref().is_some_and(may_be_too_long) {
        return;
    }
    assert_eq!(restored, loaded, "as a payload and in a file");
}

/// What was read of a value.
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

/// The one value of a file that ends behind it, as the reader and the loader have it.
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
    // Something else may stand between the value and the end, but not in a payload.
    let at_end = reader.offset() == file.len() as u64 - 9;
    let is_one = at_end && reader.next_item().ok()? == Item::End;
    let value = value.filter(|_| is_one);
    if is_one {
        assert_eq!(load_all(file), value, "the reader and the loader");
    }
    value
}

/// The last value of a file, by the loader.
fn load_all(file: &[u8]) -> Option<Value> {
    let options = LoadOptions { databases: 16, now_ms: None, verify_checksum: true };
    let mut last = None;
    let mut take = |mut batch: Batch<List>| {
        while let Some(loaded) = batch.next_key(&Lists)? {
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
    load(file, &options, &Progress::default(), &Lists, &mut take).ok()?;
    last
}
