//! From a request's arguments to its handler and back: lookup, arity, errors, counting.

use crate::error::{QUOTED_BYTES, quotable};
use crate::runtime::admission;
use crate::runtime::arguments::is;
use crate::runtime::blocking;
use crate::runtime::command_flags;
use crate::runtime::context::{CommandSet, CommandTable, Entry, Redis};
use crate::runtime::gate;
use crate::runtime::key_costs::{self, Named};
use crate::runtime::notification;
use crate::runtime::queueing;
use crate::runtime::shown;
use crate::runtime::suspension::When;
use crate::runtime::tracking;
use crate::state::client::Restrictions;
use crate::state::latency_monitor::EVICTION;
use crate::{
    Client, Context, Error, Flags, HookFlags, Job, JobProgress, KeyGroup, Keys, Marks, Suspension,
};
use nagi_proto::{Args, resp};
use nagi_store::{Database, Wait};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Finds the row of a request's command or subcommand, and checks the number of arguments. `args`
/// has at least a name.
///
/// # Errors
/// The error reply for an unknown command, or for too few or too many arguments.
#[inline]
pub fn resolve(commands: &'static CommandTable, args: Args<'_>) -> Result<&'static Entry, Error> {
    let entry = find(commands, args)?;
    if entry.command.accepts(args.len()) {
        Ok(entry)
    } else {
        Err(Error::wrong_arity(&entry.full_name))
    }
}

/// Finds the entry of a request's command or subcommand.
///
/// # Errors
/// There is none.
pub(crate) fn find(
    commands: &'static CommandTable,
    args: Args<'_>,
) -> Result<&'static Entry, Error> {
    if args.has_large() && args.large(0).is_some() {
        // Joining the name would take long.
        return Err(unknown_command(args));
    }
    let name = args.at(0);
    let entry = commands.find(name).ok_or_else(|| unknown_command(args))?;
    if entry.command.subcommands.is_empty() {
        // The first argument may be large, and is joined by `get`.
        return Ok(entry);
    }
    match args.get(1) {
        None => Ok(entry),
        Some(word) => {
            commands.subcommand(entry, word).ok_or_else(|| unknown_subcommand(name, word))
        }
    }
}

/// Runs the command that [`resolve`] found and writes the reply. If `cx.suspension` is set
/// afterwards, the request is not complete: the caller continues it, by [`go_on`](crate::go_on),
/// before the client's next request.
#[inline]
pub fn run<'a>(entry: &'static Entry, cx: &mut Context<'a>, args: Args<'a>) {
    cx.client.info.note_command(Some(entry.index));
    let reasons = cx.hooks.reasons();
    let is_checked =
        !cx.client.restrictions.is_empty() || reasons.contains(HookFlags::LIMITED_USERS);
    if is_checked && let Err(error) = admission::check(cx, entry, args) {
        return reject(entry, cx, &error);
    }
    if args.has_large() {
        if lacks_room(entry, cx, args) {
            return reject(entry, cx, &Error::OUT_OF_MEMORY);
        }
        if waits_for_long_keys(entry, cx, args) {
            return;
        }
        let is_queued = cx.client.restrictions.contains(Restrictions::IN_TRANSACTION);
        if !is_queued && make_room_for(entry, cx, args) {
            cx.suspension = Some(Suspension::again());
            return;
        }
    }
    if cx.client.restrictions.contains(Restrictions::IN_TRANSACTION) && is_queued(entry, cx, args) {
        return;
    }
    if !reasons.difference(HookFlags::AWAITED | HookFlags::LIMITED_USERS).is_empty() {
        return run_observed(entry, cx, args, reasons);
    }
    run_unobserved(entry, cx, args);
}

/// Queues or refuses a request of a client in a transaction; `false` if it must run now.
#[cold]
fn is_queued(entry: &'static Entry, cx: &mut Context<'_>, args: Args<'_>) -> bool {
    let flags = command_flags::of(entry, cx, args);
    let refusal =
        gate::refusal(cx.hooks.reasons(), flags).or_else(|| refusal_of_monitor(cx, flags));
    match refusal.map_or_else(|| queueing::queue(entry, cx, args), Err) {
        Ok(is_queued) => is_queued,
        Err(error) => {
            reject(entry, cx, &error);
            true
        }
    }
}

