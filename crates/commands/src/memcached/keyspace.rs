//! The cases of `docs/keyspace.md`, with a test for each.

use super::verb::KEY_BYTES;
use crate::testing::{Bench, converse};

#[test]
fn every_case_of_the_page_has_its_test() {
    let page = include_str!("../../../../docs/keyspace.md");
    let source = include_str!("keyspace.rs");
    let mut cases = 0;
    for line in page.lines().filter(|line| line.starts_with("| ") && line.ends_with("` |")) {
        let name = line.trim_end_matches("` |").rsplit('`').next().unwrap();
        assert!(source.contains(&format!("#[test]\nfn {name}() {{")), "{name} has no test");
        cases += 1;
    }
    assert_eq!(cases, source.matches("\n#[test]\n").count() - 1, "each test has its case");
}

#[test]
fn set_then_memcached_get() {
    converse(
        "SET k hello => +OK|
         M:get k => VALUE k 0 5|hello|END|",
    );
}

#[test]
fn memcached_set_then_get() {
    converse(
        "M:set k 42 0 5|hello => STORED|
         GET k => $5|hello|
         STRLEN k => :5|
         TYPE k => +string|",
    );
}

#[test]
fn numbers_are_read_as_digits() {
    converse(
        "INCRBY k 1234 => :1234|
         M:get k => VALUE k 0 4|1234|END|
         M:incr k 1 => 1235|
         GET k => $4|1235|
         STRLEN k => :4|",
    );
}

#[test]
fn empty_values() {
    converse(
        "SET a '' => +OK|
         M:get a => VALUE a 0 0||END|
         M:set b 0 0 0| => STORED|
         GET b => $0||
         EXISTS b => :1|",
    );
}

#[test]
fn long_values() {
    let mut bench = Bench::new();
    let long = "x".repeat(100_000);
    assert_eq!(bench.call(&["SET", "a", &long]), "+OK|");
    bench.expect_memcached("get a", &format!("VALUE a 0 100000|{long}|END|"));
    bench.expect_memcached(&format!("set b 0 0 100000|{long}"), "STORED|");
    assert_eq!(bench.call(&["GET", "b"]), format!("$100000|{long}|"));
}

#[test]
fn values_beyond_the_item_limit() {
    let mut bench = Bench::new();
    let long = "x".repeat(2 << 20);
    assert_eq!(bench.call(&["SET", "k", &long]), "+OK|");
    bench.expect_memcached("get k", &format!("VALUE k 0 2097152|{long}|END|"));
    bench.expect_memcached("append k 0 0 1|x", "NOT_STORED|");
}

#[test]
fn keys_that_memcached_cannot_name() {
    let mut bench = Bench::new();
    let key = "k".repeat(KEY_BYTES + 1);
    bench.expect(&format!("SET {key} v"), "+OK|");
    bench.expect(&format!("GET {key}"), "$1|v|");
    bench.expect_memcached(&format!("get {key}"), "CLIENT_ERROR bad command line format|");
}

#[test]
fn keys_with_spaces() {
    converse(
        "SET 'a b' v => +OK|
         M:get a b => END|
         M:ms YSBi 1 b|w => HD|
         GET 'a b' => $1|w|
         M:md YSBi b => HD|
         EXISTS 'a b' => :0|",
    );
}

#[test]
fn other_databases() {
    converse(
        "SELECT 1 => +OK|
         SET k v => +OK|
         M:get k => END|
         M:set k 0 0 1|w => STORED|
         GET k => $1|v|
         SELECT 0 => +OK|
         GET k => $1|w|",
    );
}

#[test]
fn existence() {
    converse(
        "SET a 1 => +OK|
         M:add a 0 0 1|2 => NOT_STORED|
         M:replace a 0 0 1|3 => STORED|
         M:set b 0 0 1|1 => STORED|
         SETNX b 2 => :0|
         SET b 2 XX => +OK|
         EXISTS a b => :2|",
    );
}

#[test]
fn removal() {
    converse(
        "SET a 1 => +OK|
         M:delete a => DELETED|
         EXISTS a => :0|
         M:set b 0 0 1|1 => STORED|
         DEL b => :1|
         M:get b => END|
         M:set c 0 0 1|1 => STORED|
         GETDEL c => $1|1|
         M:delete c => NOT_FOUND|",
    );
}

