//! Databases as a whole: scanning their keys, counting them, and emptying databases.

use crate::error::quotable;
use crate::glob::{Pattern, Place};
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::runtime::suspension::Slice;
use crate::state::saves::Order;
use crate::{Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::resp::{Version, Writer};
use nagi_proto::{Args, Chunk, Output};
use nagi_store::types::key::{self, Cursor};
use nagi_store::{EntryView, Scope};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&DBSIZE, &FLUSHALL, &FLUSHDB, &KEYS, &SCAN];

/// Keys, members and scores are scanned as they are.
pub(crate) const NO_VALUES: Error = Error::fixed("ERR NOVALUES option can only be used in HSCAN");

fn scan<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let cursor = cursor(args.at(1)).ok_or(Error::fixed("ERR invalid cursor"))?;
    let mut filter = Filter::default();
    let mut count = 10;
    let mut rest = RemainingArguments::from(args, 2);
    while let Some(option) = rest.next() {
        if is(option, "COUNT") {
            let number = integer(rest.value()?)?;
            count = usize::try_from(number).ok().filter(|count| *count > 0).ok_or(Error::SYNTAX)?;
        } else if is(option, "MATCH") {
            filter.pattern = Some(rest.value()?.into());
        } else if is(option, "TYPE") {
            filter.kind = Some(rest.value()?.into());
        } else if is(option, "NOVALUES") {
            return Err(NO_VALUES);
        } else {
            return Err(Error::SYNTAX);
        }
    }
    let mut walk = Walk::new(cursor.into(), count, filter);
    cx.start(Box::new(move |cx| {
        Ok(walk.slice(cx, |cx, walk| {
            cx.reply.array(2);
            let cursor = walk.place.cursor().unwrap_or_default();
            cx.reply.bulk(cursor.to_string().as_bytes());
            walk.found.write(&mut cx.reply);
        }))
    }))
}

/// Parses a cursor like Redis: an integer must not be negative; other text is parsed as by
/// strtoull(3), with leading blanks, and with negative numbers wrapping around. A zero byte ends
/// the text.
pub(crate) fn cursor(argument: &[u8]) -> Option<Cursor> {
    let text = quotable(argument, argument.len());
    if let Some(number) = nagi_store::parse_i64(text) {
        return Cursor::try_from(number).ok();
    }
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let blanks = text.iter().take_while(|byte| is_blank(byte)).count();
    let text = text.get(blanks..)?;
    let (is_negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, text),
    };
    let number = nagi_store::parse_u64(digits)?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

pub(crate) static SCAN: Command = Command {
    name: "SCAN",
    syntax: "cursor [MATCH pattern] [COUNT count] [TYPE type]",
    arity: -2,
    flags: Flags::READONLY,
    keys: Keys::ANY,
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "2.8.0",
    notes: Notes::of("O(1) for each call; O(N) for a whole walk, N being the keys")
        .history(&[("6.0.0", "TYPE")])
        .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"]),
    summary: "Returns some of the keys, and a cursor for the next call that is 0 at the end",
    subcommands: &[],
    run: scan,
};

fn keys<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let filter = Filter { pattern: Some(args.at(1).into()), kind: None };
    let mut walk = Walk::new(key::Walk::default(), usize::MAX, filter);
    cx.start(Box::new(move |cx| Ok(walk.slice(cx, |cx, walk| walk.found.write(&mut cx.reply)))))
}

pub(crate) static KEYS: Command = Command {
    name: "KEYS",
    syntax: "pattern",
    arity: 2,
    flags: Flags::READONLY,
    keys: Keys::ANY,
    categories: Category::KEYSPACE.union(Category::DANGEROUS),
    group: Group::Generic,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the keys of the database")
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"]),
    summary: "Returns all keys that match a pattern; other clients do not wait for it",
    subcommands: &[],
    run: keys,
};

/// Entries between two readings of the clock.
const STRIDE: usize = 64;