/// The error for a client that monitors requests and may therefore not use keys, as in Redis.
fn refusal_of_monitor(cx: &Context<'_>, flags: Flags) -> Option<Error> {
    let is_refused = cx.client.info.marks().contains(Marks::MONITOR)
        && flags.intersects(Flags::WRITE | Flags::READONLY | Flags::PAUSED_AS_WRITE);
    is_refused.then(|| Error::fixed("ERR Replica can't interact with the keyspace"))
}

/// Runs a request of a transaction or script, whose keys are claimed. Memory was checked when the
/// transaction or script began. As in Redis, nothing is evicted until it ends: its own keys must
/// stay, so each request might search all shards in vain.
pub(crate) fn run_claimed<'a>(entry: &Entry, cx: &mut Context<'a>, args: Args<'a>) {
    cx.tally.count_call(entry.index);
    let done = match cx.client.restrictions.contains(Restrictions::TRACKS) {
        true => tracking::run(entry, cx, args, |cx| (entry.command.run)(cx, args)),
        false => (entry.command.run)(cx, args),
    };
    if let Err(error) = done {
        cx.tally.count_failure(entry.index);
        refuse(cx, &error);
    }
}

/// Whether the request's large arguments exceed the free memory. Smaller arguments may exceed the
/// limit slightly, which the next command detects.
#[cold]
fn lacks_room(entry: &Entry, cx: &Context<'_>, args: Args<'_>) -> bool {
    entry.command.flags.contains(Flags::DENYOOM) && !cx.db.store().has_room_for(args.large_bytes())
}

/// Evicts keys for a request with large arguments before it stores them, unless it will be refused
/// or has to wait. Returns whether there is more to do first.
#[cold]
fn make_room_for(entry: &Entry, cx: &Context<'_>, args: Args<'_>) -> bool {
    let holds = HookFlags::PAUSED_WRITES
        | HookFlags::PAUSED_ALL
        | HookFlags::HELD_WRITES
        | HookFlags::LOADING
        | HookFlags::UNSAVED
        | HookFlags::BUSY;
    entry.command.flags.contains(Flags::DENYOOM) && !cx.hooks.reasons().intersects(holds) && {
        let kept = spared(entry, cx, args);
        cx.hooks.latency.time(EVICTION, || cx.db.make_room_for(args.large_bytes(), &kept))
    }
}

/// Hashes of the first few keys of the request, which must not be evicted to make room for it.
fn spared(entry: &Entry, cx: &Context<'_>, args: Args<'_>) -> Vec<u64> {
    const MOST: usize = 16;
    entry.command.keys.of(args).take(MOST).map(|key| cx.key(key).hash()).collect()
}

/// Starts to look up the request's long keys on another thread. Returns whether the request has to
/// wait for it.
#[cold]
fn waits_for_long_keys(entry: &'static Entry, cx: &mut Context<'_>, args: Args<'_>) -> bool {
    let begin = |place: usize| {
        let key = args.large(place).filter(|key| !key.is_joined())?;
        Some((place, cx.db.store().intern(key.chunks(), &cx.client.waker)))
    };
    let keys: Vec<_> = entry.command.keys.positions(args).filter_map(begin).collect();
    let waits = !keys.is_empty();
    if waits {
        cx.suspension = Some(Suspension::long_keys(keys));
    }
    waits
}

