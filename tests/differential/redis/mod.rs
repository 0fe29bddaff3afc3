//! Compares nagi with redis-server.

mod arguments;
mod bytes;
mod comparison;
mod differences;
mod effects;
mod families;
mod generator;
mod giant;
mod grammar;
mod scripts;
mod sweep;
mod verdicts;

use std::collections::BTreeMap;

use self::arguments::Vocabulary;
use self::differences::Verdict;
use self::families::Family;
use self::generator::{Generator, Request, Words};
use self::verdicts::{Judge, Received};
use harness::{Connection, Random, Reply, Server, encode_command};

/// The number of commands sent at once, so that pipelines are compared as well.
const BATCH: u64 = 16;

/// The keyspace is emptied after about this number of batches, so that histories stay short.
const BATCHES_A_HISTORY: u64 = 40;

/// The number of latest commands that are shown in full.
const LATEST: usize = 8;

/// The number of differences after which a run stops, which is enough to find the cause.
const MAX_DIFFERENCES: u64 = 20;

/// Commands that store the values whose payloads are used for RESTORE, each under the key `a`.
const SAMPLES: [&str; 11] = [
    "SET a 1",
    "SET a word",
    "SETRANGE a 70000 x",
    "PFADD a 1 2 3",
    "SET a -9223372036854775808",
    "HSET a f1 1 f2 word f3 -5",
    "SADD a 1 42 -1",
    "SADD a 1 word foobar 42",
    "RPUSH a 1 word 3 word 4096",
    "ZADD a 1 f1 2.5 word -3 42 inf f2",
    "GEOADD a 13.361389 38.115556 f1 15.087269 37.502669 f2",
];

/// Settings that limit small collections: the number of elements, or the bytes of an element. Each
/// history uses other values, so that collections often change their encoding.
const LIMITS: [(&str, Limit); 11] = [
    ("hll-sparse-max-bytes", Limit::SketchBytes),
    ("hash-max-listpack-entries", Limit::Elements),
    ("hash-max-listpack-value", Limit::Bytes),
    ("list-max-listpack-size", Limit::Elements),
    ("set-max-intset-entries", Limit::Elements),
    ("zset-max-listpack-entries", Limit::Elements),
    ("zset-max-listpack-value", Limit::Bytes),
    ("stream-node-max-entries", Limit::Elements),
    ("stream-node-max-bytes", Limit::NodeBytes),
    ("set-max-listpack-entries", Limit::NewerElements),
    ("set-max-listpack-value", Limit::NewerBytes),
];

/// The unit of a setting of [`LIMITS`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// A number of elements, from 2 to 4.
    Elements,
    /// A length of elements of 8 bytes; many elements have about this length.
    Bytes,
    /// A number of bytes so large that the number of entries often decides first.
    NodeBytes,
    /// A number of bytes that may be so small that a sketch with few elements is dense.
    SketchBytes,
    /// Like [`Limit::Elements`], for a setting that redis-server 7.0 lacks.
    NewerElements,
    /// Like [`Limit::Bytes`], for a setting that redis-server 7.0 lacks.
    NewerBytes,
}

/// Returns CONFIG SET for all limits: for nagi, and for redis-server 7.0.
fn limits(random: &mut Random) -> [Words; 2] {
    let mut requests = [(); 2].map(|()| vec![b"CONFIG".to_vec(), b"SET".to_vec()]);
    for (name, limit) in LIMITS {
        let value = match limit {
            Limit::Elements | Limit::NewerElements => 2 + random.below(3),
            Limit::Bytes | Limit::NewerBytes => 8,
            Limit::SketchBytes => 18 + random.below(40),
            Limit::NodeBytes => 80 + random.below(60),
        };
        let is_newer = matches!(limit, Limit::NewerElements | Limit::NewerBytes);
        let words = [name.as_bytes().to_vec(), value.to_string().into_bytes()];
        requests
            .iter_mut()
            .take(if is_newer { 1 } else { 2 })
            .for_each(|it| it.extend(words.clone()));
    }
    requests
}

/// Two servers that receive the same commands, and the results so far.
struct Comparison {
    ours: Connection,
    theirs: Connection,
    protocol: u8,
    generator: Generator,
    judge: Judge,
    /// The commands since both servers were last empty.
    history: Vec<Words>,
    /// Whether the next batch begins a history.
    is_over: bool,
    explained: BTreeMap<&'static str, u64>,
    compared: u64,
    differences: u64,
}

impl Comparison {
    /// Empties both servers, and sets their limits to new values.
    fn begin_history(&mut self, random: &mut Random) {
        self.history.clear();
        let limits = limits(random);
        for (connection, limits) in [&mut self.ours, &mut self.theirs].into_iter().zip(limits) {
            // The connection may be within a transaction, and watch keys that only one server has.
            let _ = connection.run("DISCARD");
            connection.check("UNWATCH", "+OK\r\n");
            connection.check("FLUSHALL", "+OK\r\n");
            // If one server refused a CONFIG SET, the limits may differ, so all of them are set
            // again.
            assert_eq!(connection.run_words(&limits), Reply::Simple("OK".to_owned()));
        }
        let setting = self.generator.setting();
        let replies = setting.iter().map(|words| {
            let replies = (self.ours.run_words(words), self.theirs.run_words(words));
            if replies.0 != replies.1 {
                eprintln!("{}\n nagi: {:?}\nredis: {:?}", line(words), replies.0, replies.1);
                self.differences += 1;
            }
            replies.1
        });
        let replies: Vec<Reply> = replies.collect();
        self.generator.learn(&replies);
    }

