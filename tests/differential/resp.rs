//! nagi beside redis-server.

use std::collections::HashSet;

use harness::{Connection, Random, Reply, Server, encode_command};

/// Sent at once, so that pipelines are compared as well.
const BATCH: u64 = 16;

/// A batch ends with an empty keyspace about this often, so that histories stay short.
const BATCHES_A_HISTORY: u64 = 40;

const KEYS: [&str; 6] = ["a", "b", "c", "key:1", "key:2", ""];

const VALUES: [&str; 18] = [
    "",
    "0",
    "1",
    "-1",
    "42",
    "007",
    "+5",
    " 7",
    "3.5",
    "1e3",
    "word",
    "two words",
    "\u{1}\u{7f}\r\n",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "99999999999999999999",
    "a value that is longer than what is stored in place of a pointer by anyone",
];

const NUMBERS: [&str; 12] = [
    "0",
    "1",
    "-1",
    "10",
    "-10",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "x",
    "",
    "1.5",
    " 1",
];

/// Seconds that are out of range, past, or no number.
const ODD_SECONDS: [&str; 6] = ["0", "-1", "9223372036854775807", "x", "", "4000000000000000"];

const PATTERNS: [&str; 10] =
    ["*", "a", "?", "key:*", "[ab]", "[^a]", "k??:[0-9]", "\\a", "*:1", "[a-c"];

/// How replies are compared.
#[derive(Clone, Copy, PartialEq)]
enum Comparison {
    Exact,
    /// A time to live, within this: the servers were asked one after the other.
    Near(u64),
    /// A list in any order.
    Unordered,
}

struct Command {
    words: Vec<String>,
    comparison: Comparison,
}

/// Draws commands that nagi knows.
struct Generator {
    random: Random,
    known: HashSet<&'static str>,
}

impl Generator {
    /// Asks nagi which of the commands it has.
    fn new(random: Random, nagi: &mut Connection) -> Self {
        let has = |name: &&&str| {
            let description = nagi.run_words(&["COMMAND", "INFO", name]);
            description.list().iter().any(|it| matches!(it, Reply::Array(_)))
        };
        let mut has = has;
        let known: HashSet<&str> = NAMES.iter().filter(|name| has(name)).copied().collect();
        assert!(known.contains("GET") && known.contains("SET"), "nagi has no GET: {known:?}");
        eprintln!("compares {} of {} commands", known.len(), NAMES.len());
        Self { random, known }
    }

    fn command(&mut self) -> Command {
        let mut name = self.random.choose(&NAMES);
        while !self.known.contains(name) {
            name = self.random.choose(&NAMES);
        }
        let mut words = vec![name.to_owned()];
        words.extend(self.arguments(name));
        match self.random.below(40) {
            0 => words.push("extra".to_owned()),
            1 if words.len() > 1 => drop(words.pop()),
            2 => words[0] = words[0].to_lowercase(),
            3 => words[0] = format!("NO{name}"),
            _ => {}
        }
        let comparison = match words.first().map(|word| word.to_uppercase()).as_deref() {
            Some("TTL" | "EXPIRETIME") => Comparison::Near(10),
            Some("PTTL" | "PEXPIRETIME") => Comparison::Near(10_000),
            Some("KEYS") => Comparison::Unordered,
            _ => Comparison::Exact,
        };
        Command { words, comparison }
    }

