//! IDs of stream entries at their limits.

use harness::Server;

use crate::scripting::same_as_redis;

const MAX: &str = "18446744073709551615";

/// Runs commands in which `MAX` stands for the largest 64-bit number and `OVER` for the next
/// number, and compares the replies.
fn same(commands: &[&str]) {
    let over = "18446744073709551616";
    let whole: Vec<String> =
        commands.iter().map(|it| it.replace("MAX", MAX).replace("OVER", over)).collect();
    same_as_redis(&whole.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn entries_are_added_up_to_the_last_id() {
    same(&[
        "XADD s 0-0 a b",
        "XADD s 0-* a b",
        "XADD s 0 a b",
        "XADD s -1 a b",
        "XADD s 1--1 a b",
        "XADD s - a b",
        "XADD s + a b",
        "XADD s OVER-0 a b",
        "XADD s 0-OVER a b",
        "XADD s 00000000000000000000001-1 a b",
        "XADD s 5-MAX a b",
        "XADD s 6-* a b",
        "XADD s MAX-0 a b",
        "XADD s * a b",
        "XADD s MAX-18446744073709551614 a b",
        "XADD s MAX-* a b",
        "XADD s MAX-* a b",
        "XADD s MAX-MAX a b",
        "XADD s MAX a b",
        "XADD s * a b",
        "XADD s **  a b",
        "XLEN s",
        "XDEL s MAX-MAX",
        "XADD s * a b",
        "XADD s MAXLEN ~ MAX * a b",
        "XADD s MAXLEN -1 * a b",
        "XADD s MINID MAX-MAX MAX-MAX a b",
        "XINFO STREAM s",
        "DEL s",
        "XADD s MAX-MAX a b",
        "XADD s 1-1 a b",
        "XRANGE s - +",
    ]);
}

#[test]
fn ranges_end_where_ids_do() {
    same(&[
        "XADD s 0-1 a b",
        "XADD s MAX-MAX c d",
        "XRANGE s MAX-MAX +",
        "XRANGE s (MAX-MAX +",
        "XRANGE s - (0-0",
        "XRANGE s - (0-1",
        "XRANGE s (- +",
        "XRANGE s - (+",
        "XREVRANGE s (MAX-MAX (0-1",
        "XREVRANGE s + (MAX-MAX",
        "XRANGE s - + COUNT 9223372036854775807",
        "XRANGE s - + COUNT 9223372036854775808",
        "XRANGE s OVER +",
        "XREAD COUNT -1 STREAMS s 0",
        "XREAD STREAMS s MAX-MAX",
        "XREAD STREAMS s MAX-18446744073709551614",
        "XREAD STREAMS s OVER",
        "XREAD BLOCK -1 STREAMS s 0",
        "XTRIM s MINID MAX-MAX",
        "XTRIM s MINID OVER",
        "XTRIM s MAXLEN 9223372036854775808",
        "XTRIM s MAXLEN ~ 0 LIMIT -1",
        "XTRIM s MINID ~ MAX LIMIT 9223372036854775807",
        "XLEN s",
        "XDEL s OVER",
        "XDEL s -1",
    ]);
}

#[test]
fn groups_and_counters_end_where_numbers_do() {
    same(&[
        "XADD s 1-1 a b",
        "XSETID s 0-1",
        "XSETID s MAX-MAX",
        "XSETID s OVER",
        "XSETID s MAX-MAX ENTRIESADDED 9223372036854775807 MAXDELETEDID MAX-MAX",
        "XSETID s MAX-MAX ENTRIESADDED -1 MAXDELETEDID 0-0",
        "XSETID s 5-5 ENTRIESADDED 1 MAXDELETEDID 6-6",
        "XINFO STREAM s",
        "XADD s * a b",
        "XGROUP CREATE s high MAX-MAX",
        "XGROUP CREATE s low 0 ENTRIESREAD 9223372036854775807",
        "XGROUP CREATE s wrong 0 ENTRIESREAD -2",
        "XGROUP CREATE s wrong OVER",
        "XGROUP SETID s low 0 ENTRIESREAD -1",
        "XREADGROUP GROUP high c COUNT 0 STREAMS s >",
        "XREADGROUP GROUP low c COUNT 9223372036854775807 STREAMS s >",
        "XREADGROUP GROUP low c STREAMS s MAX-MAX",
        "XCLAIM s low d 9223372036854775807 1-1",
        "XCLAIM s low d -1 1-1 JUSTID",
        "XCLAIM s low d 0 MAX-MAX FORCE JUSTID",
        "XCLAIM s low d 0 1-1 RETRYCOUNT 9223372036854775807 JUSTID",
        "XCLAIM s low d 0 1-1",
        "XCLAIM s low d 0 1-1 RETRYCOUNT -1",
        "XCLAIM s low d 0 1-1 LASTID MAX-MAX JUSTID",
        "XAUTOCLAIM s low e 0 MAX-MAX",
        "XAUTOCLAIM s low e 0 (MAX-MAX",
        "XAUTOCLAIM s low e 0 - COUNT 0",
        "XAUTOCLAIM s low e 0 - COUNT 9223372036854775807",
        "XPENDING s low - + 9223372036854775807 nobody",
        "XPENDING s low - + -1",
        "XPENDING s low IDLE 9223372036854775807 - + 10",
        "XACK s low MAX-MAX 1-1 OVER",
    ]);
}

/// The replies are those of Redis 8.0.6: 7.0.15 replies that elements are too large, and reads
/// without end.
#[test]
fn ids_that_older_servers_mishandle_are_refused() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let last = format!("5-{MAX}");
    client.check(&format!("XADD s {last} a b"), format!("${}\r\n{last}\r\n", last.len()));
    for (command, error) in [
        (
            "XADD s 5-* a b",
            "The ID specified in XADD is equal or smaller than the target stream top item",
        ),
        ("XREAD BLOCK 9223372036854775807 STREAMS s 0", "timeout is out of range"),
        ("XREAD BLOCK 9223372036854775807 STREAMS none 0", "timeout is out of range"),
    ] {
        client.check(command, format!("-ERR {error}\r\n"));
    }
}
