//! Hashes as a whole: all of their fields, some at random, and walks by cursor.

use crate::families::elements::{
    Drawn, ELEMENTS_PER_HOLD, ScanOptions, Scanned, drawn_count, end_of_scan, in_strides, scan,
    write,
};
use crate::runtime::arguments::is;
use crate::runtime::suspension::Slice;
use crate::{Access, Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::{Field, HashRef, Key, SharedValue, Text, WrongType};
use std::ops::ControlFlow;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&HRANDFIELD, &HSCAN];

/// What is shown of each field.
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

    /// Writes the head of a reply that shows each of so many fields.
    fn begin(self, reply: &mut Writer<'_>, fields: u64) {
        match self {
            Shown::NamesAndValues => reply.map(fields as usize),
            Shown::Names | Shown::Values => reply.array(fields as usize),
        }
    }
}

/// Shows all fields of the hash that a request names (HGETALL, HKEYS, HVALS).
pub(super) fn all_fields<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    shown: Shown,
) -> Result<(), Error> {
    let key = cx.key(args.at(1));
    let Context { db, reply, .. } = cx;
    let is_shown = db.read_hash(key, |hash| {
        let len = hash.map_or(0, |hash| hash.len());
        if len > ELEMENTS_PER_HOLD {
            return false;
        }
        shown.begin(reply, len);
        hash.into_iter().for_each(|hash| show_all(hash, |field| shown.write(reply, &field)));
        true
    })?;
    if is_shown {
        return Ok(());
    }
    // It may have gone between the two.
    let shared = shared_hash(cx, key)?;
    let len = fields(shared.as_ref()).map_or(0, |hash| hash.len());
    shown.begin(&mut cx.reply, len);
    let mut rank = 0;
    in_strides(cx, move |reply| {
        let mut left = ELEMENTS_PER_HOLD;
        fields(shared.as_ref()).and_then(|hash| {
            hash.walk(rank, |field| {
                shown.write(reply, &field);
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        });
        rank += ELEMENTS_PER_HOLD;
        rank >= len
    })
}

/// The value under a key, which is a hash, to be read for longer.
fn shared_hash(cx: &Context<'_>, key: Key<'_>) -> Result<Option<SharedValue>, WrongType> {
    let shared = cx.db.share(key);
    shared.as_ref().map(|shared| shared.read().hash()).transpose()?;
    Ok(shared)
}

/// The fields of one.
fn fields(shared: Option<&SharedValue>) -> Option<HashRef<'_>> {
    shared?.read().hash().ok()
}

fn show_all(hash: HashRef<'_>, mut show: impl FnMut(Field<'_>)) {
    hash.walk(0, |field| {
        show(field);
        ControlFlow::<()>::Continue(())
    });
}

/// Shows the values of the fields that a request names, which are many (HMGET).
pub(super) fn named_fields(cx: &mut Context<'_>, key: Key<'_>) -> Result<(), Error> {
    let shared = shared_hash(cx, key)?;
    cx.reply.array(cx.args.len() - 2);
    let mut at = 2;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        let (args, reply) = (cx.args, &mut cx.reply);
        while at < args.len() {
            for name in args.from(at).take(ELEMENTS_PER_HOLD as usize) {
                let hash = fields(shared.as_ref());
                match hash.and_then(|hash| hash.get(&Text::new(name))) {
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
        let random = cx.db.random();
        let Context { db, reply, .. } = cx;
        return Ok(db.read_hash(key, |hash| {
            match hash.and_then(|hash| hash.select(random % hash.len().max(1))) {
                Some(field) => write(reply, field.name),
                None => reply.null(),
            }
        })?);
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
    let seed = cx.db.random();
    let Some(shared) = shared_hash(cx, key)?.filter(|_| count != 0) else {
        cx.reply.array(0);
        return Ok(());
    };
    let mut drawn = Drawn::new(shared.read().len(), count, seed);
    match shown {
        Shown::NamesAndValues => cx.reply.pairs(drawn.left() as usize),
        Shown::Names | Shown::Values => cx.reply.array(drawn.left() as usize),
    }
    in_strides(cx, move |reply| {
        for rank in drawn.by_ref().take(ELEMENTS_PER_HOLD as usize) {
            if let Some(field) = fields(Some(&shared)).and_then(|hash| hash.select(rank)) {
                if shown == Shown::NamesAndValues {
                    reply.pair();
                }
                shown.write(reply, &field);
            }
        }
        drawn.left() == 0
    })
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
    summary: "Returns fields of a hash that are drawn at random",
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
    let names_only = options.names_only;
    scan(cx, options, if names_only { 1 } else { 2 }, move |cursor, count, show| {
        let hash = fields(Some(&shared));
        Some(hash.map_or(0, |hash| {
            hash.scan(cursor, count, |field| {
                show(match names_only {
                    true => Scanned::Name(field.name),
                    false => Scanned::Pair(field.name, field.value),
                });
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
