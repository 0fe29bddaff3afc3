//! The slow log: requests that took long, whether in the server or on the network, and SLOWLOG,
//! which tells of them.

use crate::registry::help;
use crate::registry::table::Entry;
use crate::state::phases::Phases;
use crate::{Category, Command, Context, Error, Flags, Group, Keys, Notes, config};
use nagi_proto::Args;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most arguments of a request that are kept, and most bytes of one, as in Redis.
const ARGUMENTS: usize = 32;
const ARGUMENT_BYTES: usize = 128;

/// A request that took long.
#[derive(Debug, Default)]
pub struct SlowRequest {
    /// When it began to run, in seconds since 1970.
    pub at_s: u64,
    /// Where its time went before its reply was sent.
    pub phases: Phases,
    /// How long that took, in nanoseconds; 0 as long as it is going on.
    pub send_ns: AtomicU64,
    /// How long it was.
    pub request_bytes: usize,
    /// How long its reply was.
    pub reply_bytes: usize,
    /// Its arguments, long ones cut off and passwords left out.
    pub arguments: Vec<Vec<u8>>,
    /// The client's address.
    pub address: String,
    /// The client's name.
    pub name: String,
}

impl SlowRequest {
    /// Its memory, in bytes, as far as it grows with the request.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        let of_argument = |argument: &Vec<u8>| size_of::<Vec<u8>>() + argument.capacity();
        let arguments: usize = self.arguments.iter().map(of_argument).sum();
        size_of::<Self>() + arguments + self.address.capacity() + self.name.capacity()
    }

    fn phases(&self) -> Phases {
        Phases { send_ns: self.send_ns.load(Ordering::Relaxed), ..self.phases }
    }
}

/// The latest requests that took long.
#[derive(Debug, Default)]
pub struct SlowLog(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    /// By ascending numbers; the latest first.
    requests: VecDeque<(u64, Arc<SlowRequest>)>,
    next_id: u64,
}

impl SlowLog {
    /// Takes a request in, and forgets the oldest if there are more than `most` then.
    pub fn add(&self, request: Arc<SlowRequest>, most: usize) {
        let mut log = self.lock();
        let id = log.next_id;
        log.next_id += 1;
        log.requests.push_front((id, request));
        log.requests.truncate(most);
    }

