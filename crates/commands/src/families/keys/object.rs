//! OBJECT: the encoding of values and when they were last used.

use crate::runtime::help;
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_store::{Policy, parse_i64};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&OBJECT];

const SUBCOMMANDS: &[&Command] = &[&ENCODING, &FREQ, &HELP, &IDLETIME, &REFCOUNT];

const NO_FREQUENCY: Error = Error::fixed(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
     when switching between policies at runtime LRU and LFU data will take some time to adjust.",
);
const NO_IDLE_TIME: Error = Error::fixed(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
     switching between policies at runtime LRU and LFU data will take some time to adjust.",
);

/// The reference count that Redis reports for small integers, which it shares between keys.
const SHARED: i64 = 2_147_483_647;
const SHARED_INTEGERS: std::ops::Range<i64> = 0..10_000;

pub(crate) static OBJECT: Command = Command {
    name: "OBJECT",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Generic,
    since: "2.2.3",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about the encoding and the use of values",
    subcommands: SUBCOMMANDS,
    run: |_, _| Err(Error::wrong_arity("object")),
};

fn encoding<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let name = cx
        .db
        .untouched()
        .unnoticed()
        .get(cx.key(args.at(2)), |entry| entry.map(|entry| entry.encoding_name()));
    match name {
        Some(name) => cx.reply.bulk(name.as_bytes()),
        None => cx.reply.null(),
    }
    Ok(())
}

static ENCODING: Command = Command {
    name: "ENCODING",
    syntax: "key",
    arity: 3,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::at(2, Access::RO)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "2.2.3",
    notes: Notes::of("O(1)").tips(&["nondeterministic_output"]),
    summary: "Returns the encoding that Redis would use for a value",
    subcommands: &[],
    run: encoding,
};

/// Replies with a number about a key, or null if the key does not exist.
fn number(cx: &mut Context<'_>, number: Option<u64>) {
    match number {
        Some(number) => cx.reply.integer(i64::try_from(number).unwrap_or(i64::MAX)),
        None => cx.reply.null(),
    }
}

fn freq<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let frequency = cx.db.untouched().unnoticed().frequency(cx.key(args.at(2)));
    if frequency.is_some() && !policy(cx).counts_uses() {
        return Err(NO_FREQUENCY);
    }
    number(cx, frequency.map(u64::from));
    Ok(())
}

static FREQ: Command = Command {
    name: "FREQ",
    syntax: "key",
    arity: 3,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::at(2, Access::RO)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "4.0.0",
    notes: Notes::of("O(1)").tips(&["nondeterministic_output"]),
    summary: "Returns the logarithmic access counter of a key, which LFU policies keep",
    subcommands: &[],
    run: freq,
};

fn idletime<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let idle_ms = cx.db.untouched().unnoticed().idle_ms(cx.key(args.at(2)));
    if idle_ms.is_some() && policy(cx).counts_uses() {
        return Err(NO_IDLE_TIME);
    }
    number(cx, idle_ms.map(|ms| ms / 1000));
    Ok(())
}

static IDLETIME: Command = Command {
    name: "IDLETIME",
    syntax: "key",
    arity: 3,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::at(2, Access::RO)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "2.2.3",
    notes: Notes::of("O(1)").tips(&["nondeterministic_output"]),
    summary: "Returns the seconds since a key was last used",
    subcommands: &[],
    run: idletime,
};

fn refcount<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let value = cx.db.untouched().unnoticed().get(cx.key(args.at(2)), |entry| {
        let entry = entry?;
        let is_number = entry.encoding_name() == "int";
        let string = entry.string().ok().filter(|_| is_number);
        Some(string.and_then(|string| string.with_bytes(parse_i64)))
    });
    let config = cx.server.config();
    // A policy that considers uses needs a counter in each value, which excludes sharing.
    let shares = config.maxmemory.get() == 0 || !policy(cx).looks_at_uses();
    match value {
        None => cx.reply.null(),
        Some(Some(value)) if shares && SHARED_INTEGERS.contains(&value) => {
            cx.reply.integer(SHARED);
        }
        Some(_) => cx.reply.integer(1),
    }
    Ok(())
}

static REFCOUNT: Command = Command {
    name: "REFCOUNT",
    syntax: "key",
    arity: 3,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::at(2, Access::RO)),
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "2.2.3",
    notes: Notes::of("O(1)").tips(&["nondeterministic_output"]),
    summary: "Returns how many keys share a value, which in Redis only small integers do",
    subcommands: &[],
    run: refcount,
};

fn policy(cx: &Context<'_>) -> Policy {
    Policy::ALL
        .get(cx.server.config().maxmemory_policy.bytes())
        .map_or(Policy::default(), |row| row.0)
}

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &OBJECT);
    Ok(())
}

static HELP: Command = Command {
    name: "HELP",
    syntax: "",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::KEYSPACE,
    group: Group::Generic,
    since: "6.2.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};

#[cfg(test)]
mod tests {
    use crate::testing::converse;

    #[test]
    fn object_encoding_is_that_of_redis() {
        let long = "x".repeat(45);
        converse(&format!(
            "OBJECT ENCODING k => $-1|
             SET k 12 => +OK|
             OBJECT ENCODING k => $3|int|
             INCR k => :13|
             object encoding k => $3|int|
             APPEND k 4 => :3|
             OBJECT ENCODING k => $3|raw|
             COPY k c => :1|
             OBJECT ENCODING c => $3|raw|
             SET k 134 => +OK|
             OBJECT ENCODING k => $3|int|
             SET k 007 => +OK|
             OBJECT ENCODING k => $6|embstr|
             SET k {} => +OK|
             OBJECT ENCODING k => $6|embstr|
             SET k {long} => +OK|
             OBJECT ENCODING k => $3|raw|
             SETRANGE r 0 1 => :1|
             OBJECT ENCODING r => $3|raw|
             INCR r => :2|
             OBJECT ENCODING r => $3|int|
             OBJECT ENCODING => -ERR wrong number of arguments for 'object{}encoding' command|
             OBJECT FOO k => -ERR unknown subcommand 'FOO'. Try OBJECT HELP.|
             OBJECT => -ERR wrong number of arguments for 'object' command|",
            &long[1..],
            '\u{7c}'
        ));
    }

    #[test]
    fn idle_time_frequency_and_references_are_returned() {
        converse(
            "OBJECT IDLETIME k => $-1|
             OBJECT FREQ k => $-1|
             OBJECT REFCOUNT k => $-1|
             SET k 9999 => +OK|
             OBJECT REFCOUNT k => :2147483647|
             @3000
             TTL k => :-1|
             TYPE k => +string|
             EXISTS k => :1|
             OBJECT ENCODING k => $3|int|
             OBJECT IDLETIME k => :3|
             TOUCH k => :1|
             OBJECT IDLETIME k => :0|
             OBJECT FREQ k => -ERR An LFU maxmemory policy is not selected, access frequency not
             ... tracked. Please note that when switching between policies at runtime LRU and LFU
             ... data will take some time to adjust.|
             CONFIG SET maxmemory-policy allkeys-lfu => +OK|
             SET l 10000 => +OK|
             OBJECT FREQ l => :5|
             GET l => $5|10000|
             OBJECT FREQ l => :6|
             OBJECT REFCOUNT l => :1|
             OBJECT IDLETIME k => -ERR An LFU maxmemory policy is selected, idle time not tracked.
             ... Please note that when switching between policies at runtime LRU and LFU data will
             ... take some time to adjust.|",
        );
    }
}