    fn arguments(&mut self, name: &str) -> Vec<String> {
        match name {
            "GET" | "GETDEL" | "INCR" | "DECR" | "STRLEN" | "TYPE" | "TTL" | "PTTL" | "PERSIST"
            | "EXPIRETIME" | "PEXPIRETIME" => vec![self.key()],
            "DEL" | "UNLINK" | "EXISTS" | "MGET" | "TOUCH" => self.some(1, 4, Self::key),
            "SETNX" | "GETSET" | "APPEND" => vec![self.key(), self.value()],
            "INCRBY" | "DECRBY" => vec![self.key(), self.number()],
            "SETEX" => vec![self.key(), self.seconds(), self.value()],
            "PSETEX" => vec![self.key(), self.milliseconds(), self.value()],
            "MSET" | "MSETNX" => {
                let pairs = self.some(1, 3, |it| [it.key(), it.value()]);
                pairs.into_iter().flatten().collect()
            }
            "SET" => {
                let mut words = vec![self.key(), self.value()];
                words.extend(self.options_of_set());
                words
            }
            "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" => {
                let time = match name {
                    "EXPIRE" => self.seconds(),
                    "PEXPIRE" => self.milliseconds(),
                    "EXPIREAT" => "4000000000".to_owned(),
                    _ => "4000000000000".to_owned(),
                };
                let mut words = vec![self.key(), time];
                let options = ["NX", "XX", "GT", "LT", "gt", "nonsense"];
                words.extend(self.some(0, 2, |it| it.random.choose(&options).to_owned()));
                words
            }
            "GETEX" => {
                let mut words = vec![self.key()];
                words.extend(self.options_of_set());
                words
            }
            "RENAME" | "RENAMENX" => vec![self.key(), self.key()],
            "MOVE" => vec![self.key(), self.database()],
            "SWAPDB" => vec![self.database(), self.database()],
            "COPY" => {
                let mut words = vec![self.key(), self.key()];
                let options = self.some(0, 2, |it| match it.random.below(3) {
                    0 => vec!["DB".to_owned(), it.database()],
                    1 => vec!["REPLACE".to_owned()],
                    _ => vec!["nonsense".to_owned()],
                });
                words.extend(options.into_iter().flatten());
                words
            }
            "ECHO" => vec![self.value()],
            "PING" => self.some(0, 1, Self::value),
            "KEYS" => vec![self.random.choose(&PATTERNS).to_owned()],
            "SELECT" => vec![self.database()],
            "FLUSHDB" | "FLUSHALL" => {
                let modes = ["ASYNC", "sync", "nonsense"];
                self.some(0, 1, |it| it.random.choose(&modes).to_owned())
            }
            _ => Vec::new(),
        }
    }

    fn options_of_set(&mut self) -> Vec<String> {
        let options = self.some(0, 3, |it| {
            let option = it.random.choose(&[
                "NX", "XX", "GET", "KEEPTTL", "EX", "PX", "EXAT", "PXAT", "nx", "ex", "PERSIST",
                "nonsense",
            ]);
            let time = match option {
                "EX" | "ex" => Some(it.seconds()),
                "PX" => Some(it.milliseconds()),
                "EXAT" => Some("4000000000".to_owned()),
                "PXAT" => Some("4000000000000".to_owned()),
                _ => None,
            };
            [Some(option.to_owned()), time]
        });
        options.into_iter().flatten().flatten().collect()
    }

    fn some<T>(&mut self, least: u64, most: u64, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = least + self.random.below(most - least + 1);
        (0..count).map(|_| one(self)).collect()
    }

    fn database(&mut self) -> String {
        self.random.choose(&["0", "0", "1", "1", "15", "16", "-1", "x"]).to_owned()
    }

    fn key(&mut self) -> String {
        self.random.choose(&KEYS).to_owned()
    }

    fn value(&mut self) -> String {
        self.random.choose(&VALUES).to_owned()
    }

    fn number(&mut self) -> String {
        self.random.choose(&NUMBERS).to_owned()
    }

    /// Far from running out, so that nothing expires while it is compared, and never the same
    /// twice, so that GT and LT do not depend on the millisecond.
    fn seconds(&mut self) -> String {
        match self.random.below(3) {
            0 => self.random.choose(&ODD_SECONDS).to_owned(),
            _ => (100_000 + self.random.below(100_000_000)).to_string(),
        }
    }

    fn milliseconds(&mut self) -> String {
        match self.random.below(3) {
            0 => self.random.choose(&ODD_SECONDS).to_owned(),
            _ => (100_000_000 + self.random.below(100_000_000_000)).to_string(),
        }
    }
}

