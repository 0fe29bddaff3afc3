//! Hashes: setting, reading, incrementing and deleting fields.

use crate::families::elements::{ShortReply, write};
use crate::families::hashes::walk;
use crate::families::strings::long_double::{self, LongDouble};
use crate::runtime::arguments::{integer, value};
use crate::runtime::multi_key::{self, Claimed};
use crate::{Access, Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::types::Refusal;
use nagi_store::types::hash::Pair;
use nagi_store::{Event, HashLimits, StringValue, Text};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[
    &HDEL,
    &HEXISTS,
    &HGET,
    &HGETALL,
    &HINCRBY,
    &HINCRBYFLOAT,
    &HKEYS,
    &HLEN,
    &HMGET,
    &HMSET,
    &HSET,
    &HSETNX,
    &HSTRLEN,
    &HVALS,
];

const NOT_AN_INTEGER: Error = Error::fixed("ERR hash value is not an integer");
const NOT_A_FLOAT: Error = Error::fixed("ERR hash value is not a float");
const NOT_FINITE: Error = Error::fixed("ERR increment would produce NaN or Infinity");

/// Maximum fields of a request that are processed per hold of a latch; a request with more fields
/// claims its key.
pub(super) const FIELDS_PER_HOLD: usize = 64;

pub(super) fn limits(cx: &Context<'_>) -> HashLimits {
    cx.server.config().collection_limits().hash
}

pub(super) fn pair(args: Args<'_>, index: usize) -> Pair<'_> {
    (Text::to_store(args.at(index)), Text::from_input(value(args, index + 1)))
}

/// Sets the fields of a request; `answer` replies with the number of new fields.
fn set_fields<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    command: &'static Command,
    answer: fn(&mut Writer<'_>, usize),
) -> Result<(), Error> {
    if !args.len().is_multiple_of(2) {
        return Err(Error::wrong_arity(&command.name.to_lowercase()));
    }
    let (key, limits) = (cx.key(args.at(1)), limits(cx));
    let count = args.len() / 2 - 1;
    if count > FIELDS_PER_HOLD {
        return set_many_fields(cx, command, answer);
    }
    let added = if count == 1 {
        cx.db.set_fields(key, &[pair(args, 2)], (1, limits), Some(Event::HSet))?
    } else {
        let pairs: Vec<_> = (2..args.len()).step_by(2).map(|at| pair(args, at)).collect();
        cx.db.set_fields(key, &pairs, (count, limits), Some(Event::HSet))?
    };
    answer(&mut cx.reply, added);
    Ok(())
}

/// Sets more fields than may be set under one hold of the latch.
fn set_many_fields(
    cx: &mut Context<'_>,
    command: &'static Command,
    answer: fn(&mut Writer<'_>, usize),
) -> Result<(), Error> {
    let (mut at, mut added) = (2, 0);
    multi_key::claimed(cx, Claimed::all(&command.keys), move |cx, slice| {
        let (key, limits, args) = (cx.key(cx.args.at(1)), limits(cx), cx.args);
        while at < args.len() {
            let end = args.len().min(at + 2 * FIELDS_PER_HOLD);
            let pairs: Vec<_> = (at..end).step_by(2).map(|at| pair(args, at)).collect();
            let event = (at == 2).then_some(Event::HSet);
            added += cx.db.set_fields(key, &pairs, (args.len() / 2 - 1, limits), event)?;
            at = end;
            if slice.is_over() && at < args.len() {
                return Ok(false);
            }
        }
        answer(&mut cx.reply, added);
        Ok(true)
    })
}

fn hset<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    set_fields(cx, args, &HSET, |reply, added| reply.integer(added as i64))
}

pub(crate) static HSET: Command = Command {
    name: "HSET",
    syntax: "key field value [field value ...]",
    arity: -4,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the fields").history(&[("4.0.0", "several fields")]),
    summary: "Sets fields of a hash, which is created if there is none",
    subcommands: &[],
    run: hset,
};

fn hmset<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    set_fields(cx, args, &HMSET, |reply, _| reply.ok())
}

pub(crate) static HMSET: Command = Command {
    name: "HMSET",
    syntax: "key field value [field value ...]",
    arity: -4,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the fields").replaced("4.0.0", "HSET with several fields"),
    summary: "Sets fields of a hash and replies OK",
    subcommands: &[],
    run: hmset,
};

fn hsetnx<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let limits = limits(cx);
    let is_new = cx.db.set_new_field(cx.key(args.at(1)), &pair(args, 2), limits)?;
    cx.reply.integer(is_new.into());
    Ok(())
}

