//! Reads lists, sets, sorted sets and hashes in all encodings that servers have written.

use crate::golden::{SERVERS, golden};
use crate::old::{file, listpack, listpack_of, packed_integer, text, ziplist};
use nagi_persist::rdb::{
    Builder, Builders, CollectionType, Element, ElementText, Fault, Item, LoadOptions, LoadedValue,
    Progress, Reader, Rejected, load, load_with_threads,
};
use nagi_store::{CHUNK_BYTES, parse_i64};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{self, Read};

/// Formats an element: `item`, `member`, `member=score`, `field=value@expiry`.
pub(crate) fn shown(element: &Element<'_>) -> String {
    let text = |text: &ElementText<'_>| {
        let bytes = text.to_vec();
        assert_eq!(bytes.len(), text.len());
        assert_eq!(bytes.len() > CHUNK_BYTES, matches!(text, ElementText::Long(_)));
        bytes.escape_ascii().to_string()
    };
    match element {
        Element::Item(it) | Element::Member(it) => text(it),
        Element::Scored(member, score) => format!("{}={score}", text(member)),
        Element::Field { name, value, expire_at_ms: None } => {
            format!("{}={}", text(name), text(value))
        }
        Element::Field { name, value, expire_at_ms: Some(at_ms) } => {
            format!("{}={}@{at_ms}", text(name), text(value))
        }
        Element::Part(part) => format!("{part:?}"),
    }
}

/// Returns the name that identifies an element in its collection; `None` for lists.
fn name(element: &Element<'_>) -> Option<Vec<u8>> {
    match element {
        Element::Item(_) | Element::Part(_) => None,
        Element::Member(it) | Element::Scored(it, _) | Element::Field { name: it, .. } => {
            Some(it.to_vec())
        }
    }
}

/// Builds collections as lists of their elements.
#[derive(Default)]
pub(crate) struct Lists {
    /// A type that is not supported.
    pub(crate) without: Option<CollectionType>,
}

pub(crate) struct List {
    elements: Vec<String>,
    names: HashSet<Vec<u8>>,
}

impl Builders for Lists {
    type Value = Vec<String>;
    type Builder = List;

    fn begin(&self, collection: CollectionType, _: Option<u64>) -> Option<List> {
        let list = List { elements: Vec::new(), names: HashSet::new() };
        (self.without != Some(collection)).then_some(list)
    }
}

impl Builder for List {
    type Value = Vec<String>;

    fn add(&mut self, element: Element<'_>) -> Result<(), Rejected> {
        if let Some(name) = name(&element)
            && !self.names.insert(name)
        {
            return Err(Rejected::Duplicate);
        }
        self.elements.push(shown(&element));
        Ok(())
    }

    fn end(self) -> Vec<String> {
        assert!(!self.elements.is_empty());
        self.elements
    }
}

/// Returns the collections of a file by key, with the numbers of their types, and the keys of empty
/// ones.
fn read(file: &[u8]) -> Result<BTreeMap<String, (u8, Vec<String>)>, Fault> {
    let mut reader = Reader::new(file, true)?;
    let mut all = BTreeMap::new();
    loop {
        match reader.next_item()? {
            Item::Key(record) if record.value_type.collection().is_some() => {
                let key = reader.key().escape_ascii().to_string();
                let mut list = Lists::default().begin(CollectionType::List, None).unwrap();
                let count = reader.elements(&mut |element| list.add(element))?;
                assert_eq!(count, list.elements.len() as u64);
                all.insert(key, (record.value_type.number(), list.elements));
            }
            Item::End => return Ok(all),
            _ => {}
        }
    }
}

/// Returns the elements of the only value of a file, which has this type.
fn value(version: u16, value_type: u8, value: &[u8]) -> Result<Vec<String>, Fault> {
    let file = file(version, &[&[value_type, 1, b'k'], value].concat());
    let direct = read(&file).map(|mut all| all.remove("k").unwrap().1);
    let skipped = skim(&file);
    let loaded = loaded(&file, 0, &Lists::default());
    match &direct {
        Ok(elements) => {
            assert_eq!(skipped.unwrap(), elements.len() as u64);
            let loaded = loaded.unwrap();
            let expected = (!elements.is_empty()).then_some(elements);
            assert_eq!(loaded.get("k"), expected, "an empty one is left out");
        }
        // The reading thread may find another fault after it first.
        Err(_) => assert!(matches!(loaded, Err(Fault::Damaged { .. }))),
    }
    direct
}

