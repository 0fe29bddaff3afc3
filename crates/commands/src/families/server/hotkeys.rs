//! HOTKEYS: the keys that cost the most time and bytes, during a recording (Redis 8.6).
//!
//! The reported costs are lower bounds: they do not exceed the actual cost of the requests for a
//! key, and are lower by at most a tenth of the total cost divided by COUNT. With SAMPLE, each
//! counted request also represents the skipped ones.

use crate::runtime::arguments::{RemainingArguments, is};
use crate::runtime::help;
use crate::state::key_costs::{Costly, KeyCostOptions, Report};
use crate::{Category, Command, Context, Error, Flags, Group, HookFlags, Keys, Notes};
use nagi_proto::Args;
use nagi_store::parse_i64;
use std::ops::RangeInclusive;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&HOTKEYS];

const SUBCOMMANDS: &[&Command] = &[&GET, &HELP, &RESET, &START, &STOP];

/// Flags of all subcommands except HELP.
const ADMIN: Flags = Flags::ADMIN.union(Flags::NOSCRIPT);

/// The default of COUNT.
const DEFAULT_COUNT: usize = 10;
/// The last slot of a cluster.
const LAST_SLOT: i64 = 16_383;

fn hotkeys<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::wrong_arity("hotkeys"))
}

pub(crate) static HOTKEYS: Command = Command {
    name: "HOTKEYS",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "8.6.0",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about the most expensive keys",
    subcommands: SUBCOMMANDS,
    run: hotkeys,
};

/// Parses a number in a range; returns `error` for any other argument.
fn number(
    argument: Option<&[u8]>,
    range: RangeInclusive<i64>,
    error: &'static str,
) -> Result<u64, Error> {
    let number = argument.and_then(parse_i64).filter(|number| range.contains(number));
    number.and_then(|number| u64::try_from(number).ok()).ok_or(Error::fixed(error))
}

/// Parses METRICS: a count, and as many words. Unknown words are ignored.
fn metrics(rest: &mut RemainingArguments<'_>) -> Result<KeyCostOptions, Error> {
    let named = rest.next().is_some_and(|word| is(word, "METRICS"));
    if !named || rest.len() == 0 {
        return Err(Error::fixed("ERR METRICS parameter is required"));
    }
    let count = number(rest.next(), 1..=2, "ERR METRICS count must be > 0 and <= 2")?;
    let (mut cpu, mut net) = (false, false);
    for _ in 0..count {
        let Some(word) = rest.next() else {
            let error = "ERR METRICS count does not match number of metric types provided";
            return Err(Error::fixed(error));
        };
        if is(word, "CPU") && std::mem::replace(&mut cpu, true) {
            return Err(Error::fixed("ERR METRICS CPU defined more than once!"));
        }
        if is(word, "NET") && std::mem::replace(&mut net, true) {
            return Err(Error::fixed("ERR METRICS NET defined more than once!"));
        }
    }
    if !cpu && !net {
        return Err(Error::fixed("ERR METRICS no valid metrics passed. Supported: CPU|NET"));
    }
    Ok(KeyCostOptions { cpu, net, count: DEFAULT_COUNT, duration_ms: None, sample_ratio: 1 })
}

fn options(args: Args<'_>) -> Result<KeyCostOptions, Error> {
    let mut rest = RemainingArguments::from(args, 2);
    let mut options = metrics(&mut rest)?;
    while let Some(option) = rest.next() {
        if is(option, "COUNT") {
            let error = "ERR COUNT must be between 1 and 64";
            let count = number(Some(rest.value()?), 1..=64, error)?;
            options.count = usize::try_from(count).unwrap_or(DEFAULT_COUNT);
        } else if is(option, "DURATION") {
            let error = "ERR DURATION must be between 1 and 1000000";
            let seconds = number(Some(rest.value()?), 1..=1_000_000, error)?;
            options.duration_ms = Some(seconds * 1000);
        } else if is(option, "SAMPLE") {
            let error = "ERR SAMPLE ratio must be positive";
            let ratio = number(Some(rest.value()?), 1..=i32::MAX.into(), error)?;
            options.sample_ratio = u32::try_from(ratio).unwrap_or(1);
        } else if is(option, "SLOTS") {
            rest.value()?;
            let error = "ERR SLOTS parameter cannot be used in non-cluster mode";
            return Err(Error::fixed(error));
        } else {
            return Err(Error::SYNTAX);
        }
    }
    Ok(options)
}

fn start<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    const IN_PROGRESS: Error = Error::fixed("ERR hotkey tracking session already in progress");
    let now_ms = cx.db.now_ms();
    cx.hooks.end_key_costs_if_over(now_ms);
    if cx.hooks.reasons().contains(HookFlags::KEY_COSTS) {
        return Err(IN_PROGRESS);
    }
    let workers = cx.server.statistics().key_costs();
    if !cx.hooks.start_key_costs(options(args)?, now_ms, workers) {
        return Err(IN_PROGRESS);
    }
    cx.server.check_timers();
    cx.reply.ok();
    Ok(())
}

