//! Compares the contents of real servers' files with what the servers reported; `golden/make.sh`
//! creates both.

use nagi_persist::rdb::{Item, Reader};
use nagi_store::types::restore::Usage;
use std::fs;
use std::path::PathBuf;

pub(crate) const SERVERS: [&str; 3] = ["redis-7.0.15", "redis-8.0.6", "valkey-9.1"];

pub(crate) fn golden(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap()
}

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/golden", name].iter().collect()
}

/// Returns the contents of a file: keys in the server's format, and all other items.
fn listing(file: &[u8]) -> (Vec<String>, Vec<String>) {
    let (mut keys, mut rest) = (Vec::new(), Vec::new());
    let mut reader = Reader::new(file, true).unwrap();
    loop {
        match reader.next_item().unwrap() {
            Item::Key(record) => {
                let key = reader.key().escape_ascii().to_string();
                let measure = reader.skip_value().unwrap();
                assert!(measure.file_bytes > 0, "{key}");
                let expiry = record.expire_at_ms.map_or("-1".to_owned(), |at_ms| at_ms.to_string());
                let (database, elements) = (record.database, measure.elements);
                let name = record.value_type.name();
                keys.push(format!("{database} {key} {name} {elements} {expiry}"));
                rest.extend(record.usage.map(|usage| format!("{usage:?}")));
            }
            Item::Aux(name, _) => rest.push(String::from_utf8(name).unwrap()),
            Item::Function(library) => {
                assert!(library.starts_with(b"#!lua name=golden"));
                rest.push("function".to_owned());
            }
            Item::End => break,
            _ => {}
        }
    }
    keys.sort();
    (keys, rest)
}

#[test]
fn every_type_is_counted_as_in_the_server() {
    for server in SERVERS {
        let (keys, rest) = listing(&golden(&format!("{server}.rdb")));
        let mut said: Vec<String> = fs::read_to_string(path(&format!("{server}.txt")))
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        said.sort();
        assert_eq!(keys, said, "{server}");
        let fields = ["redis-bits", "ctime", "used-mem", "aof-base", "function"];
        assert!(fields.iter().all(|field| rest.iter().any(|it| it == field)), "{rest:?}");
    }
}

#[test]
fn access_times_and_frequencies_are_read() {
    for server in SERVERS {
        let (_, rest) = listing(&golden(&format!("{server}-lfu.rdb")));
        let expected = format!("{:?}", Usage::Frequency(5));
        assert_eq!(rest.last(), Some(&expected), "{server}");
        let (_, rest) = listing(&golden(&format!("{server}-lru.rdb")));
        assert!(rest.last().unwrap().starts_with("IdleMs("), "{server}: {rest:?}");
    }
}

#[test]
fn compression_and_checksum_are_optional() {
    for server in SERVERS {
        let file = golden(&format!("{server}-plain.rdb"));
        assert!(file.ends_with(&[0; 8]));
        assert_eq!(listing(&file).0, ["0 words string 1 -1"]);
    }
}
