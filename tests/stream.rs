//! Streams.

use crate::persistence::Folder;
use harness::{Connection, Reply, Server, as_redis, encode_command, until, words};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";

/// Adds four entries.
const ADDITIONS: &[(&str, &str)] = &[
    ("XADD s 1-1 a 1 b 2", "$3\r\n1-1\r\n"),
    (
        "XADD s 1-1 a 1",
        "-ERR The ID specified in XADD is equal or smaller than the target stream top item\r\n",
    ),
    ("XADD s 0-0 a 1", "-ERR The ID specified in XADD must be greater than 0-0\r\n"),
    (
        "XADD s 0-1 a 1",
        "-ERR The ID specified in XADD is equal or smaller than the target stream top item\r\n",
    ),
    ("XADD s 1-* a 1 b 3", "$3\r\n1-2\r\n"),
    ("XADD s 5 a x b y", "$3\r\n5-0\r\n"),
    ("XADD s 5-* c d", "$3\r\n5-1\r\n"),
    ("XADD s foo a b", "-ERR Invalid stream ID specified as stream command argument\r\n"),
    ("XADD s 6-1 a", "-ERR wrong number of arguments for 'xadd' command\r\n"),
    ("XADD s * a", "-ERR wrong number of arguments for 'xadd' command\r\n"),
    ("XADD s 1-1-1 a b", "-ERR Invalid stream ID specified as stream command argument\r\n"),
    ("XADD s", "-ERR wrong number of arguments for 'xadd' command\r\n"),
    ("XADD s * a b c", "-ERR wrong number of arguments for 'xadd' command\r\n"),
    ("XADD nope NOMKSTREAM 1-1 a b", "$-1\r\n"),
];

const ENTRIES: &[(&str, &str)] = &[
    ("XLEN s", ":4\r\n"),
    ("XLEN nope", ":0\r\n"),
    (
        "XRANGE s - +",
        "*4\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n*2\r\n$3\
             \r\n1-2\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n3\r\n*2\r\n$3\r\n5-0\r\n*4\
             \r\n$1\r\na\r\n$1\r\nx\r\n$1\r\nb\r\n$1\r\ny\r\n*2\r\n$3\r\n5-1\r\n*2\r\n$1\r\nc\r\
             \n$1\r\nd\r\n",
    ),
    (
        "XRANGE s - + COUNT 2",
        "*2\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n*2\r\n$3\
             \r\n1-2\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n3\r\n",
    ),
    ("XRANGE s - + COUNT 0", "*-1\r\n"),
    ("XRANGE s - + COUNT -1", "*-1\r\n"),
    ("XRANGE s - + COUNT x", "-ERR value is not an integer or out of range\r\n"),
    ("XRANGE s - + FOO 1", "-ERR syntax error\r\n"),
    (
        "XRANGE s (1-1 +",
        "*3\r\n*2\r\n$3\r\n1-2\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n3\r\n*2\r\n$3\
             \r\n5-0\r\n*4\r\n$1\r\na\r\n$1\r\nx\r\n$1\r\nb\r\n$1\r\ny\r\n*2\r\n$3\r\n5-1\r\n*2\
             \r\n$1\r\nc\r\n$1\r\nd\r\n",
    ),
    (
        "XRANGE s 1 5",
        "*4\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n*2\r\n$3\
             \r\n1-2\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n3\r\n*2\r\n$3\r\n5-0\r\n*4\
             \r\n$1\r\na\r\n$1\r\nx\r\n$1\r\nb\r\n$1\r\ny\r\n*2\r\n$3\r\n5-1\r\n*2\r\n$1\r\nc\r\
             \n$1\r\nd\r\n",
    ),
    (
        "XRANGE s (1-1 (5-1",
        "*2\r\n*2\r\n$3\r\n1-2\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n3\r\n*2\r\n$3\
             \r\n5-0\r\n*4\r\n$1\r\na\r\n$1\r\nx\r\n$1\r\nb\r\n$1\r\ny\r\n",
    ),
    (
        "XRANGE s (18446744073709551615-18446744073709551615 +",
        "-ERR invalid start ID for the interval\r\n",
    ),
    ("XRANGE s - (0-0", "-ERR invalid end ID for the interval\r\n"),
    ("XRANGE s ( +", "-ERR Invalid stream ID specified as stream command argument\r\n"),
    ("XRANGE s x +", "-ERR Invalid stream ID specified as stream command argument\r\n"),
    (
        "XREVRANGE s + -",
        "*4\r\n*2\r\n$3\r\n5-1\r\n*2\r\n$1\r\nc\r\n$1\r\nd\r\n*2\r\n$3\r\n5-0\r\n*4\r\n$1\r\n\
             a\r\n$1\r\nx\r\n$1\r\nb\r\n$1\r\ny\r\n*2\r\n$3\r\n1-2\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\
             \n$1\r\nb\r\n$1\r\n3\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$\
             1\r\n2\r\n",
    ),
    ("XREVRANGE s + - COUNT 1", "*1\r\n*2\r\n$3\r\n5-1\r\n*2\r\n$1\r\nc\r\n$1\r\nd\r\n"),
    (
        "XREVRANGE s (5-1 (1-1",
        "*2\r\n*2\r\n$3\r\n5-0\r\n*4\r\n$1\r\na\r\n$1\r\nx\r\n$1\r\nb\r\n$1\r\ny\r\n*2\r\n$3\
             \r\n1-2\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n3\r\n",
    ),
    ("XREVRANGE s - +", "*0\r\n"),
    ("XRANGE nope - +", "*0\r\n"),
    ("XRANGE nope - + COUNT 0", "*0\r\n"),
    ("XDEL s 1-2", ":1\r\n"),
    ("XDEL s 1-2 5-0 9-9", ":1\r\n"),
    ("XDEL nope x", ":0\r\n"),
    ("XDEL s x", "-ERR Invalid stream ID specified as stream command argument\r\n"),
    (
        "XRANGE s - +",
        "*2\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n*2\r\n$3\
             \r\n5-1\r\n*2\r\n$1\r\nc\r\n$1\r\nd\r\n",
    ),
];