static START: Command = Command {
    name: "START",
    syntax: "METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio] \
             [SLOTS count slot [slot ...]]",
    arity: -2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "8.6.0",
    notes: Notes::of("O(1)"),
    summary: "Begins to count what requests cost by their keys, in time, bytes or both",
    subcommands: &[],
    run: start,
};

fn stop<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    match cx.hooks.stop_key_costs(cx.db.now_ms()) {
        true => cx.reply.ok(),
        false => cx.reply.null(),
    }
    Ok(())
}

static STOP: Command = Command {
    name: "STOP",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "8.6.0",
    notes: Notes::of("O(1)"),
    summary: "Stops counting, and keeps the counts",
    subcommands: &[],
    run: stop,
};

fn get<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let now_ms = cx.db.now_ms();
    cx.hooks.end_key_costs_if_over(now_ms);
    match cx.hooks.key_costs.report(now_ms, cx.server.statistics().key_costs()) {
        Some(report) => reply_with(cx, &report),
        None => cx.reply.null(),
    }
    Ok(())
}

/// Replies with an array of one map, so that cluster clients can merge the replies of all nodes.
fn reply_with(cx: &mut Context<'_>, report: &Report) {
    let Report { options, all, .. } = report;
    let microseconds = |ns: u64| ns.div_ceil(1000);
    cx.reply.array(1);
    cx.reply.map(7 + 3 * usize::from(options.cpu) + 2 * usize::from(options.net));
    add(cx, "tracking-active", report.is_active.into());
    add(cx, "sample-ratio", options.sample_ratio.into());
    cx.reply.bulk(b"selected-slots");
    // All slots, as a single range.
    cx.reply.array(1);
    cx.reply.array(2);
    cx.reply.integer(0);
    cx.reply.integer(LAST_SLOT);
    add(cx, "all-commands-all-slots-us", microseconds(all.ns));
    add(cx, "net-bytes-all-commands-all-slots", all.bytes);
    add(cx, "collection-start-time-unix-ms", report.began_ms);
    add(cx, "collection-duration-ms", report.duration_ms);
    if options.cpu {
        let milliseconds = |it: std::time::Duration| u64::try_from(it.as_millis()).unwrap_or(0);
        add(cx, "total-cpu-time-user-ms", milliseconds(report.user));
        add(cx, "total-cpu-time-sys-ms", milliseconds(report.system));
    }
    if options.net {
        add(cx, "total-net-bytes", all.bytes);
    }
    if options.cpu {
        add_keys(cx, "by-cpu-time-us", &report.by_cpu, microseconds);
    }
    if options.net {
        add_keys(cx, "by-net-bytes", &report.by_net, |bytes| bytes);
    }
}

fn add(cx: &mut Context<'_>, name: &str, number: u64) {
    cx.reply.bulk(name.as_bytes());
    cx.reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
}

/// Writes a map of keys and their costs as a flat array.
fn add_keys(cx: &mut Context<'_>, name: &str, costly: &[Costly], unit: fn(u64) -> u64) {
    cx.reply.bulk(name.as_bytes());
    cx.reply.array(2 * costly.len());
    for (key, cost) in costly {
        cx.reply.bulk(key);
        cx.reply.integer(i64::try_from(unit(*cost)).unwrap_or(i64::MAX));
    }
}

static GET: Command = Command {
    name: "GET",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "8.6.0",
    notes: Notes::of("O(N), N being the keys counted"),
    summary: "Returns the counts, and the most expensive keys",
    subcommands: &[],
    run: get,
};

