//! What every command that works on strings answers to a value of another type, and what works on
//! any.

use crate::families::server::debug::tests::allowed;
use crate::testing::{Bench, show};
use nagi_store::PackedHash;
use nagi_store::types::restore::Known;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";

/// A server whose key `h` is a hash, which can expire, and whose key `s` is a string.
fn bench() -> Bench {
    let mut bench = allowed();
    let hash = PackedHash::from_fields([(&b"field"[..], &b"value"[..]), (b"n", b"12")]).unwrap();
    bench.load_hash("h", &hash, &Known::default());
    bench.expect("EXPIRE h 100", ":1|");
    bench.expect("SET s text", "+OK|");
    bench
}

#[test]
fn commands_on_strings_refuse_a_hash_and_change_nothing() {
    let mut bench = bench();
    let before = show(&bench.resp(b"DEBUG DIGEST\r\n"));
    let long = "x".repeat(200_000);
    for request in [
        "GET h",
        "GETDEL h",
        "GETEX h",
        "GETEX h EX 5",
        "GETEX h EX 0",
        "GETEX h PERSIST",
        "GETSET h x",
        "SET h x GET",
        "SET h x XX GET EX 5",
        "SET h x NX GET",
        "STRLEN h",
        "APPEND h x",
        &format!("APPEND h {long}"),
        "GETRANGE h 0 -1",
        "SUBSTR h 0 -1",
        "SETRANGE h 0 x",
        "SETRANGE h 0 ''",
        "SETRANGE h 536870912 x",
        &format!("SETRANGE h 5 {long}"),
        "INCR h",
        "DECR h",
        "INCRBY h 5",
        "DECRBY h 5",
        "INCRBYFLOAT h 0.5",
        "INCRBYFLOAT h 1e5",
        "SETBIT h 0 1",
        "GETBIT h 0",
        "BITCOUNT h",
        "BITPOS h 1",
        "BITFIELD h",
        "BITFIELD h GET u8 0",
        "BITFIELD h SET u8 0 1",
        "BITFIELD_RO h GET u8 0",
        &format!("BITFIELD h{}", " SET u8 0 1".repeat(3000)),
        &format!("BITFIELD_RO h{}", " GET u8 0".repeat(3000)),
        "BITOP AND s s h",
        "BITOP NOT s h",
        &format!("BITOP OR s{}", " h".repeat(2000)),
        "PFADD h x",
        "PFADD h",
        &format!("PFADD h{}", " x".repeat(2000)),
        "PFCOUNT h",
        "PFCOUNT h none",
        &format!("PFCOUNT{}", " h".repeat(2000)),
        "PFMERGE h none",
        "PFMERGE none h",
        &format!("PFMERGE none{}", " h".repeat(2000)),
        "PFDEBUG ENCODING h",
    ] {
        let words: Vec<_> = request.split(' ').map(|word| word.trim_matches('\'')).collect();
        assert_eq!(bench.call(&words), WRONG_TYPE, "{}", &request[..request.len().min(40)]);
    }
    bench.expect("LCS h s", "-ERR The specified keys must contain string values|");
    bench.expect("TTL h", ":100|");
    assert_eq!(show(&bench.resp(b"DEBUG DIGEST\r\n")), before);
}

#[test]
fn commands_that_store_a_string_replace_a_hash() {
    for request in [
        "SET h x",
        "SET h x XX",
        "SETEX h 10 x",
        "PSETEX h 10000 x",
        "MSET a 1 h x",
        "COPY s h REPLACE",
    ] {
        let mut bench = bench();
        bench.resp(format!("{request}\r\n").as_bytes());
        bench.expect("TYPE h", "+string|");
    }
    let mut bench = bench();
    bench.expect("BITOP NOT h s", ":4|");
    bench.expect("TYPE h", "+string|");
    bench.expect("TTL h", ":-1|");
}

#[test]
fn a_hash_that_exists_keeps_strings_away() {
    let mut bench = bench();
    bench.expect("SETNX h x", ":0|");
    bench.expect("SET h x NX", "$-1|");
    bench.expect("MSETNX new x h x", ":0|");
    bench.expect("EXISTS h new", ":1|");
    bench.expect("RENAMENX s h", ":0|");
    bench.expect("TYPE h", "+hash|");
}

#[test]
fn commands_on_any_value_work_on_a_hash() {
    let mut bench = bench();
    bench.expect("MGET s h none", "*3|$4|text|$-1|$-1|");
    bench.expect("TYPE h", "+hash|");
    bench.expect("OBJECT ENCODING h", "$8|listpack|");
    bench.expect("OBJECT REFCOUNT h", ":1|");
    bench.expect("SCAN 0 TYPE hash", "*2|$1|0|*1|$1|h|");
    bench.expect("SCAN 0 TYPE string", "*2|$1|0|*1|$1|s|");
    bench.expect("MEMORY USAGE h", ":52|");
    // As redis-server 7.0 answers to a hash of these fields.
    bench.expect("DEBUG DIGEST-VALUE h", "*1|+fd9327e1921f3ae381e8f5690cf6278e2539946f|");
    let dump = show(&bench.resp(b"DUMP h\r\n"));
    assert!(dump.contains("field\u{5}value\u{1}n"), "{dump:?}");
    bench.expect("COPY h copy", ":1|");
    bench.expect("TTL copy", ":100|");
    bench.expect("DEBUG DIGEST-VALUE copy", "*1|+fd9327e1921f3ae381e8f5690cf6278e2539946f|");
    bench.expect("RENAME copy other", "+OK|");
    bench.expect("MOVE other 1", ":1|");
    bench.expect("SELECT 1", "+OK|");
    bench.expect("TYPE other", "+hash|");
    bench.expect("DEBUG DIGEST-VALUE other", "*1|+fd9327e1921f3ae381e8f5690cf6278e2539946f|");
    bench.expect("PERSIST other", ":1|");
    bench.expect("DEL other", ":1|");
    bench.expect("TYPE other", "+none|");
}
