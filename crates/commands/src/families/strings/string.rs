//! Strings, and counters, which are strings that hold a number.

use crate::families::strings::long_value;
use crate::runtime::arguments::{RemainingArguments, Time, integer, is, value};
use crate::runtime::multi_key::{self, Claimed};
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::types::string::{Condition, End, Expiry, SetOptions};
use nagi_store::{EntryView, Key, StringInput, StringValue, WrongType};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[
    &APPEND, &DECR, &DECRBY, &GET, &GETDEL, &GETEX, &GETSET, &INCR, &INCRBY, &MGET, &MSET, &MSETNX,
    &PSETEX, &SET, &SETEX, &SETNX, &STRLEN,
];

fn get<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let key = cx.key(args.at(1));
    let Context { db, reply, .. } = cx;
    db.get(key, |entry| string_of(reply, entry))?;
    Ok(())
}

pub(crate) static GET: Command = Command {
    name: "GET",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::STRING,
    group: Group::String,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the string stored under a key",
    subcommands: &[],
    run: get,
};

fn getdel<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let key = cx.key(args.at(1));
    let Context { db, reply, .. } = cx;
    db.get_and_delete(key, |value| string(reply, value))?;
    Ok(())
}

pub(crate) static GETDEL: Command = Command {
    name: "GETDEL",
    syntax: "key",
    arity: 2,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::DELETE)),
    categories: Category::STRING,
    group: Group::String,
    since: "6.2.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the string stored under a key and removes the key",
    subcommands: &[],
    run: getdel,
};

fn getex<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let mut rest = RemainingArguments::from(args, 2);
    let mut time = None;
    let mut persist = false;
    while let Some(option) = rest.next() {
        if is(option, "PERSIST") && time.is_none() {
            persist = true;
        } else if let Some(unit) = Time::of_option(option)
            && !persist
            && time.is_none_or(|(before, _)| before == unit)
        {
            time = Some((unit, rest.value()?));
        } else {
            return Err(Error::SYNTAX);
        }
    }
    let key = cx.key(args.at(1));
    let Context { db, reply, .. } = cx;
    let expiry = match time.map(|(unit, value)| unit.expiry(value, db.now_ms(), "getex")) {
        Some(Ok(expiry)) => expiry,
        // Redis checks the time only if the key exists.
        Some(Err(error)) => match db.get(key, |entry| entry.map(|entry| entry.string().is_ok())) {
            Some(true) => return Err(error),
            Some(false) => return Err(Error::WRONG_TYPE),
            None => return Ok(string_of(reply, None)?),
        },
        None if persist => Expiry::Never,
        None => Expiry::Keep,
    };
    Ok(db.get_and_touch(key, expiry, |entry| string_of(reply, entry))??)
}

pub(crate) static GETEX: Command = Command {
    name: "GETEX",
    syntax: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
             PXAT unix-time-milliseconds | PERSIST]",
    arity: -2,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::STRING,
    group: Group::String,
    since: "6.2.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the string stored under a key and changes when the key expires",
    subcommands: &[],
    run: getex,
};

fn getset<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (key, value) = (cx.key(args.at(1)), value(args, 2));
    let Context { db, reply, .. } = cx;
    db.set_and_get(key, value, SetOptions::default(), |old| string(reply, old))?;
    Ok(())
}

pub(crate) static GETSET: Command = Command {
    name: "GETSET",
    syntax: "key value",
    arity: 3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::STRING,
    group: Group::String,
    since: "1.0.0",
    notes: Notes::of("O(1)").replaced("6.2.0", "SET with GET"),
    summary: "Stores a string under a key and returns the one that it replaces",
    subcommands: &[],
    run: getset,
};