fn reset<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.hooks.end_key_costs_if_over(cx.db.now_ms());
    if !cx.hooks.key_costs.reset(cx.server.statistics().key_costs()) {
        let error = "ERR hotkey tracking session in progress, stop tracking first";
        return Err(Error::fixed(error));
    }
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
    since: "8.6.0",
    notes: Notes::of("O(N), N being the keys counted"),
    summary: "Discards the counts and frees their memory",
    subcommands: &[],
    run: reset,
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &HOTKEYS);
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
    since: "8.6.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, START_MS, converse};

    #[test]
    fn nonsense_is_refused() {
        converse(
            "HOTKEYS => -ERR wrong number of arguments for 'hotkeys' command|
             HOTKEYS GET x => -ERR wrong number of arguments for 'hotkeys\u{7c}get' command|
             HOTKEYS START => -ERR METRICS parameter is required|
             HOTKEYS START METRICS => -ERR METRICS parameter is required|
             HOTKEYS START COUNT 5 METRICS 1 CPU => -ERR METRICS parameter is required|
             HOTKEYS START METRICS 0 => -ERR METRICS count must be > 0 and <= 2|
             HOTKEYS START METRICS 3 CPU NET => -ERR METRICS count must be > 0 and <= 2|
             HOTKEYS START METRICS x CPU => -ERR METRICS count must be > 0 and <= 2|
             HOTKEYS START METRICS 2 CPU => -ERR METRICS count does not match number of metric
             ... types provided|
             HOTKEYS START METRICS 1 CPU NET => -ERR syntax error|
             HOTKEYS START METRICS 2 CPU CPU => -ERR METRICS CPU defined more than once!|
             HOTKEYS START METRICS 2 net NET => -ERR METRICS NET defined more than once!|
             HOTKEYS START METRICS 1 GPU => -ERR METRICS no valid metrics passed. Supported:
             ... CPU\u{7c}NET|
             HOTKEYS START METRICS 1 CPU COUNT 0 => -ERR COUNT must be between 1 and 64|
             HOTKEYS START METRICS 1 CPU COUNT 65 => -ERR COUNT must be between 1 and 64|
             HOTKEYS START METRICS 1 CPU COUNT => -ERR syntax error|
             HOTKEYS START METRICS 1 CPU DURATION 0 => -ERR DURATION must be between 1 and 1000000|
             HOTKEYS START METRICS 1 CPU DURATION 1000001 => -ERR DURATION must be between 1 and
             ... 1000000|
             HOTKEYS START METRICS 1 CPU SAMPLE 0 => -ERR SAMPLE ratio must be positive|
             HOTKEYS START METRICS 1 CPU SAMPLE 2147483648 => -ERR SAMPLE ratio must be positive|
             HOTKEYS START METRICS 1 CPU SLOTS 2 0 5 => -ERR SLOTS parameter cannot be used in
             ... non-cluster mode|
             HOTKEYS START METRICS 1 CPU FOO => -ERR syntax error|
             HOTKEYS GET => $-1|",
        );
    }

    #[test]
    fn a_session_is_started_stopped_and_forgotten() {
        converse(
            "HOTKEYS STOP => $-1|
             HOTKEYS RESET => +OK|
             HOTKEYS START METRICS 2 GPU CPU SAMPLE 5 COUNT 64 => +OK|
             HOTKEYS START => -ERR hotkey tracking session already in progress|
             HOTKEYS RESET => -ERR hotkey tracking session in progress, stop tracking first|
             HOTKEYS STOP => +OK|
             HOTKEYS STOP => $-1|
             HOTKEYS START METRICS 1 NET => +OK|
             HOTKEYS STOP => +OK|
             HOTKEYS RESET => +OK|
             HOTKEYS GET => $-1|",
        );
    }

    #[test]
    fn counts_are_reported_until_they_are_reset() {
        let mut bench = Bench::new();
        bench.expect("HOTKEYS START METRICS 1 NET DURATION 10", "+OK|");
        bench.expect("SET key value", "+OK|");
        bench.advance_ms(9_000);
        bench.expect("GET key", "$5|value|");
        bench.expect("PING", "+PONG|");
        // The costs are 15 and 5, and 9 and 11 bytes.
        let told = |is_active: u8, duration_ms: u64| {
            format!(
                "*1|*18|$15|tracking-active|:{is_active}|$12|sample-ratio|:1|\
                 $14|selected-slots|*1|*2|:0|:16383|$25|all-commands-all-slots-us|:US|\
                 $32|net-bytes-all-commands-all-slots|:40|\
                 $29|collection-start-time-unix-ms|:{START_MS}|\
                 $22|collection-duration-ms|:{duration_ms}|\
                 $15|total-net-bytes|:40|$12|by-net-bytes|*2|$3|key|:40|"
            )
        };
        let hidden = |reply: String| {
            let (start, rest) = reply.split_once("slots-us|:").unwrap();
            let (us, rest) = rest.split_once('|').unwrap();
            assert!(us.parse::<u64>().unwrap() > 0, "{us}");
            format!("{start}slots-us|:US|{rest}")
        };
        assert_eq!(hidden(bench.call(&["HOTKEYS", "GET"])), told(1, 9_000));
        bench.advance_ms(1_000);
        bench.expect("GET key", "$5|value|");
        assert_eq!(hidden(bench.call(&["HOTKEYS", "GET"])), told(0, 10_000));
        assert_eq!(bench.process.hooks.reasons(), HookFlags::empty());
        bench.expect("HOTKEYS STOP", "$-1|");
        assert_eq!(hidden(bench.call(&["HOTKEYS", "GET"])), told(0, 10_000));
        bench.expect("HOTKEYS START METRICS 1 CPU", "+OK|");
        bench.expect_memcached("get other", "END|");
        let reply = bench.call(&["HOTKEYS", "GET"]);
        assert!(reply.contains("$14|by-cpu-time-us|*2|$5|other|:"), "{reply}");
        assert!(!reply.contains("total-net-bytes"), "{reply}");
    }
}
