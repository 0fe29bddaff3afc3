//! The meta commands; the expected replies are those of memcached 1.6.45, checked by
//! `tests/memcached_meta.rs` where possible.

use crate::testing::{Bench, converse};

#[test]
fn flags_are_answered_in_their_order() {
    converse(
        "M:mn => MN|
         M:mg a => EN|
         M:mg a k O1 v s t => EN ka O1|
         M:ms a 2 k O7 s|hi => HD ka O7 s2|
         M:mg a => HD|
         M:mg a s v t k f c O123 h l => VA 2 s2 t-1 ka f0 c2 O123 h1 l0|hi|
         M:ms a 2 T100 F77|hi => HD|
         M:mg a v f t s => VA 2 f77 t100 s2|hi|
         M:mg a t T50 => HD t100|
         M:mg a T60 t => HD t60|
         @20500
         M:mg a t l => HD t40 l20|
         M:md a k O3 => HD ka O3|
         M:md a k O3 => NF ka O3|
         M:ma a k => NF ka|",
    );
}

#[test]
fn quiet_requests_reply_only_to_the_unexpected() {
    let mut bench = Bench::new();
    for (request, reply) in [
        ("mg a q", ""),
        ("ms a 2 q|hi", ""),
        ("mg a q k", "HD ka|"),
        ("ms a 2 ME q k|hi", "NS ka|"),
        ("ms a 2 C9 q|hi", "EX|"),
        ("ms b 2 C9 q|hi", "NF|"),
        ("ms a 2 q|10", ""),
        ("ma a q v", ""),
        ("mg a v", "VA 2|11|"),
        ("md a q", ""),
        ("md a q k", "NF ka|"),
        ("ma a q", "NF|"),
        ("mg new N30 q v", "VA 0 W||"),
    ] {
        bench.expect_memcached(request, reply);
    }
}

#[test]
fn modes_of_ms_store_add_append_and_replace() {
    converse(
        "M:ms a 2 MR c|hi => NS c0|
         M:ms a 2 MA|hi => NS|
         M:ms a 2 MP N100 F5 T9|hi => HD|
         M:mg a v f t => VA 2 f5 t100|hi|
         M:ms a 2 ME|xx => NS|
         M:ms a 2 MAppend F9 T7 s|!! => HD s4|
         M:ms a 2 MP s|?? => HD s6|
         M:ms a 2 ME s|?? => NS s2|
         M:mg a v f t => VA 6 f5 t100|??hi!!|
         M:ms a 2 MR|hi => HD|
         M:mg a v f t => VA 2 f0 t-1|hi|
         M:ms a 2 Mset|hi => CLIENT_ERROR invalid mode for ms M token|
         M:ms a 2 M|hi => CLIENT_ERROR invalid mode for ms M token|",
    );
}

#[test]
fn versions_are_compared_and_set() {
    converse(
        "M:ms a 2 E1000 c|hi => HD c1000|
         M:ms a 2 C999 c|xx => EX c0|
         M:ms a 2 C1000 c|10 => HD c2|
         M:ma a C2 E7 c => HD c7|
         M:ma a C1 => EX|
         M:md a C1 => EX|
         M:mg a E5 c => HD c7|
         M:md a C7 => HD|
         M:ms a 2 C7|hi => NF|
         M:ms a 2 MR C7|hi => NF|
         M:ms a 2 MA C7|hi => NS|
         M:ms a 2 ME C7|hi => HD|
         M:ms a 2 MA C7|hi => EX|
         M:ms a 2 E0 c|hi => HD c3|
         M:md a I E55 => HD|
         M:mg a c => HD c55 X W|",
    );
}

#[test]
fn ma_counts_up_and_down() {
    converse(
        "M:ma n => NF|
         M:ma n N0 v t c => VA 1 t-1 c2|0|
         M:ma n v t c k O7 => VA 1 t-1 c3 kn O7|1|
         M:ma n D5 v => VA 1|6|
         M:ma n MD v => VA 1|5|
         M:ma n M- D9 v => VA 1|0|
         M:ma n M+ v => VA 1|1|
         M:ma n T100 t v => VA 1 t100|2|
         M:ma n t T50 v => VA 1 t100|3|
         M:ma n2 N60 J13 t v => VA 2 t60|13|
         M:ma n3 t N60 => HD t-1|
         M:ma n4 N60 T30 t => HD t30|
         M:ma n5 N60 t T30 => HD t60|
         M:mg n5 t => HD t30|
         M:ma n6 T30 N60 t => HD t60|
         M:ma n2 J99 N60 t v => VA 2 t60|14|
         M:ms n 2|hi => HD|
         M:ma n C9 => EX|
         M:ma n q => CLIENT_ERROR cannot increment or decrement non-numeric value|
         M:ma n Mx => CLIENT_ERROR invalid mode for ma M token|
         M:ma n D-5 => CLIENT_ERROR invalid or duplicate flag|
         M:ma n v v => CLIENT_ERROR invalid or duplicate flag|
         M:ma n b => CLIENT_ERROR invalid or duplicate flag|",
    );
}