/// Returns the number of elements of the only value of a file.
fn skim(file: &[u8]) -> Result<u64, Fault> {
    let mut reader = Reader::new(file, true)?;
    reader.next_item()?;
    Ok(reader.skip_value()?.elements)
}

/// Returns the collections of a file by key, loaded with this many threads; 0 uses this thread.
pub(crate) fn loaded(
    file: &[u8],
    threads: usize,
    lists: &Lists,
) -> Result<BTreeMap<String, Vec<String>>, Fault> {
    let options = LoadOptions { databases: 16, now_ms: None, verify_checksum: true };
    let kept = Mutex::new(BTreeMap::new());
    let take = |mut batch: nagi_persist::rdb::Batch<Vec<String>>| {
        while let Some(loaded) = batch.next_key(lists)? {
            if let LoadedValue::Collection(elements) = loaded.value {
                let key = loaded.key.escape_ascii().to_string();
                kept.lock().insert(key, elements);
            }
        }
        Ok(())
    };
    let progress = Progress::default();
    if threads == 0 {
        load(file, &options, &progress, lists, &mut { take })?;
    } else {
        load_with_threads(file, &options, &progress, lists, threads, take)?;
    }
    Ok(kept.into_inner())
}

/// Returns the collections that golden/make.sh has stored under each key.
fn golden_collections(expiry: &str) -> BTreeMap<&'static str, Vec<String>> {
    let words = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let fields = |expiring: Option<usize>| -> Vec<String> {
        (1..=600)
            .map(|it| format!("f{it}=v{}", if expiring == Some(it) { expiry } else { "" }))
            .collect()
    };
    BTreeMap::from([
        ("list:small", words(&format!("a 1 -70000 5000000000 {}", "x".repeat(100)))),
        ("list:large", vec!["y".repeat(500); 40]),
        ("list:plain", words(&format!("first {} last", "z".repeat(300)))),
        ("set:integers", words("1 2 3 70000 5000000000")),
        ("set:small", words("a b c")),
        ("set:large", (1..=200).map(|it| it.to_string()).chain(words("word")).collect()),
        ("zset:small", words("c=-inf a=1 b=2.5")),
        ("zset:large", (1..=150).map(|it| format!("m{it}={it}")).collect()),
        ("hash:small", words("a=1 b=two")),
        ("hash:large", fields(None)),
        ("hash:expiring", words(&format!("a=1 b=2{expiry} c=3"))),
        ("hash:expiring:large", fields(Some(7))),
    ])
}

#[test]
fn elements_of_files_of_real_servers_are_read() {
    let types: [&[u8]; 3] = [
        &[2, 4, 5, 11, 16, 17, 18],
        &[2, 4, 5, 11, 16, 17, 18, 20, 24, 25],
        &[2, 4, 5, 11, 16, 17, 18, 20, 22],
    ];
    for (server, types) in SERVERS.iter().zip(types) {
        let expiry = if *server == "redis-7.0.15" { "" } else { "@4102444800123" };
        let file = golden(&format!("{server}.rdb"));
        let mut found = read(&file).unwrap();
        found.retain(|_, (number, _)| ![15, 19, 21].contains(number));
        let numbers: BTreeSet<u8> = found.values().map(|(number, _)| *number).collect();
        assert_eq!(numbers.into_iter().collect::<Vec<_>>(), types, "{server}");
        let expected = golden_collections(expiry);
        assert_eq!(found.len(), expected.len());
        for (key, (_, mut elements)) in found {
            let mut expected = expected[&key[..]].clone();
            if !key.starts_with("list") {
                // Sets and hashes are in the order of a hash table, sorted sets may be reversed.
                elements.sort();
                expected.sort();
            }
            assert_eq!(elements, expected, "{key} of {server}");
        }
    }
}