/// The length with which encoded keys are put into a chunk, and the capacity that is kept for the
/// next keys. In between, the keys of a stride fit if each has up to 256 bytes when encoded; for
/// longer keys, memory is allocated while the latch is held.
const FULL_BYTES: usize = 48 << 10;
const KEPT_BYTES: usize = 64 << 10;

/// Maximum steps of pattern matching between two readings of the clock, and while a latch is held.
const STEPS: usize = 1 << 14;

/// A walk over the keys of a database, slice by slice.
struct Walk {
    place: key::Walk,
    /// The number of entries still to read. More are read if the position then has no cursor.
    left: usize,
    is_at_end: bool,
    filter: Filter,
    /// Keys whose comparison takes long, or that must wait for such a comparison.
    open: Vec<(OpenKey, Place)>,
    found: Found,
}

/// A key that is compared while no latch is held.
enum OpenKey {
    Copied(Box<[u8]>),
    /// A long key, shared with the keyspace.
    Long(Chunk),
}

impl Walk {
    fn new(place: key::Walk, left: usize, filter: Filter) -> Self {
        Walk { place, left, is_at_end: false, filter, open: Vec::new(), found: Found::default() }
    }

    /// Whether enough entries were read and the position has a cursor.
    fn is_read(&self) -> bool {
        self.is_at_end || (self.left == 0 && self.place.cursor().is_some())
    }

    /// Continues for one slice. Calls `finish` once everything is read and compared.
    fn slice(
        &mut self,
        cx: &mut Context<'_>,
        finish: impl FnOnce(&mut Context<'_>, &mut Self),
    ) -> JobProgress {
        let slice = Slice::begin();
        while !self.open.is_empty() || !self.is_read() {
            if self.open.is_empty() {
                self.read_some(cx);
            } else {
                self.compare_some();
            }
            self.found.fill_chunk();
            if slice.is_over() && !(self.open.is_empty() && self.is_read()) {
                return JobProgress::NEXT_TICK;
            }
        }
        finish(cx, self);
        JobProgress::Done
    }

    /// Reads some entries. Long keys are left open, and so are keys whose comparison takes long.
    fn read_some(&mut self, cx: &mut Context<'_>) {
        let stride = self.left.clamp(1, STRIDE);
        let Walk { place, filter, open, found, .. } = self;
        let mut steps = STEPS;
        cx.db.walk(place, stride, |entry| match entry.long_key() {
            _ if !filter.has_kind(&entry) => {}
            Some(key) => {
                let begin = filter.begin(&key);
                open.push((OpenKey::Long(key), begin));
            }
            None => {
                let mut begin = filter.begin(entry.key());
                match filter.advance(entry.key(), &mut begin, &mut steps) {
                    Some(true) => found.push(entry.key()),
                    Some(false) => {}
                    None => open.push((OpenKey::Copied(entry.key().into()), begin)),
                }
            }
        });
        self.left = self.left.saturating_sub(stride);
        self.is_at_end = self.place.cursor() == Some(0);
    }

    /// Continues with open comparisons.
    fn compare_some(&mut self) {
        let mut steps = STEPS;
        while let Some((key, place)) = self.open.last_mut() {
            let bytes: &[u8] = match key {
                OpenKey::Copied(bytes) => bytes,
                OpenKey::Long(bytes) => bytes,
            };
            let Some(is_fitting) = self.filter.advance(bytes, place, &mut steps) else { return };
            match self.open.pop() {
                Some((OpenKey::Copied(key), _)) if is_fitting => self.found.push(&key),
                Some((OpenKey::Long(key), _)) if is_fitting => self.found.push_long(key),
                _ => {}
            }
        }
    }
}

/// The entries that a walk returns.
#[derive(Default)]
struct Filter {
    pattern: Option<Box<[u8]>>,
    kind: Option<Box<[u8]>>,
}

impl Filter {
    fn has_kind(&self, entry: &EntryView<'_>) -> bool {
        self.kind.as_ref().is_none_or(|kind| is(kind, entry.kind().name()))
    }

    /// The pattern that keys are compared with.
    fn pattern(&self) -> Pattern<'_> {
        Pattern::new(self.pattern.as_deref().unwrap_or(b"*"))
    }

