//! Versions whose servers are not available, encoded by hand according to the format's history.

use nagi_persist::rdb::{Item, Reader, Record};
use nagi_store::types::restore::Usage;

/// Returns a file of a version with these bytes between its header and its end.
pub(crate) fn file(version: u16, body: &[u8]) -> Vec<u8> {
    let mut file = format!("REDIS{version:04}").into_bytes();
    file.extend_from_slice(body);
    file.push(0xff);
    if version >= 5 {
        let mut checksum = nagi_persist::Checksum::default();
        checksum.add(&file);
        file.extend_from_slice(&checksum.value().to_le_bytes());
    }
    file
}

/// Encodes a string of at most 63 bytes.
pub(crate) fn text(text: &[u8]) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap() & 0x3f][..], text].concat()
}

/// Encodes a ziplist of strings.
pub(crate) fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    let (mut before, mut last) = (0, 10);
    for entry in entries {
        last = u32::try_from(10 + body.len()).unwrap();
        let len = u8::try_from(entry.len()).unwrap();
        body.extend_from_slice(&[before, len]);
        body.extend_from_slice(entry);
        before = len + 2;
    }
    body.push(0xff);
    let len = u32::try_from(10 + body.len()).unwrap();
    let count = u16::try_from(entries.len()).unwrap();
    [&len.to_le_bytes()[..], &last.to_le_bytes(), &count.to_le_bytes(), &body].concat()
}

/// Encodes an integer in a listpack.
pub(crate) fn packed_integer(number: i64) -> Vec<u8> {
    [&[0xf4][..], &number.to_le_bytes(), &[9]].concat()
}

/// Encodes a listpack of strings.
pub(crate) fn listpack(entries: &[&[u8]]) -> Vec<u8> {
    let packed: Vec<Vec<u8>> = entries
        .iter()
        .map(|entry| {
            let len = u8::try_from(entry.len()).unwrap();
            assert!(len < 64);
            [&[0x80 | len], *entry, &[len + 1]].concat()
        })
        .collect();
    listpack_of(&packed)
}

/// Encodes a listpack of encoded entries.
pub(crate) fn listpack_of(packed: &[Vec<u8>]) -> Vec<u8> {
    let body = [&packed.concat()[..], &[0xff]].concat();
    let len = u32::try_from(6 + body.len()).unwrap();
    let count = u16::try_from(packed.len()).unwrap();
    [&len.to_le_bytes()[..], &count.to_le_bytes(), &body].concat()
}

/// Returns the keys of a file with their types, encodings and numbers of elements.
fn read(file: &[u8]) -> Vec<(Record, String)> {
    let mut reader = Reader::new(file, true).unwrap();
    let mut found = Vec::new();
    loop {
        match reader.next_item().unwrap() {
            Item::Key(record) => {
                let key = String::from_utf8(reader.key().to_vec()).unwrap();
                let elements = reader.skip_value().unwrap().elements;
                let (name, encoding) = (record.value_type.name(), record.value_type.encoding());
                found.push((record, format!("{key} {name} {encoding} {elements}")));
            }
            Item::End => return found,
            _ => {}
        }
    }
}

/// Like [`read`], without the keys' other metadata.
fn shown(file: &[u8]) -> Vec<String> {
    read(file).into_iter().map(|(_, shown)| shown).collect()
}

#[test]
fn plain_types_of_every_version() {
    let body = [
        &b"\xfe\x00\x00\x01s"[..],
        &text(b"value"),
        b"\x01\x01l\x02",
        &text(b"a"),
        &[0xc0, 7],
        b"\x02\x01t\x01",
        &text(b"member"),
        b"\x03\x01z\x03",
        &text(b"a"),
        b"\x031.5",
        &text(b"b"),
        b"\xfe",
        &text(b"d"),
        b"\xff",
        b"\x04\x01h\x01",
        &text(b"field"),
        &text(b"value"),
    ]
    .concat();
    for version in 1..=12 {
        let expected =
            ["s string string 1", "l list linkedlist 2", "t set hashtable 1", "z zset skiplist 3"];
        let found = shown(&file(version, &body));
        assert_eq!(found[..4], expected, "version {version}");
        assert_eq!(found[4], "h hash hashtable 1");
    }
}

