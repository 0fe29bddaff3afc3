//! Keys of any type: removal, existence, type and expiry.

use crate::runtime::arguments::{RemainingArguments, Time, is};
use crate::runtime::multi_key;
use crate::{Access, Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_store::types::key::ExpireWhen;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[
    &DEL,
    &EXISTS,
    &EXPIRE,
    &EXPIREAT,
    &EXPIRETIME,
    &PERSIST,
    &PEXPIRE,
    &PEXPIREAT,
    &PEXPIRETIME,
    &PTTL,
    &TTL,
    &TYPE,
    &UNLINK,
];

fn del<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if multi_key::is_long(&DEL.keys, args) {
        return multi_key::count(cx, &DEL.keys, |db, key| db.delete(key));
    }
    let removed = if args.len() == 2 {
        usize::from(cx.db.delete(cx.key(args.at(1))))
    } else {
        let keys: Vec<_> = args.from(1).map(|key| cx.key(key)).collect();
        cx.db.delete_many(&keys)
    };
    cx.reply.integer(removed as i64);
    Ok(())
}

pub(crate) static DEL: Command = Command {
    name: "DEL",
    syntax: "key [key ...]",
    arity: -2,
    flags: Flags::WRITE,
    keys: Keys::all(Access::RM.union(Access::DELETE)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the keys")
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"]),
    summary: "Removes keys and returns how many there were",
    subcommands: &[],
    run: del,
};

pub(crate) static UNLINK: Command = Command {
    name: "UNLINK",
    syntax: "key [key ...]",
    arity: -2,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::all(Access::RM.union(Access::DELETE)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "4.0.0",
    notes: Notes::of("O(N), N being the keys; what is large is freed in the background")
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"]),
    summary: "Removes keys and returns how many there were, exactly as DEL does",
    subcommands: &[],
    run: del,
};

fn exists<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if multi_key::is_long(&EXISTS.keys, args) {
        return multi_key::count(cx, &EXISTS.keys, |db, key| {
            db.untouched().get(key, |entry| entry.is_some())
        });
    }
    let keys: Vec<_> = args.from(1).map(|key| cx.key(key)).collect();
    cx.reply.integer(cx.db.untouched().count_existing(&keys) as i64);
    Ok(())
}

pub(crate) static EXISTS: Command = Command {
    name: "EXISTS",
    syntax: "key [key ...]",
    arity: -2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::all(Access::RO),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the keys")
        .history(&[("3.0.3", "Several keys")])
        .tips(&["request_policy:multi_shard", "response_policy:agg_sum"]),
    summary: "Returns how many of the keys exist; repeated keys count repeatedly",
    subcommands: &[],
    run: exists,
};

fn kind<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let kind = cx.db.untouched().kind(cx.key(args.at(1)));
    cx.reply.simple(kind.map_or("none", |kind| kind.name()));
    Ok(())
}

pub(crate) static TYPE: Command = Command {
    name: "TYPE",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the type of the value under a key",
    subcommands: &[],
    run: kind,
};

fn expire<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    set_expiry(cx, args, Time::Seconds, "expire")
}

pub(crate) static EXPIRE: Command = Command {
    name: "EXPIRE",
    syntax: "key seconds [NX | XX | GT | LT]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "1.0.0",
    notes: Notes::of("O(1)").history(&[("7.0.0", "NX, XX, GT and LT")]),
    summary: "Sets the expiry of a key, in seconds from now",
    subcommands: &[],
    run: expire,
};

fn pexpire<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    set_expiry(cx, args, Time::Milliseconds, "pexpire")
}

pub(crate) static PEXPIRE: Command = Command {
    name: "PEXPIRE",
    syntax: "key milliseconds [NX | XX | GT | LT]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "2.6.0",
    notes: Notes::of("O(1)").history(&[("7.0.0", "NX, XX, GT and LT")]),
    summary: "Sets the expiry of a key, in milliseconds from now",
    subcommands: &[],
    run: pexpire,
};

fn expireat<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    set_expiry(cx, args, Time::UnixSeconds, "expireat")
}