#[test]
fn counted_elements_are_read() {
    let strings = [
        &[4][..],
        &text(b"a"),
        &[0xc0, 0xf9],
        &[0xc2, 1, 0, 0, 1],
        b"\xc3\x05\x0a\x00a\xe0\x00\x00",
    ]
    .concat();
    let items = ["a", "-7", "16777217", "aaaaaaaaaa"];
    assert_eq!(value(1, 1, &strings).unwrap(), items);
    assert_eq!(value(1, 2, &strings).unwrap(), items);
    let pairs = [&[2][..], &strings[1..]].concat();
    assert_eq!(value(1, 4, &pairs).unwrap(), ["a=-7", "16777217=aaaaaaaaaa"]);
    let digits = b"\x04\x01a\x041e+3\x01b\xfe\x01c\xff\x01d\x02-0";
    assert_eq!(value(1, 3, digits).unwrap(), ["a=1000", "b=inf", "c=-inf", "d=-0"]);
    let binary =
        [&b"\x02\x01a"[..], &(-0.5_f64).to_le_bytes(), b"\x01b", &f64::INFINITY.to_le_bytes()];
    assert_eq!(value(8, 5, &binary.concat()).unwrap(), ["a=-0.5", "b=inf"]);
    for value_type in [1, 2, 3, 4, 5] {
        assert!(value(8, value_type, &[0]).unwrap().is_empty());
    }
}

#[test]
fn fields_that_expire_are_read() {
    let first = 1000_i64.to_le_bytes();
    let fields = b"\x02\x00\x01a\x01b\x05\x01c\x01d";
    assert_eq!(value(12, 24, &[&first[..], fields].concat()).unwrap(), ["a=b", "c=d@1004"]);
    assert_eq!(value(12, 22, fields).unwrap(), ["a=b", "c=d@5"]);
    // The earliest expiry is ignored if nothing is relative to it.
    let over = (1_i64 << 50).to_le_bytes();
    assert_eq!(value(12, 24, &[&over[..], b"\x01\x00\x01a\x01b"].concat()).unwrap(), ["a=b"]);
    let latest = ((1_i64 << 48) - 1).to_le_bytes();
    let found = value(12, 24, &[&latest[..], b"\x01\x01\x01a\x01b"].concat()).unwrap();
    assert_eq!(found, ["a=b@281474976710655"]);
    let triples = |times: &[i64]| {
        let names = [b"a", b"c", b"e"].into_iter();
        let packed = |text: &[u8]| [&[0x81], text, &[2]].concat();
        let entries = names.zip(times);
        let entries =
            entries.flat_map(|(name, time)| [packed(name), packed(b"v"), packed_integer(*time)]);
        text(&listpack_of(&entries.collect::<Vec<_>>()))
    };
    let right = triples(&[1004, 1005, 0]);
    let shown = ["a=v@1004", "c=v@1005", "e=v"];
    assert_eq!(value(12, 25, &[&first[..], &right].concat()).unwrap(), shown);
    assert_eq!(value(12, 23, &right).unwrap(), shown);
    for (value_type, damaged) in [
        (24, [&(1_i64 << 48).to_le_bytes()[..], fields].concat()),
        (24, [&((1_i64 << 48) - 3).to_le_bytes()[..], fields].concat()),
        (24, [&(-9_i64).to_le_bytes()[..], fields].concat()),
        (22, [&b"\x01\x81"[..], &(1_u64 << 48).to_be_bytes(), b"\x01a\x01b"].concat()),
        (25, right),
        (23, triples(&[0, 1004])),
        (23, triples(&[1005, 1004])),
        (23, triples(&[-1])),
        (23, triples(&[1 << 48])),
        (23, text(&listpack(&[b"c", b"d", b"1004"]))),
        (23, text(&listpack(&[b"c", b"d"]))),
    ] {
        value(12, value_type, &damaged).expect_err("no time");
    }
}

