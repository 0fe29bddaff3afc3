//! What files and payloads in RDB's format have to hold to: bytes mean the same in whatever pieces
//! they are read, and a value means the same in a file and in a payload.

use nagi_persist::Checksum;
use nagi_persist::payload::Restore;
use nagi_persist::rdb::{Fault, Item, Measure, Reader, Text, unpack};
use nagi_store::Rope;
use std::io::{self, Read};

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
        if is_key && texts {
            if let Text::Rope(rope) = reader.text(&mut seen.bytes)? {
                rope.copy_range(0..rope.len(), &mut seen.bytes);
            }
        } else if is_key {
            seen.measures.push(reader.skip_value()?);
        }
    }
}

/// A payload's body, sealed as it has to be, gives what the same body gives in a file.
pub fn restore(data: &[u8]) {
    const LONGEST_BYTES: usize = 1 << 20;
    let body = [&[0], data].concat();
    let mut payload = [&body[..], &10_u16.to_le_bytes()].concat();
    let mut checksum = Checksum::default();
    checksum.add(&payload);
    payload.extend_from_slice(&checksum.value().to_le_bytes());
    let restored = finish(Restore::new(Rope::from_bytes(&payload), LONGEST_BYTES));

    // The type, a key of one letter, the value, the end without a checksum.
    let file = [&b"REDIS0010\x00\x01k"[..], data, b"\xff", &[0; 8]].concat();
    let loaded = load(&file).filter(|value| value.len() <= LONGEST_BYTES);
    assert_eq!(restored, loaded, "as a payload and in a file");
}

fn finish(mut restore: Restore) -> Option<Vec<u8>> {
    loop {
        if let Some(value) = restore.step().ok()? {
            let mut bytes = Vec::new();
            value.copy_range(0..value.len(), &mut bytes);
            return Some(bytes);
        }
    }
}

/// The one value of a file that ends behind it.
fn load(file: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(file, true).ok()?;
    let (mut bytes, mut value) = (Vec::new(), Vec::new());
    reader.next_item().ok()?;
    match reader.text(&mut bytes).ok()? {
        Text::Int(number) => value = number.to_string().into_bytes(),
        Text::Plain(_) => value = bytes,
        Text::Packed(_, len) => unpack(&bytes, len, &mut value).then_some(())?,
        Text::Rope(rope) => rope.copy_range(0..rope.len(), &mut value),
    }
    // Something else may stand between the value and the end, but not in a payload.
    let at_end = reader.offset() == file.len() as u64 - 9;
    (at_end && reader.next_item().ok()? == Item::End).then_some(value)
}
