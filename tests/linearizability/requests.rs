//! Random requests for a few keys.

use harness::Random;

use super::model::{Request, Words};
use super::scripts::{DRAIN, PUSH_AND_POP, SWAP, TRANSFER};

/// Timeouts of blocking commands in seconds; long compared to a request.
const TIME_OUTS_S: [&str; 3] = ["0.004", "0.008", "0.015"];

const MEMBERS: [&str; 4] = ["a", "b", "c", "d"];
const FIELDS: [&str; 2] = ["f", "g"];

/// The keys of a history, by type.
pub(super) struct Keys {
    strings: Vec<String>,
    lists: Vec<String>,
    sets: Vec<String>,
    hashes: Vec<String>,
}

impl Keys {
    /// Chooses three or four keys whose names begin with `prefix`.
    pub(super) fn choose(random: &mut Random, prefix: &str) -> Self {
        let [strings, lists, sets, hashes] = match random.below(6) {
            0 => [3, 0, 0, 0],
            1 => [0, 3, 0, 0],
            2 => [0, 2, 0, 0],
            3 => [1, 2, 1, 0],
            4 => [1, 0, 3, 0],
            _ => [2, 0, 0, 2],
        };
        let named = |kind: &str, count: usize| {
            (0..count).map(|number| format!("{prefix}{kind}{number}")).collect()
        };
        Keys {
            strings: named("string", strings),
            lists: named("list", lists),
            sets: named("set", sets),
            hashes: named("hash", hashes),
        }
    }

    /// Returns a request that gives most of the keys a value.
    pub(super) fn setup(&self, random: &mut Random) -> Request {
        let mut commands = Vec::new();
        let mut add = |words: &[&str]| {
            // Some keys do not exist at the start.
            if random.below(4) > 0 {
                commands.push(owned(words));
            }
        };
        self.strings.iter().for_each(|key| add(&["SET", key, "1"]));
        self.lists.iter().for_each(|key| add(&["RPUSH", key, "first", "second"]));
        self.sets.iter().for_each(|key| add(&["SADD", key, "a", "b"]));
        self.hashes.iter().for_each(|key| add(&["HSET", key, "f", "1"]));
        Request::Transaction(commands)
    }

    /// Returns a request that reads all values and removes the keys.
    pub(super) fn clean_up(&self) -> Request {
        let (mut commands, mut remove) = (Vec::new(), vec!["DEL"]);
        for (name, keys) in [
            ("GET", &self.strings),
            ("LRANGE", &self.lists),
            ("SMEMBERS", &self.sets),
            ("HGETALL", &self.hashes),
        ] {
            for key in keys {
                let limits: &[&str] = if name == "LRANGE" { &["0", "-1"] } else { &[] };
                commands.push(owned(&[&[name, key], limits].concat()));
                remove.push(key);
            }
        }
        commands.push(owned(&remove));
        Request::Transaction(commands)
    }

    fn groups(&self) -> Vec<&Vec<String>> {
        let groups = [&self.strings, &self.lists, &self.sets, &self.hashes];
        groups.into_iter().filter(|keys| !keys.is_empty()).collect()
    }
}

/// Generates the requests of one client.
pub(super) struct Generator<'a> {
    pub(super) keys: &'a Keys,
    pub(super) random: Random,
    /// The number of the client, which makes its elements and values differ from those of other
    /// clients.
    pub(super) client: usize,
    pub(super) count: usize,
}