#[test]
fn fields_that_expire_are_read_from_valkeys_files() {
    let mut file = b"VALKEY080\x16\x01k\x02\x01a\x01b".to_vec();
    file.extend_from_slice(&(-1_i64).to_le_bytes());
    file.extend_from_slice(b"\x01c\x01d");
    file.extend_from_slice(&1004_i64.to_le_bytes());
    file.extend_from_slice(&[0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(read(&file).unwrap()["k"].1, ["a=b", "c=d@1004"]);
    let at = file.len() - 17;
    file[at..at + 8].copy_from_slice(&(-2_i64).to_le_bytes());
    read(&file).expect_err("no time");
}

#[test]
fn old_packed_forms_are_read() {
    // An unused byte after the first value, and an empty value; lengths of five bytes.
    let zipmap = b"\x02\x01a\x02\x01bc.\x01d\x00\x00\xff";
    assert_eq!(value(2, 9, &text(zipmap)).unwrap(), ["a=bc", "d="]);
    let a = "a".repeat(254);
    let long = [&b"\x41\x08\xfe\xfe\xfe\x00\x00\x00"[..], a.as_bytes(), b"\x01\x00b\xff"];
    assert_eq!(value(2, 9, &long.concat()).unwrap(), [format!("{a}=b")]);
    let pairs = ziplist(&[b"a", b"1", b"b", b"-2.5"]);
    assert_eq!(value(2, 10, &text(&pairs)).unwrap(), ["a", "1", "b", "-2.5"]);
    assert_eq!(value(2, 12, &text(&pairs)).unwrap(), ["a=1", "b=-2.5"]);
    assert_eq!(value(2, 13, &text(&pairs)).unwrap(), ["a=1", "b=-2.5"]);
    let nodes = [&[3][..], &text(&pairs), &text(&ziplist(&[])), &text(&pairs)].concat();
    let items = ["a", "1", "b", "-2.5", "a", "1", "b", "-2.5"];
    assert_eq!(value(7, 14, &nodes).unwrap(), items);
    for (width, numbers) in [
        (2, [-300_i64, 5].map(|it| it.to_le_bytes()[..2].to_vec())),
        (4, [-70_000_i64, 5].map(|it| it.to_le_bytes()[..4].to_vec())),
        (8, [-5_000_000_000_i64, 5].map(|it| it.to_le_bytes().to_vec())),
    ] {
        let intset = [&[width, 0, 0, 0, 2, 0, 0, 0], &numbers.concat()[..]].concat();
        let found = value(2, 11, &text(&intset)).unwrap();
        assert_eq!(found[1], "5");
        assert!([-300, -70_000, -5_000_000_000].contains(&parse_i64(found[0].as_bytes()).unwrap()));
    }
}

#[test]
fn every_entry_of_a_ziplist_is_read() {
    let long = [b'x'; 300];
    let body = [
        &[0, 1, b'a'][..],
        &[3, 0xc0, 0, 0xff],
        &[4, 0xd0, 0, 0, 0, 0xff],
        &[6, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0xff],
        &[10, 0xf0, 0, 0, 0xff],
        &[5, 0xfe, 200],
        &[3, 0xf1],
        &[2, 0xfd],
        &[2, 0x41, 0x2c],
        &long,
        &[0xfe, 47, 1, 0, 0, 0x80, 0, 0, 0, 2, b'y', b'z', 0xff],
    ]
    .concat();
    let all = |len: usize, last: usize, count: u16| {
        let (len, last) = (u32::try_from(len).unwrap(), u32::try_from(last).unwrap());
        let header = [&len.to_le_bytes()[..], &last.to_le_bytes(), &count.to_le_bytes()].concat();
        let ziplist = [&header[..], &body].concat();
        let value_len = u16::try_from(ziplist.len()).unwrap() | 0x4000;
        value(2, 10, &[&value_len.to_be_bytes()[..], &ziplist].concat())
    };
    let (len, last) = (10 + body.len(), 10 + body.len() - 13);
    let x = "x".repeat(300);
    let expected =
        ["a", "-256", "-16777216", "-72057594037927936", "-65536", "-56", "0", "12", &x, "yz"];
    assert_eq!(all(len, last, 10).unwrap(), expected);
    // A count that is unknown; the number of elements may be lower by now.
    assert_eq!(all(len, last, u16::MAX).unwrap(), expected);
    for (len, last, count) in [(len + 1, last, 10), (len, last - 1, 10), (len, last, 9)] {
        all(len, last, count).expect_err("it does not agree");
    }
}

#[test]
fn every_entry_of_a_listpack_is_read() {
    let body = [
        &[0x7f, 1][..],
        &[0x82, b'a', b'b', 3],
        &[0xc1, 0, 2],
        &[0xdf, 0xff, 2],
        &[0xe1, 0x2c],
        &[b'x'; 300],
        &[2, 0xae],
        &[0xf0, 1, 0, 0, 0, b'y', 6],
        &[0xf1, 0, 0xff, 3],
        &[0xf2, 0, 0, 0xff, 4],
        &[0xf3, 0, 0, 0, 0xff, 5],
        &[0xf4, 0, 0, 0, 0, 0, 0, 0, 0xff, 9, 0xff],
    ]
    .concat();
    let all = |body: &[u8], len: usize, count: u16| {
        let len = u32::try_from(len).unwrap();
        let listpack = [&len.to_le_bytes()[..], &count.to_le_bytes(), body].concat();
        let value_len = u16::try_from(listpack.len()).unwrap() | 0x4000;
        value(11, 20, &[&value_len.to_be_bytes()[..], &listpack].concat())
    };
    let (len, x) = (6 + body.len(), "x".repeat(300));
    let expected =
        ["127", "ab", "256", "-1", &x, "y", "-256", "-65536", "-16777216", "-72057594037927936"];
    assert_eq!(all(&body, len, 10).unwrap(), expected);
    assert_eq!(all(&body, len, u16::MAX).unwrap(), expected);
    all(&body, len + 1, 10).expect_err("another length");
    all(&body, len, 11).expect_err("another count");
    for (at, byte) in [(1, 2), (5, 4), (314, 0x82), (315, 0x2e)] {
        let mut changed = body.clone();
        changed[at] = byte;
        all(&changed, len, 10).expect_err("a length backwards that is another");
    }
}

#[test]
fn errors_do_not_depend_on_how_a_file_is_read() {
    struct Bytes<'a>(&'a [u8]);
    impl Read for Bytes<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let some = buffer.len().min(1);
            self.0.read(&mut buffer[..some])
        }
    }
    // A listpack that ends too early and is followed by invalid compressed data.
    let packed = [&[9][..], &listpack(&[b"a"])[..6], b"\x00\xff\x00\x00", &[0x20, 0xff]].concat();
    let len = u8::try_from(packed.len()).unwrap();
    let file = file(11, &[&[20, 1, b'k', 0xc3, len, 20], &packed[..]].concat());
    let said = |reader: &mut dyn Read| {
        let mut reader = Reader::new(reader, true).unwrap();
        reader.next_item().unwrap();
        reader.skip_value().expect_err("it is damaged").to_string()
    };
    assert_eq!(said(&mut &file[..]), said(&mut Bytes(&file)));
}

