//! Requests that are encoded one by one, unlike the templates of [`super::requests`].
//!
//! A request is first picked (its kind and its key) and then encoded, because a ring needs the key
//! to determine the server.

use std::collections::BTreeMap;

use fastrand::Rng;
use nagi_client::ring::Ring;
use nagi_client::wire::{Dialect, Mode, Request};
use nagi_client::{Outcome, encode_command};

use super::command::{Command, Filling};
use super::keys::Keys;
use super::ledger::{Ledger, Ticket};
use super::names::Names;
use super::protocol::Protocol;
use super::replies::each_value;
use super::requests::{Ttl, http_get, http_set};
use super::splits::Part;
use super::trace::{Operation, Trace};
use super::values::{Values, hash_of};
use super::verified::Finding;
use crate::clock::now_ns;

/// The requests of a run.
#[derive(Debug)]
pub(crate) struct Mix {
    pub(crate) protocol: Protocol,
    pub(crate) source: Source,
    pub(crate) names: Names,
    pub(crate) values: Values,
    pub(crate) ttl: Option<Ttl>,
    /// The mapping of keys to servers, if there are several servers.
    pub(crate) ring: Option<Ring>,
    /// The text after a path over HTTP, indexed by server.
    pub(crate) http_tails: Vec<String>,
    /// The text before a command over HTTP, which names a database; indexed by server.
    pub(crate) http_heads: Vec<String>,
    /// The record of writes, if values are verified.
    pub(crate) ledger: Option<Ledger>,
}

/// The source of requests.
#[derive(Debug)]
pub(crate) enum Source {
    /// Reads of `keys_a_get` keys at once, and writes.
    Values { gets: u32, sets: u32, keys_a_get: u64 },
    /// Commands, chosen by their weights.
    Commands(Vec<Command>),
    /// The rows of a trace, one after another.
    Trace(Trace),
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    Set,
    /// The command with this index.
    Command(usize),
    Row,
}

/// One request: its kind, and its key or row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pick {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
}

/// The evaluation of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// The result of --verify.
    pub(crate) finding: Option<Finding>,
}

/// The effect of a request on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Read,
    Write,
    Delete,
    /// An effect that --verify does not track.
    Other,
}

impl Mix {
    /// Picks the next request.
    pub(crate) fn pick(&self, keys: &mut Keys, random: &mut Rng) -> Pick {
        let number = keys.next(random);
        let kind = match &self.source {
            Source::Values { gets, sets, .. } => {
                let total = u64::from(*gets) + u64::from(*sets);
                let reads = *sets == 0 || random.u64(..total) < u64::from(*gets);
                if reads { Kind::Get } else { Kind::Set }
            }
            Source::Commands(commands) => Kind::Command(choose(commands, random)),
            Source::Trace(_) => Kind::Row,
        };
        Pick { kind, number }
    }

    /// Returns the index of the server for a request.
    pub(crate) fn server(&self, pick: Pick, scratch: &mut Vec<u8>) -> usize {
        let Some(ring) = &self.ring else { return 0 };
        scratch.clear();
        self.append_key(pick, scratch);
        ring.locate(scratch).unwrap_or_default()
    }

    /// Draws the keys of a multi-get, and groups them by server. Returns `None` for requests that
    /// go to one server.
    pub(crate) fn split(
        &self,
        pick: Pick,
        keys: &mut Keys,
        random: &mut Rng,
    ) -> Option<BTreeMap<usize, Vec<Vec<u8>>>> {
        let ring = self.ring.as_ref()?;
        let count = self.keys_of(pick);
        if count < 2 {
            return None;
        }
        let mut parts: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
        for name in self.draw_names(pick.number, count, keys, random) {
            parts.entry(ring.locate(&name).unwrap_or_default()).or_default().push(name);
        }
        Some(parts)
    }

    /// Returns the number of keys that a request reads.
    fn keys_of(&self, pick: Pick) -> u64 {
        match (pick.kind, &self.source) {
            (Kind::Get, Source::Values { keys_a_get, .. }) => *keys_a_get,
            _ => 1,
        }
    }

    /// Returns the name of key `first`, and the names of `count - 1` drawn keys.
    fn draw_names(
        &self,
        first: u64,
        count: u64,
        keys: &mut Keys,
        random: &mut Rng,
    ) -> Vec<Vec<u8>> {
        let numbers = std::iter::once(first).chain((1..count).map(|_| keys.next(random)));
        let names = numbers.map(|number| {
            let mut name = Vec::new();
            self.names.append(number, &mut name);
            name
        });
        names.collect()
    }

    fn append_key(&self, pick: Pick, out: &mut Vec<u8>) {
        match &self.source {
            Source::Trace(trace) => {
                out.extend_from_slice(trace.row(pick.number).map_or(b"", |(_, key)| key));
            }
            _ => self.names.append(pick.number, out),
        }
    }