#[test]
fn entries_are_added_deleted_and_found_by_their_ids() {
    as_redis(&[ADDITIONS, ENTRIES].concat());
}

const INFORMATION: &[(&str, &str)] = &[
    (
        "XINFO STREAM s",
        "*20\r\n$6\r\nlength\r\n:4\r\n$15\r\nradix-tree-keys\r\n:1\r\n$16\r\nradix-tree-nodes\
             \r\n:2\r\n$17\r\nlast-generated-id\r\n$3\r\n5-1\r\n$20\r\nmax-deleted-entry-id\r\n$\
             3\r\n0-0\r\n$13\r\nentries-added\r\n:4\r\n$23\r\nrecorded-first-entry-id\r\n$3\r\n1\
             -1\r\n$6\r\ngroups\r\n:0\r\n$11\r\nfirst-entry\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\na\
             \r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n$10\r\nlast-entry\r\n*2\r\n$3\r\n5-1\r\n*2\r\n\
             $1\r\nc\r\n$1\r\nd\r\n",
    ),
    (
        "XINFO STREAM s FULL",
        "*18\r\n$6\r\nlength\r\n:4\r\n$15\r\nradix-tree-keys\r\n:1\r\n$16\r\nradix-tree-nodes\
             \r\n:2\r\n$17\r\nlast-generated-id\r\n$3\r\n5-1\r\n$20\r\nmax-deleted-entry-id\r\n$\
             3\r\n0-0\r\n$13\r\nentries-added\r\n:4\r\n$23\r\nrecorded-first-entry-id\r\n$3\r\n1\
             -1\r\n$7\r\nentries\r\n*4\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\
             \r\n$1\r\n2\r\n*2\r\n$3\r\n1-2\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n3\r\
             \n*2\r\n$3\r\n5-0\r\n*4\r\n$1\r\na\r\n$1\r\nx\r\n$1\r\nb\r\n$1\r\ny\r\n*2\r\n$3\r\n\
             5-1\r\n*2\r\n$1\r\nc\r\n$1\r\nd\r\n$6\r\ngroups\r\n*0\r\n",
    ),
    (
        "XINFO STREAM s FULL COUNT 1",
        "*18\r\n$6\r\nlength\r\n:4\r\n$15\r\nradix-tree-keys\r\n:1\r\n$16\r\nradix-tree-nodes\
             \r\n:2\r\n$17\r\nlast-generated-id\r\n$3\r\n5-1\r\n$20\r\nmax-deleted-entry-id\r\n$\
             3\r\n0-0\r\n$13\r\nentries-added\r\n:4\r\n$23\r\nrecorded-first-entry-id\r\n$3\r\n1\
             -1\r\n$7\r\nentries\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\
             \r\n$1\r\n2\r\n$6\r\ngroups\r\n*0\r\n",
    ),
    (
        "XINFO STREAM s FOO",
        "-ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.\r\
             \n",
    ),
    (
        "XINFO STREAM s FULL COUNT",
        "-ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.\r\
             \n",
    ),
    ("XINFO STREAM s FULL COUNT x", "-ERR value is not an integer or out of range\r\n"),
    ("XINFO STREAM nope", "-ERR no such key\r\n"),
    ("XINFO GROUPS s", "*0\r\n"),
    ("XINFO GROUPS nope", "-ERR no such key\r\n"),
    ("XINFO CONSUMERS s g", "-NOGROUP No such consumer group 'g' for key name 's'\r\n"),
    ("XINFO FOO s", "-ERR unknown subcommand 'FOO'. Try XINFO HELP.\r\n"),
    ("XINFO", "-ERR wrong number of arguments for 'xinfo' command\r\n"),
    ("XINFO STREAM", "-ERR wrong number of arguments for 'xinfo|stream' command\r\n"),
    (
        "XSETID s 9-9 ENTRIESADDED 1",
        "-ERR The entries_added specified in XSETID is smaller than the target stream length\
             \r\n",
    ),
    ("XSETID s 9-9 ENTRIESADDED -1", "-ERR entries_added must be positive\r\n"),
    (
        "XSETID s 9-9 MAXDELETEDID 10-0",
        "-ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id\r\n",
    ),
    ("XSETID s 9-9 ENTRIESADDED 100 MAXDELETEDID 5-0", "+OK\r\n"),
    ("XSETID s 9-9 FOO", "-ERR syntax error\r\n"),
    ("XSETID nope 1-1", "-ERR no such key\r\n"),
    ("XSETID s x", "-ERR Invalid stream ID specified as stream command argument\r\n"),
    (
        "XINFO STREAM s",
        "*20\r\n$6\r\nlength\r\n:4\r\n$15\r\nradix-tree-keys\r\n:1\r\n$16\r\nradix-tree-nodes\
             \r\n:2\r\n$17\r\nlast-generated-id\r\n$3\r\n9-9\r\n$20\r\nmax-deleted-entry-id\r\n$\
             3\r\n5-0\r\n$13\r\nentries-added\r\n:100\r\n$23\r\nrecorded-first-entry-id\r\n$3\r\
             \n1-1\r\n$6\r\ngroups\r\n:0\r\n$11\r\nfirst-entry\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\
             \na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n$10\r\nlast-entry\r\n*2\r\n$3\r\n5-1\r\n*2\
             \r\n$1\r\nc\r\n$1\r\nd\r\n",
    ),
];