fn mget<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    cx.reply.array(args.len() - 1);
    if multi_key::is_long(&MGET.keys, args) {
        return multi_key::each_key(
            cx,
            &MGET.keys,
            (),
            |cx, position, ()| {
                let key = cx.key(cx.args.at(position));
                let Context { db, reply, .. } = cx;
                db.get(key, |entry| string_or_null(reply, entry));
            },
            |_, ()| {},
        );
    }
    let keys: Vec<_> = args.from(1).map(|key| cx.key(key)).collect();
    let Context { db, reply, .. } = cx;
    db.get_many(&keys, |entry| string_or_null(reply, entry));
    Ok(())
}

pub(crate) static MGET: Command = Command {
    name: "MGET",
    syntax: "key [key ...]",
    arity: -2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::all(Access::RO.union(Access::ACCESS)),
    categories: Category::STRING,
    group: Group::String,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the keys").tips(&["request_policy:multi_shard"]),
    summary: "Returns the strings stored under several keys, atomically",
    subcommands: &[],
    run: mget,
};

fn strlen<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let len = cx.db.len(cx.key(args.at(1)))?;
    cx.reply.integer(len as i64);
    Ok(())
}

pub(crate) static STRLEN: Command = Command {
    name: "STRLEN",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO),
    categories: Category::STRING,
    group: Group::String,
    since: "2.2.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the length in bytes of the string stored under a key",
    subcommands: &[],
    run: strlen,
};

/// Writes a string; null if there is none.
fn string(reply: &mut Writer<'_>, value: Option<StringValue<'_>>) {
    match value {
        None => reply.null(),
        Some(StringValue::Bytes(bytes)) => reply.bulk(bytes),
        Some(StringValue::Int(value)) => reply.bulk_integer(value),
        Some(StringValue::Rope(rope)) => reply.bulk_chunks(rope.share(), 0..rope.len()),
    }
}

/// Writes the string under a key; null if the key does not exist, and an error for other types.
#[inline]
fn string_of(reply: &mut Writer<'_>, entry: Option<EntryView<'_>>) -> Result<(), WrongType> {
    string(reply, entry.map(|entry| entry.string()).transpose()?);
    Ok(())
}

/// Writes the string under a key; null if the key does not exist or has another type.
fn string_or_null(reply: &mut Writer<'_>, entry: Option<EntryView<'_>>) {
    string(reply, entry.and_then(|entry| entry.string().ok()));
}

fn set<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let key = cx.key(args.at(1));
    let (options, returns_old) =
        if args.len() == 3 { Default::default() } else { set_options(args, cx.db.now_ms())? };
    let value = value(args, 2);
    let Context { db, reply, .. } = cx;
    if returns_old {
        db.set_and_get(key, value, options, |old| string(reply, old))?;
    } else if db.set(key, value, options) {
        reply.ok();
    } else {
        reply.null();
    }
    Ok(())
}

/// Parses the options after the value: how to set it, and whether to return the old value.
fn set_options(args: Args<'_>, now_ms: u64) -> Result<(SetOptions, bool), Error> {
    let mut rest = RemainingArguments::from(args, 3);
    let mut options = SetOptions::default();
    let mut returns_old = false;
    let mut time = None;
    while let Some(option) = rest.next() {
        if is(option, "NX") && options.condition != Condition::IfPresent {
            options.condition = Condition::IfAbsent;
        } else if is(option, "XX") && options.condition != Condition::IfAbsent {
            options.condition = Condition::IfPresent;
        } else if is(option, "GET") {
            returns_old = true;
        } else if is(option, "KEEPTTL") && time.is_none() {
            options.expiry = Expiry::Keep;
        } else if let Some(unit) = Time::of_option(option)
            && options.expiry == Expiry::Never
            && time.is_none_or(|(before, _)| before == unit)
        {
            time = Some((unit, rest.value()?));
        } else {
            return Err(Error::SYNTAX);
        }
    }
    if let Some((unit, value)) = time {
        options.expiry = unit.expiry(value, now_ms, "set")?;
    }
    Ok((options, returns_old))
}

/// The access of a request to its key: it reads the old value only with GET.
fn set_access(args: Args<'_>) -> Access {
    if args.from(3).any(|word| is(word, "GET")) {
        return Access::RW.union(Access::ACCESS).union(Access::UPDATE);
    }
    Access::OW.union(Access::UPDATE)
}

