//! Generates random commands: sentences of the rows' grammar, some of them damaged.

use super::arguments::{Vocabulary, entry_bound, odd_number, value};
use super::families::{Family, Place, Rules};
use super::giant;
use super::grammar::{Arguments as _, Rule};
use super::scripts::{Calls, Scripts};
use harness::{Random, Reply};

/// Commands of Redis 7.0 that cannot be compared, with the reasons.
const NOT_COMPARED: &[(&str, &str)] = &[
    ("ACL", "alone is refused; tests/administration.rs compares it"),
    ("ACL CAT", "lists what there is"),
    ("ACL HELP", "lists what there is"),
    ("ACL SETUSER", "changes permissions; tests/acl.rs compares it"),
    ("MEMORY", "alone is refused; tests/memory.rs compares it"),
    ("MEMORY DOCTOR", "has sentences of its own"),
    ("MEMORY HELP", "lists what there is"),
    ("MEMORY MALLOC-STATS", "is the allocator's own"),
    ("MEMORY STATS", "measures; tests/memory.rs compares its fields"),
    ("MODULE", "alone is refused; tests/administration.rs compares it"),
    ("MODULE HELP", "lists what there is"),
    ("MODULE LOAD", "loads programs"),
    ("MODULE LOADEX", "loads programs"),
    ("MODULE UNLOAD", "counts as a call here; tests/administration.rs compares what it answers"),
    ("CLIENT HELP", "lists what there is"),
    ("CLIENT REPLY", "takes the replies away; tests/client_command.rs compares it"),
    ("CLIENT TRACKING", "has pushes come at any time; tests/tracking.rs compares it"),
    ("FUNCTION HELP", "lists what there is"),
    ("SCRIPT HELP", "lists what there is"),
    ("COMMAND", "lists what there is"),
    ("COMMAND COUNT", "lists what there is"),
    ("COMMAND DOCS", "has sentences of its own"),
    ("COMMAND HELP", "lists what there is"),
    ("COMMAND INFO", "says more since 7.2; tests/server.rs compares it"),
    ("COMMAND LIST", "lists what there is"),
    ("CONFIG HELP", "lists what there is"),
    ("CONFIG REWRITE", "needs a file; tests/configuration has it"),
    ("DEBUG", "is of each server's inside"),
    ("INFO", "says how each server is"),
    ("LATENCY DOCTOR", "has sentences of its own"),
    ("LATENCY HELP", "lists what there is"),
    ("MIGRATE", "asks other servers; tests/migrate.rs compares it"),
    ("MONITOR", "never ends"),
    ("OBJECT FREQ", "depends on chance where it answers at all"),
    ("OBJECT HELP", "lists what there is"),
    ("PFDEBUG", "turns short strings into raw ones in Redis; tests/hyperloglog.rs compares it"),
    ("PFSELFTEST", "takes Redis a second"),
    ("PSUBSCRIBE", "answers with messages; tests/pubsub.rs compares it"),
    ("PUBSUB HELP", "lists what there is"),
    ("PUNSUBSCRIBE", "answers with messages; tests/pubsub.rs compares it"),
    ("QUIT", "ends the connection; tests/connection.rs compares it"),
    ("SHUTDOWN", "ends the server"),
    ("SLOWLOG HELP", "lists what there is"),
    ("SSUBSCRIBE", "answers with messages; tests/pubsub.rs compares it"),
    ("SUBSCRIBE", "answers with messages; tests/pubsub.rs compares it"),
    ("SUNSUBSCRIBE", "answers with messages; tests/pubsub.rs compares it"),
    ("UNSUBSCRIBE", "answers with messages; tests/pubsub.rs compares it"),
    ("XGROUP HELP", "lists what there is"),
    ("XINFO CONSUMERS", "says more since 7.2; tests/stream.rs has it"),
    ("XINFO GROUPS", "knows more lags since 7.4; tests/stream.rs compares it"),
    ("XINFO HELP", "lists what there is"),
    ("XINFO STREAM", "says more since 7.2; tests/stream.rs compares it"),
    ("XSETID", "looks at what was deleted since 7.2; tests/stream.rs compares it"),
    ("BGREWRITEAOF", "there is no append-only file"),
    ("BGSAVE", "writes a file"),
    ("LASTSAVE", "says when a file was written"),
    ("LOLWUT", "draws"),
    ("REPLICAOF", "ends what Redis holds"),
    ("SAVE", "writes a file"),
    ("SLAVEOF", "ends what Redis holds"),
];

