//! Keys of any type: their expiry, names and number.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use harness::{Connection, Reply, Server, as_redis, encode_command, until, words};

#[test]
fn keys_are_counted_removed_and_typed() {
    as_redis(&[
        ("MSET a 1 b 2 c 3", "+OK\r\n"),
        ("EXISTS a nothing a", ":2\r\n"),
        ("TYPE a", "+string\r\n"),
        ("TYPE nothing", "+none\r\n"),
        ("DEL a nothing", ":1\r\n"),
        ("UNLINK b a", ":1\r\n"),
        ("DBSIZE", ":1\r\n"),
        ("DEL", "-ERR wrong number of arguments for 'del' command\r\n"),
    ]);
}

#[test]
fn a_time_to_live_is_set_read_and_removed() {
    as_redis(&[
        ("TTL key", ":-2\r\n"),
        ("PTTL key", ":-2\r\n"),
        ("EXPIRE key 10", ":0\r\n"),
        ("SET key value", "+OK\r\n"),
        ("TTL key", ":-1\r\n"),
        ("EXPIRE key 100", ":1\r\n"),
        ("TTL key", ":100\r\n"),
        ("PEXPIRE key 200000", ":1\r\n"),
        ("TTL key", ":200\r\n"),
        ("PERSIST key", ":1\r\n"),
        ("PERSIST key", ":0\r\n"),
        ("EXPIREAT key 4000000000", ":1\r\n"),
        ("EXPIRETIME key", ":4000000000\r\n"),
        ("PEXPIREAT key 4000000000001", ":1\r\n"),
        ("PEXPIRETIME key", ":4000000000001\r\n"),
        ("EXPIRE key x", "-ERR value is not an integer or out of range\r\n"),
        ("EXPIRE key 9223372036854775807", "-ERR invalid expire time in 'expire' command\r\n"),
        ("EXPIRE key -1", ":1\r\n"),
        ("EXISTS key", ":0\r\n"),
    ]);
}

#[test]
fn conditions_of_expire() {
    as_redis(&[
        ("SET key value", "+OK\r\n"),
        ("EXPIRE key 100 XX", ":0\r\n"),
        ("EXPIRE key 100 GT", ":0\r\n"),
        ("EXPIRE key 100 LT", ":1\r\n"),
        ("EXPIRE key 200 NX", ":0\r\n"),
        ("EXPIRE key 200 gt", ":1\r\n"),
        ("EXPIRE key 100 GT", ":0\r\n"),
        ("EXPIRE key 100 XX LT", ":1\r\n"),
        (
            "EXPIRE key 100 NX XX",
            "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n",
        ),
        ("EXPIRE key 100 GT LT", "-ERR GT and LT options at the same time are not compatible\r\n"),
        ("EXPIRE key 100 nonsense", "-ERR Unsupported option nonsense\r\n"),
    ]);
}

#[test]
fn an_expired_key_is_gone() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    client.check("SET key value PX 20", "+OK\r\n");
    client.check("SET other value", "+OK\r\n");
    harness::until("the end of the key", || {
        (client.run("EXISTS key").integer() == 0).then_some(())
    })
    .expect("it expires");
    client.check("GET key", "$-1\r\n");
    client.check("TTL key", ":-2\r\n");
    assert_eq!(names(&mut client, "KEYS *"), ["other"]);
}

fn names(client: &mut Connection, command: &str) -> Vec<String> {
    let mut names: Vec<String> =
        client.run(command).list().iter().map(harness::Reply::text).collect();
    names.sort();
    names
}

#[test]
fn keys_are_found_by_pattern() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("MSET one 1 two 2 three 3 four 4 a*b 5", "+OK\r\n");
        for (pattern, found) in [
            ("*", &["a*b", "four", "one", "three", "two"][..]),
            ("t*", &["three", "two"]),
            ("t??", &["two"]),
            ("[ot]*e", &["one", "three"]),
            ("[^t]*", &["a*b", "four", "one"]),
            ("a\\*b", &["a*b"]),
            ("nothing", &[]),
        ] {
            assert_eq!(names(&mut client, &format!("KEYS {pattern}")), found, "{pattern}");
        }
    }
}