#[test]
fn a_miss_with_vivify_is_won_by_one_client() {
    converse(
        "M:mg a N30 t c v => VA 0 t30 c2 W||
         M:mg a N30 t v => VA 0 t30 Z||
         M:mg a h => HD h1 Z|
         M:ms a 2 C2 T100|hi => HD|
         M:mg a v => VA 2|hi|
         M:mg b N30 E99 c s f h l k => HD c99 s0 f0 h0 l0 kb W|
         M:mg c N30 T40 t => HD t40 W|
         M:mg d T40 N30 => HD W|
         M:mg d t => HD t30 Z|
         M:mg e T40 t N30 => HD t40 W|
         M:mg e t => HD t30 Z|
         M:ma f T40 t N30 => HD t40|
         M:ma f t => HD t30|",
    );
}

#[test]
fn an_item_that_expires_soon_is_won_by_one_client() {
    converse(
        "M:ms a 2 T100|hi => HD|
         M:mg a R30 => HD|
         M:mg a R200 t => HD t100 W|
         M:mg a R200 => HD Z|
         M:mg a v => VA 2 Z|hi|
         M:touch a 300 => TOUCHED|
         M:mg a => HD Z|
         M:ms a 2 T100|hi => HD|
         M:mg a T300 R200 t => HD t300|
         M:mg a T100 R200 => HD W|
         M:ms a 2 T100|hi => HD|
         M:mg a R200 T300 t => HD t300 W|
         M:ms a 2|hi => HD|
         M:mg a R2147483647 => HD|",
    );
}

#[test]
fn a_version_of_zero_is_no_version() {
    converse(
        "M:ms a 2|10 => HD|
         M:ms a 1 C0|x => EX|
         M:ma a C0 v => VA 2|11|
         M:ms a 1 MA C0|! => HD|
         M:ms a 1 MP C0|! => HD|
         M:mg a v => VA 4|!11!|",
    );
}

#[test]
fn a_value_that_is_emptied_keeps_its_version() {
    converse(
        "M:ms a 2 F3 E7|hi => HD|
         M:md a x => HD|
         M:mg a c f v => VA 0 c7 f0||
         M:ms a 1 C7|y => HD|
         M:ms a 1 E7|y => HD|
         M:md a x E9 => HD|
         M:mg a c => HD c9|",
    );
}

#[test]
fn a_stale_item_is_won_by_one_client() {
    converse(
        "M:ms a 2 T100|hi => HD|
         M:md a I T30 => HD|
         M:get a => VALUE a 0 2|hi|END|
         M:mg a v c t => VA 2 c2 t30 X W|hi|
         M:mg a v => VA 2 Z X|hi|
         M:ms a 2 C1 I T50 F3|xx => HD|
         M:mg a t f v => VA 2 t30 f3 Z X|xx|
         M:ms a 2 C9 I|yy => EX|
         M:ms a 2 C0 I|yy => EX|
         M:ms a 2 I|yy => HD|
         M:mg a => HD|
         M:md a I => HD|
         M:append a 0 0 1|! => STORED|
         M:mg a v => VA 3|yy!|
         M:ms a 2|10 => HD|
         M:md a I => HD|
         M:incr a 1 => 11|
         M:mg a => HD X W|
         M:md a I => HD|
         M:mg a => HD X W|
         M:ms a 2 T100 F5|hi => HD|
         M:md a x => HD|
         M:mg a v f s t => VA 0 f0 s0 t-1||
         M:md a x F7 => HD|
         M:mg a v f => VA 0 f7||
         M:md a x I T5 E9 => HD|
         M:mg a t c v f => VA 0 t5 c9 f0 X W||",
    );
}

