//! Waiting for replicas, of which there are none.

use crate::arguments::integer;
use crate::{Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&WAIT, &WAITAOF];

/// Checks a time to wait for, in milliseconds.
fn check_timeout(cx: &Context<'_>, argument: &[u8]) -> Result<(), Error> {
    let timeout = integer(argument);
    match timeout.map_err(|_| Error::fixed("ERR timeout is not an integer or out of range"))? {
        ..0 => Err(Error::fixed("ERR timeout is negative")),
        ms if i64::MAX as u64 - ms as u64 <= cx.db.now_ms() => {
            Err(Error::fixed("ERR timeout is out of range"))
        }
        _ => Ok(()),
    }
}

fn wait<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    integer(args.at(1))?;
    check_timeout(cx, args.at(2))?;
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
    summary: "Returns how many replicas have what this client wrote: 0 at once, there being none",
    subcommands: &[],
    run: wait,
};

fn waitaof<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let local = integer(args.at(1))?;
    if !(0..=1).contains(&local) {
        return Err(Error::fixed("ERR value is out of range, value must between 0 and 1"));
    }
    if integer(args.at(2))? < 0 {
        return Err(Error::fixed("ERR value is out of range, must be positive"));
    }
    check_timeout(cx, args.at(3))?;
    if local > 0 {
        return Err(Error::fixed(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    cx.reply.array(2);
    cx.reply.integer(0);
    cx.reply.integer(0);
    Ok(())
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
    summary: "Returns whether this server and how many replicas have written to disk what this \
              client wrote: none, at once",
    subcommands: &[],
    run: waitaof,
};

#[cfg(test)]
mod tests {
    use crate::testing::converse;

    #[test]
    fn there_is_nobody_to_wait_for() {
        converse(
            "WAIT 0 0 => :0|
             WAIT 1 100 => :0|
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
