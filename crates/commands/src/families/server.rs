//! The server: INFO, TIME, SHUTDOWN.

use crate::families::info::{SECTIONS, Section};
use crate::runtime::arguments::{Rest, is};
use crate::{Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes, Reasons};
use nagi_proto::Args;
use std::time::{SystemTime, UNIX_EPOCH};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&INFO, &SHUTDOWN, &TIME];

fn info<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let asked_for = |section: &Section| {
        args.from(1).any(|word| {
            is(word, section.name)
                || is(word, "all")
                || is(word, "everything")
                || is(word, "default") && section.by_default
        })
    };
    let mut text = String::new();
    for section in SECTIONS {
        let shown = if args.len() == 1 { section.by_default } else { asked_for(section) };
        if shown {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            section.write(cx, &mut text);
        }
    }
    cx.reply.text(&text);
    Ok(())
}

pub(crate) static INFO: Command = Command {
    name: "INFO",
    syntax: "[section ...]",
    arity: -1,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::DANGEROUS,
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of("O(1)").history(&[("7.0.0", "Several sections")]).tips(&[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ]),
    summary: "Returns what is known of the server, section by section",
    subcommands: &[],
    run: info,
};

fn time<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    cx.reply.array(2);
    cx.reply.bulk(now.as_secs().to_string().as_bytes());
    cx.reply.bulk(now.subsec_micros().to_string().as_bytes());
    Ok(())
}

pub(crate) static TIME: Command = Command {
    name: "TIME",
    syntax: "",
    arity: 1,
    flags: Flags::LOADING.union(Flags::STALE).union(Flags::FAST),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.6.0",
    notes: Notes::of("O(1)").tips(&["nondeterministic_output"]),
    summary: "Returns the time, in seconds since 1970 and the microseconds of the current one",
    subcommands: &[],
    run: time,
};

fn shutdown<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (mut save, mut abort, mut force) = (None, false, false);
    for option in Rest::from(args, 1) {
        if is(option, "SAVE") && save != Some(false) {
            save = Some(true);
        } else if is(option, "NOSAVE") && save != Some(true) {
            save = Some(false);
        } else if is(option, "ABORT") {
            abort = true;
        } else if is(option, "FORCE") {
            force = true;
        } else if !is(option, "NOW") {
            return Err(Error::SYNTAX);
        }
    }
    if abort {
        if args.len() > 2 {
            return Err(Error::SYNTAX);
        }
        if !cx.server.saves().abort_the_end() {
            return Err(Error::fixed("ERR No shutdown in progress."));
        }
        cx.reply.ok();
        return Ok(());
    }
    if cx.attention.reasons().contains(Reasons::LOADING) {
        // What is there is a part of what the file has.
        save = Some(false);
    }
    let has_points = !cx.server.config().save.get().is_empty();
    if !save.unwrap_or(has_points) {
        cx.client.closing = true;
        cx.server.shut_down(Some(false));
        return Ok(());
    }
    shut_down_saved(cx, force)
}

/// Stops the server once its data is saved; `force`, even if that fails.
fn shut_down_saved(cx: &mut Context<'_>, force: bool) -> Result<(), Error> {
    let mut ordered = None;
    cx.start(Box::new(move |cx| {
        let saves = cx.server.saves();
        ordered = ordered.or_else(|| saves.order_before_the_end(&cx.client.waker));
        let Some(ticket) = ordered else { return Ok(JobProgress::WOKEN) };
        let outcome = saves.outcome(ticket, &cx.client.waker);
        let Some(outcome) = outcome else { return Ok(JobProgress::WOKEN) };
        if outcome.is_err() && (!force || saves.is_end_aborted(ticket)) {
            return Err(Error::fixed("ERR Errors trying to SHUTDOWN. Check logs."));
        }
        cx.client.closing = true;
        cx.server.shut_down(Some(outcome.is_ok()));
        Ok(JobProgress::Done)
    }))
}

pub(crate) static SHUTDOWN: Command = Command {
    name: "SHUTDOWN",
    syntax: "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
    arity: -1,
    flags: Flags::ADMIN
        .union(Flags::NOSCRIPT)
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::NO_MULTI)
        .union(Flags::ALLOW_BUSY),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of("O(1)").history(&[("7.0.0", "NOW, FORCE and ABORT")]),
    summary: "Stops the server, as SIGTERM does, once its data is saved",
    subcommands: &[],
    run: shutdown,
};

#[cfg(test)]
mod tests {
    use crate::runtime::testing::{Bench, converse};

    #[test]
    fn sections_of_info() {
        let mut bench = Bench::new();
        bench.expect("MSET a 1 b 2", "+OK|");
        bench.expect("EXPIRE a 10", ":1|");
        bench.expect("MGET a b", "*2|$1|1|$1|2|");
        bench.expect("FOO", "-ERR unknown command 'FOO', with args beginning with: |");
        bench.expect_memcached("get none", "END|");
        bench.expect("INFO keyspace", "$48|# Keyspace|db0:keys=2,expires=1,avg_ttl=10000||");
        bench.expect("INFO cluster CLUSTER", "$30|# Cluster|cluster_enabled:0||");
        bench.expect("INFO nosuch", "$0||");
        let default = bench.call(&["INFO"]);
        for line in [
            "# Server|redis_version:7.2.4|nagi_version:",
            "|tcp_port:6379|",
            "|# Clients|connected_clients:2|cluster_connections:0|maxclients:10000|",
            "|used_memory_rss:",
            "|# Stats|",
            // The four requests above, memcached's, three times INFO and this one.
            "|total_commands_processed:8|",
            "|keyspace_hits:2|",
            "|keyspace_misses:1|",
            "|role:master|",
            "|used_cpu_user:",
            "|# Errorstats|errorstat_ERR:count=1|",
            "|# Keyspace|db0:keys=2,expires=1,avg_ttl=",
        ] {
            assert!(default.contains(line), "{line} in {default}");
        }
        assert!(!default.contains("# Commandstats"));
        assert_eq!(default.matches("||#").count(), 10, "a blank line parts sections: {default}");
        for request in [&["INFO", "everything"][..], &["INFO", "default", "commandstats"]] {
            let all = bench.call(request);
            assert!(
                all.contains("|cmdstat_mget:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,"),
                "{all}"
            );
        }
        bench.expect("CONFIG RESETSTAT", "+OK|");
        assert!(bench.call(&["INFO", "stats"]).contains("|keyspace_hits:0|"));
    }

    #[test]
    fn time() {
        let mut bench = Bench::new();
        let reply = bench.call(&["TIME"]);
        let words: Vec<_> = reply.split('|').collect();
        assert_eq!((words[0], words[1]), ("*2", "$10"));
        assert!(words[2].parse::<u64>().unwrap() > 1_700_000_000);
        assert!(words[4].parse::<u64>().unwrap() < 1_000_000);
    }

    #[test]
    fn shutdown() {
        converse(
            "SHUTDOWN FOO => -ERR syntax error|
             SHUTDOWN SAVE NOSAVE => -ERR syntax error|
             SHUTDOWN ABORT => -ERR No shutdown in progress.|
             SHUTDOWN ABORT NOW => -ERR syntax error|",
        );
        let mut bench = Bench::new();
        assert!(!*bench.process.asked_to_stop.lock().unwrap());
        bench.expect("SHUTDOWN NOSAVE NOW FORCE", "");
        assert!(*bench.process.asked_to_stop.lock().unwrap());
        assert!(bench.client.closing);
    }
}
