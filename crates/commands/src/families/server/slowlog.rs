//! SLOWLOG: the requests in the slow log.

use crate::runtime::help;
use crate::state::phases::Phases;
use crate::state::slow_log::SlowRequest;
use crate::{Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use std::sync::Arc;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&SLOWLOG];

const SUBCOMMANDS: &[&Command] = &[&GET, &HELP, &LEN, &PHASES, &RESET];

/// Flags of all subcommands except HELP.
const ADMIN: Flags = Flags::ADMIN.union(Flags::LOADING).union(Flags::STALE);

fn slowlog<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::wrong_arity("slowlog"))
}

pub(crate) static SLOWLOG: Command = Command {
    name: "SLOWLOG",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.2.12",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about requests that took long",
    subcommands: SUBCOMMANDS,
    run: slowlog,
};

/// Parses the number of requests to return; -1 means all.
pub(super) fn count_of(word: &[u8]) -> Result<usize, Error> {
    const WRONG: Error = Error::fixed("ERR count should be greater than or equal to -1");
    match nagi_store::parse_i64(word).ok_or(WRONG)? {
        -1 => Ok(usize::MAX),
        count => usize::try_from(count).map_err(|_| WRONG),
    }
}

/// The requests that the arguments of GET and PHASES select.
fn selected(cx: &Context<'_>, args: Args<'_>) -> Result<Vec<(u64, Arc<SlowRequest>)>, Error> {
    if let (Some(word), 4..) = (args.get(1), args.len()) {
        return Err(Error::unknown_form("SLOWLOG", word));
    }
    let count = args.get(2).map_or(Ok(10), count_of)?;
    Ok(cx.server.statistics().command_logs.slow.latest(count))
}

fn get<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let requests = selected(cx, args)?;
    reply_with(cx, &requests, |request| request.phases.execute_ns / 1000);
    Ok(())
}

/// Replies with requests, each with the property for which it was recorded.
pub(super) fn reply_with(
    cx: &mut Context<'_>,
    requests: &[(u64, Arc<SlowRequest>)],
    value: impl Fn(&SlowRequest) -> u64,
) {
    cx.reply.array(requests.len());
    for (id, request) in requests {
        cx.reply.array(6);
        number(cx, *id);
        number(cx, request.at_s);
        number(cx, value(request));
        arguments(cx, request);
        cx.reply.bulk(request.address.as_bytes());
        cx.reply.bulk(request.name.as_bytes());
    }
}

static GET: Command = Command {
    name: "GET",
    syntax: "[count]",
    arity: -2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.2.12",
    notes: Notes::of("O(N), N being the requests returned")
        .history(&[("4.0.0", "Address and name of the client")])
        .tips(&["request_policy:all_nodes", "nondeterministic_output"]),
    summary: "Returns the latest requests of the slow log, with the microseconds that each ran",
    subcommands: &[],
    run: get,
};

fn phases<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let requests = selected(cx, args)?;
    reply_with_phases(cx, &requests);
    Ok(())
}

/// Replies with requests, each with its phases.
pub(super) fn reply_with_phases(cx: &mut Context<'_>, requests: &[(u64, Arc<SlowRequest>)]) {
    cx.reply.array(requests.len());
    for (id, request) in requests {
        let Phases { receive_ns, queue_ns, execute_ns, send_ns } = request.phases();
        cx.reply.map(11);
        for (name, value) in [
            ("id", *id),
            ("time", request.at_s),
            ("receive-usec", receive_ns / 1000),
            ("queue-usec", queue_ns / 1000),
            ("execute-usec", execute_ns / 1000),
            ("send-usec", send_ns / 1000),
            ("request-bytes", request.request_bytes as u64),
            ("reply-bytes", request.reply_bytes as u64),
        ] {
            cx.reply.bulk(name.as_bytes());
            number(cx, value);
        }
        cx.reply.bulk(b"arguments");
        arguments(cx, request);
        cx.reply.bulk(b"addr");
        cx.reply.bulk(request.address.as_bytes());
        cx.reply.bulk(b"name");
        cx.reply.bulk(request.name.as_bytes());
    }
}