    fn effect(&self, pick: Pick) -> Effect {
        match (pick.kind, &self.source) {
            (Kind::Get, _) => Effect::Read,
            (Kind::Set, _) => Effect::Write,
            (Kind::Row, Source::Trace(trace)) => match trace.row(pick.number) {
                Some((row, _)) => match row.operation {
                    Operation::Get => Effect::Read,
                    Operation::Set | Operation::Add | Operation::Replace => Effect::Write,
                    Operation::Delete => Effect::Delete,
                    _ => Effect::Other,
                },
                None => Effect::Other,
            },
            _ => Effect::Other,
        }
    }

    /// Records a request that is about to be sent.
    pub(crate) fn begin(&self, pick: Pick, now_ns: u64, scratch: &mut Vec<u8>) -> Ticket {
        let Some(ledger) = &self.ledger else { return Ticket::default() };
        scratch.clear();
        self.append_key(pick, scratch);
        match self.effect(pick) {
            Effect::Read => ledger.read(hash_of(scratch), now_ns),
            Effect::Write | Effect::Delete => ledger.write(hash_of(scratch)),
            Effect::Other => Ticket::default(),
        }
    }

    /// Records that the connection of a request was lost before the answer.
    pub(crate) fn lose(&self, pick: Pick, ticket: Ticket, scratch: &mut Vec<u8>) {
        let Some(ledger) = &self.ledger else { return };
        if matches!(self.effect(pick), Effect::Write | Effect::Delete) {
            scratch.clear();
            self.append_key(pick, scratch);
            ledger.fail(hash_of(scratch), ticket);
        }
    }

    /// Appends a request for `server`. A value that the request writes contains `sequence`.
    pub(crate) fn append(
        &self,
        pick: Pick,
        sequence: u64,
        server: usize,
        keys: &mut Keys,
        random: &mut Rng,
        out: &mut Vec<u8>,
    ) {
        match (pick.kind, &self.source) {
            (Kind::Command(index), Source::Commands(commands)) => {
                let filling =
                    Filling { names: &self.names, values: &self.values, key: pick.number };
                if let Some(command) = commands.get(index) {
                    command.append(self.protocol, &filling, random, out);
                }
            }
            (Kind::Row, Source::Trace(trace)) => {
                if let Some((row, key)) = trace.row(pick.number) {
                    self.append_row(*row, key, sequence, out);
                }
            }
            (Kind::Get, Source::Values { keys_a_get, .. }) => {
                let names = self.draw_names(pick.number, *keys_a_get, keys, random);
                self.append_get(&names, server, out);
            }
            _ => self.append_set(pick.number, sequence, server, random, out),
        }
    }

    /// Appends a request for the values of `names`; over HTTP, only for the first.
    pub(crate) fn append_get(&self, names: &[Vec<u8>], server: usize, out: &mut Vec<u8>) {
        let first = names.first().map(Vec::as_slice).unwrap_or_default();
        match self.protocol {
            Protocol::Resp => {
                let verb: &[u8] = if names.len() > 1 { b"MGET" } else { b"GET" };
                let names = names.iter().map(Vec::as_slice);
                let words: Vec<&[u8]> = [verb].into_iter().chain(names).collect();
                encode_command(&words, out);
            }
            Protocol::Memcached => {
                out.extend_from_slice(b"get");
                for name in names {
                    out.push(b' ');
                    out.extend_from_slice(name);
                }
                out.extend_from_slice(b"\r\n");
            }
            Protocol::Http => {
                let (head, tail) = self.http(server);
                out.extend_from_slice(http_get(head, first, tail).as_bytes());
            }
        }
    }

    fn append_set(
        &self,
        key: u64,
        sequence: u64,
        server: usize,
        random: &mut Rng,
        out: &mut Vec<u8>,
    ) {
        let bytes = self.values.draw_size(random);
        let seconds = self.ttl.map(|ttl| ttl.draw(random));
        let mut name = Vec::new();
        self.names.append(key, &mut name);
        match self.protocol {
            Protocol::Resp => {
                let words = if seconds.is_some() { 5 } else { 3 };
                let head = format!("*{words}\r\n$3\r\nSET\r\n${}\r\n", name.len());
                out.extend_from_slice(head.as_bytes());
                out.extend_from_slice(&name);
                out.extend_from_slice(format!("\r\n${bytes}\r\n").as_bytes());
                self.values.append(&name, sequence, bytes, out);
                out.extend_from_slice(b"\r\n");
                if let Some(seconds) = seconds {
                    let digits = seconds.to_string();
                    let expiry = format!("$2\r\nEX\r\n${}\r\n{digits}\r\n", digits.len());
                    out.extend_from_slice(expiry.as_bytes());
                }
            }
            Protocol::Memcached => {
                out.extend_from_slice(b"set ");
                out.extend_from_slice(&name);
                let expiry = seconds.unwrap_or(0);
                out.extend_from_slice(format!(" 0 {expiry} {bytes}\r\n").as_bytes());
                self.values.append(&name, sequence, bytes, out);
                out.extend_from_slice(b"\r\n");
            }
            Protocol::Http => {
                let (head, tail) = self.http(server);
                out.extend_from_slice(http_set(head, &name, seconds, bytes, tail).as_bytes());
                self.values.append(&name, sequence, bytes, out);
            }
        }
    }