#[test]
fn properties_of_streams_are_shown_and_set() {
    as_redis(&[ADDITIONS, INFORMATION].concat());
}

#[test]
fn streams_are_trimmed() {
    as_redis(&[
        ("XADD s 1 a b", "$3\r\n1-0\r\n"),
        ("XADD s 2 a b", "$3\r\n2-0\r\n"),
        ("XADD s 3 a b", "$3\r\n3-0\r\n"),
        ("XTRIM s MAXLEN 1", ":2\r\n"),
        ("XTRIM s MAXLEN = 1", ":0\r\n"),
        ("XTRIM s MAXLEN ~ 0", ":1\r\n"),
        ("XTRIM s MAXLEN ~ 0 LIMIT 0", ":0\r\n"),
        (
            "XTRIM s MAXLEN 0 LIMIT 5",
            "-ERR syntax error, LIMIT cannot be used without the special ~ option\r\n",
        ),
        (
            "XTRIM s LIMIT 5",
            "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy\r\n",
        ),
        (
            "XTRIM s MAXLEN 1 MINID 5",
            "-ERR syntax error, MAXLEN and MINID options at the same time are not compatible\r\n",
        ),
        ("XTRIM s MAXLEN -1", "-ERR The MAXLEN argument must be >= 0.\r\n"),
        ("XTRIM s MAXLEN x", "-ERR value is not an integer or out of range\r\n"),
        ("XTRIM s MINID x", "-ERR Invalid stream ID specified as stream command argument\r\n"),
        ("XTRIM s FOO 1", "-ERR syntax error\r\n"),
        ("XTRIM s MAXLEN", "-ERR wrong number of arguments for 'xtrim' command\r\n"),
        ("XTRIM nope MAXLEN 1", ":0\r\n"),
        ("XADD t MAXLEN 2 1 a b", "$3\r\n1-0\r\n"),
        ("XADD t MAXLEN 2 2 a b", "$3\r\n2-0\r\n"),
        ("XADD t MAXLEN 2 3 a b", "$3\r\n3-0\r\n"),
        ("XADD t MAXLEN ~ 2 LIMIT 10 4 a b", "$3\r\n4-0\r\n"),
        (
            "XADD t MAXLEN 2 LIMIT 10 5 a b",
            "-ERR syntax error, LIMIT cannot be used without the special ~ option\r\n",
        ),
        (
            "XADD t LIMIT 10 5 a b",
            "-ERR syntax error, LIMIT cannot be used without specifying a trimming strategy\r\n",
        ),
        ("XADD t MINID 4 6 a b", "$3\r\n6-0\r\n"),
        (
            "XADD t MINID = 5 MAXLEN 1 7 a b",
            "-ERR syntax error, MAXLEN and MINID options at the same time are not compatible\r\n",
        ),
        ("XADD t NOMKSTREAM MINID ~ 5 8 a b", "$3\r\n8-0\r\n"),
        ("XADD t MAXLEN", "-ERR wrong number of arguments for 'xadd' command\r\n"),
        (
            "XRANGE t - +",
            "*3\r\n*2\r\n$3\r\n4-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$3\r\n6-0\r\n*2\r\n$1\r\n\
             a\r\n$1\r\nb\r\n*2\r\n$3\r\n8-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
        ),
    ]);
}