#[test]
fn emptying() {
    converse(
        "SELECT 1 => +OK|
         SET other 1 => +OK|
         SELECT 0 => +OK|
         SET a 1 => +OK|
         M:flush_all => OK|
         DBSIZE => :0|
         M:set a 0 0 1|1 => STORED|
         FLUSHDB => +OK|
         M:get a => END|
         SELECT 1 => +OK|
         DBSIZE => :1|
         M:set a 0 0 1|1 => STORED|
         FLUSHALL => +OK|
         M:get a => END|
         DBSIZE => :0|",
    );
}

/// A server on which `k` was set to `5`, with flags, an expiry and a version known to a client,
/// before this request of a Redis or memcached client.
fn after(change: &str) -> Bench {
    let mut bench = Bench::new();
    bench.expect_memcached("set k 7 100 1|5", "STORED|");
    bench.expect_memcached("gets k", "VALUE k 7 1 2|5|END|");
    match change.strip_prefix("M:") {
        Some(change) => drop(bench.memcached(format!("{change}|").replace('|', "\r\n").as_bytes())),
        None => drop(bench.resp(format!("{change}\r\n").as_bytes())),
    }
    bench
}

/// The flags of `k`.
fn flags(bench: &mut Bench) -> String {
    let reply = String::from_utf8(bench.memcached(b"get k\r\n")).unwrap();
    reply.split(' ').nth(2).unwrap().to_owned()
}

const REDIS_OVERWRITES: [&str; 5] =
    ["SET k 5", "SET k 5 KEEPTTL", "GETSET k 5", "SETEX k 100 5", "MSET k 5"];
const REDIS_CHANGES: [&str; 2] = ["APPEND k 1", "INCR k"];
const REDIS_EXPIRY: [&str; 3] = ["EXPIRE k 50", "PERSIST k", "GETEX k EX 10"];
const MEMCACHED_CHANGES: [&str; 4] =
    ["M:append k 0 0 1|1", "M:prepend k 0 0 1|1", "M:incr k 1", "M:decr k 1"];

#[test]
fn redis_overwrites_clear_flags() {
    for change in REDIS_OVERWRITES {
        assert_eq!(flags(&mut after(change)), "0", "{change}");
    }
}

#[test]
fn redis_changes_keep_flags() {
    for change in REDIS_CHANGES.iter().chain(&REDIS_EXPIRY) {
        assert_eq!(flags(&mut after(change)), "7", "{change}");
    }
}

#[test]
fn memcached_changes_keep_flags() {
    for change in MEMCACHED_CHANGES.iter().chain(&["M:touch k 10", "M:gat 10 k"]) {
        assert_eq!(flags(&mut after(change)), "7", "{change}");
    }
}

#[test]
fn refused_writes_keep_flags() {
    for change in ["SET k 6 NX", "SETNX k 6", "MSETNX k 6", "M:add k 1 0 1|6", "M:cas k 1 0 1 9|6"]
    {
        assert_eq!(flags(&mut after(change)), "7", "{change}");
    }
}

#[test]
fn memcached_expiry_seen_by_ttl() {
    converse(
        "M:set k 0 100 1|5 => STORED|
         TTL k => :100|
         M:set k 0 1700000200 1|5 => STORED|
         EXPIRETIME k => :1700000200|
         M:set k 0 2147483647 1|5 => STORED|
         PEXPIRETIME k => :2147483647000|
         M:set k 0 9223372036854775807 1|5 => STORED|
         EXPIRETIME k => :-2|
         M:set k 0 0 1|5 => STORED|
         TTL k => :-1|",
    );
}

#[test]
fn redis_overwrites_and_expiry() {
    for (change, ttl) in [
        ("SET k 5", ":-1|"),
        ("GETSET k 5", ":-1|"),
        ("MSET k 5", ":-1|"),
        ("SET k 5 KEEPTTL", ":100|"),
        ("SETEX k 50 5", ":50|"),
    ] {
        after(change).expect("TTL k", ttl);
    }
}

#[test]
fn memcached_overwrites_and_expiry() {
    converse(
        "SET k v EX 100 => +OK|
         M:set k 0 0 1|w => STORED|
         TTL k => :-1|
         EXPIRE k 100 => :1|
         M:replace k 0 50 1|w => STORED|
         TTL k => :50|
         M:gets k => VALUE k 0 1 2|w|END|
         M:cas k 0 0 1 2|x => STORED|
         TTL k => :-1|",
    );
}

