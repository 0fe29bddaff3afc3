//! Hashes as a whole: all of their fields, random ones, and scans by cursor.

use crate::families::elements::{
    BYTES_PER_HOLD, Drawn, ELEMENTS_PER_HOLD, ScanOptions, Scanned, drawn_count, end_of_scan,
    in_strides, scan, write,
};
use crate::runtime::arguments::is;
use crate::runtime::suspension::Slice;
use crate::{Access, Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::{Field, HashRef, Key, Kind, SharedValue, Text, WrongType};
use std::ops::ControlFlow;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&HRANDFIELD, &HSCAN];

/// The parts of each field that are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Names,
    Values,
    NamesAndValues,
}

impl Shown {
    fn write(self, reply: &mut Writer<'_>, field: &Field<'_>) {
        if self != Shown::Values {
            write(reply, field.name);
        }
        if self != Shown::Names {
            write(reply, field.value);
        }
    }

    /// Writes the header of a reply with this number of fields.
    fn begin(self, reply: &mut Writer<'_>, fields: u64) {
        match self {
            Shown::NamesAndValues => reply.map(fields as usize),
            Shown::Names | Shown::Values => reply.array(fields as usize),
        }
    }
}

/// Replies with all fields of a hash (HGETALL, HKEYS, HVALS).
pub(super) fn all_fields<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    shown: Shown,
) -> Result<(), Error> {
    let key = cx.key(args.at(1));
    let Context { db, reply, .. } = cx;
    let now_ms = db.now_ms();
    let is_shown = db.read_hash(key, |hash| {
        let Some(hash) = hash else {
            shown.begin(reply, 0);
            return true;
        };
        if hash.len() > ELEMENTS_PER_HOLD || hash.bytes() > BYTES_PER_HOLD {
            return false;
        }
        let mut expired = ExpiredFields::of(hash, now_ms);
        while !expired.check_more(hash) {}
        shown.begin(reply, expired.live_len(hash));
        hash.walk(0, |field| {
            if !field.is_expired(now_ms) {
                shown.write(reply, &field);
            }
            ControlFlow::<()>::Continue(())
        });
        true
    })?;
    if is_shown {
        return Ok(());
    }
    let shared = shared_again(cx, key)?;
    let mut expired = fields(shared.as_ref()).map(|hash| ExpiredFields::of(hash, now_ms));
    let (mut rank, mut has_begun) = (0, false);
    in_strides(cx, move |reply| {
        let (Some(hash), Some(expired)) = (fields(shared.as_ref()), &mut expired) else {
            // The hash may have been removed between counting and sharing it.
            shown.begin(reply, 0);
            return true;
        };
        if !expired.check_more(hash) {
            return false;
        }
        if !std::mem::replace(&mut has_begun, true) {
            shown.begin(reply, expired.live_len(hash));
        }
        walk_stride(hash, rank, |field| {
            if !field.is_expired(now_ms) {
                shown.write(reply, &field);
            }
        });
        rank += ELEMENTS_PER_HOLD;
        rank >= hash.len()
    })
}

/// Passes the fields of one stride to `show`, beginning with the field at `rank`.
fn walk_stride(hash: HashRef<'_>, rank: u64, mut show: impl FnMut(Field<'_>)) {
    let mut left = ELEMENTS_PER_HOLD;
    hash.walk(rank, |field| {
        show(field);
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
}

/// The fields of a hash that have expired and are still in memory, which must not be returned.
struct ExpiredFields {
    now_ms: u64,
    /// Their ranks, in order.
    ranks: Vec<u64>,
    /// The number of fields checked.
    walked: u64,
}

impl ExpiredFields {
    /// The search for expired fields in a hash that does not change.
    fn of(hash: HashRef<'_>, now_ms: u64) -> Self {
        let walked = if hash.may_have_expired(now_ms) { 0 } else { hash.len() };
        ExpiredFields { now_ms, ranks: Vec::new(), walked }
    }

    /// Checks some more fields; returns whether all have been checked.
    fn check_more(&mut self, hash: HashRef<'_>) -> bool {
        if self.walked < hash.len() {
            let mut rank = self.walked;
            walk_stride(hash, self.walked, |field| {
                if field.is_expired(self.now_ms) {
                    self.ranks.push(rank);
                }
                rank += 1;
            });
            self.walked = rank;
        }
        self.walked >= hash.len()
    }

    /// The number of fields that have not expired.
    fn live_len(&self, hash: HashRef<'_>) -> u64 {
        hash.len() - self.ranks.len() as u64
    }

    /// The rank of the field before which `shown_before` fields have not expired.
    fn rank_of_live(&self, shown_before: u64) -> u64 {
        let (mut low, mut high) = (0, self.ranks.len());
        while low < high {
            let middle = low.midpoint(high);
            let rank = self.ranks.get(middle).copied().unwrap_or(u64::MAX);
            if rank - middle as u64 <= shown_before { low = middle + 1 } else { high = middle }
        }
        shown_before + low as u64
    }
}

/// Shares the hash under a key, so that it can be read without its latch.
fn shared_hash(cx: &Context<'_>, key: Key<'_>) -> Result<Option<SharedValue>, WrongType> {
    cx.db.share_as(key, &[Kind::Hash])
}

/// The same for a hash that has been looked up.
fn shared_again(cx: &Context<'_>, key: Key<'_>) -> Result<Option<SharedValue>, WrongType> {
    cx.db.share_again(key, &[Kind::Hash])
}

/// The fields of a shared hash.
fn fields(shared: Option<&SharedValue>) -> Option<HashRef<'_>> {
    shared?.read().hash().ok()
}

/// Executes HMGET with many fields.
pub(super) fn many_fields(cx: &mut Context<'_>, key: Key<'_>) -> Result<(), Error> {
    let shared = shared_hash(cx, key)?;
    named_fields(cx, shared)
}

/// Executes HMGET with long values, after the hash has been looked up.
pub(super) fn long_fields(cx: &mut Context<'_>, key: Key<'_>) -> Result<(), Error> {
    let shared = shared_again(cx, key)?;
    named_fields(cx, shared)
}

fn named_fields(cx: &mut Context<'_>, shared: Option<SharedValue>) -> Result<(), Error> {
    let now_ms = cx.db.now_ms();
    cx.reply.array(cx.args.len() - 2);
    let mut at = 2;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        let (args, reply) = (cx.args, &mut cx.reply);
        while at < args.len() {
            for name in args.from(at).take(ELEMENTS_PER_HOLD as usize) {
                let hash = fields(shared.as_ref());
                match hash.and_then(|hash| hash.get(&Text::new(name), now_ms)) {
                    Some(field) => write(reply, field.value),
                    None => reply.null(),
                }
                at += 1;
            }
            if slice.is_over() && at < args.len() {
                return Ok(JobProgress::ROOM_FOR_REPLIES);
            }
        }
        Ok(JobProgress::Done)
    }))
}