impl Generator<'_> {
    /// Generates the client's requests: `count` of them, or one or two more.
    pub(super) fn requests(mut self, count: usize) -> Vec<Request> {
        let mut requests = Vec::new();
        while requests.len() < count {
            match self.random.below(10) {
                0 => {
                    let keys = self.keys.groups();
                    let keys = keys[self.random.below(keys.len() as u64) as usize];
                    let watched =
                        [&["WATCH".to_owned()], &keys[..1 + self.below(2).min(keys.len() - 1)]];
                    requests.push(Request::Command(watched.concat()));
                    requests.push(Request::Command(self.command(false)));
                    requests.push(self.transaction());
                }
                1 | 2 => requests.push(self.transaction()),
                _ => requests.push(Request::Command(self.command(true))),
            }
        }
        requests
    }

    fn transaction(&mut self) -> Request {
        let count = 2 + self.below(3);
        let mut commands: Vec<Words> = (0..count).map(|_| self.command(true)).collect();
        if self.below(3) == 0 {
            // Only a transaction counts all keys at one instant.
            let place = self.below(count + 1);
            commands.insert(place, owned(&["DBSIZE"]));
        }
        Request::Transaction(commands)
    }

    fn command(&mut self, may_wait: bool) -> Words {
        let Keys { strings, lists, sets, hashes } = self.keys;
        let groups = self.keys.groups();
        let keys = groups[self.below(groups.len())];
        if self.below(8) == 0 {
            return self.of_any_type(keys);
        }
        if std::ptr::eq(keys, strings) {
            self.of_strings(keys)
        } else if std::ptr::eq(keys, lists) {
            if may_wait && self.below(3) == 0 { self.blocking(keys) } else { self.of_lists(keys) }
        } else if std::ptr::eq(keys, sets) {
            self.of_sets(keys)
        } else {
            debug_assert!(std::ptr::eq(keys, hashes));
            self.of_hashes(keys)
        }
    }

    fn of_any_type(&mut self, keys: &[String]) -> Words {
        let [key, other] = self.two(keys);
        match self.below(if key == other { 1 } else { 3 }) {
            0 => owned(&["DEL", key]),
            1 => owned(&["RENAME", key, other]),
            _ => owned(&["COPY", key, other, "REPLACE"]),
        }
    }

    fn of_strings(&mut self, keys: &[String]) -> Words {
        let [key, other] = self.two(keys);
        let value = self.number();
        match self.below(9) {
            0 => owned(&["SET", key, &value]),
            1 => owned(&["GET", key]),
            2 | 3 => {
                let pairs = keys.iter().flat_map(|key| [key, &value]);
                std::iter::once("MSET")
                    .chain(pairs.map(String::as_str))
                    .map(str::to_owned)
                    .collect()
            }
            4 | 5 => std::iter::once("MGET")
                .chain(keys.iter().map(String::as_str))
                .map(str::to_owned)
                .collect(),
            6 => owned(&["INCR", key]),
            7 => owned(&["EVAL", SWAP, "2", key, other]),
            _ => owned(&["EVAL", TRANSFER, "2", key, other, "5"]),
        }
    }

    fn of_lists(&mut self, keys: &[String]) -> Words {
        let [key, other] = self.two(keys);
        let (one, more) = (self.number(), self.number());
        let [side, other_side] = [self.side(), self.side()];
        match self.below(11) {
            0 => owned(&["LPUSH", key, &one]),
            1 => owned(&["RPUSH", key, &one]),
            2 => owned(&["RPUSH", key, &one, &more]),
            3 => owned(&["LPOP", key]),
            4 => owned(&["RPOP", key]),
            5 | 6 => owned(&["LMOVE", key, other, side, other_side]),
            7 => owned(&["RPOPLPUSH", key, other]),
            8 => owned(&["LRANGE", key, "0", "-1"]),
            9 if key != other => owned(&["EVAL", DRAIN, "2", key, other]),
            _ => owned(&["EVAL", PUSH_AND_POP, "1", key, &one]),
        }
    }

    fn blocking(&mut self, keys: &[String]) -> Words {
        let [key, other] = self.two(keys);
        let [side, other_side] = [self.side(), self.side()];
        let time_out = self.random.choose(&TIME_OUTS_S);
        match self.below(6) {
            0 => owned(&["BLPOP", key, time_out]),
            1 => owned(&["BRPOP", key, time_out]),
            2 if key != other => owned(&["BLPOP", key, other, time_out]),
            3 => owned(&["BRPOPLPUSH", key, other, time_out]),
            _ => owned(&["BLMOVE", key, other, side, other_side, time_out]),
        }
    }

    fn of_sets(&mut self, keys: &[String]) -> Words {
        let [key, other] = self.two(keys);
        let [member, more] = [self.random.choose(&MEMBERS), self.random.choose(&MEMBERS)];
        match self.below(7) {
            0 => owned(&["SADD", key, member, more]),
            1 => owned(&["SREM", key, member]),
            2 => owned(&["SMEMBERS", key]),
            3 => owned(&["SCARD", key]),
            _ => owned(&["SMOVE", key, other, member]),
        }
    }

    fn of_hashes(&mut self, keys: &[String]) -> Words {
        let [key, _] = self.two(keys);
        let field = self.random.choose(&FIELDS);
        let value = self.number();
        match self.below(6) {
            0 => owned(&["HSET", key, "f", &value, "g", &value]),
            1 => owned(&["HDEL", key, field]),
            2 | 3 => owned(&["HGETALL", key]),
            _ => owned(&["HINCRBY", key, field, "1"]),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    /// Chooses two keys, which may be the same.
    fn two<'a>(&mut self, keys: &'a [String]) -> [&'a str; 2] {
        [&keys[self.below(keys.len())], &keys[self.below(keys.len())]]
    }

    fn side(&mut self) -> &'static str {
        if self.below(2) == 0 { "LEFT" } else { "RIGHT" }
    }

    /// Returns a number that no other request contains.
    fn number(&mut self) -> String {
        self.count += 1;
        (self.client * 10_000 + self.count * 100).to_string()
    }
}

fn owned(words: &[&str]) -> Words {
    words.iter().map(|word| (*word).to_owned()).collect()
}