const NAMES: [&str; 46] = [
    "GET",
    "SET",
    "SETNX",
    "SETEX",
    "PSETEX",
    "GETDEL",
    "GETSET",
    "GETEX",
    "MGET",
    "MSET",
    "MSETNX",
    "INCR",
    "DECR",
    "INCRBY",
    "DECRBY",
    "APPEND",
    "STRLEN",
    "DEL",
    "UNLINK",
    "EXISTS",
    "TYPE",
    "TOUCH",
    "EXPIRE",
    "PEXPIRE",
    "EXPIREAT",
    "PEXPIREAT",
    "EXPIRETIME",
    "PEXPIRETIME",
    "TTL",
    "PTTL",
    "PERSIST",
    "KEYS",
    "DBSIZE",
    "ECHO",
    "PING",
    "SELECT",
    "FLUSHDB",
    "FLUSHALL",
    "RENAME",
    "RENAMENX",
    "COPY",
    "MOVE",
    "SWAPDB",
    "GET",
    "SET",
    "SET",
];

fn same(comparison: Comparison, ours: &(Reply, Vec<u8>), theirs: &(Reply, Vec<u8>)) -> bool {
    match (comparison, &ours.0, &theirs.0) {
        (Comparison::Near(most), Reply::Integer(a), Reply::Integer(b)) if *a > 0 && *b > 0 => {
            a.abs_diff(*b) <= most
        }
        (Comparison::Unordered, Reply::Array(a), Reply::Array(b)) => {
            a.len() == b.len() && a.iter().all(|item| b.contains(item))
        }
        _ => ours.1 == theirs.1,
    }
}

fn compare(protocol: u8) {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let (mut ours, mut theirs) = (nagi.connect_resp(), redis.connect_resp());
    let mut generator = Generator::new(Random::announced(), &mut ours);
    for connection in [&mut ours, &mut theirs] {
        let _ = connection.run(&format!("HELLO {protocol}"));
    }
    let mut history: Vec<String> = Vec::new();
    for batch in 0..super::count() / BATCH {
        if batch.is_multiple_of(BATCHES_A_HISTORY) {
            history.clear();
            for connection in [&mut ours, &mut theirs] {
                connection.check("FLUSHALL", "+OK\r\n");
            }
        }
        let commands: Vec<Command> = (0..BATCH).map(|_| generator.command()).collect();
        let bytes: Vec<u8> = commands.iter().flat_map(|it| encode_command(&it.words)).collect();
        ours.send(&bytes);
        theirs.send(&bytes);
        for Command { words, comparison } in &commands {
            history.push(format!("{words:?}"));
            let (our_reply, their_reply) = (ours.reply_and_bytes(), theirs.reply_and_bytes());
            assert!(
                same(*comparison, &our_reply, &their_reply),
                "replies differ after:\n{}\n nagi: {}\nredis: {}",
                history[history.len().saturating_sub(12)..].join("\n"),
                our_reply.1.escape_ascii(),
                their_reply.1.escape_ascii()
            );
        }
    }
}

#[test]
fn random_commands_are_answered_as_by_redis_in_resp2() {
    compare(2);
}

#[test]
fn random_commands_are_answered_as_by_redis_in_resp3() {
    compare(3);
}

#[test]
fn random_bytes_are_answered_as_by_redis() {
    let (nagi, redis) = (Server::nagi(), Server::redis());
    let mut random = Random::announced();
    let pieces = [
        "*",
        "$",
        "\r\n",
        "\n",
        "1",
        "2",
        "3",
        "-1",
        "*1\r\n",
        "$4\r\nPING\r\n",
        "PING\r\n",
        "$3\r\n",
        "GET",
        "SET a 1\r\n",
        " ",
        "\"",
        "'",
        "\\x41",
        "a",
        "*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
        "*0\r\n",
        "$-1\r\n",
        "1024\r\n",
        "99999999999999999999",
    ];
    for _ in 0..super::count() / 40 {
        let bytes: String = (0..random.below(12)).map(|_| random.choose(&pieces)).collect();
        let answers = [nagi.resp(), redis.resp()].map(|address| {
            let mut connection = Connection::open(address);
            if connection.try_send(&bytes).is_ok() {
                connection.finish_sending();
            }
            String::from_utf8_lossy(&connection.rest()).into_owned()
        });
        assert_eq!(answers[0], answers[1], "nagi and redis-server, to {bytes:?}");
    }
}
