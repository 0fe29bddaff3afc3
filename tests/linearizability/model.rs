//! A sequential keyspace: it executes requests one after another, as the server must appear to do.
//!
//! It includes blocked clients and watched keys, because with these the effect of a request depends
//! on the order of earlier requests: a push serves the client that has waited longest, and EXEC
//! runs nothing if a watched key was changed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use harness::Reply;

use super::collections::{Members, WrongType};
use super::scripts;

/// A command and its arguments.
pub(super) type Words = Vec<String>;

/// A request of a client, which has a single reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    /// A single command.
    Command(Words),
    /// The commands between MULTI and EXEC.
    Transaction(Vec<Words>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Value {
    Text(String),
    List(VecDeque<String>),
    Set(BTreeSet<String>),
    Hash(BTreeMap<String, String>),
}

/// A client that is blocked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    operation: usize,
    words: Words,
}

/// The effect of a request at the instant at which it is executed.
pub(super) struct Effect {
    /// The reply to the request; `None` if its client is now blocked.
    pub(super) reply: Option<Reply>,
    /// The blocked operations that the request has served, with their replies.
    pub(super) served: Vec<(usize, Reply)>,
}

/// Keys, blocked clients in order of arrival, and watched keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Model {
    pub(super) keys: BTreeMap<String, Value>,
    waiting: Vec<Waiting>,
    /// The watched keys of each client, and whether each was changed since.
    watched: BTreeMap<(usize, String), bool>,
    /// Keys that became lists in the current request, so that blocked clients can be served.
    ready: Vec<String>,
}

impl Model {
    /// Executes a request; `operation` is its index in the history.
    pub(super) fn run(&mut self, operation: usize, client: usize, request: &Request) -> Effect {
        let reply = match request {
            Request::Command(words) => match words[0].as_str() {
                "WATCH" => {
                    for key in &words[1..] {
                        self.watched.entry((client, key.clone())).or_default();
                    }
                    Some(ok())
                }
                _ => self.command(words),
            },
            Request::Transaction(commands) => Some(self.transaction(client, commands)),
        };
        if let (None, Request::Command(words)) = (&reply, request) {
            self.waiting.push(Waiting { operation, words: words.clone() });
        }
        Effect { reply, served: self.serve() }
    }

    fn transaction(&mut self, client: usize, commands: &[Words]) -> Reply {
        let is_own = |(watcher, _): &(usize, String)| *watcher == client;
        let is_changed = self.watched.iter().any(|(key, is_changed)| is_own(key) && *is_changed);
        self.watched.retain(|key, _| !is_own(key));
        if is_changed {
            return Reply::Null;
        }
        // Within a transaction, commands never block.
        let run = |words: &Words| self.command(words).unwrap_or(Reply::Null);
        Reply::Array(commands.iter().map(run).collect())
    }

    /// Ends the wait of an operation that was not served.
    pub(super) fn time_out(&mut self, operation: usize) {
        self.waiting.retain(|it| it.operation != operation);
    }

    /// Serves the clients that are blocked on keys that have become lists.
    fn serve(&mut self) -> Vec<(usize, Reply)> {
        let mut served = Vec::new();
        while !self.ready.is_empty() {
            let key = self.ready.remove(0);
            let mut first = 0;
            while matches!(self.keys.get(&key), Some(Value::List(_))) {
                let waits = |it: &Waiting| sources(&it.words).contains(&key);
                let Some(place) = self.waiting[first..].iter().position(waits) else { break };
                first += place;
                let words = self.waiting[first].words.clone();
                match self.command(&words) {
                    Some(reply) => served.push((self.waiting.remove(first).operation, reply)),
                    None => first += 1,
                }
            }
        }
        served
    }

    /// Executes a command. Returns `None` if its client is now blocked.
    fn command(&mut self, words: &[String]) -> Option<Reply> {
        let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        if words[0].starts_with('B') {
            return self.blocking(&words[0], &arguments).unwrap_or_else(|WrongType| Some(wrong()));
        }
        Some(self.at_once(&words[0], &arguments).unwrap_or_else(|WrongType| wrong()))
    }

    /// Executes a command that never blocks.
    pub(super) fn at_once(&mut self, name: &str, arguments: &[&str]) -> Result<Reply, WrongType> {
        match name {
            "SET" | "GET" | "MSET" | "MGET" | "INCR" | "INCRBY" => self.strings(name, arguments),
            "DBSIZE" => Ok(Reply::Integer(self.keys.len() as i64)),
            "DEL" | "RENAME" | "COPY" => Ok(self.any_type(name, arguments)),
            "LPUSH" | "RPUSH" | "LPOP" | "RPOP" | "LMOVE" | "RPOPLPUSH" | "LRANGE" | "LLEN" => {
                self.lists(name, arguments)
            }
            "SADD" | "SREM" | "SMOVE" | "SMEMBERS" | "SCARD" => self.sets(name, arguments),
            "HSET" | "HDEL" | "HINCRBY" | "HGETALL" => self.hashes(name, arguments),
            "EVAL" => scripts::run(self, arguments),
            other => panic!("the model has no {other}"),
        }
    }