/// Runs a request without hooks: checks claims and memory, counts the call, calls the handler.
#[inline]
fn run_unobserved<'a>(entry: &'static Entry, cx: &mut Context<'a>, args: Args<'a>) {
    // A request for a script waits for its keys on the script thread.
    if cx.db.looks_for_claims()
        && !entry.command.flags.contains(Flags::RUNS_SCRIPTS)
        && let Some(wait) = meets_claim(&entry.command.keys, cx.db, cx.client, args)
    {
        cx.suspension = Some(Suspension::restart(Some(wait)));
        return;
    }
    if cx.db.store().is_over_limit()
        && command_flags::of(entry, cx, args).contains(Flags::DENYOOM)
        && (cx.hooks.is_paused(cx.db.now_ms()) || !gate::make_room(cx))
    {
        return reject(entry, cx, &Error::OUT_OF_MEMORY);
    }
    cx.tally.count_call(entry.index);
    let serves = blocking::has_waiting(cx) && blocking::is_awaited(entry, cx);
    let call = |cx: &mut Context<'a>| match serves {
        true => blocking::run(entry, cx),
        false => (entry.command.run)(cx, args),
    };
    let done = match cx.client.restrictions.contains(Restrictions::TRACKS) {
        true => tracking::run(entry, cx, args, call),
        false => call(cx),
    };
    if let Err(error) = done {
        cx.tally.count_failure(entry.index);
        refuse(cx, &error);
    }
    let adds = entry.command.flags.contains(Flags::DENYOOM);
    if adds && cx.suspension.is_none() && cx.db.store().is_far_over_limit() {
        cx.suspension = Some(Suspension::job(evicting(spared(entry, cx, args))));
    }
}

/// A job that evicts keys, except for those `written`, until memory is below the limit.
#[cold]
pub(crate) fn evicting<C: CommandSet>(written: Vec<u64>) -> Job<C> {
    Box::new(move |cx: &mut Context<'_, C>| {
        Ok(if cx.db.evict_for_large_write(&written) {
            JobProgress::NEXT_TICK
        } else {
            JobProgress::Done
        })
    })
}

/// Runs a request with hooks: it may be refused while data is loaded or after a failed save, or
/// delayed by a pause; the latency monitor and HOTKEYS measure it. While clients monitor requests,
/// only one request runs at a time, so that monitors see the requests in the order of their
/// changes.
#[cold]
fn run_observed<'a>(
    entry: &'static Entry,
    cx: &mut Context<'a>,
    args: Args<'a>,
    reasons: HookFlags,
) {
    let hooks = cx.hooks;
    let flags = command_flags::of(entry, cx, args);
    if let Some(error) = gate::refusal(reasons, flags) {
        return reject(entry, cx, &error);
    }
    if reasons.contains(HookFlags::SAVING)
        && flags.contains(Flags::WRITE)
        && gate::delays(cx.server, cx.db.store(), cx.client, cx.db.now_ms())
    {
        cx.suspension = Some(Suspension::restart(None));
        return;
    }
    let is_write = flags.intersects(Flags::WRITE | Flags::PAUSED_AS_WRITE);
    if hooks.holds(reasons, is_write, cx.client, cx.db.now_ms()) {
        cx.suspension = Some(Suspension::restart(None));
        return;
    }
    let may_notify = flags.contains(Flags::WRITE)
        || flags.contains(Flags::READONLY) && hooks.notifications.has_misses();
    if reasons.contains(HookFlags::NOTIFIED) && may_notify && notification::holds_up(cx) {
        cx.suspension = Some(Suspension::restart(None));
        return;
    }
    let is_monitored = reasons.contains(HookFlags::MONITORED);
    let order = is_monitored.then(|| hooks.monitors.order());
    if let Some(error) = refusal_of_monitor(cx, flags).filter(|_| is_monitored) {
        return reject(entry, cx, &error);
    }
    let is_shown = is_monitored && !flags.contains(Flags::ADMIN);
    let words = is_shown.then(|| shown::words(entry.command, args));
    let started = reasons.contains(HookFlags::TIMED).then(Instant::now);
    let keys = &entry.command.keys;
    if reasons.contains(HookFlags::KEY_COSTS) && !keys.is_none() {
        let bytes = key_costs::request_bytes(args);
        key_costs::measure(Named::Arguments(keys), bytes, cx, |cx| run_unobserved(entry, cx, args));
    } else {
        run_unobserved(entry, cx, args);
    }
    if cx.suspension.as_ref().is_some_and(Suspension::is_restart) {
        return;
    }
    if let Some(started) = started {
        let is_fast = flags.contains(Flags::FAST);
        time(cx, if is_fast { "fast-command" } else { "command" }, started);
    }
    if let Some(words) = words {
        // EXEC is shown after its requests.
        match cx.suspension.take() {
            Some(rest) if entry.command.flags.contains(Flags::RUNS_QUEUED) => {
                cx.suspension = Some(rest.map_job(|job| shown_at_end(job, words)));
            }
            rest => {
                cx.suspension = rest;
                shown::show(cx.server, cx.client, &words);
            }
        }
    }
    drop(order);
}

