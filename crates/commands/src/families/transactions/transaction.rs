//! Beginning, discarding and executing transactions, and watching keys.

use crate::families::transactions::exec::Execution;
use crate::runtime::suspension::Slice;
use crate::state::client::Restrictions;
use crate::{Access, Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&DISCARD, &EXEC, &MULTI, &UNWATCH, &WATCH];

/// Keys that are watched between two readings of the clock.
const STRIDE: usize = 64;

/// Flags of commands that run at once within MULTI.
const AT_ONCE: Flags =
    Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE).union(Flags::NOT_QUEUED);

fn multi<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    if cx.client.transaction.is_some() {
        return Err(Error::fixed("ERR MULTI calls can not be nested"));
    }
    cx.client.transaction = Some(Box::default());
    cx.client.restrictions |= Restrictions::IN_TRANSACTION;
    cx.client.note_transaction();
    cx.reply.ok();
    Ok(())
}

pub(crate) static MULTI: Command = Command {
    name: "MULTI",
    syntax: "",
    arity: 1,
    flags: AT_ONCE.union(Flags::FAST).union(Flags::ALLOW_BUSY),
    keys: Keys::NONE,
    categories: Category::TRANSACTION,
    group: Group::Transactions,
    since: "1.2.0",
    notes: Notes::of("O(1)"),
    summary: "Begins a transaction: requests are queued until EXEC",
    subcommands: &[],
    run: multi,
};

fn discard<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    if cx.client.transaction.is_none() {
        return Err(Error::fixed("ERR DISCARD without MULTI"));
    }
    drop(cx.client.end_transaction());
    cx.hooks.watched_keys.settle(cx.db.store());
    cx.reply.ok();
    Ok(())
}

pub(crate) static DISCARD: Command = Command {
    name: "DISCARD",
    syntax: "",
    arity: 1,
    flags: AT_ONCE.union(Flags::FAST).union(Flags::ALLOW_BUSY),
    keys: Keys::NONE,
    categories: Category::TRANSACTION,
    group: Group::Transactions,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the requests queued"),
    summary: "Discards a transaction and its watched keys",
    subcommands: &[],
    run: discard,
};

fn exec<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let (transaction, watches) = cx.client.end_transaction();
    let Some(transaction) = transaction else {
        // Without MULTI, EXEC fails and the keys stay watched.
        cx.client.watches = watches;
        cx.client.note_transaction();
        return Err(Error::fixed("ERR EXEC without MULTI"));
    };
    if transaction.is_aborted() {
        drop(watches);
        cx.hooks.watched_keys.settle(cx.db.store());
        return Err(Error::fixed("EXECABORT Transaction discarded because of previous errors."));
    }
    let thread = (cx.server.scripts(), &cx.client.waker);
    let mut execution = Execution::new(transaction, watches, cx.db.store(), thread);
    cx.start(Box::new(move |cx| match execution.refusal(cx) {
        Some(error) => Err(error),
        None => Ok(execution.go_on(cx)),
    }))
}

pub(crate) static EXEC: Command = Command {
    name: "EXEC",
    syntax: "",
    arity: 1,
    flags: AT_ONCE.union(Flags::RUNS_QUEUED).union(Flags::SKIP_SLOWLOG),
    keys: Keys::NONE,
    categories: Category::TRANSACTION,
    group: Group::Transactions,
    since: "1.2.0",
    notes: Notes::of("Depends on the requests queued"),
    summary: "Executes a transaction atomically, unless a watched key was changed",
    subcommands: &[],
    run: exec,
};

fn watch<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    if cx.client.transaction.is_some() {
        return Err(Error::fixed("ERR WATCH inside MULTI is not allowed"));
    }
    let mut next = 1;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        while next < cx.args.len() {
            watch_key(cx, cx.args.at(next));
            next += 1;
            if next.is_multiple_of(STRIDE) && slice.is_over() {
                return Ok(JobProgress::NEXT_TICK);
            }
        }
        cx.client.note_transaction();
        cx.reply.ok();
        Ok(JobProgress::Done)
    }))
}

/// Watches a key. The store reports changes before the key is looked up, so that no change between
/// the two is missed.
fn watch_key(cx: &mut Context<'_>, key: &[u8]) {
    let (shared, database) = (&cx.hooks.watched_keys, cx.client.database);
    if cx.client.watches.is_empty() {
        cx.client.watches.begin(shared);
        shared.settle(cx.db.store());
    }
    let is_there = |cx: &Context<'_>| cx.db.inspect(cx.db.key(key), |entry| entry.is_some());
    let was_there = is_there(cx);
    cx.client.watches.add(database, key, was_there);
    if is_there(cx) != was_there {
        cx.client.watches.touch();
    }
}

pub(crate) static WATCH: Command = Command {
    name: "WATCH",
    syntax: "key [key ...]",
    arity: -2,
    flags: AT_ONCE.union(Flags::FAST).union(Flags::ALLOW_BUSY),
    keys: Keys::all(Access::RO),
    categories: Category::TRANSACTION,
    group: Group::Transactions,
    since: "2.2.0",
    notes: Notes::of("O(1) for each key"),
    summary: "Watches keys: the next EXEC does nothing if one of them was changed",
    subcommands: &[],
    run: watch,
};

