//! Storing values, counters, and removal.

use super::arguments::{flags, number, stored_expiry};
use super::watch::{self, Offer};
use super::{Context, Error, Verb, operation, statistics};
use crate::runtime::arguments::value;
use crate::{Access, Keys};
use nagi_proto::Args;
use nagi_store::types::counter::Arithmetic;
use nagi_store::types::string::{Condition, SetOptions};
use nagi_store::types::versioned::{Count, Counted, Mode, Write, Written};

fn set<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let stored = store(cx, args, Condition::Always);
    if stored == Err(Error::OUT_OF_MEMORY) {
        // The old value is outdated, since the client wanted to replace it.
        cx.db.delete(cx.key(args.at(1)));
    }
    stored
}

pub(super) static SET: Verb = Verb {
    name: "set",
    right: "set",
    syntax: "<key> <flags> <exptime> <bytes> [noreply]",
    words: 6,
    keys: Keys::one(Access::OW.union(Access::UPDATE)),
    summary: "Stores a value",
    run: set,
};

fn add<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    store(cx, args, Condition::IfAbsent)
}

pub(super) static ADD: Verb = Verb {
    name: "add",
    right: "set",
    syntax: "<key> <flags> <exptime> <bytes> [noreply]",
    words: 6,
    keys: Keys::one(Access::OW.union(Access::INSERT)),
    summary: "Stores a value under a key that does not exist",
    run: add,
};

fn replace<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    store(cx, args, Condition::IfPresent)
}

pub(super) static REPLACE: Verb = Verb {
    name: "replace",
    right: "set",
    syntax: "<key> <flags> <exptime> <bytes> [noreply]",
    words: 6,
    keys: Keys::one(Access::OW.union(Access::UPDATE)),
    summary: "Stores a value under a key that exists",
    run: replace,
};

/// Stores a value if the condition allows it.
fn store<'a>(cx: &mut Context<'a>, args: Args<'a>, condition: Condition) -> Result<(), Error> {
    let options = SetOptions { condition, ..options(cx, args)? };
    let (key, value) = (cx.key(args.at(1)), value(args, 5));
    let offer = watch::offered(cx, || Offer::plain(options, value.len()));
    if let Err(error) = operation::make_room(cx, key, value.len()) {
        watch::refused(cx, key, "no_memory", offer);
        return Err(error);
    }
    cx.tally.verbs.sets.add(1);
    watch::looks_up(cx, key);
    let stored = cx.db.set(key, value, options);
    cx.tally.verbs.stored.add(stored.into());
    watch::stored(cx, key, if stored { "stored" } else { "not_stored" }, offer);
    cx.reply.line(if stored { "STORED" } else { "NOT_STORED" });
    Ok(())
}

/// The flags and the expiry of a storage request.
pub(super) fn options(cx: &Context<'_>, args: Args<'_>) -> Result<SetOptions, Error> {
    let flags = flags(args.at(2)).ok_or(Error::BAD_LINE)?;
    let expiry = stored_expiry(args.at(3), cx.db.now_ms()).ok_or(Error::BAD_LINE)?;
    Ok(SetOptions { condition: Condition::Always, expiry, flags })
}

fn append<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    extend(cx, args, Mode::Append)
}

pub(super) static APPEND: Verb = Verb {
    name: "append",
    right: "append",
    syntax: "<key> <flags> <exptime> <bytes> [noreply]",
    words: 6,
    keys: Keys::one(Access::RW.union(Access::INSERT)),
    summary: "Adds to the end of a value, whose flags and expiry stay",
    run: append,
};

fn prepend<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    extend(cx, args, Mode::Prepend)
}

pub(super) static PREPEND: Verb = Verb {
    name: "prepend",
    right: "append",
    syntax: "<key> <flags> <exptime> <bytes> [noreply]",
    words: 6,
    keys: Keys::one(Access::RW.union(Access::INSERT)),
    summary: "Adds to the front of a value, whose flags and expiry stay",
    run: prepend,
};

