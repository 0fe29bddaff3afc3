//! Conversations with the replies of memcached 1.6.45.

use super::VERBS;
use super::verb::KEY_BYTES;
use crate::config::Origin;
use crate::testing::{Bench, START_MS, converse};
use std::collections::BTreeSet;

const BAD_LINE: &str = "CLIENT_ERROR bad command line format|";

#[test]
fn rows_of_verbs_are_distinct_and_complete() {
    let names: BTreeSet<_> = VERBS.iter().map(|verb| verb.name).collect();
    assert_eq!(names.len(), VERBS.len(), "names are unique");
    for verb in VERBS {
        let keys_within = verb.keys.first() < verb.words;
        assert!(keys_within, "{}: a request has its first key at least", verb.name);
        assert!(!verb.summary.is_empty() && !verb.summary.ends_with('.'), "{}", verb.name);
    }
}

#[test]
fn values_are_stored_and_returned() {
    converse(
        "M:get a => END|
         M:set a 5 0 1|x => STORED|
         M:get a => VALUE a 5 1|x|END|
         M:get a b a => VALUE a 5 1|x|VALUE a 5 1|x|END|
         M:add a 0 0 1|y => NOT_STORED|
         M:add b 1 0 1|y => STORED|
         M:replace b 3 0 1|z => STORED|
         M:replace none 3 0 1|z => NOT_STORED|
         M:append b 9 9 2|ab => STORED|
         M:prepend b 9 9 2|cd => STORED|
         M:get b => VALUE b 3 5|cdzab|END|
         M:append none 0 0 1|x => NOT_STORED|
         M:prepend none 0 0 1|x => NOT_STORED|
         M:set a 4294967295 0 0| => STORED|
         M:get a => VALUE a 4294967295 0||END|
         M:set a 4294967297 0 1|x => STORED|
         M:get a => VALUE a 1 1|x|END|
         M:delete a => DELETED|
         M:delete a => NOT_FOUND|
         M:delete b 0 => DELETED|
         M:delete b 1 => CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]|
         M:delete b 0 0 => CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]|
         M:delete b 1 2 3 => ERROR|
         M:get => CLIENT_ERROR bad command line format|
         M:gets => CLIENT_ERROR bad command line format|
         M:delete => CLIENT_ERROR bad command line format|
         M:set a -1 0 1|x => CLIENT_ERROR bad command line format|
         M:set a x 0 1|x => CLIENT_ERROR bad command line format|
         M:set a 0 x 1|x => CLIENT_ERROR bad command line format|",
    );
}

#[test]
fn a_value_does_not_grow_beyond_the_limit() {
    let mut bench = Bench::new();
    let half = "x".repeat(600_000);
    bench.expect_memcached(&format!("set a 0 0 600000|{half}"), "STORED|");
    bench.expect_memcached(&format!("append a 0 0 600000|{half}"), "NOT_STORED|");
    bench.expect("STRLEN a", ":600000|");
}

#[test]
fn keys_of_more_than_250_bytes_are_refused() {
    let mut bench = Bench::new();
    let key = "k".repeat(KEY_BYTES);
    bench.expect_memcached(&format!("set {key} 0 0 1|x"), "STORED|");
    bench.expect_memcached(&format!("get {key}"), &format!("VALUE {key} 0 1|x|END|"));
    for request in [
        "set K 0 0 1|x",
        "cas K 0 0 1 2|x",
        "get K",
        "get a K b",
        "gats 0 a K",
        "incr K 1",
        "touch K 0",
        "delete K",
    ] {
        let request = request.replace('K', &"k".repeat(KEY_BYTES + 1));
        bench.expect_memcached(&request, BAD_LINE);
    }
}