#[test]
fn redis_commands_clear_stale_marks() {
    converse(
        "M:ms a 2|10 => HD|
         M:md a I => HD|
         SET a 11 => +OK|
         M:mg a v => VA 2|11|
         M:md a I => HD|
         APPEND a 2 => :3|
         M:mg a v => VA 3|112|
         M:md a I => HD|
         EXPIRE a 100 => :1|
         M:mg a t => HD t100 X W|",
    );
}

#[test]
fn flags_say_whether_an_item_was_read_before() {
    for (read, seen) in [
        ("get a", 1),
        ("gets a", 1),
        ("gat 0 a", 1),
        ("touch a 0", 1),
        ("mg a", 1),
        ("incr a 1", 0),
        ("me a", 0),
        ("mg a u", 0),
        ("set a 0 0 2|10", 0),
        ("append a 0 0 1|1", 0),
    ] {
        let mut bench = Bench::new();
        bench.expect_memcached("set a 0 0 2|10", "STORED|");
        bench.memcached(format!("{}\r\n", read.replace('|', "\r\n")).as_bytes());
        bench.expect_memcached("mg a h", &format!("HD h{seen}|"));
        bench.expect_memcached("set a 0 0 2|10", "STORED|");
        bench.expect_memcached("mg a h", "HD h0|");
    }
}

#[test]
fn keys_in_base64_are_decoded() {
    converse(
        "M:ms Yg== 2 b k|hi => HD kYg== b|
         M:mg b v k => VA 2 kb|hi|
         M:mg Yg== k b O9 v => VA 2 kYg== b O9|hi|
         M:mg AAEC b k v => EN kAAEC b|
         M:ms AAEC 2 b|bi => HD|
         M:mg AAEC b k v => VA 2 kAAEC b|bi|
         M:ma MTA= b k N0 v => VA 1 kMTA= b|0|
         M:md AAEC b k => HD kAAEC b|
         M:me Yg== b => ME Yg== exp=-1 la=0 cas=0 fetch=yes cls=1 size=11|
         M:mg b b => CLIENT_ERROR error decoding key|
         M:ms b 2 b|hi => CLIENT_ERROR error decoding key|",
    );
}

#[test]
fn invalid_flags_are_refused() {
    let long = "x".repeat(32);
    let many = "v ".repeat(19);
    for (request, error) in [
        ("mg a z v v", "CLIENT_ERROR invalid flag|"),
        ("mg a v v z", "CLIENT_ERROR duplicate flag|"),
        ("mg a noreply", "CLIENT_ERROR invalid flag|"),
        ("mg a Nx z", "CLIENT_ERROR invalid flag|"),
        ("mg a N", "CLIENT_ERROR bad token in command line format|"),
        ("mg a T2147483648", "CLIENT_ERROR bad token in command line format|"),
        ("mg a T+7", "CLIENT_ERROR bad token in command line format|"),
        ("mg a Fx", "CLIENT_ERROR bad command line format|"),
        ("ms a 2 F4294967296|hi", "CLIENT_ERROR bad command line format|"),
        ("ms a 2 C5x|hi", "CLIENT_ERROR bad token in command line format|"),
        ("md a Dx", "CLIENT_ERROR invalid numeric delta value|"),
        ("md a Jx", "CLIENT_ERROR invalid numeric initial value|"),
        ("mg Y b Nx", "CLIENT_ERROR bad token in command line format|"),
        (&format!("mg a O{long}"), "CLIENT_ERROR opaque token too long|"),
        (&format!("mg a {}", many.trim()), "CLIENT_ERROR options flags are too long|"),
        (&format!("mg {}", "k".repeat(251)), "CLIENT_ERROR bad command line format|"),
        (&format!("ms {} 2|hi", "k".repeat(251)), "CLIENT_ERROR bad command line format|"),
    ] {
        Bench::new().expect_memcached(request, error);
    }
}

#[test]
fn many_keys_are_got_in_slices() {
    let mut bench = Bench::new();
    bench.expect_memcached("set a 1 0 1|x", "STORED|");
    for (request, value) in [
        ("get", "VALUE a 1 1|x|"),
        ("gets", "VALUE a 1 1 2|x|"),
        ("gat 0", "VALUE a 1 1|x|"),
        ("gats 0", "VALUE a 1 1 2|x|"),
    ] {
        let request = format!("{request}{}", " a b".repeat(1000));
        bench.expect_memcached(&request, &format!("{}END|", value.repeat(1000)));
    }
}
