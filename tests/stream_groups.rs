//! Groups of consumers that read streams, and reading after ids.

use harness::{Server, as_redis};

const GROUPS: &[(&str, &str)] = &[
    ("XADD t 5 a b", "$3\r\n5-0\r\n"),
    ("XADD t 6 a b", "$3\r\n6-0\r\n"),
    ("XADD t 7 a b", "$3\r\n7-0\r\n"),
    ("XADD t 8 a b", "$3\r\n8-0\r\n"),
    ("XGROUP CREATE t g 0", "+OK\r\n"),
    ("XGROUP CREATE t g 0", "-BUSYGROUP Consumer Group name already exists\r\n"),
    ("XGROUP CREATE t g2 $ ENTRIESREAD 3", "+OK\r\n"),
    ("XGROUP CREATE t g3 x", "-ERR Invalid stream ID specified as stream command argument\r\n"),
    (
        "XGROUP CREATE nope g 0",
        "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may w\
             ant to use the MKSTREAM option to create an empty stream automatically.\r\n",
    ),
    (
        "XGROUP CREATE nope g x MKSTREAM",
        "-ERR Invalid stream ID specified as stream command argument\r\n",
    ),
    (
        "XGROUP CREATE mk g 0 MKSTREAM ENTRIESREAD -2",
        "-ERR value for ENTRIESREAD must be positive or -1\r\n",
    ),
    ("XGROUP CREATE mk g $ MKSTREAM", "+OK\r\n"),
    (
        "XGROUP CREATE mk g $ FOO",
        "-ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.\
             \r\n",
    ),
    ("XGROUP SETID mk g 5-5", "+OK\r\n"),
    ("XGROUP SETID mk nog 5-5", "-NOGROUP No such consumer group 'nog' for key name 'mk'\r\n"),
    (
        "XGROUP SETID nope nog 5-5",
        "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may w\
             ant to use the MKSTREAM option to create an empty stream automatically.\r\n",
    ),
    ("XGROUP SETID t g2 + ENTRIESREAD 2", "+OK\r\n"),
    (
        "XGROUP SETID t g2 - MKSTREAM",
        "-ERR unknown subcommand or wrong number of arguments for 'SETID'. Try XGROUP HELP.\r\
             \n",
    ),
    ("XGROUP CREATECONSUMER t g c1", ":1\r\n"),
    ("XGROUP CREATECONSUMER t g c1", ":0\r\n"),
    (
        "XGROUP CREATECONSUMER t nog c1",
        "-NOGROUP No such consumer group 'nog' for key name 't'\r\n",
    ),
    (
        "XGROUP CREATECONSUMER nope g c1",
        "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may w\
             ant to use the MKSTREAM option to create an empty stream automatically.\r\n",
    ),
    ("XGROUP DELCONSUMER t g nobody", ":0\r\n"),
    ("XGROUP DELCONSUMER t nog c", "-NOGROUP No such consumer group 'nog' for key name 't'\r\n"),
    ("XGROUP DESTROY t nog", ":0\r\n"),
    (
        "XGROUP DESTROY nope nog",
        "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may w\
             ant to use the MKSTREAM option to create an empty stream automatically.\r\n",
    ),
    ("XGROUP DESTROY t g2", ":1\r\n"),
    ("XGROUP FOO", "-ERR unknown subcommand 'FOO'. Try XGROUP HELP.\r\n"),
    ("XGROUP FOO t g", "-ERR unknown subcommand 'FOO'. Try XGROUP HELP.\r\n"),
    ("XGROUP", "-ERR wrong number of arguments for 'xgroup' command\r\n"),
    (
        "XINFO STREAM mk",
        "*20\r\n$6\r\nlength\r\n:0\r\n$15\r\nradix-tree-keys\r\n:0\r\n$16\r\nradix-tree-nodes\
             \r\n:1\r\n$17\r\nlast-generated-id\r\n$3\r\n0-0\r\n$20\r\nmax-deleted-entry-id\r\n$\
             3\r\n0-0\r\n$13\r\nentries-added\r\n:0\r\n$23\r\nrecorded-first-entry-id\r\n$3\r\n0\
             -0\r\n$6\r\ngroups\r\n:1\r\n$11\r\nfirst-entry\r\n$-1\r\n$10\r\nlast-entry\r\n$-1\r\
             \n",
    ),
    (
        "XINFO GROUPS t",
        "*1\r\n*12\r\n$4\r\nname\r\n$1\r\ng\r\n$9\r\nconsumers\r\n:1\r\n$7\r\npending\r\n:0\r\
             \n$17\r\nlast-delivered-id\r\n$3\r\n0-0\r\n$12\r\nentries-read\r\n$-1\r\n$3\r\nlag\
             \r\n:4\r\n",
    ),
    (
        "XREADGROUP GROUP g c1 COUNT 1 STREAMS t >",
        "*1\r\n*2\r\n$1\r\nt\r\n*1\r\n*2\r\n$3\r\n5-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    ),
    (
        "XREADGROUP GROUP g c1 COUNT 1 NOACK STREAMS t >",
        "*1\r\n*2\r\n$1\r\nt\r\n*1\r\n*2\r\n$3\r\n6-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    ),
    (
        "XREADGROUP GROUP g c1 STREAMS t 0",
        "*1\r\n*2\r\n$1\r\nt\r\n*1\r\n*2\r\n$3\r\n5-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    ),
    (
        "XREADGROUP GROUP g c1 STREAMS t $",
        "-ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the hist\
             ory of this consumer by specifying a proper ID, or use the > ID to get new messages\
             . The $ ID would just return an empty result set.\r\n",
    ),
    (
        "XREADGROUP GROUP g c1 STREAMS t x",
        "-ERR Invalid stream ID specified as stream command argument\r\n",
    ),
    (
        "XREADGROUP GROUP nog c1 STREAMS t >",
        "-NOGROUP No such key 't' or consumer group 'nog' in XREADGROUP with GROUP option\r\n",
    ),
    (
        "XREADGROUP GROUP g c1 STREAMS nope >",
        "-NOGROUP No such key 'nope' or consumer group 'g' in XREADGROUP with GROUP option\r\n",
    ),
    (
        "XREADGROUP GROUP g STREAMS t >",
        "-ERR wrong number of arguments for 'xreadgroup' command\r\n",
    ),
    (
        "XREADGROUP COUNT 1 STREAMS t >",
        "-ERR wrong number of arguments for 'xreadgroup' command\r\n",
    ),
    (
        "XREADGROUP GROUP g c1 STREAMS t >",
        "*1\r\n*2\r\n$1\r\nt\r\n*2\r\n*2\r\n$3\r\n7-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$3\
             \r\n8-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    ),
    ("XREADGROUP GROUP g c2 STREAMS t 0", "*1\r\n*2\r\n$1\r\nt\r\n*0\r\n"),
    ("XADD t 10 a b", "$4\r\n10-0\r\n"),
    ("XADD t 11 a b", "$4\r\n11-0\r\n"),
    ("XADD t 12 a b", "$4\r\n12-0\r\n"),
    (
        "XREADGROUP GROUP g c2 STREAMS t >",
        "*1\r\n*2\r\n$1\r\nt\r\n*3\r\n*2\r\n$4\r\n10-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$\
             4\r\n11-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$4\r\n12-0\r\n*2\r\n$1\r\na\r\n$1\r\
             \nb\r\n",
    ),
    (
        "XPENDING t g",
        "*4\r\n:6\r\n$3\r\n5-0\r\n$4\r\n12-0\r\n*2\r\n*2\r\n$2\r\nc1\r\n$1\r\n3\r\n*2\r\n$2\r\
             \nc2\r\n$1\r\n3\r\n",
    ),
    ("XPENDING t nog", "-NOGROUP No such key 't' or consumer group 'nog'\r\n"),
    ("XPENDING nope g", "-NOGROUP No such key 'nope' or consumer group 'g'\r\n"),
    ("XPENDING t g - +", "-ERR syntax error\r\n"),
    ("XPENDING t g - + x", "-ERR value is not an integer or out of range\r\n"),
    ("XPENDING t g - + 10 nobody", "*0\r\n"),
    ("XPENDING t g IDLE 0 - +", "-ERR syntax error\r\n"),
    ("XPENDING t g IDLE x - + 10", "-ERR value is not an integer or out of range\r\n"),
    ("XPENDING t g ( + 10", "-ERR Invalid stream ID specified as stream command argument\r\n"),
    (
        "XINFO GROUPS t",
        "*1\r\n*12\r\n$4\r\nname\r\n$1\r\ng\r\n$9\r\nconsumers\r\n:2\r\n$7\r\npending\r\n:6\r\
             \n$17\r\nlast-delivered-id\r\n$4\r\n12-0\r\n$12\r\nentries-read\r\n:7\r\n$3\r\nlag\
             \r\n:0\r\n",
    ),
    ("XDEL t 11", ":1\r\n"),
    (
        "XREADGROUP GROUP g c2 STREAMS t 0",
        "*1\r\n*2\r\n$1\r\nt\r\n*3\r\n*2\r\n$4\r\n10-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$\
             4\r\n11-0\r\n*-1\r\n*2\r\n$4\r\n12-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    ),
    (
        "XINFO GROUPS t",
        "*1\r\n*12\r\n$4\r\nname\r\n$1\r\ng\r\n$9\r\nconsumers\r\n:2\r\n$7\r\npending\r\n:6\r\
             \n$17\r\nlast-delivered-id\r\n$4\r\n12-0\r\n$12\r\nentries-read\r\n:7\r\n$3\r\nlag\
             \r\n:0\r\n",
    ),
    ("XCLAIM t g c1 0 10-0", "*1\r\n*2\r\n$4\r\n10-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
    ("XCLAIM t g c1 0 11-0", "*0\r\n"),
    ("XCLAIM t g c1 0 99-0", "*0\r\n"),
    ("XCLAIM t g c3 0 99-0 12-0 FORCE JUSTID", "*1\r\n$4\r\n12-0\r\n"),
    ("XCLAIM t g c3 1000000 12-0 JUSTID", "*0\r\n"),
    ("XCLAIM t g c3 x 12-0 JUSTID", "-ERR Invalid min-idle-time argument for XCLAIM\r\n"),
    ("XCLAIM t g c3 0 12-0 FOO", "-ERR Unrecognized XCLAIM option 'FOO'\r\n"),
    ("XCLAIM t g c3 0 12-0 IDLE x", "-ERR Invalid IDLE option argument for XCLAIM\r\n"),
    ("XCLAIM t g c3 0 12-0 TIME x", "-ERR Invalid TIME option argument for XCLAIM\r\n"),
    ("XCLAIM t g c3 0 12-0 RETRYCOUNT x", "-ERR Invalid RETRYCOUNT option argument for XCLAIM\r\n"),
    (
        "XCLAIM t g c3 0 12-0 RETRYCOUNT 7 LASTID 13-0",
        "*1\r\n*2\r\n$4\r\n12-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    ),
    (
        "XCLAIM t g c3 0 12-0 LASTID x",
        "-ERR Invalid stream ID specified as stream command argument\r\n",
    ),
    ("XCLAIM t g c3 0 x", "-ERR Unrecognized XCLAIM option 'x'\r\n"),
    ("XCLAIM t nog c3 0 x", "-NOGROUP No such key 't' or consumer group 'nog'\r\n"),
    ("XCLAIM nope nog c3 0 x", "-NOGROUP No such key 'nope' or consumer group 'nog'\r\n"),
    (
        "XPENDING t g",
        "*4\r\n:5\r\n$3\r\n5-0\r\n$4\r\n12-0\r\n*2\r\n*2\r\n$2\r\nc1\r\n$1\r\n4\r\n*2\r\n$2\r\
             \nc3\r\n$1\r\n1\r\n",
    ),
    (
        "XAUTOCLAIM t g c4 0 0",
        "*3\r\n$3\r\n0-0\r\n*5\r\n*2\r\n$3\r\n5-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$3\r\n\
             7-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$3\r\n8-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*\
             2\r\n$4\r\n10-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$4\r\n12-0\r\n*2\r\n$1\r\na\r\
             \n$1\r\nb\r\n*0\r\n",
    ),
    (
        "XAUTOCLAIM t g c4 0 0 COUNT 1",
        "*3\r\n$3\r\n7-0\r\n*1\r\n*2\r\n$3\r\n5-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*0\r\n",
    ),
    ("XAUTOCLAIM t g c4 0 0 COUNT 0", "-ERR COUNT must be > 0\r\n"),
    ("XAUTOCLAIM t g c4 0 0 COUNT x", "-ERR COUNT must be > 0\r\n"),
    ("XAUTOCLAIM t g c4 0 (10-0 COUNT 1 JUSTID", "*3\r\n$3\r\n0-0\r\n*1\r\n$4\r\n12-0\r\n*0\r\n"),
    (
        "XAUTOCLAIM t g c4 x 0 COUNT 1 JUSTID",
        "-ERR Invalid min-idle-time argument for XAUTOCLAIM\r\n",
    ),
    (
        "XAUTOCLAIM t g c4 0 x COUNT 1 JUSTID",
        "-ERR Invalid stream ID specified as stream command argument\r\n",
    ),
    ("XAUTOCLAIM t g c4 0 - FOO", "-ERR syntax error\r\n"),
    ("XAUTOCLAIM t nog c4 0 -", "-NOGROUP No such key 't' or consumer group 'nog'\r\n"),
    ("XACK t g 10-0 10-0 99-0", ":1\r\n"),
    ("XACK t g x", "-ERR Invalid stream ID specified as stream command argument\r\n"),
    ("XACK t nog x", ":0\r\n"),
    ("XACK nope nog x", ":0\r\n"),
    ("XGROUP DELCONSUMER t g c4", ":4\r\n"),
    ("XGROUP DELCONSUMER t g c1", ":0\r\n"),
    (
        "XINFO GROUPS t",
        "*1\r\n*12\r\n$4\r\nname\r\n$1\r\ng\r\n$9\r\nconsumers\r\n:2\r\n$7\r\npending\r\n:0\r\
             \n$17\r\nlast-delivered-id\r\n$4\r\n13-0\r\n$12\r\nentries-read\r\n:7\r\n$3\r\nlag\
             \r\n:0\r\n",
    ),
];

#[test]
fn groups_distribute_entries() {
    as_redis(GROUPS);
}

/// There are more consumers than are visited at once, and some have nothing pending.
#[test]
fn consumers_with_pending_entries_are_listed() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("XGROUP CREATE s g 0 MKSTREAM", "+OK\r\n");
        for number in 100..300 {
            client.check(&format!("XADD s {number} f v"), format!("$5\r\n{number}-0\r\n"));
            client.run(&format!("XREADGROUP GROUP g c{number} STREAMS s >"));
            if number % 3 == 0 {
                client.check(&format!("XACK s g {number}"), ":1\r\n");
            }
        }
        let pending = |number: &i32| number % 3 != 0;
        let expected: Vec<_> = (100..300).filter(pending).map(|it| format!("c{it}")).collect();
        let reply = client.run("XPENDING s g");
        let listed = reply.list()[3].list().iter().map(|it| it.list()[0].text());
        assert_eq!(listed.collect::<Vec<_>>(), expected);
        assert_eq!(reply.list()[0].integer(), expected.len() as i64);
        let reply = client.run("XPENDING s g - + 1000");
        let owners = reply.list().iter().map(|it| it.list()[1].text());
        assert_eq!(owners.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn entries_are_read_after_ids() {
    as_redis(&[
        ("XADD t 10 a b", "$4\r\n10-0\r\n"),
        ("XADD t 12 c d", "$4\r\n12-0\r\n"),
        ("XADD s 1-1 a b", "$3\r\n1-1\r\n"),
        ("XGROUP CREATE t g 0", "+OK\r\n"),
        (
            "XREAD STREAMS t 0",
            "*1\r\n*2\r\n$1\r\nt\r\n*2\r\n*2\r\n$4\r\n10-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$\
             4\r\n12-0\r\n*2\r\n$1\r\nc\r\n$1\r\nd\r\n",
        ),
        (
            "XREAD COUNT 1 STREAMS t s 0 0",
            "*2\r\n*2\r\n$1\r\nt\r\n*1\r\n*2\r\n$4\r\n10-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*2\r\n$\
             1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
        ),
        (
            "XREAD COUNT 0 STREAMS t 11",
            "*1\r\n*2\r\n$1\r\nt\r\n*1\r\n*2\r\n$4\r\n12-0\r\n*2\r\n$1\r\nc\r\n$1\r\nd\r\n",
        ),
        (
            "XREAD COUNT -1 STREAMS t 11",
            "*1\r\n*2\r\n$1\r\nt\r\n*1\r\n*2\r\n$4\r\n12-0\r\n*2\r\n$1\r\nc\r\n$1\r\nd\r\n",
        ),
        ("XREAD STREAMS t $", "*-1\r\n"),
        ("XREAD STREAMS nope $", "*-1\r\n"),
        (
            "XREAD STREAMS t >",
            "-ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
             <consumer> option.\r\n",
        ),
        ("XREAD STREAMS t x", "-ERR Invalid stream ID specified as stream command argument\r\n"),
        ("XREAD STREAMS", "-ERR wrong number of arguments for 'xread' command\r\n"),
        ("XREAD FOO STREAMS t 0", "-ERR syntax error\r\n"),
        ("XREAD COUNT x STREAMS t 0", "-ERR value is not an integer or out of range\r\n"),
        ("XREAD BLOCK x STREAMS t 0", "-ERR timeout is not an integer or out of range\r\n"),
        ("XREAD BLOCK -1 STREAMS t 0", "-ERR timeout is negative\r\n"),
        (
            "XREAD GROUP g c STREAMS t 0",
            "-ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.\r\n",
        ),
        (
            "XREAD NOACK STREAMS t 0",
            "-ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.\r\n",
        ),
    ]);
}

/// The options are checked from left to right, before the streams and their ids, as in Redis 8.0.6.
#[test]
fn a_timeout_beyond_all_times_is_refused_first() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("SET text x", "+OK\r\n");
    let no_number = "-ERR value is not an integer or out of range\r\n";
    for command in ["XREAD", "XREADGROUP GROUP g c"] {
        for (options, reply) in [
            ("BLOCK 9223372036854775807", "-ERR timeout is out of range\r\n"),
            ("BLOCK 9223372036854775807 COUNT x", "-ERR timeout is out of range\r\n"),
            ("BLOCK 9223372036854775807 BLOCK 1", "-ERR timeout is out of range\r\n"),
            ("BLOCK 1 BLOCK x", "-ERR timeout is not an integer or out of range\r\n"),
            ("COUNT x BLOCK 9223372036854775807", no_number),
        ] {
            for streams in ["text 0", "text x", "none x"] {
                client.check(&format!("{command} {options} STREAMS {streams}"), reply);
            }
        }
    }
}

const AS_REDIS_8: &[(&str, &str)] = &[
    ("MULTI", "+OK\r\n"),
    ("XADD q 1 a b", "+QUEUED\r\n"),
    ("XREAD BLOCK 0 STREAMS q 0", "+QUEUED\r\n"),
    ("XREAD BLOCK 0 STREAMS q $", "+QUEUED\r\n"),
    (
        "EXEC",
        "*3\r\n$3\r\n1-0\r\n*1\r\n*2\r\n$1\r\nq\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\na\r\n\
             $1\r\nb\r\n*-1\r\n",
    ),
    ("XGROUP CREATE q g 0", "+OK\r\n"),
    (
        "XREADGROUP GROUP g c COUNT 1 STREAMS q >",
        "*1\r\n*2\r\n$1\r\nq\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    ),
    ("XADD q 2 a b", "$3\r\n2-0\r\n"),
    ("XTRIM q MINID 2", ":1\r\n"),
    ("XADD q 3 a b", "$3\r\n3-0\r\n"),
    ("XDEL q 2", ":1\r\n"),
    (
        "XINFO GROUPS q",
        "*1\r\n*12\r\n$4\r\nname\r\n$1\r\ng\r\n$9\r\nconsumers\r\n:1\r\n$7\r\npending\r\n:1\r\
             \n$17\r\nlast-delivered-id\r\n$3\r\n1-0\r\n$12\r\nentries-read\r\n:1\r\n$3\r\nlag\r\
             \n:1\r\n",
    ),
    (
        "XREADGROUP GROUP g c COUNT 1 STREAMS q >",
        "*1\r\n*2\r\n$1\r\nq\r\n*1\r\n*2\r\n$3\r\n3-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    ),
    (
        "XINFO GROUPS q",
        "*1\r\n*12\r\n$4\r\nname\r\n$1\r\ng\r\n$9\r\nconsumers\r\n:1\r\n$7\r\npending\r\n:2\r\
             \n$17\r\nlast-delivered-id\r\n$3\r\n3-0\r\n$12\r\nentries-read\r\n:3\r\n$3\r\nlag\r\
             \n:0\r\n",
    ),
    ("XGROUP SETID q g 0", "+OK\r\n"),
    (
        "XREADGROUP GROUP g d STREAMS q >",
        "*1\r\n*2\r\n$1\r\nq\r\n*1\r\n*2\r\n$3\r\n3-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    ),
    (
        "XPENDING q g",
        "*4\r\n:2\r\n$3\r\n1-0\r\n$3\r\n3-0\r\n*2\r\n*2\r\n$1\r\nc\r\n$1\r\n1\r\n*2\r\n$1\r\n\
             d\r\n$1\r\n1\r\n",
    ),
    (
        "XINFO GROUPS q",
        "*1\r\n*12\r\n$4\r\nname\r\n$1\r\ng\r\n$9\r\nconsumers\r\n:2\r\n$7\r\npending\r\n:2\r\
             \n$17\r\nlast-delivered-id\r\n$3\r\n3-0\r\n$12\r\nentries-read\r\n:3\r\n$3\r\nlag\r\
             \n:0\r\n",
    ),
    (
        "XAUTOCLAIM q g d 0 0",
        "*3\r\n$3\r\n0-0\r\n*1\r\n*2\r\n$3\r\n3-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n$3\r\n\
             1-0\r\n",
    ),
    ("XDEL q 3", ":1\r\n"),
    (
        "XINFO GROUPS q",
        "*1\r\n*12\r\n$4\r\nname\r\n$1\r\ng\r\n$9\r\nconsumers\r\n:2\r\n$7\r\npending\r\n:1\r\
             \n$17\r\nlast-delivered-id\r\n$3\r\n3-0\r\n$12\r\nentries-read\r\n:3\r\n$3\r\nlag\r\
             \n:0\r\n",
    ),
    ("XADD q 4 a b", "$3\r\n4-0\r\n"),
    (
        "XREADGROUP GROUP g d STREAMS q >",
        "*1\r\n*2\r\n$1\r\nq\r\n*1\r\n*2\r\n$3\r\n4-0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
    ),
    (
        "XINFO GROUPS q",
        "*1\r\n*12\r\n$4\r\nname\r\n$1\r\ng\r\n$9\r\nconsumers\r\n:2\r\n$7\r\npending\r\n:2\r\
             \n$17\r\nlast-delivered-id\r\n$3\r\n4-0\r\n$12\r\nentries-read\r\n:4\r\n$3\r\nlag\r\
             \n:0\r\n",
    ),
];

/// The replies are those of Redis 8.0.6, which knows the counts in more cases than 7.0.15.
#[test]
fn groups_know_how_much_they_have_read() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    for (request, reply) in AS_REDIS_8 {
        client.check(request, reply);
    }
}