pub(crate) static SET: Command = Command {
    name: "SET",
    syntax: "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds \
             | PXAT unix-time-milliseconds | KEEPTTL]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::only(
        KeyGroup::at(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))
            .depending_on_options(set_access),
    ),
    categories: Category::STRING,
    group: Group::String,
    since: "1.0.0",
    notes: Notes::of("O(1)").history(&[
        ("2.6.12", "EX, PX, NX and XX"),
        ("6.0.0", "KEEPTTL"),
        ("6.2.0", "GET, EXAT and PXAT"),
        ("7.0.0", "NX together with GET"),
    ]),
    summary: "Stores a string under a key of any type, with conditions and an expiry",
    subcommands: &[],
    run: set,
};

fn setnx<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let options = SetOptions { condition: Condition::IfAbsent, ..SetOptions::default() };
    let stored = cx.db.set(cx.key(args.at(1)), value(args, 2), options);
    cx.reply.integer(i64::from(stored));
    Ok(())
}

pub(crate) static SETNX: Command = Command {
    name: "SETNX",
    syntax: "key value",
    arity: 3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::OW.union(Access::INSERT)),
    categories: Category::STRING,
    group: Group::String,
    since: "1.0.0",
    notes: Notes::of("O(1)").replaced("2.6.12", "SET with NX"),
    summary: "Stores a string under a key that does not exist",
    subcommands: &[],
    run: setnx,
};

fn setex<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    set_for(cx, args, Time::Seconds, "setex")
}

pub(crate) static SETEX: Command = Command {
    name: "SETEX",
    syntax: "key seconds value",
    arity: 4,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::one(Access::OW.union(Access::UPDATE)),
    categories: Category::STRING,
    group: Group::String,
    since: "2.0.0",
    notes: Notes::of("O(1)").replaced("2.6.12", "SET with EX"),
    summary: "Stores a string under a key for a number of seconds",
    subcommands: &[],
    run: setex,
};

fn psetex<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    set_for(cx, args, Time::Milliseconds, "psetex")
}

pub(crate) static PSETEX: Command = Command {
    name: "PSETEX",
    syntax: "key milliseconds value",
    arity: 4,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::one(Access::OW.union(Access::UPDATE)),
    categories: Category::STRING,
    group: Group::String,
    since: "2.6.0",
    notes: Notes::of("O(1)").replaced("2.6.12", "SET with PX"),
    summary: "Stores a string under a key for a number of milliseconds",
    subcommands: &[],
    run: psetex,
};

/// Stores a string with a time to live, the second argument.
fn set_for<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    unit: Time,
    command: &str,
) -> Result<(), Error> {
    let expiry = unit.expiry(args.at(2), cx.db.now_ms(), command)?;
    let options = SetOptions { expiry, ..SetOptions::default() };
    cx.db.set(cx.key(args.at(1)), value(args, 3), options);
    cx.reply.ok();
    Ok(())
}

fn mset<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.len().is_multiple_of(2) {
        return Err(Error::wrong_arity("mset"));
    }
    if multi_key::is_long(&MSET.keys, args) {
        return multi_key::each_key(cx, &MSET.keys, (), set_pair, |cx, ()| cx.reply.ok());
    }
    cx.db.set_many(pairs(cx, args), false);
    cx.reply.ok();
    Ok(())
}

pub(crate) static MSET: Command = Command {
    name: "MSET",
    syntax: "key value [key value ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::pairs(Access::OW.union(Access::UPDATE)),
    categories: Category::STRING,
    group: Group::String,
    since: "1.0.1",
    notes: Notes::of("O(N), N being the keys")
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]),
    summary: "Stores several strings atomically",
    subcommands: &[],
    run: mset,
};

fn msetnx<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.len().is_multiple_of(2) {
        return Err(Error::wrong_arity("msetnx"));
    }
    if multi_key::is_long(&MSETNX.keys, args) {
        return set_all_if_absent(cx);
    }
    let stored = cx.db.set_many(pairs(cx, args), true);
    cx.reply.integer(i64::from(stored));
    Ok(())
}