pub(crate) static HSETNX: Command = Command {
    name: "HSETNX",
    syntax: "key field value",
    arity: 4,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::INSERT)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.0.0",
    notes: Notes::of("O(1)"),
    summary: "Sets a field of a hash that it does not have yet",
    subcommands: &[],
    run: hsetnx,
};

fn hget<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (key, name) = (cx.key(args.at(1)), Text::new(args.at(2)));
    let Context { db, reply, .. } = cx;
    let now_ms = db.now_ms();
    Ok(db.read_hash(key, |hash| match hash.and_then(|hash| hash.get(&name, now_ms)) {
        Some(field) => write(reply, field.value),
        None => reply.null(),
    })?)
}

pub(crate) static HGET: Command = Command {
    name: "HGET",
    syntax: "key field",
    arity: 3,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the value of a field of a hash",
    subcommands: &[],
    run: hget,
};

fn hmget<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let key = cx.key(args.at(1));
    if args.len() - 2 > FIELDS_PER_HOLD {
        return walk::many_fields(cx, key);
    }
    let Context { db, reply, .. } = cx;
    let now_ms = db.now_ms();
    let is_shown = db.read_hash(key, |hash| {
        let mut reply = ShortReply::begin(reply);
        reply.add(|reply| reply.array(args.len() - 2));
        for name in args.from(2) {
            let field = hash.and_then(|hash| hash.get(&Text::new(name), now_ms));
            reply.add(|reply| match field {
                Some(field) => write(reply, field.value),
                None => reply.null(),
            });
        }
        reply.end()
    })?;
    if is_shown { Ok(()) } else { walk::long_fields(cx, key) }
}

pub(crate) static HMGET: Command = Command {
    name: "HMGET",
    syntax: "key field [field ...]",
    arity: -3,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the fields"),
    summary: "Returns the values of several fields of a hash",
    subcommands: &[],
    run: hmget,
};

fn hgetall<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    walk::all_fields(cx, args, walk::Shown::NamesAndValues)
}

pub(crate) static HGETALL: Command = Command {
    name: "HGETALL",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the fields of the hash")
        .tips(&["nondeterministic_output_order"]),
    summary: "Returns all fields of a hash with their values",
    subcommands: &[],
    run: hgetall,
};

fn hkeys<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    walk::all_fields(cx, args, walk::Shown::Names)
}

pub(crate) static HKEYS: Command = Command {
    name: "HKEYS",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the fields of the hash")
        .tips(&["nondeterministic_output_order"]),
    summary: "Returns the names of all fields of a hash",
    subcommands: &[],
    run: hkeys,
};

fn hvals<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    walk::all_fields(cx, args, walk::Shown::Values)
}

pub(crate) static HVALS: Command = Command {
    name: "HVALS",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the fields of the hash")
        .tips(&["nondeterministic_output_order"]),
    summary: "Returns the values of all fields of a hash",
    subcommands: &[],
    run: hvals,
};

fn hdel<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.len() - 2 > FIELDS_PER_HOLD {
        let (mut at, mut removed) = (2, 0);
        return multi_key::claimed(cx, Claimed::all(&HDEL.keys), move |cx, slice| {
            let (key, args) = (cx.key(cx.args.at(1)), cx.args);
            while at < args.len() {
                let names: Vec<_> = args.from(at).take(FIELDS_PER_HOLD).map(Text::new).collect();
                let event = (removed == 0).then_some(Event::HDel);
                removed += cx.db.remove_fields(key, &names, event)?;
                at += names.len();
                if slice.is_over() && at < args.len() {
                    return Ok(false);
                }
            }
            cx.reply.integer(removed as i64);
            Ok(true)
        });
    }
    let names: Vec<_> = args.from(2).map(Text::new).collect();
    let removed = cx.db.remove_fields(cx.key(args.at(1)), &names, Some(Event::HDel))?;
    cx.reply.integer(removed as i64);
    Ok(())
}

