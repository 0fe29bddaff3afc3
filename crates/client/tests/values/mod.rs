//! Values stored by PHP's memcached 3.2 and by pylibmc.

use std::path::Path;
use std::process::Command;

use nagi_client::cache::{Cache, Settings};
use nagi_client::ring::{Configuration, Library, Server};
use nagi_client::values::{Kind, Origin, Unpacked};
use nagi_client::wire::Value;

use crate::peer::Peer;

const LIMIT_BYTES: usize = 1 << 20;

/// The text that the files of tests/php contain.
fn text() -> String {
    (0..60).map(|n| format!("line {} of a text that repeats itself\n", n * 7 % 10)).collect()
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/php").join(name)).unwrap()
}

fn php(bytes: &[u8], flags: u32, limit_bytes: usize) -> Result<Unpacked, String> {
    let value = Value { bytes: bytes.to_vec(), flags, cas: None };
    Unpacked::new(&value, Origin::Php, limit_bytes)
}

#[test]
fn values_that_php_compressed_are_read() {
    let long = text().repeat(40) + &"x".repeat(20_000) + &text();
    for (name, flags, expected) in
        [("fastlz-1.bin", 0x50, text()), ("zlib.bin", 0x30, text()), ("fastlz-2.bin", 0x50, long)]
    {
        let unpacked = php(&file(name), flags, LIMIT_BYTES).unwrap();
        assert_eq!(unpacked.kind, Kind::Bytes);
        assert!(unpacked.bytes == expected.as_bytes(), "{name}");
        let refusal = php(&file(name), flags, expected.len() - 1).unwrap_err();
        assert!(refusal.contains("longer than"), "{refusal}");
    }
    for (bytes, flags, kind) in [
        (&b"42"[..], 1, Kind::Integer),
        (b"1.5", 2, Kind::Double),
        (b"1", 3, Kind::Boolean),
        (b"", 3, Kind::Boolean),
        (b"\0\0\0\x02\x14\x01\x06\0\x06\x01", 5, Kind::Igbinary),
    ] {
        let expected = Unpacked { kind, bytes: bytes.to_vec() };
        assert_eq!(php(bytes, flags, LIMIT_BYTES), Ok(expected));
    }
}

#[test]
fn damaged_values_are_refused() {
    for (name, flags) in [("fastlz-1.bin", 0x50), ("zlib.bin", 0x30), ("fastlz-2.bin", 0x50)] {
        let whole = file(name);
        for len in 0..whole.len() {
            assert!(php(&whole[..len], flags, LIMIT_BYTES).is_err(), "{name} cut to {len}");
        }
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..5000 {
            let mut bytes = whole.clone();
            let at = random.usize(..bytes.len());
            bytes[at] ^= random.u8(1..);
            // Whether or not damaged data can be read, the result is never longer than the limit.
            if let Ok(found) = php(&bytes, flags, LIMIT_BYTES) {
                assert!(found.bytes.len() <= LIMIT_BYTES);
            }
        }
    }
    assert!(php(b"x", 8, LIMIT_BYTES).is_err());
    assert!(php(b"\x01\0\0\0x", 0x10, LIMIT_BYTES).is_err());
}

#[test]
fn values_that_pylibmc_stored_are_read() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.setup/bin/python");
    let has_pylibmc = Command::new(&python).args(["-c", "import pylibmc"]).output();
    if !has_pylibmc.is_ok_and(|output| output.status.success()) {
        println!("skipped: no pylibmc");
        return;
    }
    let peer = Peer::fresh("memcached");
    let script = format!(
        "import pylibmc\nclient = pylibmc.Client(['127.0.0.1:{}'])\n\
         client.set('long', 'é' * 5000, min_compress_len=100)\nclient.set('text', 'é')\n\
         client.set('bytes', b'\\x00\\xff')\nclient.set('int', 42)\nclient.set('true', True)\n\
         client.set('list', [1])",
        peer.port
    );
    let output = Command::new(&python).args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ring = Configuration::from(Library::Pylibmc);
    let ring = ring.ring(vec![Server::new("127.0.0.1", peer.port)]);
    let mut cache = Cache::new(ring, Settings::default());
    let mut read = |key: &str| {
        let value = cache.get(key.as_bytes()).unwrap().unwrap();
        Unpacked::new(&value, Origin::Pylibmc, LIMIT_BYTES).unwrap()
    };
    let unpacked = |kind, bytes: &[u8]| Unpacked { kind, bytes: bytes.to_vec() };
    assert!(read("long") == unpacked(Kind::Text, "é".repeat(5000).as_bytes()));
    assert_eq!(read("text"), unpacked(Kind::Text, "é".as_bytes()));
    assert_eq!(read("bytes"), unpacked(Kind::Bytes, b"\x00\xff"));
    assert_eq!(read("int"), unpacked(Kind::Integer, b"42"));
    assert_eq!(read("true"), unpacked(Kind::Integer, b"1"));
    assert_eq!(read("list").kind, Kind::Pickle);
}