    /// The start of the comparison with a key.
    fn begin(&self, key: &[u8]) -> Place {
        self.pattern().begin(key)
    }

    /// Continues a comparison. Returns whether the key matches, once that is known.
    fn advance(&self, key: &[u8], place: &mut Place, steps: &mut usize) -> Option<bool> {
        self.pattern().advance(key, place, steps)
    }
}

/// Keys as they are encoded in the reply. They are collected in chunks, so that many keys are never
/// copied at once.
#[derive(Default)]
struct Found {
    count: usize,
    full: Vec<Part>,
    rest: Output,
}

/// A part of a reply.
enum Part {
    Encoded(Chunk),
    /// A long key, which is sent without being copied.
    Long(Chunk),
}

impl Found {
    fn push(&mut self, key: &[u8]) {
        // Bulk strings have the same encoding in both versions of RESP.
        Writer::new(&mut self.rest, Version::Two).bulk(key);
        self.count += 1;
    }

    /// Moves encoded keys into a chunk, if they are many. Must be called without a latch, since the
    /// memory may come from the kernel.
    fn fill_chunk(&mut self) {
        if self.rest.len() >= FULL_BYTES {
            let encoded = self.rest.as_contiguous().unwrap_or_default();
            self.full.push(Part::Encoded(encoded.into()));
            self.rest.clear(KEPT_BYTES);
        }
    }

    fn push_long(&mut self, key: Chunk) {
        self.full.push(Part::Long(key));
        self.count += 1;
    }

    fn write(&mut self, reply: &mut Writer<'_>) {
        reply.array(self.count);
        for part in self.full.drain(..) {
            match part {
                Part::Encoded(chunk) => reply.encoded_chunk(chunk),
                Part::Long(chunk) => reply.bulk_chunk(chunk),
            }
        }
        reply.encoded(self.rest.as_contiguous().unwrap_or_default());
    }
}

fn dbsize<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.integer(cx.db.size() as i64);
    Ok(())
}

pub(crate) static DBSIZE: Command = Command {
    name: "DBSIZE",
    syntax: "",
    arity: 1,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::ANY,
    categories: Category::KEYSPACE,
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of("O(1)").tips(&["request_policy:all_shards", "response_policy:agg_sum"]),
    summary: "Returns how many keys the database holds",
    subcommands: &[],
    run: dbsize,
};

fn flushdb<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    flush(cx, args, Scope::Database(cx.db.index()))?;
    cx.reply.ok();
    Ok(())
}

pub(crate) static FLUSHDB: Command = Command {
    name: "FLUSHDB",
    syntax: "[ASYNC | SYNC]",
    arity: -1,
    flags: Flags::WRITE,
    keys: Keys::WHOLE,
    categories: Category::KEYSPACE.union(Category::DANGEROUS),
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of("O(1); freeing goes on in the background")
        .history(&[("4.0.0", "ASYNC"), ("6.2.0", "SYNC")])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    summary: "Empties the database at once; memory is always freed in the background",
    subcommands: &[],
    run: flushdb,
};

fn flushall<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    flush(cx, args, Scope::All)?;
    // Removed data must not return with a file, so a save in progress is cancelled.
    if !cx.server.config().has_save_points() {
        cx.server.saves().cancel();
        cx.reply.ok();
        return Ok(());
    }
    if cx.db.is_claimed() {
        // The save only begins after the transaction, script or service of blocked clients.
        cx.server.saves().order_next(Order::BackgroundSave);
        cx.reply.ok();
        return Ok(());
    }
    let ticket = cx.server.saves().order_next(Order::Save);
    cx.start(Box::new(move |cx| {
        if cx.server.saves().outcome(ticket, &cx.client.waker).is_none() {
            return Ok(JobProgress::WOKEN);
        }
        // A failure is logged; the keys are removed in any case.
        cx.reply.ok();
        Ok(JobProgress::Done)
    }))
}

