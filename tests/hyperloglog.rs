//! Sketches of sets, identical to those of Redis byte for byte.

use harness::{Connection, Random, Reply, Server, as_redis};

const NOT_A_SKETCH: &str = "-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n";
const CORRUPTED: &str = "-INVALIDOBJ Corrupted HLL object detected\r\n";

#[test]
fn elements_are_noted_and_counted() {
    as_redis(&[
        ("PFADD key", ":1\r\n"),
        ("PFADD key", ":0\r\n"),
        ("PFADD key a b c", ":1\r\n"),
        ("PFADD key a", ":0\r\n"),
        ("PFCOUNT key", ":3\r\n"),
        ("PFCOUNT nothing", ":0\r\n"),
        ("PFADD other c d", ":1\r\n"),
        ("PFCOUNT key other nothing", ":4\r\n"),
        ("PFMERGE dest key other nothing", "+OK\r\n"),
        ("PFCOUNT dest", ":4\r\n"),
        ("PFMERGE empty", "+OK\r\n"),
        ("PFCOUNT empty", ":0\r\n"),
        ("OBJECT ENCODING key", "$3\r\nraw\r\n"),
        ("PFDEBUG ENCODING key", "+sparse\r\n"),
        ("PFDEBUG DECODE empty", "$7\r\nZ:16384\r\n"),
        ("PFDEBUG TODENSE key", ":1\r\n"),
        ("PFDEBUG TODENSE key", ":0\r\n"),
        ("PFDEBUG DECODE key", "-ERR HLL encoding is not sparse\r\n"),
        ("PFDEBUG NONSENSE key", "-ERR Unknown PFDEBUG subcommand 'NONSENSE'\r\n"),
        ("PFDEBUG ENCODING nothing", "-ERR The specified key does not exist\r\n"),
        ("PFSELFTEST", "+OK\r\n"),
    ]);
}

#[test]
fn strings_that_are_no_sketches() {
    as_redis(&[
        ("SET key value", "+OK\r\n"),
        ("PFADD key a", NOT_A_SKETCH),
        ("PFCOUNT key", NOT_A_SKETCH),
        ("PFMERGE dest key", NOT_A_SKETCH),
        ("PFADD tail a b c", ":1\r\n"),
        ("APPEND tail hello", ":32\r\n"),
        ("PFCOUNT tail", CORRUPTED),
        ("PFCOUNT tail nothing", CORRUPTED),
        ("PFADD magic a b c", ":1\r\n"),
        ("SETRANGE magic 0 0123", ":27\r\n"),
        ("PFCOUNT magic", NOT_A_SKETCH),
        ("PFADD encoding a b c", ":1\r\n"),
        ("SETRANGE encoding 4 x", ":27\r\n"),
        ("PFCOUNT encoding", NOT_A_SKETCH),
        ("PFADD dense a b c", ":1\r\n"),
        ("PFDEBUG TODENSE dense", ":1\r\n"),
        ("APPEND dense hello", ":12309\r\n"),
        ("PFCOUNT dense", NOT_A_SKETCH),
        // While the cached estimate is valid, the data after the header is not read.
        ("PFADD long a b c", ":1\r\n"),
        ("PFCOUNT long", ":3\r\n"),
        ("SETRANGE long 112630 x", ":112631\r\n"),
        ("PFCOUNT long", ":3\r\n"),
    ]);
}

/// Connections to both servers, whose replies to the same commands must be equal.
struct Pair(Connection, Connection);

impl Pair {
    fn same(&mut self, words: &[impl AsRef<[u8]>]) -> Vec<u8> {
        let command: Vec<_> =
            words.iter().map(|it| it.as_ref().escape_ascii().to_string()).collect();
        for connection in [&mut self.0, &mut self.1] {
            connection.send(harness::encode_command(words));
        }
        let (ours, theirs) = (self.0.reply_and_bytes().1, self.1.reply_and_bytes().1);
        assert!(
            ours == theirs,
            "{command:?}\n nagi: {}\nredis: {}",
            ours.escape_ascii(),
            theirs.escape_ascii()
        );
        ours
    }
}

#[test]
fn every_byte_is_that_of_redis() {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let mut pair = Pair(nagi.connect_resp(), redis.connect_resp());
    let mut random = Random::announced();
    for limit in ["3000", "0", "100", "15000"] {
        pair.same(&["FLUSHALL"]);
        pair.same(&["CONFIG", "SET", "hll-sparse-max-bytes", limit]);
        for round in 0..60 {
            let mut words = vec!["PFADD".to_owned(), "key".to_owned()];
            let count = if round % 10 == 9 { 300 } else { random.below(12) };
            words.extend((0..count).map(|_| {
                "x".repeat(random.below(20) as usize) + &random.below(1_000_000).to_string()
            }));
            pair.same(&words);
            pair.same(&["GET", "key"]);
            if round % 7 == 0 {
                pair.same(&["PFCOUNT", "key"]);
                pair.same(&["GET", "key"]);
                pair.same(&["COPY", "key", &format!("copy:{}", round % 3), "REPLACE"]);
                pair.same(&["PFMERGE", "merged", "copy:0", "copy:1", "copy:2"]);
                pair.same(&["GET", "merged"]);
                pair.same(&["PFCOUNT", "copy:0", "copy:1", "key", "nothing"]);
            }
        }
        pair.same(&["PFDEBUG", "GETREG", "key"]);
        pair.same(&["GET", "key"]);
    }
}

#[test]
fn corrupted_bytes_are_answered_as_by_redis() {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let mut pair = Pair(nagi.connect_resp(), redis.connect_resp());
    let mut random = Random::announced();
    for _ in 0..300 {
        pair.same(&["FLUSHALL"]);
        let count = random.below(30);
        let mut words = vec!["PFADD".to_owned(), "key".to_owned()];
        words.extend((0..count).map(|_| random.below(1_000_000).to_string()));
        pair.same(&words);
        let length = pair.0.run("STRLEN key").integer() as u64;
        // The header and the first bytes are the most important ones; lengths stay within 16384.
        let at = random.below(length.min(16)).to_string();
        let byte = [random.below(256) as u8];
        pair.same(&[b"SETRANGE".as_slice(), b"key", at.as_bytes(), &byte]);
        for command in ["PFCOUNT key", "PFADD key word", "PFCOUNT key nothing", "GET key"] {
            pair.same(&harness::words(command));
        }
    }
}

#[test]
fn a_restored_sketch_is_kept_as_by_redis() {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let (mut ours, mut theirs) = (nagi.connect_resp(), redis.connect_resp());
    theirs.check("PFADD key a b", ":1\r\n");
    let Reply::Bulk(payload) = theirs.run("DUMP key") else { panic!("a payload") };
    for command in ["PFADD key a", "PFADD key", "PFCOUNT key", "PFMERGE key key", "GETBIT key 0"] {
        let [first, second] = [&mut ours, &mut theirs].map(|client| {
            client.run_words(&[&b"RESTORE"[..], b"key", b"0", &payload, b"REPLACE"]);
            (client.run(command), client.run("OBJECT ENCODING key"))
        });
        assert_eq!(first, second, "{command}");
    }
}