#[test]
fn a_scan_finds_every_key_while_other_keys_come_and_go() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        for number in 0..5000 {
            client.send(harness::encode_command(&["SET", &format!("stays:{number}"), "1"]));
        }
        for _ in 0..5000 {
            client.expect("+OK\r\n");
        }
        let mut found = BTreeSet::new();
        let (mut cursor, mut round) = ("0".to_owned(), 0);
        loop {
            let reply = client.run(&format!("SCAN {cursor} MATCH stays:* COUNT 100 TYPE string"));
            cursor = reply.list()[0].text();
            found.extend(reply.list()[1].list().iter().map(harness::Reply::text));
            if cursor == "0" {
                break;
            }
            for number in 0..100 {
                client.run(&format!("SET comes:{round}:{number} 1"));
            }
            client.run(&format!("DEL comes:{round}:0 comes:{round}:1"));
            round += 1;
        }
        assert_eq!(found.len(), 5000);
    }
    as_redis(&[
        ("SCAN x", "-ERR invalid cursor\r\n"),
        ("SCAN 0 COUNT 0", "-ERR syntax error\r\n"),
        ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range\r\n"),
        ("SCAN 0 nonsense", "-ERR syntax error\r\n"),
        ("SCAN 0", "*2\r\n$1\r\n0\r\n*0\r\n"),
    ]);
}

#[test]
fn databases_are_emptied_one_or_all() {
    as_redis(&[
        ("MSET a 1 b 2", "+OK\r\n"),
        ("SELECT 1", "+OK\r\n"),
        ("SET c 3", "+OK\r\n"),
        ("FLUSHDB", "+OK\r\n"),
        ("DBSIZE", ":0\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("DBSIZE", ":2\r\n"),
        ("FLUSHDB nonsense", "-ERR syntax error\r\n"),
        ("FLUSHALL SYNC", "+OK\r\n"),
        ("DBSIZE", ":0\r\n"),
        ("FLUSHALL async", "+OK\r\n"),
    ]);
}

#[test]
fn clients_are_served_while_all_keys_are_listed() {
    let server = Server::nagi_with(&["--workers", "1"]);
    let mut client = server.connect_resp();
    let names: BTreeSet<_> = (0..200_000).map(|number| format!("key:{number}")).collect();
    for name in &names {
        client.send(harness::encode_command(&["SET", name, "v"]));
    }
    client.expect("+OK\r\n".repeat(names.len()));
    let mut other = server.connect_resp();
    client.send(harness::encode_command(&["KEYS", "*"]));
    other.check("GET key:1", "$1\r\nv\r\n");
    let keys: BTreeSet<_> = client.reply().list().iter().map(|key| key.text()).collect();
    assert_eq!(keys, names);
}

#[test]
fn encodings_of_values_are_shown() {
    as_redis(&[
        ("OBJECT ENCODING nothing", "$-1\r\n"),
        ("SET key 12", "+OK\r\n"),
        ("OBJECT ENCODING key", "$3\r\nint\r\n"),
        ("OBJECT REFCOUNT key", ":2147483647\r\n"),
        ("SET key word", "+OK\r\n"),
        ("OBJECT ENCODING key", "$6\r\nembstr\r\n"),
        ("OBJECT REFCOUNT key", ":1\r\n"),
        ("APPEND key s", ":5\r\n"),
        ("OBJECT ENCODING key", "$3\r\nraw\r\n"),
        (
            "OBJECT FREQ key",
            "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
             note that when switching between policies at runtime LRU and LFU data will take some \
             time to adjust.\r\n",
        ),
        ("OBJECT FREQ nothing", "$-1\r\n"),
        ("CONFIG SET maxmemory-policy allkeys-lfu", "+OK\r\n"),
        ("SET new word", "+OK\r\n"),
        ("OBJECT FREQ new", ":5\r\n"),
        ("OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command\r\n"),
        ("OBJECT NONSENSE key", "-ERR unknown subcommand 'NONSENSE'. Try OBJECT HELP.\r\n"),
    ]);
    let server = Server::nagi();
    let help = server.connect_resp().run("OBJECT HELP");
    assert!(help.list().iter().any(|line| line.text().starts_with("ENCODING")), "{help:?}");
}

#[test]
fn the_idle_time_begins_again_with_each_use() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("SET key value", "+OK\r\n");
        // The clock for idle times counts seconds, and may advance between the two requests.
        until("an idle time of 0", || {
            client.check("GET key", "$5\r\nvalue\r\n");
            (client.run("OBJECT IDLETIME key").integer() == 0).then_some(())
        })
        .expect("it was just used");
    }
}

