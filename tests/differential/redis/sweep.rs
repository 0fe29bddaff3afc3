//! Invalid variants of every command, generated systematically instead of at random: too few and
//! too many words, each argument wrong in each way, options repeated and combined. Both servers
//! must reply the same.

use super::differences::{Verdict, judge};
use super::generator::{Words, comparable};
use super::grammar::{Part, Rule};
use harness::{Connection, Reply, Server, encode_command};

/// More words than the arity of any command.
const MAX_WORDS: usize = 12;

/// Commands that have another arity in redis-server 7.0, with the reasons.
const OTHER_ARITY: &[(&str, &str)] =
    &[("BGSAVE", "CANCEL is Valkey's"), ("MODULE|LOADEX", "is checked otherwise since 7.2")];

/// Commands that are not sent alone, because they block, make other requests wait, or depend on the
/// time.
const NOT_ALONE: [&str; 6] = ["MULTI", "XAUTOCLAIM", "XCLAIM", "XPENDING", "XREAD", "XREADGROUP"];

/// Commands that set the keys which arguments name. They are sent again before each request.
const SETTING: [&str; 8] = [
    "FLUSHALL",
    "SET number 41",
    "SET text \"some words\"",
    "SET limit 9223372036854775807",
    "SETEX expiring 150000 value",
    "PFADD sketch a b c",
    "RPUSH list a value 1 value",
    "SADD set member",
];

/// The keys of [`SETTING`], and one that does not exist.
const KEYS: [&str; 8] = ["number", "text", "limit", "expiring", "sketch", "list", "set", "none"];

/// Words that replace every argument in turn: numbers at limits and beyond, texts that are not
/// numbers, and words that are valid in other places.
const WRONG: [&str; 22] = [
    "",
    "x",
    "0",
    "-1",
    "1.5",
    " 1",
    "1 ",
    "+1",
    "007",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "0x10",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551616",
    "NX",
    "*",
    "sketch",
];

/// Options that are inserted where they may be invalid.
const OPTIONS: [&str; 12] = [
    "NX", "XX", "GT", "LT", "GET", "KEEPTTL", "PERSIST", "REPLACE", "ABSTTL", "COUNT", "BIT", "SAT",
];

/// Two servers that receive the same requests.
struct Pair {
    ours: Connection,
    theirs: Connection,
    asked: u64,
    differences: Vec<String>,
}

impl Pair {
    fn new(nagi: &Server, redis: &Server) -> Self {
        let (ours, theirs) = (nagi.connect_resp(), redis.connect_resp());
        Pair { ours, theirs, asked: 0, differences: Vec::new() }
    }

    /// Sends requests to both servers and compares the replies, except those to the first `setting`
    /// requests.
    fn ask(&mut self, setting: usize, requests: &[Words]) {
        let bytes: Vec<u8> = requests.iter().flat_map(|words| encode_command(words)).collect();
        self.ours.send(&bytes);
        self.theirs.send(&bytes);
        for (number, words) in requests.iter().enumerate() {
            let replies = (self.ours.reply_and_bytes(), self.theirs.reply_and_bytes());
            if number < setting {
                continue;
            }
            self.asked += 1;
            if matches!(judge(words, &replies.0, &replies.1), Verdict::Different) {
                let line: Vec<_> =
                    words.iter().map(|word| word.escape_ascii().to_string()).collect();
                let (ours, theirs) = (replies.0.1.escape_ascii(), replies.1.1.escape_ascii());
                self.differences.push(format!(
                    "{}\n    nagi: {ours:.300}\n   redis: {theirs:.300}",
                    line.join(" ")
                ));
            }
        }
    }

    fn end(self) {
        eprintln!("{} requests compared", self.asked);
        let count = self.differences.len();
        let shown: Vec<_> = self.differences.into_iter().take(40).collect();
        assert!(count == 0, "{count} differences:\n{}", shown.join("\n"));
    }
}

