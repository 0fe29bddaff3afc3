//! COMMANDLOG: the slow log, and the logs of large requests and replies (Valkey 8.1).

use super::slowlog::{count_of, reply_with, reply_with_phases};
use crate::runtime::arguments::is;
use crate::runtime::help;
use crate::state::slow_log::{CommandLogs, SlowLog, SlowRequest};
use crate::{Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use std::sync::Arc;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&COMMANDLOG];

const SUBCOMMANDS: &[&Command] = &[&GET, &HELP, &LEN, &PHASES, &RESET];

/// Flags of all subcommands except HELP.
const ADMIN: Flags = Flags::ADMIN.union(Flags::LOADING).union(Flags::STALE);

/// A log, by the property for which requests are recorded.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    log: fn(&CommandLogs) -> &SlowLog,
    value: fn(&SlowRequest) -> u64,
}

const KINDS: [Kind; 3] = [
    Kind { name: "slow", log: |logs| &logs.slow, value: |it| it.phases.execute_ns / 1000 },
    Kind {
        name: "large-request",
        log: |logs| &logs.large_requests,
        value: |it| it.received_bytes as u64,
    },
    Kind {
        name: "large-reply",
        log: |logs| &logs.large_replies,
        value: |it| it.reply_bytes as u64,
    },
];

impl Kind {
    fn parse(word: Option<&[u8]>) -> Result<Self, Error> {
        let known = word.and_then(|word| KINDS.into_iter().find(|kind| is(word, kind.name)));
        known.ok_or(Error::fixed(
            "ERR type should be one of the following: slow, large-request, large-reply",
        ))
    }

    /// The log itself.
    fn of<'c>(self, cx: &Context<'c>) -> &'c SlowLog {
        (self.log)(&cx.server.statistics().command_logs)
    }
}

fn commandlog<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::wrong_arity("commandlog"))
}

pub(crate) static COMMANDLOG: Command = Command {
    name: "COMMANDLOG",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "8.1.0",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about slow and large requests",
    subcommands: SUBCOMMANDS,
    run: commandlog,
};

/// Requests of a log, each with its number.
type Logged = Vec<(u64, Arc<SlowRequest>)>;

/// The log and the requests that the arguments of GET and PHASES select.
fn selected(cx: &Context<'_>, args: Args<'_>) -> Result<(Kind, Logged), Error> {
    let count = args.get(2).map_or(Ok(10), count_of)?;
    let kind = Kind::parse(args.get(3))?;
    Ok((kind, kind.of(cx).latest(count)))
}

fn get<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (kind, requests) = selected(cx, args)?;
    reply_with(cx, &requests, kind.value);
    Ok(())
}

static GET: Command = Command {
    name: "GET",
    syntax: "count type",
    arity: 4,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "8.1.0",
    notes: Notes::of("O(N), N being the requests returned")
        .tips(&["request_policy:all_nodes", "nondeterministic_output"]),
    summary: "Returns the latest requests of a log, with the microseconds or bytes of each",
    subcommands: &[],
    run: get,
};

fn phases<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (_, requests) = selected(cx, args)?;
    reply_with_phases(cx, &requests);
    Ok(())
}

static PHASES: Command = Command {
    name: "PHASES",
    syntax: "count type",
    arity: 4,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "8.1.0",
    notes: Notes::of("O(N), N being the requests returned").own(),
    summary: "Returns the same requests with the time that each phase took, and their sizes",
    subcommands: &[],
    run: phases,
};

fn len<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let len = Kind::parse(args.get(2))?.of(cx).len();
    cx.reply.integer(i64::try_from(len).unwrap_or(i64::MAX));
    Ok(())
}

static LEN: Command = Command {
    name: "LEN",
    syntax: "type",
    arity: 3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "8.1.0",
    notes: Notes::of("O(1)").tips(&[
        "request_policy:all_nodes",
        "response_policy:agg_sum",
        "nondeterministic_output",
    ]),
    summary: "Returns how many requests a log holds",
    subcommands: &[],
    run: len,
};

fn reset<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    Kind::parse(args.get(2))?.of(cx).clear();
    cx.reply.ok();
    Ok(())
}

static RESET: Command = Command {
    name: "RESET",
    syntax: "type",
    arity: 3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "8.1.0",
    notes: Notes::of("O(N), N being the requests held")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    summary: "Empties a log",
    subcommands: &[],
    run: reset,
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &COMMANDLOG);
    Ok(())
}

static HELP: Command = Command {
    name: "HELP",
    syntax: "",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "8.1.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn each_log_records_only_its_own_kind() {
        let mut bench = Bench::new();
        bench.expect("CONFIG SET commandlog-reply-larger-than 3000", "+OK|");
        for (is_slow, received_bytes, reply_bytes) in
            [(true, 5, 5), (false, 2 << 20, 5), (false, 5, 3000)]
        {
            let request = SlowRequest { received_bytes, reply_bytes, ..SlowRequest::default() };
            let process = &bench.process;
            let limits = process.config.log_limits();
            process.statistics.command_logs.add(&Arc::new(request), is_slow, limits);
        }
        for (name, value) in [("slow", 0), ("large-request", 2 << 20), ("large-reply", 3000)] {
            bench.expect(&format!("COMMANDLOG LEN {name}"), ":1|");
            let entry = format!("*1|*6|:0|:0|:{value}|*0|$0||$0||");
            bench.expect(&format!("COMMANDLOG GET -1 {name}"), &entry);
            assert!(
                bench.call(&["COMMANDLOG", "PHASES", "1", name]).starts_with("*1|*22|$2|id|:0|")
            );
            bench.expect(&format!("COMMANDLOG RESET {name}"), "+OK|");
            bench.expect(&format!("COMMANDLOG LEN {name}"), ":0|");
        }
        let wrong = "-ERR type should be one of the following: slow, large-request, large-reply|";
        bench.expect("COMMANDLOG GET 1 fast", wrong);
        bench.expect("COMMANDLOG LEN fast", wrong);
        bench.expect("COMMANDLOG GET -2 slow", "-ERR count should be greater than or equal to -1|");
        assert!(bench.call(&["COMMANDLOG", "HELP"]).contains("|+GET count type|"));
    }
}