#[test]
fn quicklists_have_plain_and_packed_nodes() {
    let node = text(&listpack(&[b"a", b"1"]));
    let empty = text(&listpack(&[]));
    let nodes = [&[4, 2][..], &node, &[1], &text(b"plain"), &[2], &empty, &[1, 0xc0, 7]].concat();
    assert_eq!(value(10, 18, &nodes).unwrap(), ["a", "1", "plain", "7"]);
    assert!(value(10, 18, &[&[1, 2][..], &empty].concat()).unwrap().is_empty());
    for damaged in [&[1, 1, 0][..], &[1, 3, 1, b'a'], &[1, 0, 1, b'a'], &[1, 2, 1, b'a']] {
        value(10, 18, damaged).expect_err("no node");
    }
}

#[test]
fn collections_that_no_server_stores_are_refused() {
    let nan = f64::NAN.to_le_bytes();
    for (value_type, bytes) in [
        (2, b"\x02\x01a\x01a".to_vec()),
        (3, b"\x02\x01a\x011\x01a\x012".to_vec()),
        (3, b"\x01\x01a\xfd".to_vec()),
        (3, b"\x01\x01a\x03nan".to_vec()),
        (3, b"\x01\x01a\x021x".to_vec()),
        (3, b"\x01\x01a\x00".to_vec()),
        (4, b"\x02\x01a\x01b\x01a\x01c".to_vec()),
        (5, [&b"\x01\x01a"[..], &nan].concat()),
        (9, text(b"\x02\x01a\x01\x00b\x01a\x01\x00b\xff")),
        (9, text(b"\x01\x01a\xff")),
        (9, text(b"\x01\xfe\x01\x00\x00\x00a\x01\x00b\xff")),
        (9, text(b"\x00\xff")),
        (9, text(b"\x02\x01a\x01\x00b\xff")),
        (11, text(&[2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 1, 0])),
        (11, text(&[2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 0])),
        (11, text(&[3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0])),
        (11, text(&[2, 0, 0, 0, 0, 0, 0, 0])),
        (12, text(&ziplist(&[b"a", b"1", b"a", b"2"]))),
        (12, text(&ziplist(&[b"a", b"nan"]))),
        (12, text(&ziplist(&[b"a"]))),
        (13, text(&ziplist(&[b"a", b"1", b"b"]))),
        (13, text(&ziplist(&[b"a", b"1", b"a", b"1"]))),
        (16, text(&listpack(&[b"a", b"1", b"b"]))),
        (16, text(&listpack(&[b"a", b"1", b"a", b"2"]))),
        (17, text(&listpack(&[b"a", b"b"]))),
        (20, text(&listpack(&[b"a", b"b", b"a"]))),
        (20, vec![0xc0, 7]),
        (10, [text(&ziplist(&[b"a"])), vec![]].concat()[..10].to_vec()),
    ] {
        let fault = value(10, value_type, &bytes).expect_err("it is damaged");
        assert!(matches!(fault, Fault::Damaged { .. }), "{fault}");
    }
    for (value_type, bytes) in [
        (10, text(&ziplist(&[]))),
        (12, text(&ziplist(&[]))),
        (13, text(&ziplist(&[]))),
        (14, vec![0]),
        (16, text(&listpack(&[]))),
        (17, text(&listpack(&[]))),
        (18, vec![0]),
        (20, text(&listpack(&[]))),
    ] {
        assert!(value(11, value_type, &bytes).unwrap().is_empty());
    }
}