fn hrandfield<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    const OUT_OF_RANGE: Error = Error::fixed("ERR value is out of range");
    let key = cx.key(args.at(1));
    if args.len() == 2 {
        return random_field(cx, key);
    }
    let count = drawn_count(args.at(2))?;
    let shown = match args.get(3) {
        None => Shown::Names,
        Some(option) if args.len() == 4 && is(option, "WITHVALUES") => Shown::NamesAndValues,
        Some(_) => return Err(Error::SYNTAX),
    };
    if shown == Shown::NamesAndValues && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(OUT_OF_RANGE);
    }
    let (seed, now_ms) = (cx.db.random(), cx.db.now_ms());
    let Some(shared) = shared_hash(cx, key)?.filter(|_| count != 0) else {
        cx.reply.array(0);
        return Ok(());
    };
    let mut expired = fields(Some(&shared)).map(|hash| ExpiredFields::of(hash, now_ms));
    let mut drawn = None;
    in_strides(cx, move |reply| {
        let (Some(hash), Some(expired)) = (fields(Some(&shared)), &mut expired) else {
            return true;
        };
        if !expired.check_more(hash) {
            return false;
        }
        let drawn = drawn.get_or_insert_with(|| {
            let live = expired.live_len(hash);
            let drawn = Drawn::new(live, if live == 0 { 0 } else { count }, seed);
            match shown {
                Shown::NamesAndValues => reply.pairs(drawn.left() as usize),
                Shown::Names | Shown::Values => reply.array(drawn.left() as usize),
            }
            drawn
        });
        for rank in drawn.by_ref().take(ELEMENTS_PER_HOLD as usize) {
            if let Some(field) = hash.select(expired.rank_of_live(rank)) {
                if shown == Shown::NamesAndValues {
                    reply.pair();
                }
                shown.write(reply, &field);
            }
        }
        drawn.left() == 0
    })
}

/// Replies with a random field; null if the hash is missing or all drawn fields have expired.
fn random_field(cx: &mut Context<'_>, key: Key<'_>) -> Result<(), Error> {
    /// Maximum fields that are drawn until one has not expired. Expired fields are removed soon.
    const DRAWS: u64 = 64;
    let Context { db, reply, .. } = cx;
    let (now_ms, random) = (db.now_ms(), db.random());
    Ok(db.read_hash(key, |hash| {
        let live = hash.and_then(|hash| {
            let drawn = Drawn::new(hash.len(), DRAWS.cast_signed().wrapping_neg(), random);
            let mut fields = drawn.filter_map(|rank| hash.select(rank));
            fields.find(|field| !field.is_expired(now_ms))
        });
        match live {
            Some(field) => write(reply, field.name),
            None => reply.null(),
        }
    })?)
}

pub(crate) static HRANDFIELD: Command = Command {
    name: "HRANDFIELD",
    syntax: "key [count [WITHVALUES]]",
    arity: -2,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "6.2.0",
    notes: Notes::of("O(N), N being the fields returned").tips(&["nondeterministic_output"]),
    summary: "Returns random fields of a hash",
    subcommands: &[],
    run: hrandfield,
};

fn hscan<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let cursor = ScanOptions::cursor(args)?;
    let Some(shared) = shared_hash(cx, cx.key(args.at(1)))? else {
        end_of_scan(&mut cx.reply);
        return Ok(());
    };
    let options = ScanOptions::parse(args, cursor, Some("NOVALUES"))?;
    let now_ms = cx.db.now_ms();
    let names_only = options.names_only;
    scan(cx, options, if names_only { 1 } else { 2 }, move |cursor, count, show| {
        let hash = fields(Some(&shared));
        Some(hash.map_or(0, |hash| {
            hash.scan(cursor, count, |field| match names_only {
                _ if field.is_expired(now_ms) => {}
                true => show(Scanned::Name(field.name)),
                false => show(Scanned::Pair(field.name, field.value)),
            })
        }))
    })
}

pub(crate) static HSCAN: Command = Command {
    name: "HSCAN",
    syntax: "key cursor [MATCH pattern] [COUNT count] [NOVALUES]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.8.0",
    notes: Notes::of("O(1) for each call; O(N) for a whole walk, N being the fields")
        .history(&[("7.4.0", "NOVALUES")])
        .tips(&["nondeterministic_output"]),
    summary: "Returns some fields of a hash, and a cursor for the next call that is 0 at the end",
    subcommands: &[],
    run: hscan,
};
