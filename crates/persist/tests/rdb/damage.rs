//! Truncated and modified files are refused with an offset, and never cause a crash.

use crate::files::{Known, OPTIONS, PREAMBLE, read, skim, write};
use crate::golden::{SERVERS, golden};
use nagi_persist::rdb::{Fault, Item, Memcached, Reader, Text, Version, Writer, WriterOptions};

fn files() -> Vec<Vec<u8>> {
    let ours: Vec<Known> = (0..30_u32)
        .map(|number| Known {
            key: format!("key:{number}").into_bytes(),
            value: b"some words, ".repeat(number as usize),
            expire_at_ms: number.is_multiple_of(3).then_some(4_000_000_000_000),
            memcached: Memcached { flags: number, ..Memcached::default() },
            ..Known::default()
        })
        .collect();
    let golden = SERVERS.iter().map(|server| golden(&format!("{server}.rdb")));
    golden.chain([write(&ours, OPTIONS, 7)]).collect()
}

#[test]
fn truncated_file_is_reported() {
    for file in files() {
        for len in (0..file.len()).filter(|len| *len < 2000 || len.is_multiple_of(13)) {
            match skim(&file[..len]) {
                Err(Fault::Damaged { offset, .. }) => assert!(offset <= len as u64),
                other => panic!("{len} bytes: {other:?}"),
            }
        }
    }
}

#[test]
fn flipped_bit_is_detected() {
    for file in files() {
        for at in (0..file.len()).filter(|at| *at < 2000 || at.is_multiple_of(13)) {
            let mut changed = file.clone();
            changed[at] ^= 1 << (at % 8);
            let fault = skim(&changed).expect_err("it was changed");
            assert!(fault.offset() <= file.len() as u64, "{fault}");
        }
    }
}

#[test]
fn faults_have_an_offset_and_a_description() {
    let file = write(&[Known::default()], OPTIONS, 1);
    let at_end = file.len() - 9;
    for (file, expected) in [
        (
            b"memcache".to_vec(),
            "byte 8: expected the header REDIS or VALKEY with a version, \
            found the end of the file",
        ),
        (
            b"SQLite format 3".to_vec(),
            "byte 0: expected the header REDIS or VALKEY with a \
            version, found the byte 0x53",
        ),
        (b"REDIS0013".to_vec(), "byte 0: \"REDIS0013\" is not a version that can be read"),
        (b"VALKEY011".to_vec(), "byte 0: \"VALKEY011\" is not a version that can be read"),
        (
            [&file[..at_end], b"\xf0"].concat(),
            "byte %: expected a type or an opcode, \
            found the byte 0xf0",
        ),
        (
            [&file[..at_end], b"\x00\x01k\xc5"].concat(),
            "byte %3: expected a string, \
            found the byte 0xc5",
        ),
        (
            [&file[..at_end], b"\x00\x01k\x05abc"].concat(),
            "byte %7: expected the bytes of a \
            string, found the end of the file",
        ),
        (
            [&file[..at_end], b"\x00\x01k\xc3\x02\x03\x00a"].concat(),
            "byte %6: expected a \
            compressed string that is as long as it says, found something else",
        ),
        (
            [&file[..at_end], b"\x0b\x01k\x02ab"].concat(),
            "byte %3: expected an intset, \
            found something else",
        ),
        (
            [&file[..at_end], b"\x06\x01k"].concat(),
            "byte %3: the key \"k\" holds a module's \
            value of a prerelease of Redis 4, which is not supported",
        ),
        (
            [&file[..at_end], b"\xff12345678"].concat(),
            "byte %1: the checksum is \
            3837363534333231, that of the file",
        ),
    ] {
        let said = skim(&file).expect_err("damaged").to_string();
        let (head, tail) = expected.split_once('%').unwrap_or((expected, ""));
        let digits = tail.chars().take_while(char::is_ascii_digit).count();
        let (offset, tail) = tail.split_at(digits);
        let place = at_end + offset.parse::<usize>().unwrap_or(0);
        let place = if expected.contains('%') { place.to_string() } else { String::new() };
        assert!(said.starts_with(&format!("{head}{place}{tail}")), "{said}");
    }
}

#[test]
fn unsupported_type_is_reported_with_its_key() {
    let fault = read(&golden("redis-7.0.15.rdb")).expect_err("it has lists");
    let said = fault.to_string();
    assert!(said.contains("holds a value of the type "), "{said}");
    assert!(matches!(fault, Fault::Unsupported { key: Some(_), .. }));
}

#[test]
fn excessive_length_is_refused() {
    let writer = Writer::new(Vec::new(), OPTIONS, &PREAMBLE).unwrap();
    let mut file = writer.finish().unwrap();
    file.truncate(file.len() - 9);
    // A key, an auxiliary field and a value of 2^62 bytes.
    let len = [&[0x81, 0x40][..], &[0; 7]].concat();
    for head in [&b"\x00"[..], b"\xfa", b"\xf5", b"\x00\x01k", b"\x0d\x01k"] {
        let file = [&file, head, &len, b"abc"].concat();
        assert!(matches!(read(&file), Err(Fault::Damaged { .. } | Fault::Unsupported { .. })));
        assert!(matches!(skim(&file), Err(Fault::Damaged { .. })));
    }
}

#[test]
fn unread_values_are_skipped() {
    let options = WriterOptions { version: Version::LOWEST, compress: false, checksum: true };
    let known = Known { key: b"a".to_vec(), value: b"b".to_vec(), ..Known::default() };
    let file = write(&[known.clone(), known], options, 1);
    let mut reader = Reader::new(&file[..], true).unwrap();
    let mut keys = 0;
    let mut bytes = Vec::new();
    loop {
        match reader.next_item().unwrap() {
            Item::Key(_) if keys == 0 => keys += 1,
            Item::Key(_) => {
                assert!(matches!(reader.text(&mut bytes), Ok(Text::Plain(1))));
                assert!(reader.text(&mut bytes).is_err(), "there is one value a key");
                keys += 1;
            }
            Item::End => break,
            _ => {}
        }
    }
    assert_eq!((keys, &bytes[..]), (2, &b"b"[..]));
    assert_eq!(reader.next_item().unwrap(), Item::End);
}