    fn latest(&self, count: usize) -> Vec<(u64, Arc<SlowRequest>)> {
        self.lock().requests.iter().take(count).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the slow log keeps of a request's arguments.
#[must_use]
pub fn kept(entry: Option<&Entry>, args: Args<'_>) -> Vec<Vec<u8>> {
    let shown = if args.len() > ARGUMENTS { ARGUMENTS - 1 } else { args.len() };
    let shorten = |index| match args.landed(index) {
        Some(landed) => shorten(&landed.start(ARGUMENT_BYTES), landed.len()),
        None => shorten(args.at(index), args.len_of(index)),
    };
    let mut kept: Vec<Vec<u8>> = (0..shown).map(shorten).collect();
    for secret in secrets(entry, args) {
        if let Some(argument) = kept.get_mut(secret) {
            *argument = b"(redacted)".to_vec();
        }
    }
    if args.len() > shown {
        let more = args.len() - shown;
        kept.push(format!("... ({more} more arguments)").into_bytes());
    }
    kept
}

/// An argument of `len` bytes by its start, which is all that is left of a long one that has been
/// stored.
fn shorten(start: &[u8], len: usize) -> Vec<u8> {
    let shown = start.get(..ARGUMENT_BYTES).unwrap_or(start);
    match len - shown.len() {
        0 => shown.to_vec(),
        rest => [shown, format!("... ({rest} more bytes)").as_bytes()].concat(),
    }
}

/// Which arguments nobody else may see: those that log in, and passwords that are set.
fn secrets(entry: Option<&Entry>, args: Args<'_>) -> Vec<usize> {
    let Some(entry) = entry else { return Vec::new() };
    match entry.full_name.as_str() {
        "auth" => (1..args.len()).collect(),
        "hello" => {
            let at = args.from(1).position(|word| word.eq_ignore_ascii_case(b"AUTH"));
            at.map_or_else(Vec::new, |at| vec![at + 2, at + 3])
        }
        "config|set" => {
            let is_secret = |at: &usize| {
                let name = String::from_utf8_lossy(args.at(at - 1));
                config::find(&name).is_some_and(|setting| setting.name == "requirepass")
            };
            (3..args.len()).step_by(2).filter(is_secret).collect()
        }
        _ => Vec::new(),
    }
}

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&SLOWLOG];

const SUBCOMMANDS: &[&Command] = &[&GET, &HELP, &LEN, &PHASES, &RESET];

/// How all subcommands but HELP behave.
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

/// The requests that GET and PHASES are asked for.
fn asked_for(cx: &Context<'_>, args: Args<'_>) -> Result<Vec<(u64, Arc<SlowRequest>)>, Error> {
    const WRONG: Error = Error::fixed("ERR count should be greater than or equal to -1");
    if let (Some(word), 4..) = (args.get(1), args.len()) {
        return Err(Error::unknown_form("SLOWLOG", word));
    }
    let count = match args.get(2) {
        None => 10,
        Some(count) => match nagi_store::parse_i64(count).ok_or(WRONG)? {
            -1 => usize::MAX,
            count => usize::try_from(count).map_err(|_| WRONG)?,
        },
    };
    Ok(cx.server.statistics().slow_log.latest(count))
}

fn get<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let requests = asked_for(cx, args)?;
    cx.reply.array(requests.len());
    for (id, request) in requests {
        cx.reply.array(6);
        number(cx, id);
        number(cx, request.at_s);
        number(cx, request.phases.execute_ns / 1000);
        arguments(cx, &request);
        cx.reply.bulk(request.address.as_bytes());
        cx.reply.bulk(request.name.as_bytes());
    }
    Ok(())
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
    let requests = asked_for(cx, args)?;
    cx.reply.array(requests.len());
    for (id, request) in requests {
        let Phases { receive_ns, queue_ns, execute_ns, send_ns } = request.phases();
        cx.reply.map(11);
        for (name, value) in [
            ("id", id),
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
        arguments(cx, &request);
        cx.reply.bulk(b"addr");
        cx.reply.bulk(request.address.as_bytes());
        cx.reply.bulk(b"name");
        cx.reply.bulk(request.name.as_bytes());
    }
    Ok(())
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
    notes: Notes::of("O(N), N being the requests returned"),
    summary: "Returns the same requests with the time that each phase took, and their sizes; \
              nagi's own",
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
    let len = cx.server.statistics().slow_log.lock().requests.len();
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
    cx.server.statistics().slow_log.lock().requests.clear();
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
    use crate::runtime::testing::Bench;

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
            reply_bytes: 5,
            arguments: vec![b"SET".to_vec(), b"key".to_vec()],
            address: "127.0.0.1:50000".to_owned(),
            name: "me".to_owned(),
        })
    }

    #[test]
    fn the_latest_come_first_and_the_oldest_go() {
        let mut bench = Bench::new();
        bench.expect("SLOWLOG GET", "*0|");
        for execute_us in 1..=15 {
            bench.process.statistics.slow_log.add(request(execute_us), 12);
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
        bench.process.statistics.slow_log.add(request(1), 12);
        assert!(bench.call(&["SLOWLOG", "GET"]).starts_with("*1|*6|:15|"), "ids go on");
        assert!(bench.call(&["SLOWLOG", "HELP"]).contains("|+PHASES [count]|"));
    }

    #[test]
    fn long_requests_are_cut_and_passwords_left_out() {
        let shown = |words: &[&str]| -> Vec<String> {
            let mut bytes = Vec::new();
            let mut spans = Vec::new();
            for word in words {
                let start = u32::try_from(bytes.len()).unwrap();
                spans.push(nagi_proto::Span { start, len: u32::try_from(word.len()).unwrap() });
                bytes.extend_from_slice(word.as_bytes());
            }
            let args = Args::new(&bytes, &spans);
            let kept = kept(crate::runtime::dispatch::resolve(args).ok(), args);
            kept.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
        };
        let long = "x".repeat(200);
        let cut = format!("{}... (72 more bytes)", "x".repeat(128));
        assert_eq!(shown(&["SET", &long, "v"]), ["SET", &cut, "v"]);
        assert_eq!(shown(&["SET", &long[..128], "v"]), ["SET", &long[..128], "v"]);
        let many = shown(&vec!["DEL"; 40]);
        assert_eq!((many.len(), many[31].as_str()), (32, "... (9 more arguments)"));
        assert_eq!(shown(&["DEL"; 32]), vec!["DEL"; 32]);
        assert_eq!(shown(&["AUTH", "a", "b"]), ["AUTH", "(redacted)", "(redacted)"]);
        assert_eq!(
            shown(&["HELLO", "3", "auth", "default", "secret", "SETNAME", "me"]),
            ["HELLO", "3", "auth", "(redacted)", "(redacted)", "SETNAME", "me"]
        );
        assert_eq!(
            shown(&["CONFIG", "SET", "timeout", "1", "RequirePass", "secret"]),
            ["CONFIG", "SET", "timeout", "1", "RequirePass", "(redacted)"]
        );
    }
}