/// Words that are added where they may be invalid.
const OPTIONS: [&str; 24] = [
    "NX", "XX", "GET", "KEEPTTL", "PERSIST", "EX", "PX", "EXAT", "PXAT", "nx", "GT", "LT",
    "REPLACE", "ABSTTL", "LEN", "IDX", "BIT", "BYTE", "MATCH", "COUNT", "OVERFLOW", "SAT", "DB",
    "nonsense",
];

/// One of this many batches uses a string of 512 MB.
const BATCHES_A_GIANT: u64 = 4000;

/// A request's words.
pub(super) type Words = Vec<Vec<u8>>;

/// One command of a batch.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) words: Words,
    /// The calls of the request, if it runs a script.
    pub(super) calls: Calls,
}

impl Request {
    pub(super) fn plain(words: Words) -> Self {
        Request { words, calls: Calls::None }
    }
}

/// Draws commands from the grammar.
pub(super) struct Generator {
    random: Random,
    family: &'static Family,
    rules: Rules,
    vocabulary: Vocabulary,
    scripts: Scripts,
}

/// Returns the rules of all commands that can be compared.
pub(super) fn comparable() -> Vec<Rule> {
    let is_compared = |rule: &Rule| NOT_COMPARED.iter().all(|(name, _)| rule.name != *name);
    let mut rules = Rule::all();
    rules.retain(|rule| rule.is_in_redis_7_0() && is_compared(rule));
    rules
}

impl Generator {
    pub(super) fn new(random: Random, vocabulary: Vocabulary, family: &'static Family) -> Self {
        let rules = comparable();
        assert!(rules.len() > 100, "{} commands", rules.len());
        let rules = Rules::of(family, rules);
        Self { random, family, rules, vocabulary, scripts: Scripts::default() }
    }

    /// Returns the number of different commands and subcommands.
    pub(super) fn variety(&self) -> usize {
        self.rules.len()
    }

    /// Returns the commands at the beginning of a history, which store scripts and functions.
    pub(super) fn setting(&mut self) -> Vec<Words> {
        self.rules.choose_types(&mut self.random);
        if !self.family.has_scripts() {
            return Vec::new();
        }
        let bodies = [(); Scripts::COUNT].map(|()| self.calls());
        self.scripts.renew(&mut self.random, bodies.into())
    }

    /// Records the replies to [`Self::setting`], which include the digests of scripts.
    pub(super) fn learn(&mut self, replies: &[Reply]) {
        self.scripts.learn(replies);
    }

    /// Returns the commands that are sent at once.
    pub(super) fn batch(&mut self, length: u64) -> Vec<Request> {
        if self.family.has_giants() && self.random.below(BATCHES_A_GIANT) == 0 {
            let giants = giant::batch(&mut self.random, length);
            return giants.into_iter().map(Request::plain).collect();
        }
        let length = length as usize;
        let mut batch = Vec::with_capacity(length);
        while batch.len() < length {
            let room = length - batch.len();
            if room > 3 && self.family.begins_transaction(&mut self.random) {
                self.transaction(&mut batch, room);
            } else {
                batch.push(self.request(Place::Alone));
            }
        }
        batch
    }

    /// Appends MULTI, some commands, and the command that ends the transaction.
    fn transaction(&mut self, batch: &mut Vec<Request>, room: usize) {
        let word = |word: &str| Request::plain(vec![word.into()]);
        let watches = self.random.below(3) == 0;
        if watches {
            batch.push(Request::plain([&["WATCH".into()][..], &self.arguments(&["key"])].concat()));
        }
        batch.push(word("MULTI"));
        let most = (room - 2 - usize::from(watches)).min(6) as u64;
        let mut place = Place::Queued;
        for _ in 0..self.random.below(most + 1) {
            let request = self.request(place);
            // These commands end the queue: the requests after them would not be queued and might
            // block.
            let ends = |name: &&str| request.words[0].eq_ignore_ascii_case(name.as_bytes());
            if ["DISCARD", "EXEC", "RESET"].iter().any(ends) {
                place = Place::Alone;
            }
            batch.push(request);
        }
        batch.push(word(if self.random.below(8) == 0 { "DISCARD" } else { "EXEC" }));
    }

    fn request(&mut self, place: Place) -> Request {
        if !self.family.runs_script(&mut self.random) {
            return Request::plain(self.command(place));
        }
        let calls = self.calls();
        self.scripts.request(&mut self.random, calls)
    }