fn words(text: &[&str]) -> Words {
    text.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Returns the rows of nagi's COMMAND: the words of the name, and the arity.
fn rows(client: &mut Connection) -> Vec<(String, i64)> {
    let row = |reply: &Reply| (reply.list()[0].text().to_uppercase(), reply.list()[1].integer());
    let mut rows = Vec::new();
    for command in client.run("COMMAND").list() {
        rows.push(row(command));
        rows.extend(command.list()[9].list().iter().map(row));
    }
    let rules = Rule::all();
    let lacks: Vec<String> = rules
        .iter()
        .filter(|rule| !rule.is_in_redis_7_0())
        .map(|rule| rule.name.replace(' ', "|"))
        .collect();
    let other_arity = |name: &String| OTHER_ARITY.iter().any(|(other, _)| name == other);
    rows.retain(|(name, _)| !lacks.contains(name) && !other_arity(name));
    rows
}

#[test]
fn wrong_numbers_of_words_are_refused_as_by_redis() {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let mut pair = Pair::new(&nagi, &redis);
    let rows = rows(&mut pair.ours);
    assert!(rows.len() > 150, "{} rows", rows.len());
    for (name, arity) in rows {
        let name: Vec<&str> = name.split('|').collect();
        let fits = |count: usize| match usize::try_from(arity) {
            Ok(arity) => count == arity,
            Err(_) => count as u64 >= arity.unsigned_abs(),
        };
        for count in (name.len()..MAX_WORDS).filter(|count| !fits(*count)) {
            for filler in ["1", "HELP", ""] {
                let mut request = words(&name);
                request.resize(count, filler.as_bytes().to_vec());
                // A word after the name of a container command is a subcommand, which would be
                // executed.
                if name.len() == 1 && count > 1 && filler == "HELP" {
                    continue;
                }
                pair.ask(0, &[request]);
            }
        }
    }
    pair.end();
}

/// Returns a valid argument of a kind.
fn fitting(kind: &str, key: &str) -> String {
    let fitting = match kind {
        "key" | "key1" | "source" | "sourcekey" => key,
        "key2" | "newkey" | "destination" | "destkey" => "other",
        "value" | "element" | "pivot" | "message" | "arg" => "value",
        "encoding" => "u8",
        "bit" => "1",
        "pattern" | "by-pattern" | "get-pattern" => "*",
        "cursor" => "0",
        "count" => "100000",
        "type" => "string",
        "protover" => "2",
        "username" => "default",
        "client-id" | "id" => "999999999",
        "ip:port" => "1.2.3.4:5",
        "setting" => "hz",
        "command-name" | "command" => "get",
        "event" => "command",
        "serialized-value" => "nonsense",
        "seconds" => "100000",
        "milliseconds" => "100000000",
        "unix-time-seconds" => "4000000000",
        "unix-time-milliseconds" => "4000000000000",
        "timeout" | "numreplicas" | "numlocal" => "0",
        _ => "1",
    };
    fitting.to_owned()
}

/// Returns the request for a sentence of the grammar.
fn request(name: &str, sentence: &[Part], key: &str) -> Words {
    let argument = |part: &Part| match part {
        Part::Word(word) => word.clone(),
        Part::Argument(kind) => fitting(kind, key),
    };
    let name = name.split(' ').map(str::to_owned);
    name.chain(sentence.iter().map(argument)).map(String::into_bytes).collect()
}

/// Returns a request and its variants: with a wrong word at each place, with each tail repeated,
/// and with options added.
fn spoilt(good: &Words, name_words: usize) -> Vec<Words> {
    let mut all = vec![good.clone()];
    for place in name_words..good.len() {
        for wrong in WRONG {
            let mut request = good.clone();
            request[place] = wrong.as_bytes().to_vec();
            all.push(request);
        }
        let tail = &good[place..];
        all.push([good, tail].concat());
        all.push(good[..place].to_vec());
        all.push([&good[..place], &good[place + 1..]].concat());
    }
    for option in OPTIONS {
        all.push([&good[..], &[option.as_bytes().to_vec()]].concat());
    }
    all
}

/// Whether a request returns soon, does not change the connection and does not affect everything.
fn is_harmless(words: &Words) -> bool {
    let begins = |name: &str| {
        let name: Vec<&[u8]> = name.split(' ').map(str::as_bytes).collect();
        words.len() >= name.len()
            && words.iter().zip(&name).all(|(word, name)| word.eq_ignore_ascii_case(name))
    };
    let lasts = ["WAIT", "CLIENT PAUSE", "CLIENT KILL"].iter().any(|name| begins(name));
    let shows_all = begins("CONFIG GET") && words.iter().any(|word| word == b"*");
    let by_clock = begins("XADD") && words.iter().any(|word| word == b"*");
    !(lasts || shows_all || by_clock)
}

#[test]
fn wrong_arguments_are_refused_as_by_redis() {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let mut pair = Pair::new(&nagi, &redis);
    let setting: Vec<Words> = SETTING.iter().map(|line| words(&harness::words(line))).collect();
    let stands_alone = |rule: &Rule| !rule.waits() && !NOT_ALONE.contains(&rule.name.as_str());
    for rule in comparable().into_iter().filter(stands_alone) {
        let sentences = rule.sentences();
        let name_words = rule.name.split(' ').count();
        for (number, sentence) in sentences.iter().enumerate() {
            let uses_key = sentence.iter().any(|part| *part == Part::Argument("key".to_owned()));
            let keys = if uses_key && number < 8 { &KEYS[..] } else { &KEYS[..1] };
            for key in keys {
                let good = request(&rule.name, sentence, key);
                // In a long sentence, every place has already been wrong in shorter sentences.
                let all = if number < 60 { spoilt(&good, name_words) } else { vec![good] };
                for words in all.into_iter().filter(is_harmless) {
                    let begins = ["HELLO", "2"].map(|word| word.as_bytes().to_vec()).to_vec();
                    let before: Vec<Words> =
                        std::iter::once(begins).chain(setting.clone()).collect();
                    let requests = [&before[..], &[words]].concat();
                    pair.ask(before.len(), &requests);
                }
            }
        }
    }
    pair.end();
}