pub(crate) static FLUSHALL: Command = Command {
    name: "FLUSHALL",
    syntax: "[ASYNC | SYNC]",
    arity: -1,
    flags: Flags::WRITE,
    keys: Keys::WHOLE,
    categories: Category::KEYSPACE.union(Category::DANGEROUS),
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of("O(1); freeing goes on in the background")
        .history(&[("4.0.0", "ASYNC"), ("6.2.0", "SYNC")])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    summary: "Empties all databases at once, and saves if there are save points; memory is always \
              freed in the background",
    subcommands: &[],
    run: flushall,
};

fn flush<'a>(cx: &mut Context<'a>, args: Args<'a>, scope: Scope) -> Result<(), Error> {
    let option = args.get(1);
    let known = option.is_none_or(|option| is(option, "ASYNC") || is(option, "SYNC"));
    if !known || args.len() > 2 {
        return Err(Error::SYNTAX);
    }
    cx.db.flush(scope);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};
    use std::collections::BTreeSet;

    #[test]
    fn scan_and_keys_filter_keys() {
        converse(
            "SCAN 0 => *2|$1|0|*0|
             KEYS * => *0|
             SET a 1 => +OK|
             SCAN 0 => *2|$1|0|*1|$1|a|
             SCAN 0 MATCH b* => *2|$1|0|*0|
             SCAN 0 match ? type STRING count 100 => *2|$1|0|*1|$1|a|
             SCAN 0 TYPE hash => *2|$1|0|*0|
             KEYS ? => *1|$1|a|
             KEYS b => *0|
             SCAN x => -ERR invalid cursor|
             SCAN -x => -ERR invalid cursor|
             SCAN -1 => -ERR invalid cursor|
             SCAN -00 => *2|$1|0|*1|$1|a|
             SCAN +0 => *2|$1|0|*1|$1|a|
             SCAN 99999999999999999999999 => -ERR invalid cursor|
             SCAN 0 COUNT 0 => -ERR syntax error|
             SCAN 0 COUNT -1 => -ERR syntax error|
             SCAN 0 COUNT x => -ERR value is not an integer or out of range|
             SCAN 0 MATCH => -ERR syntax error|
             SCAN 0 FOO 1 => -ERR syntax error|",
        );
    }

    #[test]
    fn scan_and_keys_return_every_key() {
        let mut bench = Bench::new();
        let names: BTreeSet<_> = (0..20_000).map(|number| format!("key:{number}")).collect();
        for name in &names {
            bench.resp(format!("SET {name} v\r\n").as_bytes());
        }
        let keys_of = |reply: &[u8]| {
            let text = String::from_utf8(reply.to_vec()).unwrap();
            text.split("\r\n").filter(|line| line.starts_with("key:")).map(str::to_owned).collect()
        };
        let all: BTreeSet<String> = keys_of(&bench.resp(b"KEYS key:*\r\n"));
        assert_eq!(all, names);
        let all: BTreeSet<String> = keys_of(&bench.resp(b"SCAN 0 COUNT 1000000\r\n"));
        assert_eq!(all, names);

        let (mut all, mut cursor) = (BTreeSet::new(), "0".to_owned());
        loop {
            let reply = bench.resp(format!("SCAN {cursor} COUNT 300\r\n").as_bytes());
            let some: BTreeSet<String> = keys_of(&reply);
            assert!(some.len() < 2000, "COUNT bounds what one call looks at: {}", some.len());
            all.extend(some);
            cursor = String::from_utf8(reply).unwrap().split("\r\n").nth(2).unwrap().to_owned();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(all, names);
    }

    #[test]
    fn flushdb_and_flushall_empty_databases() {
        converse(
            "SET a 1 => +OK|
             SELECT 1 => +OK|
             MSET b 2 c 3 => +OK|
             DBSIZE => :2|
             FLUSHDB FOO => -ERR syntax error|
             FLUSHALL SYNC ASYNC => -ERR syntax error|
             FLUSHDB sync => +OK|
             DBSIZE => :0|
             SET b 2 => +OK|
             SELECT 0 => +OK|
             DBSIZE => :1|
             FLUSHALL ASYNC => +OK|
             DBSIZE => :0|
             SELECT 1 => +OK|
             DBSIZE => :0|",
        );
    }
}
