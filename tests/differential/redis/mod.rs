//! nagi compared with redis-server.

mod arguments;
mod bytes;
mod differences;
mod generator;
mod giant;
mod grammar;
mod sweep;

use std::collections::BTreeMap;

use self::arguments::Vocabulary;
use self::differences::{Verdict, judge};
use self::generator::{Generator, Words};
use harness::{Connection, Random, Reply, Server, encode_command};

/// Sent at once, so that pipelines are compared as well.
const BATCH: u64 = 16;

/// A batch ends with an empty keyspace about this often, so that histories stay short.
const BATCHES_A_HISTORY: u64 = 40;

/// The latest commands, all of which are shown.
const LATEST: usize = 8;

/// Enough to find the cause.
const MAX_DIFFERENCES: u64 = 20;

/// The source of payloads for RESTORE: commands that store them under `a`.
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

/// The sizes from which on collections have other encodings.
const LIMITS: [&str; 4] = [
    "hash-max-listpack-entries 3",
    "list-max-listpack-size -2",
    "set-max-intset-entries 4",
    "zset-max-listpack-value 20",
];

fn compare(protocol: u8) {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let (mut ours, mut theirs) = (nagi.connect_resp(), redis.connect_resp());
    let vocabulary = Vocabulary { payloads: payloads(&mut theirs), protocol };
    let mut generator = Generator::new(Random::announced(), vocabulary);
    let mut explained: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut history, mut compared): (Vec<Words>, u64) = (Vec::new(), 0);
    // Either server may have changed the version of RESP, by a command or by RESET.
    let hello = encode_command(&["HELLO", &protocol.to_string()]);
    let mut differences = 0;
    for batch in 0..super::count() / BATCH {
        if batch.is_multiple_of(BATCHES_A_HISTORY) || history.is_empty() {
            history.clear();
            for connection in [&mut ours, &mut theirs] {
                connection.check("FLUSHALL", "+OK\r\n");
                // A command that one of them has refused may have left them with different limits.
                for setting in LIMITS {
                    connection.check(&format!("CONFIG SET {setting}"), "+OK\r\n");
                }
            }
        }
        let commands = generator.batch(BATCH);
        let requests = commands.iter().flat_map(|words| encode_command(words));
        let bytes: Vec<u8> = hello.iter().copied().chain(requests).collect();
        for connection in [&mut ours, &mut theirs] {
            connection.send(&bytes);
            let _ = connection.reply();
        }
        let (mut differs, mut is_parted) = (false, false);
        for words in commands {
            let replies = (ours.reply_and_bytes(), theirs.reply_and_bytes());
            if differs || is_parted {
                continue;
            }
            let verdict = judge(&words, &replies.0, &replies.1);
            history.push(words);
            compared += 1;
            match verdict {
                Verdict::Same => {}
                Verdict::Explained(why) => {
                    *explained.entry(why).or_default() += 1;
                    // The effects of a command that only one of them has executed may be visible in
                    // later replies.
                    let is_error = |reply: &Reply| matches!(reply, Reply::Error(_));
                    is_parted = is_error(&replies.0.0) != is_error(&replies.1.0);
                }
                Verdict::Different => {
                    show(&history, &replies.0.1, &replies.1.1);
                    differs = true;
                }
            }
        }
        if is_parted {
            history.clear();
        }
        if differs {
            // Later replies may differ for the same reason.
            history.clear();
            differences += 1;
            assert!(differences < MAX_DIFFERENCES, "they differ too often");
        }
    }
    let variety = generator.variety();
    eprintln!("RESP{protocol}: {compared} of {variety} commands, differences explained:");
    explained.iter().for_each(|(why, count)| eprintln!("{count:>8}  {why}"));
    assert_eq!(differences, 0, "they differ");
}

/// The replies of DUMP for the samples.
fn payloads(redis: &mut Connection) -> Vec<Vec<u8>> {
    let payload = |sample: &&str| {
        let _ = redis.run("DEL a");
        let _ = redis.run(sample);
        match redis.run("DUMP a") {
            Reply::Bulk(payload) => payload,
            other => panic!("DUMP answers {other:?}"),
        }
    };
    SAMPLES.iter().map(payload).collect()
}

/// Shows what led to a difference: the latest commands, and before them those that name the same
/// keys or change the connection.
fn show(history: &[Words], ours: &[u8], theirs: &[u8]) {
    let (last, before) = history.split_last().expect("a command was sent");
    let matters = |words: &Words| {
        let name = String::from_utf8_lossy(&words[0]).to_uppercase();
        let is_of_all = ["FLUSHDB", "HELLO", "RESET", "SELECT", "SWAPDB"].contains(&name.as_str());
        is_of_all || words[1..].iter().any(|word| last[1..].contains(word))
    };
    let latest = before.len().saturating_sub(LATEST);
    let numbered = before.iter().enumerate();
    let shown = numbered.filter(|(number, words)| *number >= latest || matters(words));
    let lines = shown.map(|(_, words)| line(words)).chain([line(last)]);
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

/// The beginning of a text.
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