pub(crate) static MSETNX: Command = Command {
    name: "MSETNX",
    syntax: "key value [key value ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::pairs(Access::OW.union(Access::INSERT)),
    categories: Category::STRING,
    group: Group::String,
    since: "1.0.1",
    notes: Notes::of("O(N), N being the keys"),
    summary: "Stores several strings atomically if none of the keys exists",
    subcommands: &[],
    run: msetnx,
};

/// The keys of a request, each with its value.
fn pairs<'a>(cx: &Context<'a>, args: Args<'a>) -> Vec<(Key<'a>, StringInput<'a>)> {
    let keys = args.from(1).step_by(2);
    let values = (2..args.len()).step_by(2).map(|index| value(args, index));
    keys.zip(values).map(|(key, value)| (cx.key(key), value)).collect()
}

/// Sets the key at `position` to the value after it, for MSET with many keys.
fn set_pair(cx: &mut Context<'_>, position: usize, (): &mut ()) {
    let key = cx.key(cx.args.at(position));
    cx.db.set(key, value(cx.args, position + 1), SetOptions::default());
}

/// MSETNX with very many keys: first checks all keys, and then sets all or none.
fn set_all_if_absent(cx: &mut Context<'_>) -> Result<(), Error> {
    let (mut look, mut exists) = (multi_key::Walk::new(&MSETNX.keys), false);
    let mut set = look.clone();
    multi_key::claimed(cx, Claimed::all(&MSETNX.keys), move |cx, slice| {
        let is_over = |_: &Context<'_>| slice.is_over();
        let looked = look.go_on(cx, is_over, |cx, position, _| {
            exists |= cx.db.kind(cx.key(cx.args.at(position))).is_some();
        });
        let set_one = |cx: &mut Context<'_>, position, _: &_| set_pair(cx, position, &mut ());
        let done = exists || looked && set.go_on(cx, is_over, set_one);
        if done {
            cx.reply.integer(i64::from(!exists));
        }
        Ok(done)
    })
}

fn append<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let most = cx.server.config().proto_max_bulk_len.bytes();
    let key = cx.key(args.at(1));
    let bytes = match value(args, 2) {
        StringInput::Bytes(bytes) => bytes,
        StringInput::Rope(rope) => {
            if cx.db.append_if_absent(key, StringInput::Rope(rope.clone())) {
                cx.reply.integer(rope.len() as i64);
                return Ok(());
            }
            return long_value::write(cx, &APPEND.keys, rope, None);
        }
    };
    let len = cx.db.extend(key, bytes, End::Back, Condition::Always, most)?;
    cx.reply.integer(len.unwrap_or(0) as i64);
    Ok(())
}

pub(crate) static APPEND: Command = Command {
    name: "APPEND",
    syntax: "key value",
    arity: 3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::INSERT)),
    categories: Category::STRING,
    group: Group::String,
    since: "2.0.0",
    notes: Notes::of("O(1), amortised, where the appended string is short"),
    summary: "Appends to a string, created if it does not exist, and returns its length",
    subcommands: &[],
    run: append,
};

fn incr<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    count(cx, args, 1)
}

pub(crate) static INCR: Command = Command {
    name: "INCR",
    syntax: "key",
    arity: 2,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::STRING,
    group: Group::String,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Increments a number by one, from 0 if it does not exist",
    subcommands: &[],
    run: incr,
};

fn decr<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    count(cx, args, -1)
}

pub(crate) static DECR: Command = Command {
    name: "DECR",
    syntax: "key",
    arity: 2,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::STRING,
    group: Group::String,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Decrements a number by one, from 0 if it does not exist",
    subcommands: &[],
    run: decr,
};

fn incrby<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    count(cx, args, integer(args.at(2))?)
}