#[test]
fn packed_types_of_the_second_to_the_ninth() {
    let pairs = ziplist(&[b"a", b"1", b"b", b"2"]);
    let zipmap = b"\x01\x01a\x01\x00b\xff";
    let listpack = b"\x0b\x00\x00\x00\x02\x00\x01\x01\x02\x01\xff";
    let body = [
        &b"\xfe\x03\x09\x01m"[..],
        &text(zipmap),
        b"\x0a\x01l",
        &text(&pairs),
        b"\x0b\x01i",
        &text(&[2, 0, 0, 0, 1, 0, 0, 0, 5, 0]),
        b"\x0c\x01z",
        &text(&pairs),
        b"\x0d\x01h",
        &text(&pairs),
        b"\x0e\x01q\x02",
        &text(&pairs),
        &text(&ziplist(&[])),
        b"\x05\x01b\x01",
        &text(b"a"),
        &1.5_f64.to_le_bytes(),
        b"\x17\x01e",
        &text(b"\x0d\x00\x00\x00\x03\x00\x01\x01\x02\x01\x00\x01\xff"),
        b"\x16\x01f\x01\x00",
        &text(b"a"),
        &text(b"b"),
        b"\x14\x01p",
        &text(listpack),
    ]
    .concat();
    let file = file(9, &body);
    assert_eq!(
        shown(&file),
        [
            "m hash zipmap 1",
            "l list ziplist 4",
            "i set intset 1",
            "z zset ziplist 2",
            "h hash ziplist 2",
            "q list quicklist 4",
            "b zset skiplist 1",
            "e hash listpackex 1",
            "f hash hashtable 1",
            "p set listpack 2",
        ]
    );
    assert!(read(&file).iter().all(|(record, _)| record.database == 3));
}

#[test]
fn expiry_in_seconds_and_in_milliseconds() {
    let at_s = 4_000_000_000_u32.to_le_bytes();
    let at_ms = 4_000_000_000_123_i64.to_le_bytes();
    let body = [
        &b"\xfe\x00\xfd"[..],
        &2_000_000_000_u32.to_le_bytes(),
        b"\x00\x01a\x01v\xfc",
        &at_ms,
        b"\x00\x01b\x01v\xfc",
        &(-1_i64).to_le_bytes(),
        b"\x00\x01c\x01v\xfd",
        &at_s,
        b"\x00\x01d\x01v",
    ]
    .concat();
    let expiries: Vec<_> =
        read(&file(3, &body)).into_iter().map(|(record, _)| record.expire_at_ms).collect();
    // The seconds are signed 32-bit integers.
    assert_eq!(expiries, [Some(2_000_000_000_000), Some(4_000_000_000_123), None, Some(0)]);
}

#[test]
fn attributes_of_a_key_may_precede_an_auxiliary_field() {
    let body =
        [&b"\xfc"[..], &5_i64.to_le_bytes(), b"\xf9\x07\xfa\x01n\x01v\x00\x01a\x01v\x00\x01b\x01v"];
    let found = read(&file(9, &body.concat()));
    let said: Vec<_> =
        found.into_iter().map(|(record, _)| (record.expire_at_ms, record.usage)).collect();
    assert_eq!(said, [(Some(5), Some(Usage::Frequency(7))), (None, None)]);
}

#[test]
fn modules_streams_and_slots() {
    // "A" nine times, and a part of each kind.
    let parts = [
        &b"\x01\x05\x02\x06\x03"[..],
        &1_f32.to_le_bytes(),
        b"\x04",
        &1_f64.to_le_bytes(),
        b"\x05",
        &text(b"data"),
        b"\x00",
    ]
    .concat();
    let module = [&b"\x81"[..], &[0; 8]].concat();
    let listpack = text(b"\x07\x00\x00\x00\x00\x00\xff");
    let stream = [
        &b"\x0f\x01x\x01"[..],
        &text(&[0; 16]),
        &listpack,
        b"\x00\x05\x01\x01",
        &text(b"group"),
        b"\x05\x01\x01",
        &[0; 24],
        b"\x01\x01",
        &text(b"consumer"),
        &[0; 8],
        b"\x01",
        &[0; 16],
    ]
    .concat();
    let body = [
        &b"\xf7"[..],
        &module,
        b"\x02\x02",
        &parts,
        b"\xfe\x00\xf4\x01\x02\x03\x07\x01m",
        &module,
        &parts,
        &stream,
    ]
    .concat();
    let file = file(9, &body);
    assert_eq!(shown(&file), ["m module module 1", "x stream stream 0"]);
    let mut reader = Reader::new(&file[..], true).unwrap();
    assert_eq!(reader.next_item().unwrap(), Item::ModuleAux("A".repeat(9)));
    assert_eq!(reader.next_item().unwrap(), Item::Database(0));
    assert_eq!(reader.next_item().unwrap(), Item::Slots);
}