#[test]
fn changes_keep_expiry() {
    for change in REDIS_CHANGES.iter().chain(&MEMCACHED_CHANGES) {
        after(change).expect("TTL k", ":100|");
    }
}

#[test]
fn expiry_is_changed_from_either_side() {
    converse(
        "M:set a 0 100 1|x => STORED|
         EXPIRE a 50 => :1|
         @49999
         M:get a => VALUE a 0 1|x|END|
         PERSIST a => :1|
         @1
         M:get a => VALUE a 0 1|x|END|
         SET b x EX 100 => +OK|
         M:touch b 50 => TOUCHED|
         TTL b => :50|
         M:gat 0 b => VALUE b 0 1|x|END|
         TTL b => :-1|",
    );
}

#[test]
fn negative_times() {
    for change in ["M:set k 0 -1 1|5", "M:touch k -1", "M:gat -1 k", "EXPIRE k -1"] {
        let mut bench = after(change);
        bench.expect("EXISTS k", ":0|");
        bench.expect_memcached("get k", "END|");
    }
}

#[test]
fn expiry_comes_for_both() {
    converse(
        "M:set a 0 10 1|x => STORED|
         SET b x PX 10000 => +OK|
         @9999
         GET a => $1|x|
         M:get b => VALUE b 0 1|x|END|
         @1
         GET a => $-1|
         M:get b => END|",
    );
}

#[test]
fn redis_writes_make_another_version() {
    for change in REDIS_OVERWRITES.iter().chain(&REDIS_CHANGES) {
        after(change).expect_memcached("cas k 0 0 1 2|x", "EXISTS|");
    }
}

#[test]
fn expiry_does_not_make_another_version() {
    for change in REDIS_EXPIRY.iter().chain(&["M:touch k 10", "M:gat 0 k"]) {
        after(change).expect_memcached("cas k 0 0 1 2|x", "STORED|");
    }
}

#[test]
fn no_version_of_nothing() {
    for change in ["DEL k", "FLUSHALL", "GETDEL k", "PEXPIREAT k 1"] {
        after(change).expect_memcached("cas k 0 0 1 2|x", "NOT_FOUND|");
    }
    let mut bench = after("PING");
    bench.advance_ms(100_000);
    bench.expect_memcached("cas k 0 0 1 2|x", "NOT_FOUND|");
}

#[test]
fn a_value_that_is_set_again_has_another_version() {
    for again in ["SET k 5", "INCRBY k 5", "APPEND k 5"] {
        let mut bench = after("DEL k");
        bench.resp(format!("{again}\r\n").as_bytes());
        bench.expect_memcached("cas k 0 0 1 2|x", "EXISTS|");
        let version = String::from_utf8(bench.memcached(b"gets k\r\n")).unwrap();
        assert!(!version.starts_with("VALUE k 0 1 2\r\n"), "{again}: {version}");
    }
}

#[test]
fn values_of_redis_have_versions() {
    converse(
        "SET k v => +OK|
         M:gets k => VALUE k 0 1 2|v|END|
         M:cas k 0 0 1 2|w => STORED|
         GET k => $1|w|",
    );
}

#[test]
fn both_count_the_same_number() {
    converse(
        "SET k 10 => +OK|
         M:incr k 5 => 15|
         INCR k => :16|
         DECRBY k 6 => :10|
         M:decr k 1 => 9|
         GET k => $1|9|",
    );
}

#[test]
fn incr_wraps() {
    converse(
        "M:set k 0 0 20|18446744073709551615 => STORED|
         M:incr k 1 => 0|
         GET k => $1|0|
         SET k 9223372036854775807 => +OK|
         M:incr k 1 => 9223372036854775808|
         GET k => $19|9223372036854775808|",
    );
}

#[test]
fn numbers_beyond_63_bits() {
    converse(
        "SET k 18446744073709551614 => +OK|
         M:incr k 1 => 18446744073709551615|
         GET k => $20|18446744073709551615|
         INCR k => -ERR value is not an integer or out of range|
         M:decr k 18446744073709551615 => 0|
         INCR k => :1|
         SET k 9223372036854775807 => +OK|
         INCR k => -ERR increment or decrement would overflow|
         M:incr k 1 => 9223372036854775808|",
    );
}