#[test]
fn type_without_a_builder_is_reported_with_its_key() {
    let file = file(10, b"\x02\x01s\x01\x01a\x01\x01l\x01\x01a");
    for threads in [0, 2] {
        let lists = Lists { without: Some(CollectionType::Set) };
        let fault = loaded(&file, threads, &lists).expect_err("no sets").to_string();
        let said = "byte 12: the key \"s\" holds a value of the type set (hashtable), \
                    which is not supported";
        assert_eq!(fault, said);
        assert_eq!(loaded(&file, threads, &Lists::default()).unwrap().len(), 2);
    }
}

#[test]
fn long_collections_and_long_elements_are_read_in_pieces() {
    let member = |number: usize| {
        let len = if number.is_multiple_of(1000) { 3 * CHUNK_BYTES + number } else { 30 };
        number.to_string().into_bytes().into_iter().cycle().take(len).collect::<Vec<u8>>()
    };
    let mut body = b"\x02\x01s".to_vec();
    body.extend_from_slice(&[0x80, 0, 0, 0x27, 0x10]);
    for number in 0..10_000 {
        let member = member(number + 100_000);
        body.push(0x80);
        body.extend_from_slice(&u32::try_from(member.len()).unwrap().to_be_bytes());
        body.extend_from_slice(&member);
    }
    // A short list after it.
    body.extend_from_slice(b"\x01\x01l\x01\x01a");
    let file = file(10, &body);
    for threads in [0, 2] {
        let mut all = loaded(&file, threads, &Lists::default()).unwrap();
        assert_eq!(all.remove("l").unwrap(), ["a"]);
        let set = all.remove("s").unwrap();
        assert_eq!(set.len(), 10_000);
        for (number, found) in set.iter().enumerate() {
            assert!(found.as_bytes() == member(number + 100_000), "{number}");
        }
    }
}