    /// Returns the calls of a script.
    fn calls(&mut self) -> Vec<Words> {
        (0..=self.random.below(4)).map(|_| self.command(Place::Called)).collect()
    }

    fn command(&mut self, place: Place) -> Words {
        let random = &mut self.random;
        let mut rule = self.rules.draw(random, place);
        while place == Place::Called && rule.name == "WAIT" {
            rule = self.rules.draw(random, place);
        }
        // Most of these commands are omitted, because otherwise the servers would mostly be empty.
        let empties = ["FLUSHALL", "FLUSHDB"].contains(&rule.name.as_str());
        if let Some(set) = self.rules.set().filter(|_| empties && random.below(8) != 0) {
            rule = set;
        }
        let name = rule.name.clone();
        let mut words: Words = name.split(' ').map(|word| word.into()).collect();
        match name.as_str() {
            "COMMAND GETKEYS" | "COMMAND GETKEYSANDFLAGS" => words.extend(self.sentence()),
            "CONFIG GET" => words.extend(self.arguments(&["setting"])),
            "CONFIG SET" => words.extend(self.arguments(&["setting", "setting-value"])),
            _ => words.extend(rule.arguments(random, &mut self.vocabulary)),
        }
        let random = &mut self.random;
        match name.as_str() {
            // Since 7.2, a client name is only set after the login has succeeded.
            "HELLO" => {
                let options = words.iter().position(|word| word == b"SETNAME");
                words.truncate(options.unwrap_or(words.len()));
            }
            "XREAD" | "XREADGROUP" if place != Place::Queued => {
                if let Some(at) = words.iter().position(|word| word == b"BLOCK") {
                    words.drain(at..at + 2);
                }
            }
            "XRANGE" | "XREVRANGE" => {
                for id in words.iter_mut().skip(2).take(2) {
                    if random.below(3) != 0 {
                        *id = entry_bound(random);
                    }
                }
            }
            _ => {}
        }
        if !["CLIENT PAUSE", "WAIT"].contains(&name.as_str()) {
            self.damage(&mut words);
            tame(&mut words);
        }
        if place == Place::Called {
            make_independent_of_version(&mut words);
        }
        if name == "CLIENT KILL" && words.len() > 3 {
            // A connection must match all filters, so this filter never matches the connection that
            // compares.
            words.extend([b"ID".to_vec(), b"999999999".to_vec()]);
        }
        words
    }

    /// Returns a command with its arguments.
    fn sentence(&mut self) -> Words {
        let random = &mut self.random;
        let rule = self.rules.draw(random, Place::Alone);
        let mut words: Words = rule.name.split(' ').map(|word| word.into()).collect();
        words.extend(rule.arguments(random, &mut self.vocabulary));
        words
    }

    /// Returns an argument of each kind; sometimes one is repeated.
    fn arguments(&mut self, kinds: &[&str]) -> Words {
        let times = 1 + self.random.below(8) / 7;
        let all = kinds.repeat(times as usize);
        let vocabulary = &mut self.vocabulary;
        all.iter().map(|kind| vocabulary.argument(&mut self.random, kind)).collect()
    }

    /// Leaves most commands unchanged. Makes others too long, too short, contradictory or unusual.
    fn damage(&mut self, words: &mut Words) {
        let random = &mut self.random;
        let place = |random: &mut Random, from: usize, words: &Words| {
            from + random.below((words.len() + 1 - from) as u64) as usize
        };
        match random.below(60) {
            0 => words.push(b"extra".to_vec()),
            1 if words.len() > 1 => drop(words.pop()),
            2 => words[0] = words[0].to_ascii_lowercase(),
            3 => words[0] = [b"NO", words[0].as_slice()].concat(),
            4..8 => {
                let at = place(random, 1, words);
                words.insert(at, random.choose(&OPTIONS).into());
            }
            // Repeats options and keys.
            8 | 9 if words.len() > 2 => {
                let from = place(random, 1, words).min(words.len() - 1);
                let again = words[from..].to_vec();
                words.extend(again);
            }
            10 if words.len() > 2 => {
                let (from, to) = (place(random, 1, words) - 1, place(random, 1, words) - 1);
                if from > 0 && to > 0 {
                    words.swap(from, to);
                }
            }
            11 | 12 if words.len() > 1 => {
                let at = place(random, 1, words).min(words.len() - 1);
                words[at] = odd_number(random);
            }
            13 if words.len() > 1 => {
                let at = place(random, 1, words).min(words.len() - 1);
                words[at] = value(random);
            }
            14 => words.truncate(1),
            15 => words.extend((0..random.below(200)).map(|number| number.to_string().into())),
            _ => {}
        }
    }
}