#[test]
fn other_types_are_no_streams() {
    as_redis(&[
        ("SET str x", "+OK\r\n"),
        ("XADD str 1-1 a b", WRONG_TYPE),
        ("XADD str NOMKSTREAM 1-1 a b", WRONG_TYPE),
        ("XLEN str", WRONG_TYPE),
        ("XRANGE str - +", WRONG_TYPE),
        ("XREVRANGE str + -", WRONG_TYPE),
        ("XDEL str x", WRONG_TYPE),
        ("XTRIM str MAXLEN 1", WRONG_TYPE),
        ("XSETID str 1-1", WRONG_TYPE),
        ("XREAD STREAMS str 0", WRONG_TYPE),
        ("XREADGROUP GROUP g c STREAMS str >", WRONG_TYPE),
        ("XGROUP CREATE str g $ MKSTREAM", WRONG_TYPE),
        ("XGROUP SETID str g $", WRONG_TYPE),
        ("XGROUP DESTROY str g", WRONG_TYPE),
        ("XGROUP CREATECONSUMER str g c", WRONG_TYPE),
        ("XGROUP DELCONSUMER str g c", WRONG_TYPE),
        ("XACK str g x", WRONG_TYPE),
        ("XPENDING str g", WRONG_TYPE),
        ("XCLAIM str g c 0 x", WRONG_TYPE),
        ("XAUTOCLAIM str g c 0 -", WRONG_TYPE),
        ("XINFO STREAM str", WRONG_TYPE),
        ("XINFO GROUPS str", WRONG_TYPE),
        ("XINFO CONSUMERS str g", WRONG_TYPE),
    ]);
}

#[test]
fn streams_are_values_like_any_other() {
    as_redis(&[
        ("XADD t 1-1 a b", "$3\r\n1-1\r\n"),
        ("TYPE t", "+stream\r\n"),
        ("OBJECT ENCODING t", "$6\r\nstream\r\n"),
        (
            "XADD m 18446744073709551615-18446744073709551614 a b",
            "$41\r\n18446744073709551615-18446744073709551614\r\n",
        ),
        (
            "XADD m 18446744073709551615-* a b",
            "$41\r\n18446744073709551615-18446744073709551615\r\n",
        ),
        (
            "XADD m * a b",
            "-ERR The stream has exhausted the last possible ID, unable to add more items\r\n",
        ),
        (
            "XADD m 18446744073709551615-18446744073709551615 a b",
            "-ERR The stream has exhausted the last possible ID, unable to add more items\r\n",
        ),
        ("XADD k 1-1 f 1 f 2", "$3\r\n1-1\r\n"),
        ("XADD k 1-2 f 1 f 2 g 3", "$3\r\n1-2\r\n"),
        ("XADD k 1-3 f 007 f 99999999999 f -5", "$3\r\n1-3\r\n"),
        ("XADD k 1-4 \" \" \" \"", "$3\r\n1-4\r\n"),
        (
            "XRANGE k - +",
            "*4\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\nf\r\n$1\r\n1\r\n$1\r\nf\r\n$1\r\n2\r\n*2\r\n$3\
             \r\n1-2\r\n*6\r\n$1\r\nf\r\n$1\r\n1\r\n$1\r\nf\r\n$1\r\n2\r\n$1\r\ng\r\n$1\r\n3\r\n\
             *2\r\n$3\r\n1-3\r\n*6\r\n$1\r\nf\r\n$3\r\n007\r\n$1\r\nf\r\n$11\r\n99999999999\r\n$\
             1\r\nf\r\n$2\r\n-5\r\n*2\r\n$3\r\n1-4\r\n*2\r\n$1\r\n \r\n$1\r\n \r\n",
        ),
        ("COPY k k2", ":1\r\n"),
        (
            "XRANGE k2 - +",
            "*4\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\nf\r\n$1\r\n1\r\n$1\r\nf\r\n$1\r\n2\r\n*2\r\n$3\
             \r\n1-2\r\n*6\r\n$1\r\nf\r\n$1\r\n1\r\n$1\r\nf\r\n$1\r\n2\r\n$1\r\ng\r\n$1\r\n3\r\n\
             *2\r\n$3\r\n1-3\r\n*6\r\n$1\r\nf\r\n$3\r\n007\r\n$1\r\nf\r\n$11\r\n99999999999\r\n$\
             1\r\nf\r\n$2\r\n-5\r\n*2\r\n$3\r\n1-4\r\n*2\r\n$1\r\n \r\n$1\r\n \r\n",
        ),
        ("RENAME k2 k3", "+OK\r\n"),
        (
            "XRANGE k3 - +",
            "*4\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\nf\r\n$1\r\n1\r\n$1\r\nf\r\n$1\r\n2\r\n*2\r\n$3\
             \r\n1-2\r\n*6\r\n$1\r\nf\r\n$1\r\n1\r\n$1\r\nf\r\n$1\r\n2\r\n$1\r\ng\r\n$1\r\n3\r\n\
             *2\r\n$3\r\n1-3\r\n*6\r\n$1\r\nf\r\n$3\r\n007\r\n$1\r\nf\r\n$11\r\n99999999999\r\n$\
             1\r\nf\r\n$2\r\n-5\r\n*2\r\n$3\r\n1-4\r\n*2\r\n$1\r\n \r\n$1\r\n \r\n",
        ),
        ("APPEND k x", WRONG_TYPE),
        ("GET k", WRONG_TYPE),
        ("LPUSH k x", WRONG_TYPE),
        ("SORT k", WRONG_TYPE),
    ]);
}