#[test]
fn cas_stores_only_the_expected_version() {
    converse(
        "M:set a 0 0 1|x => STORED|
         M:gets a b => VALUE a 0 1 2|x|END|
         M:touch a 0 => TOUCHED|
         M:gets a => VALUE a 0 1 2|x|END|
         M:cas a 7 0 1 99|y => EXISTS|
         M:cas a 7 0 1 2|y => STORED|
         M:cas a 7 0 1 2|z => EXISTS|
         M:cas b 7 0 1 2|z => NOT_FOUND|
         M:get a => VALUE a 7 1|y|END|
         M:cas a 0 0 1|x => CLIENT_ERROR bad command line format|
         M:cas a 0 0 1 x|x => CLIENT_ERROR bad command line format|
         M:cas a 0 0 1 -1|x => CLIENT_ERROR bad command line format|",
    );
    let mut bench = Bench::new();
    bench.expect_memcached("set a 0 0 1|5", "STORED|");
    let mut seen = BTreeSet::new();
    for change in ["append a 0 0 1|1", "incr a 1", "decr a 1", "set a 0 0 1|1", "prepend a 0 0 1|1"]
    {
        seen.insert(bench.memcached(b"gats 0 a\r\n"));
        bench.memcached(format!("{}\r\n", change.replace('|', "\r\n")).as_bytes());
    }
    seen.insert(bench.memcached(b"gets a\r\n"));
    assert_eq!(seen.len(), 6, "every change makes another version: {seen:?}");
}

#[test]
fn expiry_times_are_relative_or_absolute() {
    converse(
        "M:set a 0 10 1|x => STORED|
         @9999
         M:get a => VALUE a 0 1|x|END|
         @1
         M:get a => END|
         M:set a 0 -1 1|x => STORED|
         M:get a => END|
         M:set a 0 2592000 1|x => STORED|
         @2591999999
         M:get a => VALUE a 0 1|x|END|
         @1
         M:get a => END|
         M:set a 0 2592001 1|x => STORED|
         M:get a => END|
         M:set a 0 1702592011 1|x => STORED|
         TTL a => :1|
         M:touch a 0 => TOUCHED|
         TTL a => :-1|
         M:touch a 5 => TOUCHED|
         M:append a 0 0 1|x => STORED|
         TTL a => :5|
         M:gat 20 a b => VALUE a 0 2|xx|END|
         TTL a => :20|
         M:gats 30 a => VALUE a 0 2 2|xx|END|
         TTL a => :30|
         M:touch none 0 => NOT_FOUND|
         M:touch a -1 => TOUCHED|
         M:get a => END|
         M:set a 0 0 1|x => STORED|
         M:gat -1 a => VALUE a 0 1|x|END|
         M:get a => END|
         M:touch a x => CLIENT_ERROR invalid exptime argument|
         M:gat x a => CLIENT_ERROR invalid exptime argument|
         M:touch a => CLIENT_ERROR bad command line format|
         M:gat => CLIENT_ERROR bad command line format|
         M:gat 0 => CLIENT_ERROR bad command line format|",
    );
}

#[test]
fn counters_wrap_around_and_stop_at_zero() {
    converse(
        "M:incr a 1 => NOT_FOUND|
         M:decr a 1 => NOT_FOUND|
         M:set a 7 0 1|9 => STORED|
         M:incr a 1 => 10|
         M:get a => VALUE a 7 2|10|END|
         M:decr a 99 => 0|
         M:incr a 18446744073709551615 => 18446744073709551615|
         M:incr a 2 => 1|
         M:incr a 1 2 => 2|
         M:set a 0 0 2| 1 => STORED|
         M:incr a 1 => 2|
         M:set a 0 0 5|00012 => STORED|
         M:incr a 1 => 13|
         M:incr a x => CLIENT_ERROR invalid numeric delta argument|
         M:incr a -1 => CLIENT_ERROR invalid numeric delta argument|
         M:incr a +1 => CLIENT_ERROR invalid numeric delta argument|
         M:incr a 18446744073709551616 => CLIENT_ERROR invalid numeric delta argument|
         M:incr a => CLIENT_ERROR bad command line format|
         M:set a 0 0 1|x => STORED|
         M:incr a 1 => CLIENT_ERROR cannot increment or decrement non-numeric value|
         M:set a 0 0 2|-1 => STORED|
         M:decr a 1 => CLIENT_ERROR cannot increment or decrement non-numeric value|
         M:set a 0 0 0| => STORED|
         M:incr a 1 => CLIENT_ERROR cannot increment or decrement non-numeric value|",
    );
}