pub(crate) static INCRBY: Command = Command {
    name: "INCRBY",
    syntax: "key increment",
    arity: 3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::STRING,
    group: Group::String,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Increments a number by an amount, from 0 if it does not exist",
    subcommands: &[],
    run: incrby,
};

fn decrby<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let amount = integer(args.at(2))?.checked_neg();
    count(cx, args, amount.ok_or(Error::fixed("ERR decrement would overflow"))?)
}

pub(crate) static DECRBY: Command = Command {
    name: "DECRBY",
    syntax: "key decrement",
    arity: 3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::STRING,
    group: Group::String,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Decrements a number by an amount, from 0 if it does not exist",
    subcommands: &[],
    run: decrby,
};

/// Adds `amount` to a counter, and replies with the sum.
fn count<'a>(cx: &mut Context<'a>, args: Args<'a>, amount: i64) -> Result<(), Error> {
    let sum = cx.db.increment(cx.key(args.at(1)), amount)?;
    cx.reply.integer(sum);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn strings_are_stored_read_appended_and_removed() {
        converse(
            "GET k => $-1|
             SET k v => +OK|
             GET k => $1|v|
             GET => -ERR wrong number of arguments for 'get' command|
             GETSET k w => $1|v|
             GETSET new x => $-1|
             GETDEL k => $1|w|
             GETDEL k => $-1|
             STRLEN new => :1|
             STRLEN k => :0|
             APPEND k ab => :2|
             APPEND k cd => :4|
             GET k => $4|abcd|
             MGET k new k none => *4|$4|abcd|$1|x|$4|abcd|$-1|
             MSET a 1 b 2 a 3 => +OK|
             MGET a b => *2|$1|3|$1|2|
             MSET a => -ERR wrong number of arguments for 'mset' command|
             MSET a 1 b => -ERR wrong number of arguments for 'mset' command|
             MSETNX a 1 c => -ERR wrong number of arguments for 'msetnx' command|
             MSETNX c 1 a 9 => :0|
             MSETNX c 1 d 2 => :1|
             MGET a c d => *3|$1|3|$1|1|$1|2|
             SETNX c 5 => :0|
             SETNX e 5 => :1|
             HELLO 3 => %7|$6|server|$5|redis|$7|version|$5|7.2.4|$5|proto|:3|$2|id|:1|$4|mode|
             ...$10|standalone|$4|role|$6|master|$7|modules|*0|
             GET none => _|
             MGET none => *1|_|
             SET none v XX => _|
             GETDEL e => $1|5|",
        );
    }

    #[test]
    fn append_is_refused_beyond_the_greatest_length() {
        let mut bench = Bench::new();
        let long = "x".repeat(100_000);
        assert_eq!(bench.call(&["SET", "k", &long]), "+OK|");
        assert_eq!(bench.call(&["GET", "k"]), format!("$100000|{long}|"));
        assert_eq!(bench.call(&["CONFIG", "SET", "proto-max-bulk-len", "1mb"]), "+OK|");
        for count in 2..=10 {
            assert_eq!(bench.call(&["APPEND", "k", &long]), format!(":{count}00000|"));
        }
        let refusal = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)|";
        assert_eq!(bench.call(&["APPEND", "k", &long]), refusal);
        assert_eq!(bench.call(&["STRLEN", "k"]), ":1000000|");
    }

    #[test]
    fn set_obeys_nx_xx_and_get() {
        converse(
            "SET k v XX => $-1|
             SET k v NX => +OK|
             SET k w NX => $-1|
             SET k w nx xx => -ERR syntax error|
             SET k w XX NX => -ERR syntax error|
             SET k w NX NX => $-1|
             SET k w XX => +OK|
             SET k x GET => $1|w|
             SET k y NX GET => $1|x|
             SET k y XX GET => $1|x|
             SET none y XX GET => $-1|
             SET new y NX GET => $-1|
             MGET k none new => *3|$1|y|$-1|$1|y|
             SET k z FOO => -ERR syntax error|
             SET k z PERSIST => -ERR syntax error|",
        );
    }

    #[test]
    fn set_obeys_its_expiry_options() {
        converse(
            "SET k v EX 10 => +OK|
             TTL k => :10|
             SET k v KEEPTTL => +OK|
             PTTL k => :10000|
             SET k v => +OK|
             TTL k => :-1|
             SET k v px 1500 => +OK|
             PTTL k => :1500|
             @1499
             GET k => $1|v|
             @1
             GET k => $-1|
             SET k v EXAT 1700000100 => +OK|
             EXPIRETIME k => :1700000100|
             SET k v PXAT 1700000100500 => +OK|
             PEXPIRETIME k => :1700000100500|
             SET k v EXAT 1 => +OK|
             EXISTS k => :0|
             SET k v EX 10 EX 20 => +OK|
             TTL k => :20|
             SET k v PXAT 9223372036854775807 => +OK|
             PEXPIRETIME k => :9223372036854775807|
             SET k v EX => -ERR syntax error|
             SET k v EX 10 PX 10 => -ERR syntax error|
             SET k v KEEPTTL EX 10 => -ERR syntax error|
             SET k v EX 10 KEEPTTL => -ERR syntax error|
             SET k v EX 0 => -ERR invalid expire time in 'set' command|
             SET k v PX -1 => -ERR invalid expire time in 'set' command|
             SET k v EX x => -ERR value is not an integer or out of range|
             SET k v EX 9223372036854775807 => -ERR invalid expire time in 'set' command|
             SET k v PX 9223372036854775807 => -ERR invalid expire time in 'set' command|
             SETEX k 10 w => +OK|
             TTL k => :10|
             PSETEX k 1500 w => +OK|
             PTTL k => :1500|
             SETEX k 0 w => -ERR invalid expire time in 'setex' command|
             SETEX k x w => -ERR value is not an integer or out of range|
             PSETEX k -1 w => -ERR invalid expire time in 'psetex' command|
             APPEND k x => :2|
             PTTL k => :1500|
             INCR n => :1|
             EXPIRE n 10 => :1|
             INCR n => :2|
             TTL n => :10|
             GETSET n 5 => $1|2|
             TTL n => :-1|",
        );
    }

    #[test]
    fn getex_changes_the_expiry() {
        converse(
            "SET k v => +OK|
             GETEX k => $1|v|
             TTL k => :-1|
             GETEX k EX 10 => $1|v|
             GETEX k => $1|v|
             TTL k => :10|
             GETEX k PERSIST => $1|v|
             TTL k => :-1|
             GETEX k PERSIST EX 1 => -ERR syntax error|
             GETEX k EX 1 PERSIST => -ERR syntax error|
             GETEX k EX 1 PX 1 => -ERR syntax error|
             GETEX k KEEPTTL => -ERR syntax error|
             GETEX k EX 0 => -ERR invalid expire time in 'getex' command|
             GETEX none EX 0 => $-1|
             GETEX k PXAT 1 => $1|v|
             EXISTS k => :0|",
        );
    }

    #[test]
    fn counters_are_incremented_within_64_bits() {
        converse(
            "INCR n => :1|
             INCRBY n 10 => :11|
             DECR n => :10|
             DECRBY n 20 => :-10|
             GET n => $3|-10|
             STRLEN n => :3|
             APPEND n 5 => :4|
             INCR n => :-104|
             INCRBY n 9223372036854775807 => :9223372036854775703|
             INCRBY n 9223372036854775807 => -ERR increment or decrement would overflow|
             SET n -9223372036854775808 => +OK|
             DECR n => -ERR increment or decrement would overflow|
             DECRBY n -9223372036854775808 => -ERR decrement would overflow|
             DECRBY n 9223372036854775808 => -ERR value is not an integer or out of range|
             INCRBY n x => -ERR value is not an integer or out of range|
             SET n 01 => +OK|
             INCR n => -ERR value is not an integer or out of range|
             SET n ' 1' => +OK|
             INCR n => -ERR value is not an integer or out of range|",
        );
    }
}