    fn strings(&mut self, name: &str, arguments: &[&str]) -> Result<Reply, WrongType> {
        Ok(match (name, arguments) {
            ("SET" | "MSET", pairs) => {
                for pair in pairs.chunks(2) {
                    self.put(pair[0], Value::Text(pair[1].to_owned()));
                }
                ok()
            }
            ("GET", [key]) => optional(self.text(key)?.cloned()),
            ("MGET", keys) => {
                // MGET replies nil for a value of another type.
                let value = |key: &&str| optional(self.text(key).ok().flatten().cloned());
                Reply::Array(keys.iter().map(value).collect())
            }
            (_, [key, by @ ..]) => {
                let by: i64 = by.first().map_or(1, |by| by.parse().expect("an integer"));
                let Ok(old) = self.text(key)?.map_or(Ok(0), |text| text.parse::<i64>()) else {
                    return Ok(Reply::Error("ERR".to_owned()));
                };
                self.put(key, Value::Text((old + by).to_string()));
                Reply::Integer(old + by)
            }
            other => panic!("not a command: {other:?}"),
        })
    }

    fn any_type(&mut self, name: &str, arguments: &[&str]) -> Reply {
        match (name, arguments) {
            ("DEL", keys) => {
                let there = keys.iter().filter(|key| self.remove(key).is_some());
                Reply::Integer(there.count() as i64)
            }
            ("RENAME", [from, to]) => match self.keys.get(*from) {
                None => Reply::Error("ERR".to_owned()),
                Some(_) if from == to => ok(),
                Some(_) => {
                    let value = self.remove(from).expect("it was looked up");
                    self.put(to, value);
                    ok()
                }
            },
            ("COPY", [from, to, replace @ ..]) => match self.keys.get(*from).cloned() {
                Some(value) if !replace.is_empty() || !self.keys.contains_key(*to) => {
                    self.put(to, value);
                    Reply::Integer(1)
                }
                _ => Reply::Integer(0),
            },
            other => panic!("not a command: {other:?}"),
        }
    }

    /// Executes a command that may block. Returns `None` if it does.
    fn blocking(&mut self, name: &str, arguments: &[&str]) -> Result<Option<Reply>, WrongType> {
        let moved = match (name, arguments) {
            ("BLPOP" | "BRPOP", [keys @ .., _]) => {
                for key in keys {
                    if let Some(element) = self.pop(key, name == "BLPOP")? {
                        return Ok(Some(Reply::Array(vec![bulk(*key), bulk(element)])));
                    }
                }
                return Ok(None);
            }
            ("BLMOVE", [from, to, sides @ .., _]) => {
                self.lists("LMOVE", &[&[*from, to], sides].concat())?
            }
            ("BRPOPLPUSH", [from, to, _]) => self.lists("RPOPLPUSH", &[from, to])?,
            other => panic!("not a command: {other:?}"),
        };
        Ok((moved != Reply::Null).then_some(moved))
    }

    /// Removes a key.
    pub(super) fn remove(&mut self, key: &str) -> Option<Value> {
        let removed = self.keys.remove(key);
        if removed.is_some() {
            self.touch(key);
        }
        removed
    }

    /// Sets a key.
    fn put(&mut self, key: &str, value: Value) {
        self.keys.insert(key.to_owned(), value);
        self.touch(key);
    }

    /// Records that a key was changed.
    pub(super) fn touch(&mut self, key: &str) {
        for ((_, watched), is_changed) in &mut self.watched {
            *is_changed |= watched == key;
        }
        let is_list = matches!(self.keys.get(key), Some(Value::List(_)));
        if is_list && !self.ready.iter().any(|it| it == key) {
            self.ready.push(key.to_owned());
        }
    }

    fn text(&self, key: &str) -> Result<Option<&String>, WrongType> {
        String::read(self, key)
    }
}

/// Returns the keys for which a blocking command waits.
fn sources(words: &[String]) -> &[String] {
    match words[0].as_str() {
        "BLPOP" | "BRPOP" => &words[1..words.len() - 1],
        _ => &words[1..2],
    }
}

/// Returns the timeout of a request in seconds; 0 if it does not block.
pub(super) fn time_out_s(request: &Request) -> f64 {
    match request {
        Request::Command(words) if words[0].starts_with('B') => {
            words[words.len() - 1].parse().expect("a time")
        }
        _ => 0.0,
    }
}

pub(super) fn ok() -> Reply {
    Reply::Simple("OK".to_owned())
}

pub(super) fn bulk(text: impl Into<String>) -> Reply {
    Reply::Bulk(text.into().into_bytes())
}

pub(super) fn optional(text: Option<String>) -> Reply {
    text.map_or(Reply::Null, bulk)
}

fn wrong() -> Reply {
    Reply::Error("WRONGTYPE".to_owned())
}