/// This behaviour is that of Redis since 8.0.
#[test]
fn negative_and_empty_cursors_are_refused() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let nothing = "*2\r\n$1\r\n0\r\n*0\r\n";
    for command in ["SCAN", "HSCAN key", "SSCAN key", "ZSCAN key"] {
        for (cursor, reply) in [
            ("-1", "-ERR invalid cursor\r\n"),
            ("-9223372036854775808", "-ERR invalid cursor\r\n"),
            ("18446744073709551616", "-ERR invalid cursor\r\n"),
            ("\"\"", "-ERR invalid cursor\r\n"),
            ("\"1 \"", "-ERR invalid cursor\r\n"),
            ("0x1", "-ERR invalid cursor\r\n"),
            ("\" 1\"", nothing),
            ("+1", nothing),
            ("-01", nothing),
            ("0001", nothing),
            ("-9223372036854775809", nothing),
            ("18446744073709551615", nothing),
        ] {
            client.check(&format!("{command} {cursor}"), reply);
        }
    }
}

#[test]
fn wait_finds_no_replicas() {
    as_redis(&[
        ("WAIT 0 0", ":0\r\n"),
        ("WAIT 1 10", ":0\r\n"),
        ("WAIT x 0", "-ERR value is not an integer or out of range\r\n"),
        ("WAIT 0 x", "-ERR timeout is not an integer or out of range\r\n"),
        ("WAIT 0 -1", "-ERR timeout is negative\r\n"),
    ]);
    // Redis has this since 7.2.
    let server = Server::nagi();
    server.connect_resp().check("WAITAOF 0 0 0", "*2\r\n:0\r\n:0\r\n");
}

#[test]
fn wait_takes_its_time_unless_it_is_ended() {
    for (server, is_nagi) in [(Server::nagi(), true), (Server::redis(), false)] {
        let (mut client, mut other) = (server.connect_resp(), server.connect_resp());
        // Redis has the second request since 7.2.
        let requests = [("WAIT 1", ":0\r\n"), ("WAITAOF 0 1", "*2\r\n:0\r\n:0\r\n")];
        for (request, reply) in &requests[..if is_nagi { 2 } else { 1 }] {
            let began = Instant::now();
            client.check(&format!("{request} 100"), reply);
            // Both servers count from the last whole millisecond.
            assert!(began.elapsed() >= Duration::from_millis(98), "{request}");
            let id = client.run("CLIENT ID").integer();
            let with_error = "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n";
            for (reason, reply) in [("", *reply), ("TIMEOUT", *reply), ("ERROR", with_error)] {
                client.send(encode_command(&words(&format!("{request} 0"))));
                until("a client that waits", || {
                    let clients = other.run("INFO clients").text();
                    clients.contains("blocked_clients:1\r\n").then_some(())
                })
                .expect("it waits");
                other.check(&format!("CLIENT UNBLOCK {id} {reason}"), ":1\r\n");
                client.expect(reply);
            }
            // Within a transaction, WAIT does not wait.
            client.check("MULTI", "+OK\r\n");
            client.check(&format!("{request} 0"), "+QUEUED\r\n");
            client.check("EXEC", format!("*1\r\n{reply}"));
        }
        if is_nagi {
            // Redis permits it in scripts since 7.2.
            client.check("EVAL return(redis.call('wait',1,0)) 0", ":0\r\n");
        }
        client.check("PING", "+PONG\r\n");
    }
}