fn unwatch<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    drop(std::mem::take(&mut cx.client.watches));
    cx.client.note_transaction();
    cx.hooks.watched_keys.settle(cx.db.store());
    cx.reply.ok();
    Ok(())
}

pub(crate) static UNWATCH: Command = Command {
    name: "UNWATCH",
    syntax: "",
    arity: 1,
    flags: Flags::NOSCRIPT
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::FAST)
        .union(Flags::ALLOW_BUSY),
    keys: Keys::NONE,
    categories: Category::TRANSACTION,
    group: Group::Transactions,
    since: "2.2.0",
    notes: Notes::of("O(1)"),
    summary: "Stops watching keys",
    subcommands: &[],
    run: unwatch,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn requests_are_queued_and_executed() {
        converse(
            "MULTI => +OK|
             SET a 1 => +QUEUED|
             INCR a => +QUEUED|
             HSET h f 1 => +QUEUED|
             INCR h => +QUEUED|
             MGET a b => +QUEUED|
             EXEC => *5|+OK|:2|:1|\
             -WRONGTYPE Operation against a key holding the wrong kind of value|*2|$1|2|$-1|
             EXEC => -ERR EXEC without MULTI|
             DISCARD => -ERR DISCARD without MULTI|
             MULTI => +OK|
             MULTI => -ERR MULTI calls can not be nested|
             WATCH a => -ERR WATCH inside MULTI is not allowed|
             SET a 5 => +QUEUED|
             DISCARD => +OK|
             GET a => $1|2|
             MULTI => +OK|
             EXEC => *0|",
        );
    }

    #[test]
    fn a_refused_request_aborts_the_transaction() {
        converse(
            "MULTI => +OK|
             SET a => -ERR wrong number of arguments for 'set' command|
             SET a 1 => +QUEUED|
             EXEC => -EXECABORT Transaction discarded because of previous errors.|
             MULTI => +OK|
             NONSENSE => -ERR unknown command 'NONSENSE', with args beginning with: |
             EXEC => -EXECABORT Transaction discarded because of previous errors.|
             MULTI => +OK|
             SAVE => -ERR Command not allowed inside a transaction|
             EXEC => -EXECABORT Transaction discarded because of previous errors.|
             MULTI => +OK|
             EXEC x => -EXECABORT Transaction discarded because of: wrong number of arguments for \
             'exec' command|
             EXEC => -ERR EXEC without MULTI|
             GET a => $-1|",
        );
    }

    #[test]
    fn requests_on_all_keys_and_other_databases_are_executed() {
        converse(
            "SET a 1 => +OK|
             MULTI => +OK|
             DBSIZE => +QUEUED|
             SELECT 1 => +QUEUED|
             SET b 1 => +QUEUED|
             DBSIZE => +QUEUED|
             KEYS * => +QUEUED|
             FLUSHALL => +QUEUED|
             RANDOMKEY => +QUEUED|
             EXEC => *7|:1|+OK|+OK|:1|*1|$1|b|+OK|$-1|
             DBSIZE => :0|",
        );
    }

    #[test]
    fn a_change_of_a_watched_key_aborts_exec() {
        let mut bench = Bench::new();
        for (change, is_executed) in [
            ("SET watched 2", false),
            ("DEL watched", false),
            ("EXPIRE watched 100", false),
            ("RENAME watched other", false),
            ("RENAME seconds watched", false),
            ("FLUSHALL", false),
            ("SWAPDB 0 1", false),
            ("GET watched", true),
            ("SET other 2", true),
            ("DEL nothing", true),
            ("UNWATCH", true),
            ("RESET", true),
        ] {
            bench.expect("MSET watched 1 seconds 1", "+OK|");
            bench.expect("WATCH watched nothing", "+OK|");
            bench.resp(format!("{change}\r\n").as_bytes());
            bench.expect("MULTI", "+OK|");
            bench.expect("PING", "+QUEUED|");
            bench.expect("EXEC", if is_executed { "*1|+PONG|" } else { "*-1|" });
            bench.expect("FLUSHALL", "+OK|");
        }
    }

    #[test]
    fn expiry_of_a_watched_key_aborts_exec() {
        let mut bench = Bench::new();
        bench.expect("SET k v PX 100", "+OK|");
        bench.expect("WATCH k", "+OK|");
        bench.advance_ms(200);
        bench.expect("MULTI", "+OK|");
        bench.expect("PING", "+QUEUED|");
        bench.expect("EXEC", "*-1|");
        // If the key had expired before WATCH, its removal is not a change.
        bench.expect("SET k v PX 100", "+OK|");
        bench.advance_ms(200);
        bench.expect("WATCH k", "+OK|");
        bench.expect("DEL k", ":0|");
        bench.expect("MULTI", "+OK|");
        bench.expect("PING", "+QUEUED|");
        bench.expect("EXEC", "*1|+PONG|");
    }
}
