//! Renaming keys, copying and moving them to other databases, and returning a random key.

use crate::runtime::arguments::{RemainingArguments, database, integer, is};
use crate::runtime::multi_key;
use crate::runtime::suspension::Slice;
use crate::{
    Access, Category, Command, Context, Error, Flags, Group, JobProgress, KeyGroup, Keys, Notes,
};
use nagi_proto::resp::Writer;
use nagi_proto::{Args, Chunk};
use nagi_store::EntryView;
use nagi_store::types::key;
use nagi_store::types::relocation::Relocated;

/// The family's rows.
pub(crate) static ALL: &[&Command] =
    &[&COPY, &MOVE, &RANDOMKEY, &RENAME, &RENAMENX, &SWAPDB, &TOUCH];

/// Entries between two readings of the clock.
const STRIDE: usize = 64;

const NO_SUCH_KEY: Error = Error::fixed("ERR no such key");
const SAME_PLACE: Error = Error::fixed("ERR source and destination objects are the same");

fn rename<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    match cx.db.rename(cx.key(args.at(1)), cx.key(args.at(2)), true) {
        Relocated::Missing => return Err(NO_SUCH_KEY),
        Relocated::Done | Relocated::Occupied => cx.reply.ok(),
    }
    Ok(())
}

pub(crate) static RENAME: Command = Command {
    name: "RENAME",
    syntax: "key newkey",
    arity: 3,
    flags: Flags::WRITE,
    keys: Keys::groups(&[
        KeyGroup::at(1, Access::RW.union(Access::ACCESS).union(Access::DELETE)),
        KeyGroup::at(2, Access::OW.union(Access::UPDATE)),
    ]),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Renames a key, replacing the other one if it exists",
    subcommands: &[],
    run: rename,
};

fn renamenx<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    match cx.db.rename(cx.key(args.at(1)), cx.key(args.at(2)), false) {
        Relocated::Missing => return Err(NO_SUCH_KEY),
        Relocated::Done => cx.reply.integer(1),
        Relocated::Occupied => cx.reply.integer(0),
    }
    Ok(())
}

pub(crate) static RENAMENX: Command = Command {
    name: "RENAMENX",
    syntax: "key newkey",
    arity: 3,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::groups(&[
        KeyGroup::at(1, Access::RW.union(Access::ACCESS).union(Access::DELETE)),
        KeyGroup::at(2, Access::OW.union(Access::INSERT)),
    ]),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "1.0.0",
    notes: Notes::of("O(1)").history(&[("3.2.0", "Both names may be the same")]),
    summary: "Renames a key, unless the other one exists",
    subcommands: &[],
    run: renamenx,
};

fn copy<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (mut index, mut replace) = (cx.db.index(), false);
    let mut rest = RemainingArguments::from(args, 3);
    while let Some(option) = rest.next() {
        if is(option, "REPLACE") {
            replace = true;
        } else if is(option, "DB") {
            index = database(cx, rest.value()?)?;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    if index == cx.db.index() && args.at(1) == args.at(2) {
        return Err(SAME_PLACE);
    }
    let outcome = cx.db.copy(cx.key(args.at(1)), index, cx.key(args.at(2)), replace);
    cx.reply.integer(i64::from(outcome == Relocated::Done));
    Ok(())
}

pub(crate) static COPY: Command = Command {
    name: "COPY",
    syntax: "source destination [DB destination-db] [REPLACE]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[
        KeyGroup::at(1, Access::RO.union(Access::ACCESS)),
        KeyGroup::at(2, Access::OW.union(Access::UPDATE)),
    ]),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "6.2.0",
    notes: Notes::of("O(N), N being the length of the string"),
    summary: "Copies a key's value to another key",
    subcommands: &[],
    run: copy,
};

fn move_key<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let index = database(cx, args.at(2))?;
    if index == cx.db.index() {
        return Err(SAME_PLACE);
    }
    let outcome = cx.db.move_to(cx.key(args.at(1)), index);
    cx.reply.integer(i64::from(outcome == Relocated::Done));
    Ok(())
}