/// The replies are those of Redis 8.0.6 where they differ from 7.0.15.
#[test]
fn streams_are_those_of_redis_8() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    for (request, reply) in [
        ("XADD s 1-1 a 1", "$3\r\n1-1\r\n"),
        ("XADD s 2-1 a 2", "$3\r\n2-1\r\n"),
        (
            "XREAD STREAMS s +",
            "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n2-1\r\n*2\r\n$1\r\na\r\n$1\r\n2\r\n",
        ),
        ("XREAD STREAMS none +", "*-1\r\n"),
        (
            "XREAD STREAMS s s 0",
            "-ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must \
             be specified.\r\n",
        ),
        ("XGROUP CREATE s g 0", "+OK\r\n"),
        (
            "XREADGROUP GROUP g c STREAMS s s >",
            "-ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must \
             be specified.\r\n",
        ),
        ("XDEL s 1-1", ":1\r\n"),
        // All deleted entries precede the first entry, so the lag is known.
        (
            "XINFO GROUPS s",
            "*1\r\n*12\r\n$4\r\nname\r\n$1\r\ng\r\n$9\r\nconsumers\r\n:0\r\n$7\r\npending\r\n:0\r\n\
             $17\r\nlast-delivered-id\r\n$3\r\n0-0\r\n$12\r\nentries-read\r\n$-1\r\n\
             $3\r\nlag\r\n:1\r\n",
        ),
        (
            "XSETID s 0-5",
            "-ERR The ID specified in XSETID is smaller than current max_deleted_entry_id\r\n",
        ),
        (
            "XADD s 18446744073709551615-18446744073709551615 a b",
            "$41\r\n18446744073709551615-18446744073709551615\r\n",
        ),
        (
            "XADD s * a b",
            "-ERR The stream has exhausted the last possible ID, unable to add more items\r\n",
        ),
    ] {
        client.check(request, reply);
    }
    for request in ["XGROUP HELP", "XINFO HELP"] {
        assert!(client.run(request).list().len() > 5, "{request}");
    }
    let consumers = "XINFO CONSUMERS s g";
    client.check("XGROUP CREATECONSUMER s g c", ":1\r\n");
    let fields = client.run(consumers).list()[0].list().to_vec();
    assert_eq!((fields[6].text().as_str(), fields[7].integer()), ("inactive", -1));
    client.run("XREADGROUP GROUP g c COUNT 1 STREAMS s >");
    let fields = client.run(consumers).list()[0].list().to_vec();
    assert!((0..60_000).contains(&fields[7].integer()));
}

/// Waits until `count` clients are blocked.
fn until_blocked(client: &mut Connection, count: usize) {
    let field = format!("blocked_clients:{count}\r\n");
    let is_so = || client.run("INFO clients").text().contains(&field).then_some(());
    until("clients that wait", is_so).unwrap();
}

#[test]
fn clients_wait_for_entries_and_are_notified_that_a_group_is_gone() {
    let server = Server::nagi();
    let mut writer = server.connect_resp();
    let mut waiters: Vec<Connection> = (0..3).map(|_| server.connect_resp()).collect();
    let entry = |id: &str| {
        format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n{id}\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n")
    };
    let gone = "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option\r\n";
    writer.check("XGROUP CREATE s g $ MKSTREAM", "+OK\r\n");
    for (waiter, consumer) in waiters.iter_mut().zip(["c1", "c2"]) {
        let request = format!("XREADGROUP GROUP g {consumer} COUNT 1 BLOCK 0 STREAMS s >");
        waiter.send(encode_command(&words(&request)));
        until_blocked(&mut writer, if consumer == "c1" { 1 } else { 2 });
    }
    waiters[2].send(encode_command(&words("XREAD BLOCK 0 STREAMS none s $ $")));
    until_blocked(&mut writer, 3);
    // Each entry goes to one consumer of the group, in the order in which the consumers began to
    // wait, and to all clients without a group.
    writer.check("XADD s 1-1 a b", "$3\r\n1-1\r\n");
    waiters[0].expect(entry("1-1"));
    waiters[2].expect(entry("1-1"));
    until_blocked(&mut writer, 1);
    writer.check("XADD s 1-2 a b", "$3\r\n1-2\r\n");
    waiters[1].expect(entry("1-2"));
    for (change, reply, undo) in [
        ("XGROUP DESTROY s g", gone, "XGROUP CREATE s g $"),
        ("DEL s", gone, "XGROUP CREATE s g $ MKSTREAM"),
        ("FLUSHALL", gone, "XGROUP CREATE s g $ MKSTREAM"),
        ("SET s text", WRONG_TYPE, "DEL s"),
    ] {
        waiters[0].send(encode_command(&words("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")));
        until_blocked(&mut writer, 1);
        writer.run(change);
        waiters[0].expect(reply);
        writer.run(undo);
    }
    waiters[0].check("XREAD BLOCK 1 STREAMS s $", "*-1\r\n");
}