/// A job after whose end monitors are shown its request.
fn shown_at_end(mut job: Job, words: String) -> Job {
    Box::new(move |cx| {
        let progress = job(cx);
        if !matches!(progress, Ok(JobProgress::Pending { .. })) {
            let order = cx.hooks.monitors.order();
            shown::show(cx.server, cx.client, &words);
            drop(order);
        }
        progress
    })
}

/// Reports the duration of a command to the latency monitor when it is complete. The time for which
/// a blocked client waits to be served is not part of it.
fn time(cx: &mut Context<'_>, event: &'static str, started: Instant) {
    // The first slice of a job has been run, which may have blocked.
    let mut is_blocked = cx.suspension.as_ref().is_some_and(|it| it.when == When::Served);
    let mut spent = if is_blocked { started.elapsed() } else { Duration::ZERO };
    let timed = |mut job: Job| -> Job {
        let mut started = started;
        Box::new(move |cx| {
            if std::mem::take(&mut is_blocked) {
                started = Instant::now();
            }
            let progress = job(cx);
            match &progress {
                Ok(JobProgress::Pending { when: When::Served, .. }) => {
                    spent += started.elapsed();
                    is_blocked = true;
                }
                Ok(JobProgress::Pending { .. }) => {}
                Ok(JobProgress::Done) | Err(_) => {
                    cx.hooks.latency.add(event, spent + started.elapsed());
                }
            }
            progress
        })
    };
    match cx.suspension.take() {
        Some(suspension) => cx.suspension = Some(suspension.map_job(timed)),
        None => cx.hooks.latency.add(event, started.elapsed()),
    }
}

/// Whether one of a request's keys is claimed by a job.
#[cold]
pub(crate) fn meets_claim(
    keys: &Keys,
    db: Database<'_>,
    client: &Client,
    args: Args<'_>,
) -> Option<Wait> {
    if keys.is_whole() {
        return db.store().meets_any_claim(&client.waker);
    }
    let meets =
        |group: &KeyGroup| db.store().meets_claim(group.of(args), group.intent(), &client.waker);
    keys.all_groups().iter().find_map(meets)
}

/// Runs a request from lookup to reply. As for [`run`], `cx.suspension` is set if it is not
/// complete.
#[inline]
pub fn execute<'a>(cx: &mut Context<'a>, args: Args<'a>) {
    let commands = cx.server.commands();
    match resolve(commands, args) {
        Ok(entry) => run(entry, cx, args),
        Err(error) => {
            // Joining a name that was received separately would take long, and is no command's.
            let word = |index| if args.large(index).is_none() { args.get(index) } else { None };
            let entry = word(0).and_then(|name| commands.find(name));
            let subcommand = entry.and_then(|entry| commands.subcommand(entry, word(1)?));
            let known = match entry {
                Some(entry) if args.len() == 1 || commands.subcommands(entry).is_empty() => {
                    Some(entry)
                }
                _ => subcommand,
            };
            cx.client.info.note_command(known.map(|entry| entry.index));
            if let Some(entry) = known {
                return reject(entry, cx, &error);
            }
            queueing::abort(None, cx, &error);
            tracking::forget_caching(false, cx);
            refuse(cx, &error);
        }
    }
}

/// Replies with an error to a command that is refused before it runs.
#[cold]
fn reject(entry: &Entry, cx: &mut Context<'_>, error: &Error) {
    cx.tally.count_rejection(entry.index);
    cx.client.was_rejected = true;
    let aborted = queueing::abort(Some(entry), cx, error);
    tracking::forget_caching(tracking::is_about_clients(entry), cx);
    refuse(cx, aborted.as_ref().unwrap_or(error));
}

impl CommandSet for Redis {
    type Writer<'a> = resp::Writer<'a>;
    type Error = Error;