    /// Sends a batch and compares the replies.
    fn batch(&mut self) {
        let mut requests = self.generator.batch(BATCH);
        // Redis lets names of clients have any length.
        requests.retain(|request| {
            let is_name = |words: &Words| {
                let is = |at: usize, text: &str| {
                    words.get(at).is_some_and(|word| word.eq_ignore_ascii_case(text.as_bytes()))
                };
                is(0, "HELLO") || is(0, "CLIENT") && (is(1, "SETNAME") || is(1, "SETINFO"))
            };
            !is_name(&request.words) || request.words.iter().all(|word| word.len() <= 4096)
        });
        // The connection may be within a transaction, and a command or RESET may have changed the
        // version of RESP on one server.
        let hello = encode_command(&["HELLO", &self.protocol.to_string()]);
        let begin = [encode_command(&["DISCARD"]), hello].concat();
        let bytes = requests.iter().flat_map(|request| encode_command(&request.words));
        let bytes: Vec<u8> = begin.into_iter().chain(bytes).collect();
        for connection in [&mut self.ours, &mut self.theirs] {
            connection.send(&bytes);
            let _ = (connection.reply(), connection.reply());
        }
        self.judge.forget();
        for request in &requests {
            let replies = (self.ours.reply_and_bytes(), self.theirs.reply_and_bytes());
            if !self.is_over {
                self.is_over = self.note(request, &replies);
            }
        }
    }

    /// Records the replies to a request. Returns whether later replies cannot be compared.
    fn note(&mut self, request: &Request, replies: &(Received, Received)) -> bool {
        let outcome = self.judge.judge(request, &replies.0, &replies.1);
        self.history.push(request.words.clone());
        self.compared += 1;
        match outcome.verdict {
            Verdict::Same => outcome.parts,
            Verdict::Explained(why) => {
                *self.explained.entry(why).or_default() += 1;
                outcome.parts
            }
            Verdict::Different => {
                show(&self.history, request, &replies.0.1, &replies.1.1);
                self.differences += 1;
                assert!(self.differences < MAX_DIFFERENCES, "they differ too often");
                true
            }
        }
    }
}

fn compare(protocol: u8) {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let (ours, mut theirs) = (nagi.connect_resp(), redis.connect_resp());
    let vocabulary = Vocabulary { payloads: payloads(&mut theirs), protocol };
    let (mut random, family) = (super::random(), Family::chosen());
    let mut comparison = Comparison {
        ours,
        theirs,
        protocol,
        generator: Generator::new(random.fork(), vocabulary, family),
        judge: Judge::default(),
        history: Vec::new(),
        is_over: true,
        explained: BTreeMap::new(),
        compared: 0,
        differences: 0,
    };
    let mut batches = 0_u64;
    while comparison.compared < super::count() {
        if comparison.is_over || batches.is_multiple_of(BATCHES_A_HISTORY) {
            comparison.begin_history(&mut random);
            comparison.is_over = false;
        }
        comparison.batch();
        batches += 1;
    }
    let (compared, variety) = (comparison.compared, comparison.generator.variety());
    let name = family.name();
    eprintln!("RESP{protocol}, {name}: {compared} of {variety} commands, differences explained:");
    comparison.explained.iter().for_each(|(why, count)| eprintln!("{count:>8}  {why}"));
    assert_eq!(comparison.differences, 0, "they differ");
}

/// Returns the replies of DUMP for the samples.
fn payloads(server: &mut Connection) -> Vec<Vec<u8>> {
    let payload = |sample: &&str| {
        let _ = server.run("DEL a");
        let _ = server.run(sample);
        match server.run("DUMP a") {
            Reply::Bulk(payload) => payload,
            other => panic!("DUMP answers {other:?}"),
        }
    };
    SAMPLES.iter().map(payload).collect()
}

/// Shows the history of a difference: the latest commands, and earlier ones that name the same keys
/// or change the connection; then the calls of its script.
fn show(history: &[Words], request: &Request, ours: &[u8], theirs: &[u8]) {
    let (last, before) = history.split_last().expect("a command was sent");
    let matters = |words: &Words| {
        let name = String::from_utf8_lossy(&words[0]).to_uppercase();
        let is_of_all = ["FLUSHDB", "HELLO", "RESET", "SELECT", "SWAPDB"].contains(&name.as_str());
        is_of_all || words[1..].iter().any(|word| last[1..].contains(word))
    };
    let latest = before.len().saturating_sub(LATEST);
    let numbered = before.iter().enumerate();
    let shown = numbered.filter(|(number, words)| *number >= latest || matters(words));
    let calls = request.calls.all().iter().map(|words| format!("calls {}", line(words)));
    let lines = shown.map(|(_, words)| line(words)).chain([line(last)]).chain(calls);
    eprintln!(
        "replies differ after:\n{}\n nagi: {}\nredis: {}",
        lines.collect::<Vec<_>>().join("\n"),
        brief(&ours.escape_ascii().to_string()),
        brief(&theirs.escape_ascii().to_string())
    );
}

fn line(words: &Words) -> String {
    let words = words.iter().map(|word| format!("\"{}\"", word.escape_ascii()));
    brief(&words.collect::<Vec<_>>().join(" "))
}

/// Returns the beginning of a text.
fn brief(text: &str) -> String {
    text.chars().take(300).collect()
}

#[test]
fn random_commands_are_answered_as_by_redis_in_resp2() {
    compare(2);
}

#[test]
fn random_commands_are_answered_as_by_redis_in_resp3() {
    compare(3);
}