#[test]
fn noreply_silences_errors_as_well() {
    let mut bench = Bench::new();
    for request in [
        "set a 0 0 1 noreply|1",
        "incr a 1 noreply",
        "incr a x noreply",
        "set a x 0 1 noreply|1",
        "touch none 0 noreply",
        "delete none noreply",
        "delete none 0 noreply",
        "verbosity 1 noreply",
    ] {
        bench.expect_memcached(request, "");
    }
    bench.expect_memcached("get a", "VALUE a 0 1|2|END|");
    bench.expect_memcached("flush_all noreply", "");
    bench.expect_memcached("get a", "END|");
}

#[test]
fn flush_all_and_version_reply_as_in_memcached() {
    let mut bench = Bench::new();
    bench.expect("SELECT 1", "+OK|");
    bench.expect("SET other 1", "+OK|");
    bench.expect_memcached("set a 0 0 1|1", "STORED|");
    bench.expect_memcached("flush_all", "OK|");
    bench.expect_memcached("get a", "END|");
    bench.expect("EXISTS other", ":1|");
    bench.expect_memcached("set a 0 0 1|1", "STORED|");
    bench.expect_memcached("flush_all 10", "OK|");
    assert_eq!(*bench.process.flush_at_ms.lock(), Some(START_MS + 10_000));
    bench.expect_memcached("get a", "VALUE a 0 1|1|END|");
    bench.expect_memcached("flush_all -1", "OK|");
    assert_eq!(*bench.process.flush_at_ms.lock(), Some(u64::MAX));
    bench.expect_memcached("get a", "END|");
    bench.expect_memcached("flush_all x", "CLIENT_ERROR invalid exptime argument|");
    bench.expect_memcached("version", "VERSION 1.6.45-nagi/0.1.0|");
    bench.expect_memcached("verbosity 1", "OK|");
    bench.expect_memcached("verbosity", BAD_LINE);
    bench.expect_memcached("verbosity x", BAD_LINE);
    bench.expect_memcached("GET a", "ERROR|");
    bench.expect_memcached("foo", "ERROR|");
    bench.expect_memcached("stats foo", "ERROR|");
    assert!(!bench.memcached.closing);
    bench.expect_memcached("quit", "");
    assert!(bench.memcached.closing);
}

#[test]
fn stats_count_hits_and_misses() {
    let mut bench = Bench::new();
    for request in [
        "set a 0 0 1|1",
        "add a 0 0 1|1",
        "get a b",
        "gat 0 a b",
        "touch b 0",
        "incr a 1",
        "decr b 1",
        "cas a 0 0 1 9|1",
        "delete a",
        "delete a",
        "flush_all",
    ] {
        bench.memcached(format!("{request}|").replace('|', "\r\n").as_bytes());
    }
    let stats = String::from_utf8(bench.memcached(b"stats\r\n")).unwrap();
    for (name, value) in [
        ("cmd_get", 2),
        ("cmd_set", 3),
        ("cmd_flush", 1),
        ("cmd_touch", 3),
        ("get_hits", 1),
        ("get_misses", 1),
        ("delete_hits", 1),
        ("delete_misses", 1),
        ("incr_hits", 1),
        ("incr_misses", 0),
        ("decr_misses", 1),
        ("cas_badval", 1),
        ("cas_hits", 0),
        ("touch_hits", 1),
        ("touch_misses", 2),
        ("curr_items", 0),
        ("threads", 1),
    ] {
        assert!(stats.contains(&format!("STAT {name} {value}\r\n")), "{name}: {stats}");
    }
    assert!(stats.ends_with("END\r\n"));
    bench.expect_memcached("stats reset", "RESET|");
    let stats = String::from_utf8(bench.memcached(b"stats\r\n")).unwrap();
    assert!(stats.contains("STAT cmd_get 0\r\n"));
    let settings = String::from_utf8(bench.memcached(b"stats settings\r\n")).unwrap();
    assert!(settings.contains("STAT item_size_max 1048576\r\n"), "{settings}");
}