    fn written(replies: &resp::Writer<'_>) -> usize {
        replies.len()
    }

    fn execute(cx: &mut Context<'_>) {
        execute(cx, cx.args);
    }

    fn refuse(cx: &mut Context<'_>, error: &Error) {
        let last = cx.client.info.last_command.load(Ordering::Relaxed) as usize;
        if let Some(index) = last.checked_sub(1) {
            cx.tally.count_failure(index);
        }
        refuse(cx, error);
    }
}

/// A request of a browser whose page attacks a local port (cross-protocol scripting). Further lines
/// could be commands, so the connection is closed without a reply, as by Redis.
const FROM_A_BROWSER: Error = Error::fixed("ERR this is no HTTP server");

/// Replies with an error, and counts it.
#[cold]
pub fn refuse(cx: &mut Context<'_>, error: &Error) {
    cx.tally.count_error(&error.0);
    if *error == FROM_A_BROWSER {
        cx.client.closing = true;
        return;
    }
    cx.reply.error(&error.0);
}

/// Whether a request is a line of HTTP, after which the connection is closed.
#[must_use]
pub fn is_http(args: Args<'_>) -> bool {
    args.get(0).is_some_and(|name| is(name, "POST") || is(name, "Host:"))
}

#[cold]
fn unknown_command(args: Args<'_>) -> Error {
    if args.large(0).is_none() && is_http(args) {
        return FROM_A_BROWSER;
    }
    let mut quoted = Vec::new();
    for index in 1..args.len() {
        if quoted.len() >= QUOTED_BYTES {
            break;
        }
        let argument = args.start_of(index, QUOTED_BYTES);
        let shown = quotable(&argument, QUOTED_BYTES - quoted.len());
        quoted.extend([b"'", shown, b"' "].concat());
    }
    let name = args.start_of(0, QUOTED_BYTES);
    let name = quotable(&name, QUOTED_BYTES);
    let parts = [b"ERR unknown command '", name, b"', with args beginning with: ", &quoted];
    Error(parts.concat().into())
}