    fn http(&self, server: usize) -> (&str, &str) {
        (
            self.http_heads.get(server).map_or("", String::as_str),
            self.http_tails.get(server).map_or("", String::as_str),
        )
    }

    fn append_row(&self, row: super::trace::Row, key: &[u8], sequence: u64, out: &mut Vec<u8>) {
        let is_resp = self.protocol == Protocol::Resp;
        let store = |mode, out: &mut Vec<u8>| {
            let mut value = Vec::new();
            self.values.append(key, sequence, row.value_bytes as usize, &mut value);
            let expiry = row.ttl_seconds;
            Request::Store { mode, key, value: &value, flags: 0, expiry }
                .encode(if is_resp { Dialect::Resp } else { Dialect::Text }, out)
        };
        let simple = |request: Request<'_>, out: &mut Vec<u8>| {
            request.encode(if is_resp { Dialect::Resp } else { Dialect::Text }, out)
        };
        let encoded = match row.operation {
            Operation::Get if is_resp => {
                encode_command(&[b"GET", key], out);
                Ok(())
            }
            Operation::Get => {
                out.extend_from_slice(&[b"get ", key, b"\r\n"].concat());
                Ok(())
            }
            Operation::Set => store(Mode::Set, out),
            Operation::Add => store(Mode::Add, out),
            Operation::Replace => store(Mode::Replace, out),
            // Redis has no command to prepend to a string.
            Operation::Prepend if !is_resp => store(Mode::Prepend, out),
            Operation::Append | Operation::Prepend => store(Mode::Append, out),
            Operation::Delete => simple(Request::Delete { key }, out),
            Operation::Incr => simple(Request::Count { key, by: 1, down: false }, out),
            Operation::Decr => simple(Request::Count { key, by: 1, down: true }, out),
        };
        debug_assert!(encoded.is_ok(), "the trace's keys and operations were checked: {encoded:?}");
    }

    /// Evaluates the reply to `pick`, or to one part of it.
    pub(crate) fn judge(
        &self,
        (pick, ticket, part): (Pick, Ticket, Option<Part>),
        outcome: Outcome<'_>,
        reply: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Judgement {
        let mut judgement = Judgement::default();
        let keys_a_get = part.map_or_else(|| self.keys_of(pick), |part| part.keys);
        if keys_a_get > 1 && matches!(outcome, Outcome::Hit | Outcome::Miss) {
            each_value(self.protocol, reply, |value| judgement.hits += u64::from(value.is_some()));
            judgement.misses = keys_a_get.saturating_sub(judgement.hits);
            return judgement;
        }
        match outcome {
            Outcome::Hit => judgement.hits = 1,
            Outcome::Miss => judgement.misses = 1,
            Outcome::Done | Outcome::Error(_) => {}
        }
        if let Some(ledger) = &self.ledger {
            scratch.clear();
            self.append_key(pick, scratch);
            judgement.finding = match self.effect(pick) {
                Effect::Read => self.verify_read(ticket, outcome, reply, scratch),
                Effect::Other => None,
                effect => settle(ledger, effect, (hash_of(scratch), ticket), outcome, reply),
            };
        }
        judgement
    }

    fn verify_read(
        &self,
        ticket: Ticket,
        outcome: Outcome<'_>,
        reply: &[u8],
        key: &[u8],
    ) -> Option<Finding> {
        match outcome {
            Outcome::Error(_) => return None,
            Outcome::Miss => return Some(Finding::Well),
            Outcome::Done => return Some(Finding::OtherAnswer),
            Outcome::Hit => {}
        }
        let (mut finding, mut values) = (Finding::OtherAnswer, 0);
        each_value(self.protocol, reply, |value| {
            values += 1;
            if let Some(value) = value {
                finding = Finding::of(Values::read(key, value), ticket);
            }
        });
        Some(if values == 1 { finding } else { Finding::OtherAnswer })
    }
}

/// Records the answer to a write or deletion.
fn settle(
    ledger: &Ledger,
    effect: Effect,
    (key, ticket): (u64, Ticket),
    outcome: Outcome<'_>,
    reply: &[u8],
) -> Option<Finding> {
    let was_refused =
        reply.starts_with(b"NOT_STORED") || (effect == Effect::Write && outcome == Outcome::Miss);
    match outcome {
        Outcome::Error(_) => {
            ledger.fail(key, ticket);
            return None;
        }
        Outcome::Hit => {
            ledger.fail(key, ticket);
            return Some(Finding::OtherAnswer);
        }
        Outcome::Done | Outcome::Miss if was_refused => ledger.refuse(key, ticket),
        Outcome::Done | Outcome::Miss => ledger.confirm(key, ticket, now_ns()),
    }
    Some(Finding::Well)
}

fn choose(commands: &[Command], random: &mut Rng) -> usize {
    if commands.len() < 2 {
        return 0;
    }
    let total: u64 = commands.iter().map(|command| u64::from(command.weight)).sum();
    let mut at = random.u64(..total.max(1));
    for (index, command) in commands.iter().enumerate() {
        match at.checked_sub(command.weight.into()) {
            None => return index,
            Some(rest) => at = rest,
        }
    }
    0
}
