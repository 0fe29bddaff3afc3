//! nagi beside redis-server.

use std::collections::BTreeMap;

use super::grammar::Rule;
use harness::{Connection, Random, Reply, Server, encode_command};

/// Sent at once, so that pipelines are compared as well.
const BATCH: u64 = 16;

/// A batch ends with an empty keyspace about this often, so that histories stay short.
const BATCHES_A_HISTORY: u64 = 40;

const KEYS: [&str; 6] = ["a", "b", "c", "key:1", "key:2", ""];

const VALUES: [&str; 22] = [
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
    "1.5",
    "foobar",
    "ohmytext",
    "mynewtext",
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

/// Whose commands are compared, by their headings in `docs/commands.md`.
const HEADINGS: [&str; 4] = ["Strings", "Bitmaps", "HyperLogLog", "Keys"];

/// Commands of other families that are compared as well.
const OTHERS: [&str; 7] = ["DBSIZE", "ECHO", "FLUSHALL", "FLUSHDB", "PING", "SELECT", "SWAPDB"];

/// Commands that cannot be compared, and why.
const NOT_COMPARED: [(&str, &str); 10] = [
    ("DUMP", "writes the format of another version"),
    ("OBJECT", "has no use without a subcommand"),
    ("OBJECT FREQ", "depends on chance where it answers at all"),
    ("OBJECT HELP", "says what there is in words of its own"),
    ("PFSELFTEST", "takes Redis a second"),
    ("RANDOMKEY", "picks at random"),
    ("RESTORE", "reads what DUMP writes"),
    ("SCAN", "walks in an order of its own"),
    ("WAIT", "waits in Redis for what cannot come"),
    ("WAITAOF", "is not in Redis 7.0"),
];

/// Words that are added where they may be out of place.
const OPTIONS: [&str; 14] = [
    "NX", "XX", "GET", "KEEPTTL", "PERSIST", "EX", "nx", "GT", "LT", "REPLACE", "LEN", "IDX",
    "BIT", "nonsense",
];

struct Command {
    words: Vec<String>,
    comparison: Comparison,
}

/// Draws commands from the rules.
struct Generator {
    random: Random,
    rules: Vec<Rule>,
}

impl Generator {
    fn new(random: Random) -> Self {
        let mut rules = Rule::all(&HEADINGS);
        rules.retain(|rule| NOT_COMPARED.iter().all(|(name, _)| rule.name != *name));
        let others = Rule::all(&["Connections", "Server"]);
        rules.extend(others.into_iter().filter(|rule| OTHERS.contains(&rule.name.as_str())));
        assert!(rules.len() > 50, "{} commands", rules.len());
        Self { random, rules }
    }

    fn command(&mut self) -> Command {
        let random = &mut self.random;
        let rule = &self.rules[random.below(self.rules.len() as u64) as usize];
        // Else little would ever be stored.
        let sets = rule.name.starts_with("FLUSH") && random.below(8) != 0;
        let set = self.rules.iter().find(|rule| rule.name == "SET").filter(|_| sets);
        let rule = set.unwrap_or(rule);
        let mut words: Vec<String> = rule.name.split(' ').map(str::to_owned).collect();
        words.extend(rule.arguments(random, &mut argument));
        match random.below(40) {
            0 => words.push("extra".to_owned()),
            1 if words.len() > 1 => drop(words.pop()),
            2 => words[0] = words[0].to_lowercase(),
            3 => words[0] = format!("NO{}", words[0]),
            4..8 => {
                let at = 1 + random.below(words.len() as u64) as usize;
                words.insert(at, random.choose(&OPTIONS).to_owned());
            }
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
}

/// An argument of a kind that the rows name; a new kind needs a line here.
fn argument(random: &mut Random, kind: &str) -> String {
    let some: &[&str] = match kind {
        "key" | "key1" | "key2" | "newkey" | "source" | "destination" | "destkey" | "sourcekey" => {
            &KEYS
        }
        "value" | "element" | "message" => return value(random),
        "amount" | "increment" if random.below(4) == 0 => return decimal(random),
        "amount" | "increment" => &NUMBERS,
        "start" | "end" | "offset" => return position(random),
        "bit" => &["0", "1", "0", "1", "0", "1", "2", "-1", "x"],
        "encoding" => &[
            "u8", "i8", "u1", "i1", "i5", "u16", "i16", "u63", "i64", "u64", "i65", "u0", "U8", "x",
        ],
        "min-match-len" => &["0", "1", "2", "3", "-1", "x"],
        "seconds" => return time(random, 100_000),
        "milliseconds" => return time(random, 100_000_000),
        // A past time would leave in Redis, but not here, a key that DBSIZE counts until it is
        // looked for.
        "unix-seconds" => &["4000000000", "4000000000", "0", "-1", "x"],
        "unix-milliseconds" => &["4000000000000", "4000000000000", "0", "-1", "x"],
        "db" | "destination-db" | "index" | "index1" | "index2" => {
            &["0", "0", "1", "1", "15", "16", "-1", "x"]
        }
        "pattern" => &PATTERNS,
        kind => panic!("nothing is known of arguments called {kind}"),
    };
    some[random.below(some.len() as u64) as usize].to_owned()
}

fn value(random: &mut Random) -> String {
    match random.below(400) {
        // Longer than one chunk.
        0 => "long".repeat(17_000),
        1..40 => decimal(random),
        _ => random.choose(&VALUES).to_owned(),
    }
}

/// A number with decimals, or something like one.
fn decimal(random: &mut Random) -> String {
    let digits = random.bits() >> random.below(64);
    match random.below(6) {
        0 => format!("-{digits}"),
        1 => format!("{digits}.{}", random.below(1_000_000)),
        2 => format!("{digits}e{}", random.below(40)),
        3 => format!("-{digits}.{}e-{}", random.below(1000), random.below(40)),
        4 => random.choose(&["inf", "-inf", "nan", "0x1f", ".5", "5.", "1e", "1e5000"]).to_owned(),
        _ => format!("0.{digits}"),
    }
}

/// A place in a string: mostly near its beginning, sometimes in a chunk behind the first, rarely
/// beyond every limit. Nothing between, for which Redis would take much memory.
fn position(random: &mut Random) -> String {
    let odd = ["4294967296", "9223372036854775807", "-9223372036854775808", "x", "", "#1", "#x"];
    match random.below(40) {
        0 => random.choose(&odd).to_owned(),
        1 => random.below(1_200_000).to_string(),
        2..10 => (-1 - random.below(30) as i64).to_string(),
        _ => random.below(80).to_string(),
    }
}

/// Far from running out, so that nothing expires while it is compared, and never the same twice, so
/// that GT and LT do not depend on the millisecond.
fn time(random: &mut Random, least: u64) -> String {
    match random.below(3) {
        0 => random.choose(&ODD_SECONDS).to_owned(),
        _ => (least + random.below(least * 1000)).to_string(),
    }
}

/// How many references Redis says a small integer has.
const SHARED: i64 = 2_147_483_647;

/// Why replies may differ all the same.
fn explanation(words: &[String], ours: &Reply, theirs: &Reply) -> Option<&'static str> {
    let is_command = |name: &str| words[0].eq_ignore_ascii_case(name);
    let is_late = (is_command("BITCOUNT") || is_command("BITPOS"))
        && matches!((ours, theirs), (Reply::Error(_), Reply::Integer(-1 | 0)));
    if is_late {
        return Some("since 7.2 arguments are checked before the key is looked for");
    }
    let shown = |reply: &Reply| match reply {
        Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    };
    if is_command("OBJECT")
        && matches!((ours, theirs), (Reply::Integer(0..3), Reply::Integer(0..3)))
    {
        return Some("idle times are taken one after the other");
    }
    if is_command("OBJECT") && matches!((ours, theirs), (Reply::Integer(SHARED), Reply::Integer(1)))
    {
        return Some("small integers count as shared, which a copy is not in Redis");
    }
    if is_command("OBJECT") && shown(ours) == "int" && shown(theirs) == "embstr" {
        return Some("what INCRBYFLOAT leaves looks like any other number here");
    }
    None
}

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
    let mut generator = Generator::new(Random::announced());
    let mut explained: BTreeMap<&str, u64> = BTreeMap::new();
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
            history.push(brief(&format!("{words:?}")));
            let (our_reply, their_reply) = (ours.reply_and_bytes(), theirs.reply_and_bytes());
            if same(*comparison, &our_reply, &their_reply) {
                continue;
            }
            let Some(why) = explanation(words, &our_reply.0, &their_reply.0) else {
                panic!(
                    "replies differ after:\n{}\n nagi: {}\nredis: {}",
                    history[history.len().saturating_sub(40)..].join("\n"),
                    brief(&our_reply.1.escape_ascii().to_string()),
                    brief(&their_reply.1.escape_ascii().to_string())
                );
            };
            *explained.entry(why).or_default() += 1;
        }
    }
    eprintln!("differences explained: {explained:#?}");
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