#[test]
fn operators_verbs_reply_as_in_memcached() {
    let mut bench = Bench::new();
    for (request, reply) in [
        ("cache_memlimit 64", "OK|"),
        ("cache_memlimit 1", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m|"),
        ("cache_memlimit x", "ERROR|"),
        ("cache_memlimit", "ERROR|"),
        ("shutdown", "SERVER_ERROR: shutdown not enabled|"),
        ("stats reset", "RESET|"),
        ("stats detail on", "OK|"),
        ("stats detail dump", "END|"),
        ("stats sizes", "STAT sizes_status disabled|END|"),
        ("stats items", "END|"),
        ("lru_crawler", "ERROR|"),
        ("lru_crawler enable", "OK|"),
        ("lru_crawler sleep 1000001", "CLIENT_ERROR sleep must be one second or less|"),
        ("lru_crawler tocrawl x", "CLIENT_ERROR bad command line format|"),
        ("lru_crawler crawl 99", "BADCLASS invalid class id|"),
        ("lru_crawler metadump x", "BADCLASS invalid class id|"),
        ("lru_crawler metadump all", "OK|END|"),
        ("lru_crawler metadump 2,3", "OK|END|"),
        ("lru_crawler crawl ,", "NOTSTARTED no items to crawl|"),
        ("lru_crawler crawl all all", "ERROR|"),
        ("slabs reassign 1 2", "NOSPARE source class has no spare pages|"),
        ("slabs automove 1", "OK|"),
        ("lru mode flat", "OK|"),
        ("lru tune 10", "ERROR|"),
        ("watch mutations", "OK|"),
        ("watch nonsense", "ERROR|"),
    ] {
        bench.expect_memcached(request, reply);
    }
    assert_eq!(bench.process.config.maxmemory.get(), 64 << 20);
}

#[test]
fn every_key_is_dumped_once() {
    let mut bench = Bench::new();
    for number in 0..1000 {
        bench.expect_memcached(&format!("set key:{number} 0 0 1|x"), "STORED|");
    }
    bench.expect_memcached("set s%/~ 7 100 1|x", "STORED|");
    bench.expect_memcached("ms AAH/ 1 b|x", "HD|");
    let dump = String::from_utf8(bench.memcached(b"lru_crawler metadump all\r\n")).unwrap();
    assert_eq!(dump.lines().count(), 1004);
    let found = dump.lines().find(|line| line.starts_with("key=s")).unwrap();
    let found = found.strip_prefix("key=s%25%2F~ exp=1700000100 la=1700000000 cas=").unwrap();
    let (cas, rest) = found.split_once(' ').unwrap();
    assert_eq!(rest, "fetch=no cls=1 size=33 flags=7 ");
    bench.expect_memcached("gets s%/~", &format!("VALUE s%/~ 7 1 {cas}|x|END|"));
    assert!(dump.contains("key=%00%01%FF exp=-1 "), "{dump}");
    let keys = String::from_utf8(bench.memcached(b"lru_crawler mgdump hash\r\n")).unwrap();
    assert!(keys.contains("mg key:1\r\n"), "{keys}");
    assert!(keys.contains("mg AAH/ b\r\n") && keys.ends_with("EN\r\n"), "{keys}");
}

#[test]
fn a_dump_gives_numbers_only_to_strings_and_while_there_is_room() {
    let mut bench = Bench::new();
    bench.expect("SADD set member", ":1|");
    bench.expect_memcached("set a 0 0 1|x", "STORED|");
    let filler = "x".repeat(1_000_000);
    // More than what other tests of the process charge for meanwhile.
    for index in 0..64 {
        bench.expect_memcached(&format!("set filler:{index} 0 0 1000000|{filler}"), "STORED|");
    }
    bench.expect("CONFIG SET maxmemory 1", "+OK|");
    let dumped = |bench: &mut Bench| {
        let dump = String::from_utf8(bench.memcached(b"lru_crawler metadump all\r\n")).unwrap();
        ["key=a ", "key=set "].map(|key| {
            let line = dump.lines().find(|line| line.starts_with(key)).unwrap();
            !line.contains(" cas=0 ")
        })
    };
    assert_eq!(dumped(&mut bench), [false, false], "memory is full");
    bench.expect("CONFIG SET maxmemory 0", "+OK|");
    bench.process.config.set("memcached-cas", "no", Origin::Startup).unwrap();
    assert_eq!(dumped(&mut bench), [false, false], "versions have no numbers");
    bench.process.config.set("memcached-cas", "yes", Origin::Startup).unwrap();
    assert_eq!(dumped(&mut bench), [true, false]);
}

#[test]
fn classes_have_their_ages() {
    let mut bench = Bench::new();
    bench.expect_memcached("stats items", "END|");
    bench.expect_memcached("stats slabs", "STAT active_slabs 0|STAT total_malloced 0|END|");
    bench.expect_memcached("set a 0 0 1|x", "STORED|");
    bench.advance_ms(4000);
    bench.expect_memcached("set b 0 0 1|x", "STORED|");
    bench.advance_ms(3000);
    let shown = String::from_utf8(bench.memcached(b"stats items\r\n")).unwrap();
    assert!(shown.contains("STAT items:1:age 7\r\n"), "{shown}");
    bench.expect_memcached("get a", "VALUE a 0 1|x|END|");
    let shown = String::from_utf8(bench.memcached(b"stats items\r\n")).unwrap();
    assert!(shown.contains("STAT items:1:age 3\r\n"), "{shown}");
    assert!(shown.contains("STAT items:1:hits_to_cold 1\r\n"), "{shown}");
}

#[test]
fn all_addresses_are_shown_as_null() {
    let mut bench = Bench::new();
    for (bind, own, shown) in [
        ("127.0.0.1 -::1", "", "127.0.0.1,::1"),
        ("* -::*", "", "NULL"),
        ("0.0.0.0", "", "NULL"),
        ("*", "127.0.0.1:9 [::1]:8", "127.0.0.1:9,[::1]:8"),
    ] {
        bench.process.config.set("bind", bind, Origin::Startup).unwrap();
        bench.process.config.set("memcached-bind", own, Origin::Startup).unwrap();
        let settings = String::from_utf8(bench.memcached(b"stats settings\r\n")).unwrap();
        assert!(settings.contains(&format!("STAT inter {shown}\r\n")), "{settings}");
    }
}

/// The fields that memcached_exporter 0.15 reads.
#[test]
fn stats_has_the_fields_that_exporters_read() {
    let mut bench = Bench::new();
    bench.expect_memcached("set a 0 0 1|x", "STORED|");
    for (request, names) in [
        (
            "stats",
            "uptime time version rusage_user rusage_system bytes_read bytes_written \
             curr_connections max_connections total_connections rejected_connections \
             conn_yields listen_disabled_num curr_items \
             total_items bytes limit_maxbytes evictions reclaimed threads cmd_get cmd_set \
             cmd_flush cmd_touch cmd_meta get_hits get_misses get_expired get_flushed \
             delete_hits delete_misses incr_hits incr_misses decr_hits decr_misses cas_hits \
             cas_misses cas_badval touch_hits touch_misses auth_cmds auth_errors \
             hash_is_expanding hash_power_level hash_bytes slab_reassign_running slabs_moved \
             lru_crawler_starts lru_crawler_running lru_maintainer_juggles malloc_fails \
             expired_unfetched evicted_unfetched evicted_active crawler_reclaimed \
             crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm \
             moves_within_lru direct_reclaims lru_bumps_dropped log_watchers",
        ),
        (
            "stats settings",
            "maxbytes maxconns tcpport item_size_max num_threads lru_crawler \
             lru_crawler_sleep lru_crawler_tocrawl lru_maintainer_thread hot_lru_pct \
             warm_lru_pct hot_max_factor warm_max_factor track_sizes evictions",
        ),
        (
            "stats items",
            "items:1:number items:1:age items:1:evicted items:1:evicted_nonzero \
             items:1:evicted_time items:1:outofmemory items:1:tailrepairs items:1:reclaimed \
             items:1:expired_unfetched items:1:evicted_unfetched items:1:crawler_reclaimed \
             items:1:lrutail_reflocked items:1:moves_to_cold items:1:number_hot \
             items:1:number_warm items:1:number_cold items:1:hits_to_hot items:1:age_hot \
             items:1:age_warm items:1:mem_requested",
        ),
        (
            "stats slabs",
            "1:chunk_size 1:chunks_per_page 1:total_pages 1:total_chunks 1:used_chunks \
             1:free_chunks 1:free_chunks_end 1:get_hits 1:cmd_set 1:delete_hits 1:incr_hits \
             1:decr_hits 1:cas_hits 1:cas_badval 1:touch_hits active_slabs total_malloced",
        ),
    ] {
        let shown = bench.memcached(format!("{request}\r\n").as_bytes());
        let shown = String::from_utf8(shown).unwrap();
        let missing =
            names.split_whitespace().find(|name| !shown.contains(&format!("STAT {name} ")));
        assert_eq!(missing, None, "{request}");
    }
}