static PHASES: Command = Command {
    name: "PHASES",
    syntax: "[count]",
    arity: -2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "7.2.0",
    notes: Notes::of("O(N), N being the requests returned").own(),
    summary: "Returns the same requests with the time that each phase took, and their sizes",
    subcommands: &[],
    run: phases,
};

fn number(cx: &mut Context<'_>, number: u64) {
    cx.reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
}

fn arguments(cx: &mut Context<'_>, request: &SlowRequest) {
    cx.reply.array(request.arguments.len());
    for argument in &request.arguments {
        cx.reply.bulk(argument);
    }
}

fn len<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let len = cx.server.statistics().command_logs.slow.len();
    cx.reply.integer(i64::try_from(len).unwrap_or(i64::MAX));
    Ok(())
}

static LEN: Command = Command {
    name: "LEN",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.2.12",
    notes: Notes::of("O(1)").tips(&[
        "request_policy:all_nodes",
        "response_policy:agg_sum",
        "nondeterministic_output",
    ]),
    summary: "Returns how many requests the slow log holds",
    subcommands: &[],
    run: len,
};

fn reset<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.server.statistics().command_logs.slow.clear();
    cx.reply.ok();
    Ok(())
}

static RESET: Command = Command {
    name: "RESET",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.2.12",
    notes: Notes::of("O(N), N being the requests held")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    summary: "Empties the slow log",
    subcommands: &[],
    run: reset,
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &SLOWLOG);
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
    since: "6.2.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn request(execute_us: u64) -> Arc<SlowRequest> {
        Arc::new(SlowRequest {
            at_s: 1_700_000_000,
            phases: Phases {
                receive_ns: 8_000_000_000,
                queue_ns: 1000,
                execute_ns: execute_us * 1000,
                send_ns: 0,
            },
            send_ns: 2999.into(),
            request_bytes: 100,
            received_bytes: 110,
            reply_bytes: 5,
            arguments: vec![b"SET".to_vec(), b"key".to_vec()],
            address: "127.0.0.1:50000".to_owned(),
            name: "me".to_owned(),
        })
    }

    #[test]
    fn the_latest_requests_come_first_and_the_oldest_are_dropped() {
        let mut bench = Bench::new();
        bench.expect("SLOWLOG GET", "*0|");
        for execute_us in 1..=15 {
            bench.process.statistics.command_logs.slow.add(request(execute_us), 12);
        }
        bench.expect("SLOWLOG LEN", ":12|");
        let rest = "*2|$3|SET|$3|key|$15|127.0.0.1:50000|$2|me|";
        let entry = |id: u64| format!("*6|:{id}|:1700000000|:{}|{rest}", id + 1);
        bench.expect("SLOWLOG GET 2", &format!("*2|{}{}", entry(14), entry(13)));
        let all: String = (3..15).rev().map(entry).collect();
        bench.expect("SLOWLOG GET -1", &format!("*12|{all}"));
        let ten: String = (5..15).rev().map(entry).collect();
        bench.expect("SLOWLOG GET", &format!("*10|{ten}"));
        bench.expect("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1|");
        bench.expect("SLOWLOG GET x", "-ERR count should be greater than or equal to -1|");
        bench.expect(
            "SLOWLOG GET 1 2",
            "-ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.|",
        );
        bench.expect(
            "SLOWLOG PHASES 1",
            "*1|*22|$2|id|:14|$4|time|:1700000000|$12|receive-usec|:8000000|$10|queue-usec|:1|\
             $12|execute-usec|:15|$9|send-usec|:2|$13|request-bytes|:100|$11|reply-bytes|:5|\
             $9|arguments|*2|$3|SET|$3|key|$4|addr|$15|127.0.0.1:50000|$4|name|$2|me|",
        );
        bench.expect("SLOWLOG RESET", "+OK|");
        bench.expect("SLOWLOG LEN", ":0|");
        bench.process.statistics.command_logs.slow.add(request(1), 12);
        assert!(bench.call(&["SLOWLOG", "GET"]).starts_with("*1|*6|:15|"), "ids go on");
        assert!(bench.call(&["SLOWLOG", "HELP"]).contains("|+PHASES [count]|"));
    }
}