pub(crate) static EXPIREAT: Command = Command {
    name: "EXPIREAT",
    syntax: "key unix-time-seconds [NX | XX | GT | LT]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "1.2.0",
    notes: Notes::of("O(1)").history(&[("7.0.0", "NX, XX, GT and LT")]),
    summary: "Sets the expiry of a key, as a Unix time in seconds",
    subcommands: &[],
    run: expireat,
};

fn pexpireat<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    set_expiry(cx, args, Time::UnixMilliseconds, "pexpireat")
}

pub(crate) static PEXPIREAT: Command = Command {
    name: "PEXPIREAT",
    syntax: "key unix-time-milliseconds [NX | XX | GT | LT]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "2.6.0",
    notes: Notes::of("O(1)").history(&[("7.0.0", "NX, XX, GT and LT")]),
    summary: "Sets the expiry of a key, as a Unix time in milliseconds",
    subcommands: &[],
    run: pexpireat,
};

/// Sets a key's expiry, if the option after the time permits that.
fn set_expiry<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    unit: Time,
    command: &str,
) -> Result<(), Error> {
    let when = expire_when(args)?;
    let at_ms = unit.moment(args.at(2), cx.db.now_ms(), command)?;
    let done = cx.db.expire(cx.key(args.at(1)), at_ms, when);
    cx.reply.integer(i64::from(done));
    Ok(())
}

fn expire_when(args: Args<'_>) -> Result<ExpireWhen, Error> {
    let mut when = ExpireWhen::default();
    for option in RemainingArguments::from(args, 3) {
        match option {
            option if is(option, "NX") => when.absent = true,
            option if is(option, "XX") => when.present = true,
            option if is(option, "GT") => when.later = true,
            option if is(option, "LT") => when.earlier = true,
            option => return Err(Error::quoting("ERR Unsupported option ", option, "")),
        }
    }
    if when.absent && (when.present || when.later || when.earlier) {
        return Err(Error::fixed(
            "ERR NX and XX, GT or LT options at the same time are not compatible",
        ));
    }
    if when.later && when.earlier {
        return Err(Error::fixed("ERR GT and LT options at the same time are not compatible"));
    }
    Ok(when)
}

fn persist<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let done = cx.db.persist(cx.key(args.at(1)));
    cx.reply.integer(i64::from(done));
    Ok(())
}

pub(crate) static PERSIST: Command = Command {
    name: "PERSIST",
    syntax: "key",
    arity: 2,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "2.2.0",
    notes: Notes::of("O(1)"),
    summary: "Removes a key's expiry",
    subcommands: &[],
    run: persist,
};

fn ttl<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let now_ms = cx.db.now_ms();
    expiry(cx, args, |at_ms| to_seconds(at_ms.saturating_sub(now_ms)))
}

pub(crate) static TTL: Command = Command {
    name: "TTL",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "1.0.0",
    notes: Notes::of("O(1)")
        .history(&[("2.8.0", "The reply -2")])
        .tips(&["nondeterministic_output"]),
    summary: "Returns the seconds until a key expires, -1 if never and -2 if it does not exist",
    subcommands: &[],
    run: ttl,
};

fn pttl<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let now_ms = cx.db.now_ms();
    expiry(cx, args, |at_ms| at_ms.saturating_sub(now_ms))
}

pub(crate) static PTTL: Command = Command {
    name: "PTTL",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "2.6.0",
    notes: Notes::of("O(1)")
        .history(&[("2.8.0", "The reply -2")])
        .tips(&["nondeterministic_output"]),
    summary: "Returns the milliseconds until a key expires, -1 if never and -2 if it does not \
              exist",
    subcommands: &[],
    run: pttl,
};

fn expiretime<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    expiry(cx, args, to_seconds)
}

pub(crate) static EXPIRETIME: Command = Command {
    name: "EXPIRETIME",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "7.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns when a key expires, as a Unix time in seconds; -1 or -2 as TTL does",
    subcommands: &[],
    run: expiretime,
};

fn pexpiretime<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    expiry(cx, args, |at_ms| at_ms)
}