#[test]
fn encodings_are_those_of_redis_after_every_change() {
    let text = "v".repeat(44);
    let (set_text, longer) = (format!("SET s {text}"), format!("SET s {text}v"));
    let commands = [
        "SET n 12",
        "INCRBYFLOAT n 1",
        "INCRBYFLOAT n 0.5",
        "INCRBYFLOAT n 0.5",
        "COPY n c REPLACE",
        "RENAME n n2",
        "RENAME n2 n",
        "EXPIRE n 1000",
        "PERSIST n",
        "INCR n",
        "INCRBYFLOAT n 1",
        "APPEND n 0",
        "INCRBY n 1",
        "INCRBYFLOAT new 7",
        "SETRANGE new 0 8",
        "INCRBYFLOAT new 1",
        "GETSET n 5",
        "INCRBYFLOAT n 1e30",
        "INCRBYFLOAT n 1e60",
        "SETEX n 1000 6",
        "INCRBYFLOAT n 1",
        "GETEX n PERSIST",
        "SET n 12 KEEPTTL",
        "SETRANGE n 0 \"\"",
        "SETRANGE n 0 1",
        "SETNX c 1",
        "MSET c 9223372036854775807 s 9223372036854775808",
        "DECR c",
        "APPEND s \"\"",
        "APPEND none \"\"",
        "APPEND fresh 77",
        "APPEND fresh 7",
        "SETBIT n 0 0",
        "SETBIT bits 1 1",
        "BITFIELD f GET u8 0",
        "BITFIELD f SET u8 0 49",
        "SET f 1",
        "BITFIELD f GET u8 0",
        "BITFIELD f SET u8 0 49",
        "BITOP NOT d f",
        "BITOP AND e none2 f",
        "PFADD h a",
        "PFMERGE h2 h",
        "PFCOUNT h",
        "COPY h h3",
        "MSETNX m 1 m2 word",
        "PSETEX m2 100000 8",
        &set_text,
        "APPEND s \"\"",
        &longer,
        "GETRANGE s 0 1",
        "SET s -0",
        "SET s 007",
        "SET s +5",
        "SET s 1.5",
        "SET s \"\"",
    ];
    let keys = ["n", "c", "new", "s", "fresh", "bits", "f", "d", "e", "h", "h2", "h3", "m", "m2"];
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let (mut ours, mut theirs) = (nagi.connect_resp(), redis.connect_resp());
    for command in commands {
        assert_eq!(ours.run(command), theirs.run(command), "{command}");
        for key in keys {
            let asked = format!("OBJECT ENCODING {key}");
            assert_eq!(ours.run(&asked), theirs.run(&asked), "{key} after {command}");
        }
    }
}

#[test]
fn nothing_expires_while_writes_are_paused() {
    let server = Server::nagi();
    let mut client = server.connect_resp();
    let expired = |client: &mut Connection| {
        let text = client.run("INFO stats").text();
        let line = text.lines().find(|line| line.starts_with("expired_keys:"));
        line.expect("INFO has it").to_owned()
    };
    client.check("MULTI", "+OK\r\n");
    client.check("SET a value PX 1", "+QUEUED\r\n");
    client.check("CLIENT PAUSE 100000 WRITE", "+QUEUED\r\n");
    client.check("EXEC", "*2\r\n+OK\r\n+OK\r\n");
    let is_over = || (client.run("GET a") == Reply::Null).then_some(());
    until("the key expires", is_over).unwrap();
    assert_eq!(expired(&mut client), "expired_keys:0");
    client.check("CLIENT UNPAUSE", "+OK\r\n");
    client.check("GET a", "$-1\r\n");
    assert_eq!(expired(&mut client), "expired_keys:1");
}

/// Expired keys must be removed on access even without active expiry.
#[test]
fn expired_keys_are_removed_when_they_are_looked_up() {
    let server = Server::nagi_with(&["--enable-debug-command", "local"]);
    let mut client = server.connect_resp();
    client.check("DEBUG SET-ACTIVE-EXPIRE 0", "+OK\r\n");
    for (lookup, nothing) in [("GET a", "$-1\r\n"), ("MGET b a", "*2\r\n$-1\r\n$-1\r\n")] {
        client.check("PSETEX a 1 value", "+OK\r\n");
        client.check("PSETEX later 1 value", "+OK\r\n");
        let is_over = || (client.run("PTTL later").integer() < 0).then_some(());
        until("the keys expire", is_over).unwrap();
        client.check("DBSIZE", ":1\r\n");
        client.check(lookup, nothing);
        client.check("DBSIZE", ":0\r\n");
    }
}

/// A key that was renamed or moved is as likely to be evicted as before.
#[test]
fn keys_keep_their_frequency_when_they_are_renamed_or_moved() {
    let options = ["--maxmemory-policy", "allkeys-lfu", "--lfu-decay-time", "0"];
    let server = Server::nagi_with(&options);
    let mut client = server.connect_resp();
    client.check("SET key value", "+OK\r\n");
    client.check("SET other value", "+OK\r\n");
    (0..2000).for_each(|_| client.check("GET key", "$5\r\nvalue\r\n"));
    let frequency = client.run("OBJECT FREQ key").integer();
    assert!(frequency > 10, "{frequency}");
    for (commands, key) in [
        (&["RENAME key new"][..], "new"),
        (&["RENAME new other"], "other"),
        (&["MOVE other 1", "SELECT 1"], "other"),
    ] {
        commands.iter().for_each(|command| drop(client.run(command)));
        let now = client.run(&format!("OBJECT FREQ {key}")).integer();
        // These commands may count as uses.
        assert!((frequency..=frequency + 3).contains(&now), "{commands:?}: {frequency}, {now}");
    }
}