/// As in Redis 8.0.6, a change that adds no entry is no reason for them to try again: a consumer
/// that was deleted is not created, and one that exists remains idle.
#[test]
fn a_change_without_an_entry_leaves_consumers_that_wait_as_they_are() {
    for streams in ["s >", "t s > >"] {
        let server = Server::nagi();
        let (mut waiter, mut other) = (server.connect_resp(), server.connect_resp());
        other.check("XADD s 1-1 a b", "$3\r\n1-1\r\n");
        other.check("XGROUP CREATE s g $", "+OK\r\n");
        other.check("XGROUP CREATE t g $ MKSTREAM", "+OK\r\n");
        let read = format!("XREADGROUP GROUP g c BLOCK 0 STREAMS {streams}");
        waiter.send(encode_command(&words(&read)));
        until_blocked(&mut other, 1);
        let idle_ms = |client: &mut Connection| {
            client.run("XINFO CONSUMERS s g").list()[0].list()[5].integer()
        };
        until("the consumer to be idle", || (idle_ms(&mut other) > 100).then_some(())).unwrap();
        other.check("XDEL s 1-1", ":1\r\n");
        assert!(idle_ms(&mut other) > 100, "{streams}");
        other.check("XGROUP DELCONSUMER s g c", ":0\r\n");
        other.check("XINFO CONSUMERS s g", "*0\r\n");
        other.check("XSETID s 1-5", "+OK\r\n");
        other.check("XINFO CONSUMERS s g", "*0\r\n");
        other.check("XADD s 2-1 a b", "$3\r\n2-1\r\n");
        let entry = "*2\r\n$3\r\n2-1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n";
        waiter.expect(format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n{entry}"));
        assert_eq!(other.run("XINFO CONSUMERS s g").list().len(), 1, "{streams}");
    }
}

/// No request removes such a stream.
#[test]
fn consumers_are_notified_that_their_stream_has_expired_or_was_evicted() {
    let server = Server::nagi();
    let (mut writer, mut reader) = (server.connect_resp(), server.connect_resp());
    let mut consumers: Vec<Connection> = (0..3).map(|_| server.connect_resp()).collect();
    let gone = "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option\r\n";
    reader.send(encode_command(&words("XREAD BLOCK 0 STREAMS s 9-9")));
    let begin = |writer: &mut Connection, consumers: &mut [Connection]| {
        writer.check("XGROUP CREATE s g $ MKSTREAM", "+OK\r\n");
        for consumer in consumers {
            consumer.send(encode_command(&words("XREADGROUP GROUP g c BLOCK 0 STREAMS t s > >")));
        }
        until_blocked(writer, 4);
    };
    writer.check("XGROUP CREATE t g $ MKSTREAM", "+OK\r\n");
    begin(&mut writer, &mut consumers);
    // Of the keys, XREAD waits for `s` as well, but not for its removal.
    let clients = writer.run("INFO clients").text();
    assert!(clients.contains("total_blocking_keys:2\r\ntotal_blocking_keys_on_nokey:2\r\n"));
    writer.check("PEXPIRE s 1", ":1\r\n");
    consumers.iter_mut().for_each(|consumer| consumer.expect(gone));
    until_blocked(&mut writer, 1);

    writer.check("CONFIG SET maxmemory-policy volatile-random maxmemory 2mb", "+OK\r\n");
    begin(&mut writer, &mut consumers);
    writer.check("EXPIRE s 1000", ":1\r\n");
    for key in 0.. {
        let words = ["SET".to_owned(), format!("key:{key}"), "x".repeat(10_000)];
        if matches!(writer.run_words(&words), Reply::Error(_)) {
            break;
        }
    }
    writer.check("EXISTS s", ":0\r\n");
    consumers.iter_mut().for_each(|consumer| consumer.expect(gone));
    until_blocked(&mut writer, 1);
    writer.check("CONFIG SET maxmemory 0", "+OK\r\n");
    // A client without a group goes on waiting.
    writer.check("XADD s 10-1 a b", "$4\r\n10-1\r\n");
    let entry = "*2\r\n$4\r\n10-1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n";
    reader.expect(format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n{entry}"));
}

/// The request that finds an expired stream may create it again.
#[test]
fn consumers_of_a_stream_that_exists_again_go_on_waiting() {
    let server = Server::nagi_with(&["--enable-debug-command", "yes"]);
    let [mut first, mut second, mut writer] = [(); 3].map(|()| server.connect_resp());
    writer.check("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
    writer.check("XGROUP CREATE s g $ MKSTREAM", "+OK\r\n");
    first.send(encode_command(&words("XREADGROUP GROUP g a BLOCK 0 STREAMS s >")));
    until_blocked(&mut writer, 1);
    writer.check("PEXPIRE s 1", ":1\r\n");
    // A look at the key would remove it.
    let mut now_ms = || {
        let time = writer.run("TIME");
        let part = |at: usize| time.list()[at].text().parse::<u64>().expect("a number");
        part(0) * 1000 + part(1) / 1000
    };
    let begun_ms = now_ms();
    until("the stream to expire", || (now_ms() > begun_ms + 5).then_some(())).unwrap();
    let create = encode_command(&words("XGROUP CREATE s g $ MKSTREAM"));
    let read = encode_command(&words("XREADGROUP GROUP g b BLOCK 0 STREAMS s >"));
    second.send([create, read].concat());
    second.expect("+OK\r\n");
    until_blocked(&mut writer, 2);
    writer.check("XADD s 1-1 f v", "$3\r\n1-1\r\n");
    writer.check("XADD s 1-2 f v", "$3\r\n1-2\r\n");
    for consumer in [&mut first, &mut second] {
        assert_eq!(consumer.reply().list()[0].list()[0].text(), "s");
    }
}

/// Work that takes longer than one hold of a latch is done in parts, and no entry may be left out.
#[test]
fn long_requests_are_done_in_parts() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let ids: Vec<String> = (1..=3000).map(|at| format!("{at}-0")).collect();
    for id in &ids {
        client.check(&format!("XADD s {id} field value{id}"), format!("${}\r\n{id}\r\n", id.len()));
    }
    client.check("XGROUP CREATE s g 0", "+OK\r\n");
    let first =
        |reply: &harness::Reply| reply.list().iter().map(|it| it.list()[0].text()).collect();
    let all: Vec<String> = first(&client.run("XRANGE s - +"));
    assert_eq!(all, ids);
    let mut back: Vec<String> = first(&client.run("XREVRANGE s + -"));
    back.reverse();
    assert_eq!(back, ids);
    let read = client.run("XREADGROUP GROUP g c STREAMS s >");
    let read: Vec<String> = first(&read.list()[0].list()[1]);
    assert_eq!(read, ids);
    assert_eq!(client.run("XPENDING s g - + 10000").list().len(), 3000);
    let again = client.run("XREADGROUP GROUP g c STREAMS s 0");
    assert_eq!(again.list()[0].list()[1].list().len(), 3000);
    let claimed = client.run(&format!("XCLAIM s g d 0 {} JUSTID", ids[..500].join(" ")));
    assert_eq!(claimed.list().len(), 500);
    let claimed = client.run("XAUTOCLAIM s g e 0 0 COUNT 2000");
    let next = claimed.list()[0].text();
    assert_eq!((next.as_str(), claimed.list()[1].list().len()), ("2001-0", 2000));
    assert_eq!(client.run("XINFO STREAM s FULL COUNT 0").list().len(), 18);
    client.check(&format!("XACK s g {}", ids[..700].join(" ")), ":700\r\n");
    client.check("XGROUP DELCONSUMER s g e", ":1300\r\n");
    client.check("XPENDING s g - + 1 e", "*0\r\n");
    client.check(&format!("XDEL s {}", ids[1000..1500].join(" ")), ":500\r\n");
    client.check("XTRIM s MAXLEN 1200", ":1300\r\n");
    client.check("XLEN s", ":1200\r\n");
    let left: Vec<String> = first(&client.run("XRANGE s - +"));
    assert_eq!(left, ids[1800..]);
}

/// nagi must read its own files again, including groups.
#[test]
fn streams_are_saved_and_loaded() {
    let server = Server::nagi_with(&["--enable-debug-command", "yes"]);
    let mut client = server.connect_resp();
    for at in 1..=250 {
        client.run(&format!("XADD s {at}-1 a {at} b text"));
    }
    client.run("XDEL s 100-1 101-1");
    client.run("XGROUP CREATE s g 5 ENTRIESREAD 5");
    client.run("XREADGROUP GROUP g c COUNT 7 STREAMS s >");
    client.run("XGROUP CREATECONSUMER s g d");
    let seen = |client: &mut Connection| {
        let mut all: Vec<_> = ["XRANGE s - +", "XINFO GROUPS s", "XPENDING s g"]
            .map(|request| client.run(request))
            .into();
        all.push(client.run("XINFO STREAM s"));
        all
    };
    let before = seen(&mut client);
    client.check("DEBUG RELOAD", "+OK\r\n");
    assert_eq!(seen(&mut client), before);
    assert_eq!(client.run("COPY s t").integer(), 1);
    assert_eq!(client.run("DEBUG DIGEST-VALUE s"), client.run("DEBUG DIGEST-VALUE t"));
}

/// Redis has a type for active times since 7.2, which older servers do not read, so nagi uses it
/// only where it is needed.
#[test]
fn active_times_of_consumers_are_saved() {
    let folder = Folder::new("active-times");
    let server = folder.nagi(&["--enable-debug-command", "yes"]);
    let mut client = server.connect_resp();
    let header = |client: &mut Connection| {
        client.check("SAVE", "+OK\r\n");
        let file = std::fs::read(folder.0.join("dump.rdb")).expect("it was saved");
        String::from_utf8_lossy(&file[..9]).into_owned()
    };
    let dumped = |client: &mut Connection| match client.run("DUMP s") {
        Reply::Bulk(payload) => payload,
        other => panic!("{other:?}"),
    };
    client.run("XADD s 1-1 a b");
    client.run("XGROUP CREATE s g 0");
    assert_eq!((header(&mut client).as_str(), dumped(&mut client)[0]), ("REDIS0010", 19));
    client.check("XGROUP CREATECONSUMER s g idle", ":1\r\n");
    client.run("XREADGROUP GROUP g busy STREAMS s >");
    assert_eq!((header(&mut client).as_str(), dumped(&mut client)[0]), ("REDIS0011", 21));
    let payload = dumped(&mut client);
    client.run_words(&[b"RESTORE".as_slice(), b"t", b"0", &payload]);
    let inactive = |client: &mut Connection, key: &str| {
        let consumers = client.run(&format!("XINFO CONSUMERS {key} g"));
        let of = |at: usize| consumers.list()[at].list()[7].integer();
        (of(0), of(1))
    };
    for key in ["s", "t"] {
        client.check("DEBUG RELOAD", "+OK\r\n");
        let (busy, idle) = inactive(&mut client, key);
        assert!(busy >= 0 && idle == -1, "{key}: {busy} {idle}");
    }
    client.check("CONFIG SET rdb-version 10", "+OK\r\n");
    assert_eq!(header(&mut client), "REDIS0010");
    client.check("DEBUG RELOAD", "+OK\r\n");
    assert!(inactive(&mut client, "s").1 >= 0, "this version has no such time");
}

#[test]
fn the_memory_of_a_stream_that_was_trimmed_is_not_negative() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("XADD s MAXLEN 1 1-1 f v", "$3\r\n1-1\r\n");
    let long = "x".repeat(5000);
    client.check(&format!("XADD s MAXLEN 1 2-1 f {long}"), "$3\r\n2-1\r\n");
    client.check("XDEL s 2-1", ":1\r\n");
    assert!((0..100_000).contains(&client.run("MEMORY USAGE s").integer()));
    let keys: Vec<String> = (0..200).map(|key| format!("k{key}")).collect();
    client.check("XADD k150 1-1 f v", "$3\r\n1-1\r\n");
    let read = format!("XREAD STREAMS {} {}", keys.join(" "), ["0"; 200].join(" "));
    let entry = "*1\r\n*2\r\n$4\r\nk150\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";
    client.check(&read, entry);
}

/// XSETID permits ids below deleted ones, which remain in their node.
#[test]
fn a_stream_whose_last_id_was_lowered_can_be_restored() {
    let nagi = Server::nagi_with(&["--enable-debug-command", "local"]);
    for (server, may_reload) in [(nagi, true), (Server::redis(), false)] {
        let mut client = server.connect_resp();
        for (request, reply) in [
            ("XADD s 1-1 a b", "$3\r\n1-1\r\n"),
            ("XADD s 5-5 a b", "$3\r\n5-5\r\n"),
            ("XDEL s 5-5", ":1\r\n"),
            ("XSETID s 5-5 ENTRIESADDED 2 MAXDELETEDID 1-1", "+OK\r\n"),
            ("XSETID s 2-0", "+OK\r\n"),
            ("XADD s 3-0 a b", "$3\r\n3-0\r\n"),
            ("CONFIG SET stream-node-max-entries 1", "+OK\r\n"),
            ("XADD s 4-0 a b", "$3\r\n4-0\r\n"),
        ] {
            client.check(request, reply);
        }
        let Reply::Bulk(payload) = client.run("DUMP s") else { panic!("a payload") };
        let restore: [&[u8]; 4] = [b"RESTORE", b"t", b"0", &payload];
        assert_eq!(client.run_words(&restore), Reply::Simple("OK".to_owned()));
        let entries = client.run("XRANGE s - +");
        assert_eq!(entries.list().len(), 3);
        assert_eq!(client.run("XRANGE t - +"), entries);
        if may_reload {
            client.check("DEBUG RELOAD", "+OK\r\n");
            assert_eq!(client.run("XRANGE s - +"), entries);
        }
    }
}

/// Far more than one slice takes: the client is served in steps.
#[test]
fn a_client_that_waits_is_served_any_number_of_entries() {
    const COUNT: usize = 20_000;
    let server = Server::nagi();
    let [mut waiter, mut other] = [(); 2].map(|()| server.connect_resp());
    let entries = encode_command(&["XADD", "s", "*", "f", "v"]).repeat(COUNT);
    other.send(entries);
    (0..COUNT).for_each(|_| drop(other.reply()));
    other.check("XGROUP CREATE s g $", "+OK\r\n");
    let read = ["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"];
    waiter.send(encode_command(&read));
    until_blocked(&mut other, 1);
    other.check("XGROUP SETID s g 0", "+OK\r\n");
    let reply = waiter.reply();
    let of_stream = reply.list()[0].list();
    assert_eq!(of_stream[1].list().len(), COUNT);
    assert_eq!(other.run("XPENDING s g").list()[0], Reply::Integer(COUNT as i64));
    // Members are popped in steps as well.
    for member in 0..COUNT {
        other.run(&format!("ZADD big {member} m{member}"));
    }
    waiter.send(encode_command(&["BZMPOP", "0", "1", "z", "MIN", "COUNT", &COUNT.to_string()]));
    until_blocked(&mut other, 1);
    other.check("RENAME big z", "+OK\r\n");
    assert_eq!(waiter.reply().list()[1].list().len(), COUNT);
    other.check("EXISTS z", ":0\r\n");
}