pub(crate) static PEXPIRETIME: Command = Command {
    name: "PEXPIRETIME",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "7.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns when a key expires, as a Unix time in milliseconds; -1 or -2 as TTL does",
    subcommands: &[],
    run: pexpiretime,
};

/// Replies with a key's expiry, in the unit of the command.
fn expiry<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    unit: impl FnOnce(u64) -> u64,
) -> Result<(), Error> {
    cx.reply.integer(match cx.db.untouched().expire_at_ms(cx.key(args.at(1))) {
        None => -2,
        Some(None) => -1,
        Some(Some(at_ms)) => i64::try_from(unit(at_ms)).unwrap_or(i64::MAX),
    });
    Ok(())
}

fn to_seconds(ms: u64) -> u64 {
    ms.saturating_add(500) / 1000
}

#[cfg(test)]
mod tests {
    use crate::testing::converse;

    #[test]
    fn keys_are_removed_and_their_type_returned() {
        converse(
            "MSET a 1 b 2 c 3 d 4 => +OK|
             EXISTS a b a none => :3|
             DEL a => :1|
             DEL a => :0|
             DEL b a b c => :2|
             UNLINK d none => :1|
             DBSIZE => :0|
             TYPE a => +none|
             SET a v => +OK|
             TYPE a => +string|
             DEL => -ERR wrong number of arguments for 'del' command|",
        );
    }

    #[test]
    fn expiry_is_set_returned_and_removed() {
        converse(
            "TTL k => :-2|
             PTTL k => :-2|
             EXPIRETIME k => :-2|
             PEXPIRETIME k => :-2|
             EXPIRE k 10 => :0|
             SET k v => +OK|
             PEXPIRETIME k => :-1|
             EXPIRE k 10 => :1|
             @1499
             TTL k => :9|
             PTTL k => :8501|
             @2
             TTL k => :8|
             EXPIRETIME k => :1700000010|
             PEXPIRETIME k => :1700000010000|
             PEXPIRE k 10499 => :1|
             EXPIRETIME k => :1700000012|
             EXPIREAT k 1700000020 => :1|
             PEXPIRETIME k => :1700000020000|
             PEXPIREAT k 1700000020001 => :1|
             PEXPIRETIME k => :1700000020001|
             PERSIST k => :1|
             PERSIST k => :0|
             PERSIST none => :0|
             TTL k => :-1|
             EXPIRE k -1 => :1|
             EXISTS k => :0|
             SET k v => +OK|
             PEXPIREAT k -9223372036854775808 => :1|
             EXISTS k => :0|",
        );
    }

    #[test]
    fn expire_obeys_its_conditions() {
        converse(
            "SET k v => +OK|
             EXPIRE k 10 XX => :0|
             EXPIRE k 10 GT => :0|
             EXPIRE k 10 NX => :1|
             EXPIRE k 20 NX => :0|
             EXPIRE k 5 GT => :0|
             EXPIRE k 10 gt => :0|
             EXPIRE k 20 GT XX => :1|
             EXPIRE k 20 LT => :0|
             EXPIRE k 15 LT => :1|
             TTL k => :15|
             PERSIST k => :1|
             EXPIRE k 15 LT XX => :0|
             EXPIRE k 15 LT => :1|
             EXPIRE k 10 FOO => -ERR Unsupported option FOO|
             EXPIRE k x FOO => -ERR Unsupported option FOO|
             EXPIRE k 10 NX XX => -ERR NX and XX, GT or LT options at the same time are not
             ... compatible|
             EXPIRE k 10 GT LT => -ERR GT and LT options at the same time are not compatible|
             EXPIRE k 9223372036854775807 => -ERR invalid expire time in 'expire' command|
             EXPIRE k 9223372036854775 => -ERR invalid expire time in 'expire' command|
             EXPIRE k -9223372036854775808 => -ERR invalid expire time in 'expire' command|
             EXPIREAT k 9223372036854775807 => -ERR invalid expire time in 'expireat' command|
             PEXPIRE k 9223372036854775807 => -ERR invalid expire time in 'pexpire' command|
             PEXPIRE k x => -ERR value is not an integer or out of range|",
        );
    }
}