/// Appends or prepends to an existing value.
fn extend<'a>(cx: &mut Context<'a>, args: Args<'a>, mode: Mode) -> Result<(), Error> {
    let write = write(cx, args, mode, None)?;
    let written = operation::store(cx, cx.key(args.at(1)), write)?;
    // If the value would become too long, memcached also replies with NOT_STORED.
    let stored = matches!(written, Written::Done { .. });
    cx.reply.line(if stored { "STORED" } else { "NOT_STORED" });
    Ok(())
}

/// Reads the line of a storage request.
fn write<'a>(
    cx: &Context<'_>,
    args: Args<'a>,
    mode: Mode,
    expected: Option<u64>,
) -> Result<Write<'a>, Error> {
    let flags = flags(args.at(2)).ok_or(Error::BAD_LINE)?;
    let expiry = stored_expiry(args.at(3), cx.db.now_ms()).ok_or(Error::BAD_LINE)?;
    Ok(Write {
        mode,
        value: value(args, args.len() - 1),
        flags,
        expiry,
        expected,
        allow_older: false,
        vivify: None,
        version: None,
        versioned: false,
        limit_bytes: cx.server.config().memcached_item_limit.bytes(),
    })
}

fn cas<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let expected = number(args.at(5)).ok_or(Error::BAD_LINE)?;
    let write = write(cx, args, Mode::Set, Some(expected))?;
    let line = match operation::store(cx, cx.key(args.at(1)), write)? {
        Written::Done { .. } => "STORED",
        Written::Missing => "NOT_FOUND",
        _ => "EXISTS",
    };
    cx.reply.line(line);
    Ok(())
}

pub(super) static CAS: Verb = Verb {
    name: "cas",
    right: "set",
    syntax: "<key> <flags> <exptime> <bytes> <cas unique> [noreply]",
    words: 7,
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    summary: "Stores a value if its version is still the one that gets returned",
    run: cas,
};

fn incr<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    step(cx, args, Arithmetic::Up)
}

pub(super) static INCR: Verb = Verb {
    name: "incr",
    right: "incrby",
    syntax: "<key> <value> [noreply]",
    words: 3,
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    summary: "Adds to an unsigned 64-bit number, which wraps around at its end",
    run: incr,
};

fn decr<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    step(cx, args, Arithmetic::Down)
}

pub(super) static DECR: Verb = Verb {
    name: "decr",
    right: "decrby",
    syntax: "<key> <value> [noreply]",
    words: 3,
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    summary: "Takes from an unsigned 64-bit number, which stops at 0",
    run: decr,
};

/// Increments or decrements a counter.
fn step<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    direction: fn(u64) -> Arithmetic,
) -> Result<(), Error> {
    let amount = nagi_store::parse_u64(args.at(2))
        .ok_or(Error("CLIENT_ERROR invalid numeric delta argument"))?;
    let count = Count::plain(direction(amount));
    match operation::count(cx, cx.key(args.at(1)), &count)? {
        Counted::At { number, .. } => cx.reply.number(number),
        Counted::Changed | Counted::Missing => cx.reply.line("NOT_FOUND"),
    }
    Ok(())
}

fn delete<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    // Old versions had a time of 0 as an argument; memcached 1.6.18 refuses any other argument with
    // this text.
    match (args.len(), args.get(2)) {
        (2, _) | (3, Some(b"0")) => {}
        (3 | 4, _) => {
            return Err(Error(
                "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]",
            ));
        }
        _ => return Err(Error::UNKNOWN),
    }
    let key = cx.key(args.at(1));
    watch::looks_up(cx, key);
    let shown = watch::to_be_deleted(cx, key);
    let found = cx.db.delete(key);
    watch::deleted(cx, key, "delete", shown.filter(|_| found));
    statistics::count_removal(cx.tally, found);
    cx.reply.line(if found { "DELETED" } else { "NOT_FOUND" });
    Ok(())
}

pub(super) static DELETE: Verb = Verb {
    name: "delete",
    right: "del",
    syntax: "<key> [noreply]",
    words: 2,
    keys: Keys::one(Access::RM.union(Access::DELETE)),
    summary: "Removes a key",
    run: delete,
};