pub(crate) static MOVE: Command = Command {
    name: "MOVE",
    syntax: "key db",
    arity: 3,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Moves a key to another database, unless it exists there",
    subcommands: &[],
    run: move_key,
};

fn swapdb<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let index = |place: usize, text: &'static str| {
        let number = integer(args.at(place)).ok().filter(|it| i32::try_from(*it).is_ok());
        number.map(|_| args.at(place)).ok_or(Error::fixed(text))
    };
    let first = index(1, "ERR invalid first DB index")?;
    let second = index(2, "ERR invalid second DB index")?;
    cx.db.swap(database(cx, first)?, database(cx, second)?);
    cx.reply.ok();
    Ok(())
}

pub(crate) static SWAPDB: Command = Command {
    name: "SWAPDB",
    syntax: "index1 index2",
    arity: 3,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::WHOLE,
    categories: Category::KEYSPACE.union(Category::DANGEROUS),
    group: Group::Server,
    since: "4.0.0",
    notes: Notes::of("O(1)"),
    summary: "Exchanges two databases for all their clients at one moment",
    subcommands: &[],
    run: swapdb,
};

fn randomkey<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let Context { db, reply, .. } = cx;
    if let Some(long) = db.random_entry(|entry| write_short(reply, &entry)) {
        long.into_iter().for_each(|key| reply.bulk_chunk(key));
        return Ok(());
    }
    // Either no key exists, or nearly all have expired and have not been removed yet.
    let mut walk = key::Walk::default();
    cx.start(Box::new(move |cx| Ok(first_key(cx, &mut walk))))
}

/// Writes an entry's key. A long key is returned instead, to be written without the latch.
fn write_short(reply: &mut Writer<'_>, entry: &EntryView<'_>) -> Option<Chunk> {
    let long = entry.long_key();
    if long.is_none() {
        reply.bulk(entry.key());
    }
    long
}

/// Searches for a key for one slice, and replies with the first that it finds.
fn first_key(cx: &mut Context<'_>, walk: &mut key::Walk) -> JobProgress {
    let Context { db, reply, .. } = cx;
    let slice = Slice::begin();
    loop {
        let mut found: Option<Option<Chunk>> = None;
        db.walk(walk, STRIDE, |entry| {
            if found.is_none() {
                found = Some(write_short(reply, &entry));
            }
        });
        if let Some(long) = found {
            long.into_iter().for_each(|key| reply.bulk_chunk(key));
            return JobProgress::Done;
        }
        if walk.cursor() == Some(0) {
            reply.null();
            return JobProgress::Done;
        }
        if slice.is_over() {
            return JobProgress::NEXT_TICK;
        }
    }
}

pub(crate) static RANDOMKEY: Command = Command {
    name: "RANDOMKEY",
    syntax: "",
    arity: 1,
    flags: Flags::READONLY,
    keys: Keys::ANY,
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "1.0.0",
    notes: Notes::of("O(1)").tips(&[
        "request_policy:all_shards",
        "response_policy:special",
        "nondeterministic_output",
    ]),
    summary: "Returns a random key of the database",
    subcommands: &[],
    run: randomkey,
};

fn touch<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if multi_key::is_long(&TOUCH.keys, args) {
        return multi_key::count(cx, &TOUCH.keys, |db, key| {
            db.touching().get(key, |entry| entry.is_some())
        });
    }
    let keys: Vec<_> = args.from(1).map(|key| cx.key(key)).collect();
    cx.reply.integer(cx.db.touching().count_existing(&keys) as i64);
    Ok(())
}

pub(crate) static TOUCH: Command = Command {
    name: "TOUCH",
    syntax: "key [key ...]",
    arity: -2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::all(Access::RO),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "3.2.1",
    notes: Notes::of("O(N), N being the keys")
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"]),
    summary: "Marks keys as used, for eviction, and returns how many of them exist",
    subcommands: &[],
    run: touch,
};
