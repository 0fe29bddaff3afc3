//! Tests of replies to values of the wrong type, for commands of one type and for commands of all
//! types.

use crate::families::server::debug::tests::allowed;
use crate::testing::{Bench, show};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";

/// A server with a hash under `h`, which can expire, and a string under `s`.
fn bench() -> Bench {
    let mut bench = allowed();
    bench.expect("HSET h field value n 12", ":2|");
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
fn commands_on_sets_refuse_other_types_and_change_nothing() {
    let mut bench = bench();
    bench.expect("SADD m 1 2", ":2|");
    let before = show(&bench.resp(b"DEBUG DIGEST\r\n"));
    let many = " 1".repeat(2000);
    for request in [
        "SADD h x",
        &format!("SADD h{many}"),
        "SREM s x",
        &format!("SREM s{many}"),
        "SMEMBERS h",
        "SISMEMBER s x",
        "SMISMEMBER h x",
        &format!("SMISMEMBER h{many}"),
        "SCARD s",
        "SPOP h",
        "SPOP h 0",
        "SPOP h 2",
        "SPOP s 2000",
        "SRANDMEMBER s",
        "SRANDMEMBER s 0",
        "SRANDMEMBER s -2",
        "SSCAN h 0",
        "SSCAN h 0 NONSENSE",
        "SMOVE h m 1",
        "SMOVE m s 1",
        "SMOVE m s 9",
        "SINTER none h",
        "SINTER m s",
        "SINTERCARD 2 none s",
        "SUNION m h",
        "SDIFF none h",
        "SINTERSTORE s none h",
        "SUNIONSTORE m m s",
        "SDIFFSTORE m none s",
        &format!("SUNION{} s", " m".repeat(200)),
        &format!("SUNIONSTORE m{} s", " m".repeat(200)),
    ] {
        let words: Vec<_> = request.split(' ').collect();
        assert_eq!(bench.call(&words), WRONG_TYPE, "{}", &request[..request.len().min(40)]);
    }
    bench.expect("SMOVE none s 1", ":0|");
    assert_eq!(show(&bench.resp(b"DEBUG DIGEST\r\n")), before);
    for request in ["GET m", "HGET m x", "INCR m", "APPEND m x", "HSET m a b"] {
        bench.expect(request, WRONG_TYPE);
    }
}

#[test]
fn commands_on_lists_refuse_other_types_and_change_nothing() {
    let mut bench = bench();
    bench.expect("RPUSH l a b", ":2|");
    let before = show(&bench.resp(b"DEBUG DIGEST\r\n"));
    for key in ["h", "s"] {
        let many = " x".repeat(1000);
        let keys = format!(" none {key}").repeat(100);
        for request in [
            format!("LPUSH {key} x"),
            format!("RPUSH {key} x y"),
            format!("LPUSHX {key} x"),
            format!("RPUSHX {key}{many}"),
            format!("LPUSH {key}{many}"),
            format!("LPOP {key}"),
            format!("RPOP {key} 2"),
            format!("LPOP {key} 0"),
            format!("LLEN {key}"),
            format!("LRANGE {key} 0 -1"),
            format!("LINDEX {key} x"),
            format!("LSET {key} x x"),
            format!("LINSERT {key} BEFORE x y"),
            format!("LREM {key} 0 x"),
            format!("LTRIM {key} 1 0"),
            format!("LPOS {key} x"),
            format!("LMOVE {key} l LEFT LEFT"),
            format!("LMOVE l {key} LEFT LEFT"),
            format!("RPOPLPUSH {key} {key}"),
            format!("RPOPLPUSH l {key}"),
            format!("LMPOP 2 none {key} LEFT"),
            format!("LMPOP 200{keys} LEFT"),
        ] {
            let words: Vec<_> = request.split(' ').collect();
            assert_eq!(bench.call(&words), WRONG_TYPE, "{}", &request[..request.len().min(40)]);
        }
        bench.expect(&format!("LMOVE none {key} LEFT LEFT"), "$-1|");
        bench.expect(&format!("LMPOP 2 {key} l LEFT"), WRONG_TYPE);
    }
    for request in ["GET l", "HLEN l", "APPEND l x", "INCR l", "HSET l a b"] {
        bench.expect(request, WRONG_TYPE);
    }
    assert_eq!(show(&bench.resp(b"DEBUG DIGEST\r\n")), before);
}

#[test]
fn commands_on_any_value_work_on_a_list() {
    let mut bench = bench();
    bench.expect("RPUSH l field value n 12", ":4|");
    bench.expect("TYPE l", "+list|");
    bench.expect("SCAN 0 TYPE list", "*2|$1|0|*1|$1|l|");
    bench.expect("OBJECT ENCODING l", "$8|listpack|");
    // The reply of redis-server 7.0 for a list with these elements.
    let digest = "*1|+a2975a3d59862adf2d304e2e7a9698e2987bfdff|";
    bench.expect("DEBUG DIGEST-VALUE l", digest);
    bench.expect("COPY l copy", ":1|");
    bench.expect("RPUSH l x", ":5|");
    bench.expect("DEBUG DIGEST-VALUE copy", digest);
    bench.expect("RENAME copy other", "+OK|");
    bench.expect("MOVE other 1", ":1|");
    bench.expect("SELECT 1", "+OK|");
    bench.expect("DEBUG DIGEST-VALUE other", digest);
    bench.expect("SET other x", "+OK|");
    bench.expect("TYPE other", "+string|");
}

#[test]
fn commands_on_sorted_sets_refuse_other_types_and_change_nothing() {
    let mut bench = bench();
    bench.expect("ZADD z 1 a 2 b", ":2|");
    let before = show(&bench.resp(b"DEBUG DIGEST\r\n"));
    let many = " 1 x".repeat(1000);
    for key in ["h", "s"] {
        let keys = format!(" none {key}").repeat(100);
        for request in [
            format!("ZADD {key} 1 a"),
            format!("ZADD {key} XX 1 a"),
            format!("ZADD {key}{many}"),
            format!("ZINCRBY {key} 1 a"),
            format!("ZREM {key} a"),
            format!("ZREM {key}{many}"),
            format!("ZSCORE {key} a"),
            format!("ZMSCORE {key}{many}"),
            format!("ZCARD {key}"),
            format!("ZRANK {key} a"),
            format!("ZREVRANK {key} a"),
            format!("ZCOUNT {key} 0 1"),
            format!("ZLEXCOUNT {key} - +"),
            format!("ZRANGE {key} 0 -1"),
            format!("ZRANGEBYSCORE {key} 0 1"),
            format!("ZREVRANGEBYLEX {key} + -"),
            format!("ZREVRANGE {key} 0 -1"),
            format!("ZRANGESTORE z {key} 0 -1"),
            format!("ZPOPMIN {key}"),
            format!("ZPOPMAX {key} 0"),
            format!("ZMPOP 2 none {key} MIN"),
            format!("ZMPOP 200{keys} MIN"),
            format!("ZREMRANGEBYRANK {key} 0 -1"),
            format!("ZREMRANGEBYSCORE {key} 0 1"),
            format!("ZREMRANGEBYLEX {key} - +"),
            format!("ZRANDMEMBER {key}"),
            format!("ZRANDMEMBER {key} 0"),
            format!("ZSCAN {key} 0 NONSENSE"),
            format!("ZUNION 2 z {key} NONSENSE"),
            format!("ZUNION 200{keys}"),
            format!("ZINTERCARD 2 none {key}"),
            format!("ZUNIONSTORE z 2 none {key}"),
            format!("ZINTERSTORE z 200{keys}"),
            format!("ZDIFFSTORE z 1 {key}"),
            format!("GEOADD {key} 1 1 a"),
            format!("GEOPOS {key} a"),
            format!("GEOHASH {key} a"),
            format!("GEODIST {key} a b"),
            format!("GEOSEARCH {key} FROMLONLAT 1 1 BYRADIUS 1 m"),
            format!("GEOSEARCHSTORE z {key} FROMLONLAT 1 1 BYRADIUS 1 m"),
            format!("GEORADIUS {key} 1 1 1 m STORE z"),
            format!("GEORADIUSBYMEMBER_RO {key} a 1 m"),
        ] {
            let words: Vec<_> = request.split(' ').collect();
            assert_eq!(bench.call(&words), WRONG_TYPE, "{}", &request[..request.len().min(40)]);
        }
    }
    for request in ["GET z", "HLEN z", "SADD z a", "LPUSH z a", "SINTER z"] {
        bench.expect(request, WRONG_TYPE);
    }
    assert_eq!(show(&bench.resp(b"DEBUG DIGEST\r\n")), before);
}

#[test]
fn commands_on_streams_refuse_other_types_and_the_reverse() {
    let mut bench = bench();
    bench.expect("XADD x 1-1 a b", "$3|1-1|");
    bench.expect("XGROUP CREATE x g 0", "+OK|");
    let before = show(&bench.resp(b"DEBUG DIGEST\r\n"));
    let many = " 1-1".repeat(1000);
    for key in ["h", "s"] {
        for request in [
            format!("XADD {key} * a b"),
            format!("XDEL {key} 1-1"),
            format!("XDEL {key}{many}"),
            format!("XREAD STREAMS x {key} 0 0"),
            format!("XREAD BLOCK 0 STREAMS {key} $"),
            format!("XREADGROUP GROUP g c STREAMS x {key} > >"),
            format!("XACK {key} g{many}"),
            format!("XCLAIM {key} g c 0{many}"),
            format!("XAUTOCLAIM {key} g c 0 0"),
            format!("XGROUP CREATE {key} g 0 MKSTREAM"),
            format!("XGROUP DELCONSUMER {key} g c"),
            format!("XINFO STREAM {key} FULL"),
        ] {
            let words: Vec<_> = request.split(' ').collect();
            assert_eq!(bench.call(&words), WRONG_TYPE, "{}", &request[..request.len().min(40)]);
        }
    }
    for request in [
        "GET x",
        "APPEND x a",
        "INCR x",
        "SETBIT x 0 1",
        "PFADD x a",
        "HGET x a",
        "HSET x a b",
        "SADD x a",
        "SUNION x",
        "LPUSH x a",
        "BLPOP x 0",
        "ZADD x 1 a",
        "ZUNION 1 x",
        "SORT x",
    ] {
        bench.expect(request, WRONG_TYPE);
    }
    assert_eq!(show(&bench.resp(b"DEBUG DIGEST\r\n")), before);
    bench.expect("TYPE x", "+stream|");
    bench.expect("SET x text", "+OK|");
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
fn conditional_commands_do_not_replace_a_hash() {
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
    // The reply of redis-server 7.0 for a hash with these fields.
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