#[test]
fn negative_numbers() {
    let refusal = "CLIENT_ERROR cannot increment or decrement non-numeric value|";
    for set in ["SET k -5", "DECRBY k 5"] {
        let mut bench = Bench::new();
        bench.resp(format!("{set}\r\n").as_bytes());
        bench.expect_memcached("incr k 1", refusal);
        bench.expect_memcached("decr k 1", refusal);
        bench.expect_memcached("get k", "VALUE k 0 2|-5|END|");
        bench.expect("INCRBY k 5", ":0|");
        bench.expect_memcached("incr k 1", "1|");
    }
}

#[test]
fn decr_stops_at_zero() {
    converse(
        "SET k 5 => +OK|
         M:decr k 6 => 0|
         GET k => $1|0|
         DECR k => :-1|",
    );
}

#[test]
fn decr_does_not_pad() {
    converse(
        "SET k 10 => +OK|
         M:decr k 1 => 9|
         M:get k => VALUE k 0 1|9|END|
         STRLEN k => :1|",
    );
}

#[test]
fn spellings_that_only_memcached_reads() {
    for spelling in ["007", "7 ", " 7"] {
        let mut bench = Bench::new();
        let set = format!("set k 0 0 {}|{spelling}", spelling.len());
        bench.expect_memcached(&set, "STORED|");
        bench.expect("INCR k", "-ERR value is not an integer or out of range|");
        bench.expect_memcached("incr k 1", "8|");
        bench.expect("INCR k", ":9|");
    }
}

#[test]
fn counters_that_are_not_there() {
    converse(
        "M:incr k 1 => NOT_FOUND|
         M:decr k 1 => NOT_FOUND|
         INCR k => :1|
         M:incr k 1 => 2|",
    );
}

/// Checks the reply to a memcached request for `k`, a hash that expires in 100 s, and the replies
/// to TYPE and TTL after it.
fn of_a_hash(request: &str, reply: &str, kind: &str, ttl: i64) {
    let mut bench = Bench::new();
    bench.expect("HSET k field 5", ":1|");
    bench.expect("EXPIRE k 100", ":1|");
    bench.expect_memcached(request, reply);
    bench.expect("TYPE k", &format!("+{kind}|"));
    bench.expect("TTL k", &format!(":{ttl}|"));
}

#[test]
fn reads_miss_other_types() {
    for (request, reply) in [
        ("get k", "END|"),
        ("gets k", "END|"),
        ("gat 50 k", "END|"),
        ("gats 50 k", "END|"),
        ("touch k 50", "NOT_FOUND|"),
        ("mg k v t", "EN|"),
        ("mg k v T50", "EN|"),
        ("mg k v N30", "EN|"),
        ("mg k v c", "EN|"),
        ("me k", "EN|"),
    ] {
        of_a_hash(request, reply, "hash", 100);
    }
}

#[test]
fn stores_replace_other_types() {
    for (request, reply) in [
        ("set k 0 0 1|x", "STORED|"),
        ("replace k 0 0 1|x", "STORED|"),
        ("ms k 1|x", "HD|"),
        ("ms k 1 MR|x", "HD|"),
    ] {
        of_a_hash(request, reply, "string", -1);
    }
}

#[test]
fn additions_refuse_other_types() {
    for (request, reply) in [
        ("add k 0 0 1|x", "NOT_STORED|"),
        ("append k 0 0 1|x", "NOT_STORED|"),
        ("prepend k 0 0 1|x", "NOT_STORED|"),
        ("ms k 1 ME|x", "NS|"),
        ("ms k 1 MA|x", "NS|"),
        ("ms k 1 MP N30|x", "NS|"),
    ] {
        of_a_hash(request, reply, "hash", 100);
    }
}

#[test]
fn other_types_have_no_versions() {
    of_a_hash("cas k 0 0 1 2|x", "EXISTS|", "hash", 100);
    of_a_hash("ms k 1 C2|x", "EX|", "hash", 100);
    of_a_hash("md k C2", "EX|", "hash", 100);
}

#[test]
fn counters_refuse_other_types() {
    let refusal = "CLIENT_ERROR cannot increment or decrement non-numeric value|";
    for request in ["incr k 1", "decr k 1", "ma k", "ma k N0 J5"] {
        of_a_hash(request, refusal, "hash", 100);
    }
}

#[test]
fn removal_of_other_types() {
    of_a_hash("delete k", "DELETED|", "none", -2);
    of_a_hash("md k", "HD|", "none", -2);
    of_a_hash("md k x", "HD|", "string", -1);
}