#[cold]
fn unknown_subcommand(name: &[u8], word: &[u8]) -> Error {
    let name = String::from_utf8_lossy(name).to_ascii_uppercase();
    let word = quotable(word, QUOTED_BYTES);
    Error::quoting("ERR unknown subcommand '", word, &format!("'. Try {name} HELP."))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn unknown_commands_and_wrong_arities_are_refused() {
        let long = ["1".repeat(106), "2".repeat(44)];
        converse(&format!(
            "FOO => -ERR unknown command 'FOO', with args beginning with: |
             foo bar 'b az' => -ERR unknown command 'foo', with args beginning with: 'bar' 'b az' |
             foo {} {} 3 => -ERR unknown command 'foo', with args beginning with: '{}' '{}' |
             CONFIG => -ERR wrong number of arguments for 'config' command|
             config foo bar => -ERR unknown subcommand 'foo'. Try CONFIG HELP.|
             CONFIG GET => -ERR wrong number of arguments for 'config\u{7c}get' command|",
            long[0],
            long[1],
            long[0],
            "2".repeat(19),
        ));
    }

    #[test]
    fn errors_quote_arguments_up_to_a_zero_byte() {
        let replied = Bench::new().resp(b"*3\r\n$3\r\nfoo\r\n$3\r\na\0b\r\n$2\r\n\xff\n\r\n");
        let text = b"-ERR unknown command 'foo', with args beginning with: 'a' '\xff ' \r\n";
        assert_eq!(replied, text);
    }

    #[test]
    fn without_memory_only_commands_that_need_some_are_refused() {
        let mut bench = Bench::new();
        let oom = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
        for index in 0..200_000 {
            bench.resp(format!("SET filler:{index} value\r\n").as_bytes());
        }
        for (request, reply) in [
            ("SET key value", "+OK\r\n"),
            ("CONFIG SET maxmemory 1", "+OK\r\n"),
            ("SET other value", oom),
            ("APPEND key more", oom),
            ("GET key", "$5\r\nvalue\r\n"),
            ("EXPIRE nothing 100", ":0\r\n"),
            ("DEL filler:1", ":1\r\n"),
            ("CONFIG SET maxmemory-policy volatile-lru", "+OK\r\n"),
            ("SET other value", oom),
            ("EXISTS key filler:2", ":2\r\n"),
            ("CONFIG SET maxmemory 0 maxmemory-policy noeviction", "+OK\r\n"),
            ("SET other value", "+OK\r\n"),
        ] {
            let replied = bench.resp(format!("{request}\r\n").as_bytes());
            assert_eq!(String::from_utf8_lossy(&replied), reply, "{request}");
        }
        let full = bench.memcached(b"set m 0 0 1\r\nx\r\n");
        assert_eq!(String::from_utf8_lossy(&full), "STORED\r\n");
        bench.resp(b"CONFIG SET maxmemory 1\r\n");
        let full = bench.memcached(b"set m 0 0 1\r\ny\r\nget m\r\n");
        let expected = "SERVER_ERROR out of memory storing object\r\nEND\r\n";
        assert_eq!(String::from_utf8_lossy(&full), expected);
    }

    #[test]
    fn a_request_of_a_browser_closes_the_connection() {
        for line in ["POST / HTTP/1.1", "Host: localhost:6379"] {
            let mut bench = Bench::new();
            bench.expect(line, "");
            assert!(bench.client.closing, "{line}");
        }
    }

    #[test]
    fn handlers_reply_the_same_under_a_hold() {
        let mut bench = Bench::new();
        let requests = [
            "SET a 1 EX 100",
            "INCRBY a 5",
            "GETEX a PERSIST",
            "APPEND b text",
            "SETRANGE b 1 EX",
            "SETBIT c 7 1",
            "BITOP OR d b c",
            "BITFIELD c SET u8 0 65",
            "PFADD p x y z",
            "PFCOUNT p",
            "PFMERGE q p",
            "INCRBYFLOAT f 0.5",
            "MSET a 2 b 3",
            "MSETNX a 9 new 9",
            "MGET a b c d none",
            "LCS a b LEN",
            "COPY a d DB 1 REPLACE",
            "MOVE b 1",
            "RENAME a new",
            "EXISTS a b c d",
            "PEXPIREAT c 1700000100000",
            "OBJECT ENCODING new",
            "SELECT 1",
            "MGET b d",
            "DEL b d",
            "SELECT 0",
            "UNLINK c d",
            "GETDEL f",
            "TYPE none",
        ];
        let keys = ["a", "b", "c", "d", "f", "p", "q", "new", "none"];
        let replies = bench.at_one_moment(&keys, &requests);
        let mut alone = Bench::new();
        let lines: Vec<_> = requests.iter().map(|request| format!("{request}\r\n")).collect();
        let expected = String::from_utf8(alone.resp(lines.concat().as_bytes())).unwrap();
        assert_eq!(replies, expected.replace("\r\n", "|"));
        assert!(replies.ends_with(":2|$3|0.5|+none|"), "{replies}");
    }

    #[test]
    fn calls_and_errors_are_counted() {
        let mut bench = Bench::new();
        for request in ["GET a", "GET b", "SET a", "INCR a", "APPEND a x", "INCR a", "FOO"] {
            bench.resp(format!("{request}\r\n").as_bytes());
        }
        let totals = bench.process.statistics.totals();
        let of = |name: &[u8]| totals.commands[crate::command_table().find(name).unwrap().index];
        assert_eq!((of(b"get").calls, of(b"get").failed), (2, 0));
        assert_eq!((of(b"set").calls, of(b"set").failed), (0, 0));
        assert_eq!((of(b"incr").calls, of(b"incr").failed), (2, 1));
        assert_eq!(totals.errors["ERR"], 3);
        bench.process.statistics.worker(0).input_bytes.add(7);
        assert_eq!(bench.process.statistics.totals().input_bytes, 7);
        bench.resp(b"CONFIG RESETSTAT\r\n");
        let totals = bench.process.statistics.totals();
        assert!(totals.errors.is_empty());
        assert_eq!(totals.input_bytes, 0);
        assert!(totals.commands.iter().map(|command| command.calls).sum::<u64>() <= 1);
    }
}
