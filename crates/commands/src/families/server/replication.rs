//! Replication commands of a server without replicas: its role, and WAIT, for which no replica
//! confirms writes.

use crate::runtime::arguments::{integer, is};
use crate::runtime::blocking;
use crate::{Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&REPLICAOF, &ROLE, &SLAVEOF, &WAIT, &WAITAOF];

fn role<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.array(3);
    cx.reply.bulk(b"master");
    cx.reply.integer(0);
    cx.reply.array(0);
    Ok(())
}

pub(crate) static ROLE: Command = Command {
    name: "ROLE",
    syntax: "",
    arity: 1,
    flags: Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE).union(Flags::FAST),
    keys: Keys::NONE,
    categories: Category::ADMIN.union(Category::DANGEROUS),
    group: Group::Server,
    since: "2.8.12",
    notes: Notes::of("O(1)"),
    summary: "Returns the role of the server: a primary without replicas",
    subcommands: &[],
    run: role,
};

fn replicaof<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if is(args.at(1), "NO") && is(args.at(2), "ONE") {
        cx.reply.ok();
        return Ok(());
    }
    let port = integer(args.at(2)).ok().and_then(|port| u16::try_from(port).ok());
    port.ok_or(Error::fixed("ERR Invalid master port"))?;
    Err(Error::fixed("ERR there is no replication here: nagi cannot become a replica"))
}

pub(crate) static REPLICAOF: Command = Command {
    name: "REPLICAOF",
    syntax: "<host port | NO ONE>",
    arity: 3,
    flags: BECOMING,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "5.0.0",
    notes: Notes::of("O(1)"),
    summary: "Does nothing for NO ONE; refuses other addresses, there being no replication",
    subcommands: &[],
    run: replicaof,
};

/// Flags of commands that set the primary of a server.
const BECOMING: Flags =
    Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::STALE).union(Flags::NO_ASYNC_LOADING);

pub(crate) static SLAVEOF: Command = Command {
    name: "SLAVEOF",
    syntax: "<host port | NO ONE>",
    arity: 3,
    flags: BECOMING,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of("O(1)").replaced("5.0.0", "REPLICAOF"),
    summary: "The same as REPLICAOF",
    subcommands: &[],
    run: replicaof,
};

/// The end of a timeout, in milliseconds since 1970; `None` if the timeout is 0.
fn deadline_ms(cx: &Context<'_>, argument: &[u8]) -> Result<Option<u64>, Error> {
    let timeout = integer(argument);
    match timeout.map_err(|_| Error::fixed("ERR timeout is not an integer or out of range"))? {
        ..0 => Err(Error::fixed("ERR timeout is negative")),
        0 => Ok(None),
        ms if i64::MAX as u64 - ms as u64 <= cx.db.now_ms() => {
            Err(Error::fixed("ERR timeout is out of range"))
        }
        ms => Ok(Some(cx.db.now_ms() + ms as u64)),
    }
}

fn wait<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let replicas = integer(args.at(1))?;
    let until_ms = deadline_ms(cx, args.at(2))?;
    if replicas > 0 {
        return blocking::pass_time(cx, until_ms, |reply| reply.integer(0));
    }
    cx.reply.integer(0);
    Ok(())
}

pub(crate) static WAIT: Command = Command {
    name: "WAIT",
    syntax: "numreplicas timeout",
    arity: 3,
    flags: Flags::BLOCKING,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Generic,
    since: "3.0.0",
    notes: Notes::of("O(1)").tips(&["request_policy:all_shards", "response_policy:agg_min"]),
    summary: "Waits until so many replicas have what this client wrote, or for a time, and returns \
              how many have: 0, there being none",
    subcommands: &[],
    run: wait,
};

fn waitaof<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let local = integer(args.at(1))?;
    if !(0..=1).contains(&local) {
        return Err(Error::fixed("ERR value is out of range, value must between 0 and 1"));
    }
    let replicas = integer(args.at(2))?;
    if replicas < 0 {
        return Err(Error::fixed("ERR value is out of range, must be positive"));
    }
    let until_ms = deadline_ms(cx, args.at(3))?;
    if local > 0 {
        return Err(Error::fixed(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    if replicas > 0 {
        return blocking::pass_time(cx, until_ms, nothing_written);
    }
    nothing_written(&mut cx.reply);
    Ok(())
}

/// Replies that no append-only file was written by this server or by replicas.
fn nothing_written(reply: &mut Writer<'_>) {
    reply.array(2);
    reply.integer(0);
    reply.integer(0);
}

pub(crate) static WAITAOF: Command = Command {
    name: "WAITAOF",
    syntax: "numlocal numreplicas timeout",
    arity: 4,
    flags: Flags::BLOCKING,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Generic,
    since: "7.2.0",
    notes: Notes::of("O(1)").tips(&["request_policy:all_shards", "response_policy:agg_min"]),
    summary: "Waits until so many replicas have written to disk what this client wrote, or for a \
              time, and returns whether this server has and how many have: 0 and 0",
    subcommands: &[],
    run: waitaof,
};

#[cfg(test)]
mod tests {
    use crate::testing::converse;

    #[test]
    fn a_server_without_replicas_is_a_master_and_wait_returns_0() {
        converse(
            "ROLE => *3|$6|master|:0|*0|
             REPLICAOF no One => +OK|
             SLAVEOF NO ONE => +OK|
             REPLICAOF NO 6379 => -ERR there is no replication here: nagi cannot become a replica|
             REPLICAOF localhost x => -ERR Invalid master port|
             REPLICAOF localhost 70000 => -ERR Invalid master port|
             WAIT 0 0 => :0|
             WAIT -1 100 => :0|
             WAIT x 0 => -ERR value is not an integer or out of range|
             WAIT 0 x => -ERR timeout is not an integer or out of range|
             WAIT 0 -1 => -ERR timeout is negative|
             WAIT 0 9223372036854775807 => -ERR timeout is out of range|
             WAIT 0 => -ERR wrong number of arguments for 'wait' command|
             WAITAOF 0 0 0 => *2|:0|:0|
             WAITAOF 1 0 0 => -ERR WAITAOF cannot be used when numlocal is set but appendonly is
             ... disabled.|
             WAITAOF 2 0 0 => -ERR value is out of range, value must between 0 and 1|
             WAITAOF 0 -1 0 => -ERR value is out of range, must be positive|
             WAITAOF 0 0 -1 => -ERR timeout is negative|",
        );
    }
}