/// Makes a call succeed or fail in all versions. Otherwise it could end the script on one server
/// only, and the script on the other server could end with the same error later.
fn make_independent_of_version(words: &mut Words) {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    if is(&words[0], "ZRANK") || is(&words[0], "ZREVRANK") {
        words.truncate(3);
    }
    words.retain(|word| !is(word, "NOVALUES"));
    // Since 8.0, cursors are neither negative nor empty.
    let at = match words[0].to_ascii_uppercase().as_slice() {
        b"SCAN" => 1,
        b"HSCAN" | b"SSCAN" | b"ZSCAN" => 2,
        _ => return,
    };
    if let Some(cursor) = words.get_mut(at).filter(|it| it.is_empty() || it.starts_with(b"-")) {
        *cursor = b"0".to_vec();
    }
}

/// Replaces numbers that damage has put where they cause harm: offsets that would create a string
/// of hundreds of megabytes, and times that pass during the comparison.
fn tame(words: &mut Words) {
    let is = |word: &[u8], names: &[&str]| {
        names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
    };
    let name = words[0].clone();
    let is_restore = is(&name, &["RESTORE", "RESTORE-ASKING"]);
    let has_time = is_restore || is(&name, &["SETEX", "PSETEX", "EXPIRE", "PEXPIRE"]);
    if is(&name, &["XADD"]) {
        // IDs from the servers' clocks would differ.
        let by_clock = words.iter_mut().filter(|word| *word == b"*");
        by_clock.for_each(|word| *word = b"8-*".to_vec());
    }
    if is(&name, &["SPOP"]) && (2..4).contains(&words.len()) {
        // Unless all members are removed, each server chooses which members remain.
        let count = words.get(2).map(|count| std::str::from_utf8(count).ok()?.parse::<u64>().ok());
        if count.is_none_or(|count| count.is_some_and(|count| count > 0)) {
            words.truncate(2);
            words.push(b"1000000".to_vec());
        }
    }
    if is(&name, &["HRANDFIELD", "SRANDMEMBER", "ZRANDMEMBER"]) {
        // A huge negative count draws that many members, most of them several times.
        let is_huge = |word: &[u8]| {
            let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok());
            number.is_some_and(|number| number < -100_000)
        };
        let huge = words.iter_mut().filter(|word| is_huge(word));
        huge.for_each(|word| *word = b"-10".to_vec());
    }
    let is_by_member = words.iter().any(|word| word.eq_ignore_ascii_case(b"BYLEX"));
    let bounds_at = match &name {
        name if is(name, &["ZREMRANGEBYLEX"]) => 2,
        name if is(name, &["ZRANGESTORE"]) && is_by_member => 3,
        _ => usize::MAX,
    };
    // The range between two members is undefined if their scores differ.
    let bounds = words.iter_mut().skip(bounds_at).zip([b"-", b"+"]);
    bounds.for_each(|(word, bound)| *word = bound.to_vec());
    for at in 1..words.len() {
        let is_place = at > 1 && is(&name, &["SETBIT", "BITFIELD"]);
        let is_time = at == 2 && has_time
            || is(&name, &["SET", "GETEX"]) && is(&words[at - 1], &["EX", "PX", "EXAT", "PXAT"]);
        let digits = std::str::from_utf8(&words[at]).unwrap_or_default().trim_matches('#');
        let Ok(number) = digits.parse::<u64>() else { continue };
        let is_restored = at == 2 && is_restore;
        let is_idle = is_restore && is(&words[at - 1], &["IDLETIME"]);
        if is_idle && number > 100_000 || is_restored && number > 1_000_000_000_000_000 {
            // In Redis, the sum of such a number and the current time overflows.
            words[at] = b"100000".to_vec();
        } else if is_place && (1_300_000..=u32::MAX.into()).contains(&number) {
            words[at] = b"4294967296".to_vec();
        } else if is_time {
            let (least, far): (u64, &[u8]) = match &words[at - 1] {
                option if is(option, &["EXAT"]) => (4_000_000_000, b"4000000000"),
                option if is(option, &["PXAT"]) => (4_000_000_000_000, b"4000000000000"),
                _ => (100_000, b"100000"),
            };
            if !(1..least).contains(&number) {
                continue;
            }
            words[at] = far.to_vec();
        }
    }
}