pub(crate) static HDEL: Command = Command {
    name: "HDEL",
    syntax: "key field [field ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::DELETE)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the fields").history(&[("2.4.0", "several fields")]),
    summary: "Removes fields of a hash, and the hash with its last one",
    subcommands: &[],
    run: hdel,
};

fn hlen<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let len = cx.db.read_hash(cx.key(args.at(1)), |hash| hash.map_or(0, |hash| hash.len()))?;
    cx.reply.integer(len as i64);
    Ok(())
}

pub(crate) static HLEN: Command = Command {
    name: "HLEN",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns how many fields a hash has",
    subcommands: &[],
    run: hlen,
};

fn hexists<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (name, now_ms) = (Text::new(args.at(2)), cx.db.now_ms());
    let is_there = cx.db.read_hash(cx.key(args.at(1)), |hash| {
        hash.is_some_and(|hash| hash.get(&name, now_ms).is_some())
    })?;
    cx.reply.integer(is_there.into());
    Ok(())
}

pub(crate) static HEXISTS: Command = Command {
    name: "HEXISTS",
    syntax: "key field",
    arity: 3,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns whether a hash has a field",
    subcommands: &[],
    run: hexists,
};

fn hstrlen<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (name, now_ms) = (Text::new(args.at(2)), cx.db.now_ms());
    let len = cx.db.read_hash(cx.key(args.at(1)), |hash| {
        hash.and_then(|hash| hash.get(&name, now_ms)).map_or(0, |field| field.value.len())
    })?;
    cx.reply.integer(len as i64);
    Ok(())
}

pub(crate) static HSTRLEN: Command = Command {
    name: "HSTRLEN",
    syntax: "key field",
    arity: 3,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO),
    categories: Category::HASH,
    group: Group::Hash,
    since: "3.2.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the length in bytes of the value of a field",
    subcommands: &[],
    run: hstrlen,
};

fn hincrby<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let amount = integer(args.at(3))?;
    let (key, name, limits) = (cx.key(args.at(1)), Text::to_store(args.at(2)), limits(cx));
    let mut sum = 0;
    cx.db.update_field(key, &name, limits, Event::HIncrBy, |old| {
        let old = match old {
            None => 0,
            Some(StringValue::Int(value)) => value,
            Some(_) => return Err(NOT_AN_INTEGER),
        };
        sum = old.checked_add(amount).ok_or(Error::from(Refusal::Overflow))?;
        Ok(sum.to_string())
    })?;
    cx.reply.integer(sum);
    Ok(())
}

pub(crate) static HINCRBY: Command = Command {
    name: "HINCRBY",
    syntax: "key field increment",
    arity: 4,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.0.0",
    notes: Notes::of("O(1)"),
    summary: "Increments the integer in a field by an amount, from 0 if it does not exist",
    subcommands: &[],
    run: hincrby,
};

fn hincrbyfloat<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let amount =
        LongDouble::parse(args.at(3)).ok_or(Error::fixed("ERR value is not a valid float"))?;
    if !amount.is_finite() {
        return Err(Error::fixed("ERR value is NaN or Infinity"));
    }
    let (key, name, limits) = (cx.key(args.at(1)), Text::to_store(args.at(2)), limits(cx));
    let sum = cx.db.update_field(key, &name, limits, Event::HIncrByFloat, |old| {
        let old = match old {
            None => LongDouble::parse(b"0"),
            // Too long for a number, so it is not copied under the latch.
            Some(old) if old.len() > long_double::MAX_BYTES => None,
            Some(old) => old.with_bytes(LongDouble::parse),
        };
        let sum = old.ok_or(NOT_A_FLOAT)?.checked_add(amount).ok_or(NOT_FINITE)?;
        Ok::<_, Error>(sum.format())
    })?;
    cx.reply.bulk(sum.as_bytes());
    Ok(())
}

pub(crate) static HINCRBYFLOAT: Command = Command {
    name: "HINCRBYFLOAT",
    syntax: "key field increment",
    arity: 4,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "2.6.0",
    notes: Notes::of("O(1)"),
    summary: "Increments the floating-point number in a field by an amount",
    subcommands: &[],
    run: hincrbyfloat,
};
