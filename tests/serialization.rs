//! DUMP and RESTORE: values are moved from one server to another, in all combinations.

use harness::{Connection, Reply, Server};

fn values() -> Vec<String> {
    let words = "in the beginning there was a cache, and the cache was empty; ";
    vec![
        String::new(),
        "a".into(),
        "10".into(),
        "-129".into(),
        "2147483647".into(),
        "-2147483649".into(),
        "007".into(),
        "x".repeat(20),
        words.into(),
        words.repeat(100),
        words.repeat(5000),
        (0..30_000).map(|number| format!("{number:x}")).collect(),
    ]
}

/// Returns the payload of a key, unchanged.
fn payload(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Bulk(bytes) => bytes.clone(),
        other => panic!("no payload: {other:?}"),
    }
}

#[test]
fn values_go_there_and_back() {
    let servers = [Server::nagi(), Server::redis()];
    for (from, to) in [(0, 1), (1, 0), (0, 0)] {
        let (mut source, mut sink) = (servers[from].connect_resp(), servers[to].connect_resp());
        for value in values() {
            source.run_words(&["SET", "from", &value]);
            let bytes = payload(&source.run("DUMP from"));
            let reply = sink.run_words(&[b"RESTORE", &b"to"[..], b"0", &bytes, b"REPLACE"]);
            assert_eq!(reply.text(), "OK", "{} bytes from {from} to {to}", value.len());
            assert_eq!(sink.run("GET to").text(), value, "from {from} to {to}");
            assert_eq!(sink.run("TTL to").integer(), -1);
        }
    }
}

#[test]
fn options_and_replies_of_restore() {
    const FOOTER: &str = "ERR DUMP payload version or checksum are wrong";
    let steps: &[(&[&str], &str)] = &[
        (&["0", "nonsense"], FOOTER),
        (&["0", ""], FOOTER),
        (&["-1", "(foo)"], "ERR Invalid TTL value, must be >= 0"),
        (&["x", "(foo)"], "ERR value is not an integer or out of range"),
        (&["0", "(foo)"], "OK"),
        (&["0", "(foo)"], "BUSYKEY Target key name already exists."),
        (&["0", "nonsense"], "BUSYKEY Target key name already exists."),
        (&["0", "(foo)", "REPLACE"], "OK"),
        (&["0", "(foo)", "IDLETIME", "-1"], "ERR Invalid IDLETIME value, must be >= 0"),
        (&["0", "(foo)", "FREQ", "256"], "ERR Invalid FREQ value, must be >= 0 and <= 255"),
        (&["0", "(foo)", "FREQ", "1", "IDLETIME", "1"], "ERR syntax error"),
        (&["0", "(foo)", "SOON"], "ERR syntax error"),
        (&["0", "(foo)", "REPLACE", "IDLETIME", "1000"], "OK"),
        (&["100000", "(foo)", "replace"], "OK"),
        (&["1", "(foo)", "ABSTTL", "REPLACE"], "OK"),
        (&["0", "(foo)"], "OK"),
        (&["9223372036854775807", "(foo)", "REPLACE"], "OK"),
    ];
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.run("SET source foo");
        let dumped = payload(&client.run("DUMP source"));
        for (arguments, answer) in steps {
            let mut words: Vec<&[u8]> = vec![b"RESTORE", b"k"];
            words.extend(arguments.iter().map(|word| match *word {
                "(foo)" => &dumped[..],
                word => word.as_bytes(),
            }));
            let answered = match client.run_words(&words) {
                Reply::Error(text) => text,
                reply => reply.text(),
            };
            assert_eq!(answered, *answer, "{arguments:?}");
            match arguments.last() {
                Some(&"1000") => assert_eq!(client.run("OBJECT IDLETIME k").integer(), 1000),
                Some(&"replace") => assert_eq!(client.run("TTL k").integer(), 100),
                _ => {}
            }
        }
        client.check("EXISTS k", ":0\r\n");
        client.check("DUMP k", "$-1\r\n");
        let asking: [&[u8]; 4] = [b"RESTORE-ASKING", b"k", b"0", &dumped];
        assert_eq!(client.run_words(&asking).text(), "OK");
        client.check("GET k", "$3\r\nfoo\r\n");
    }
}

#[test]
fn a_payload_has_a_short_number_as_one() {
    for server in [Server::nagi(), Server::redis()] {
        let mut client = server.connect_resp();
        client.check("SET key 12345", "+OK\r\n");
        client
            .check("DUMP key", b"$14\r\n\0\xc1\x39\x30\x0a\0\x9d\x94\xea\x27\x93\xfc\x08\xb9\r\n");
    }
}

/// Redis' own tests disable the check of checksums to damage payloads.
#[test]
fn checksums_of_payloads_can_be_passed_over() {
    let server = Server::nagi_with(&["--enable-debug-command", "local", "--loglevel", "verbose"]);
    let mut client = server.connect_resp();
    // A list of 0 elements whose checksum is wrong, and the string "foo".
    let empty = b"\x0e\xc0\x2b\x09\x00AAAAAAAA".as_slice();
    let foo = b"\x00\x03foo\x0a\x00AAAAAAAA".as_slice();
    let restore = |client: &mut Connection, payload: &[u8]| {
        let reply = client.run_words(&[b"RESTORE".as_slice(), b"key", b"0", payload]);
        format!("{reply:?}")
    };
    for payload in [empty, foo] {
        let reply = restore(&mut client, payload);
        assert!(reply.contains("DUMP payload version or checksum are wrong"), "{reply}");
    }
    client.check("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1", "+OK\r\n");
    let reply = restore(&mut client, empty);
    assert!(reply.contains("Bad data format"), "{reply}");
    let reply = restore(&mut client, foo);
    assert!(reply.contains("OK"), "{reply}");
    client.check("GET key", "$3\r\nfoo\r\n");
    client.check("DEL key", ":1\r\n");
    client.check("DEBUG SET-SKIP-CHECKSUM-VALIDATION 0", "+OK\r\n");
    let reply = restore(&mut client, foo);
    assert!(reply.contains("DUMP payload version or checksum are wrong"), "{reply}");
    let log = server.log();
    assert!(log.contains("List quicklist integrity check failed"), "{log}");
}
