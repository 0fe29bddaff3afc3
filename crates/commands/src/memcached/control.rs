//! The cache as a whole, and what is known of it.

use super::arguments::{When, number, when};
use super::{Context, Error, VERSION, Verb};
use crate::Keys;
use crate::usage::Usage;
use nagi_proto::Args;
use nagi_store::Scope;
use std::fmt::Display;

fn flush_all<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let delay = args.get(1).map_or(Some(When::Never), |delay| when(delay, cx.db.now_ms()));
    cx.tally.verbs.flushes.add(1);
    match delay.ok_or(Error::EXPTIME)? {
        When::At(at_ms) if at_ms > cx.db.now_ms() => cx.server.flush_at(at_ms),
        When::Never | When::At(_) => {
            // One that is still to come is replaced by this one.
            cx.server.flush_at(u64::MAX);
            cx.db.store().flush(Scope::Database(cx.db.index()));
        }
    }
    cx.reply.line("OK");
    Ok(())
}

pub(super) static FLUSH_ALL: Verb = Verb {
    name: "flush_all",
    syntax: "[delay] [noreply]",
    words: 1,
    keys: Keys::WHOLE,
    summary: "Empties the cache, which is database 0, now or later",
    run: flush_all,
};

fn version<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.line(&format!("VERSION {VERSION}"));
    Ok(())
}

pub(super) static VERSION_ROW: Verb = Verb {
    name: "version",
    syntax: "",
    words: 1,
    keys: Keys::NONE,
    summary: "Returns the version of memcached that nagi behaves like, and its own",
    run: version,
};

fn verbosity<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    number(args.at(1)).ok_or(Error::BAD_LINE)?;
    cx.reply.line("OK");
    Ok(())
}

pub(super) static VERBOSITY: Verb = Verb {
    name: "verbosity",
    syntax: "<level> [noreply]",
    words: 2,
    keys: Keys::NONE,
    summary: "Answers OK and changes nothing: what is logged is chosen when nagi starts",
    run: verbosity,
};

fn quit<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.client.closing = true;
    Ok(())
}

pub(super) static QUIT: Verb = Verb {
    name: "quit",
    syntax: "",
    words: 1,
    keys: Keys::NONE,
    summary: "Closes the connection",
    run: quit,
};

fn stats<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    match args.get(1) {
        None => general(cx),
        Some(b"settings") => settings(cx),
        Some(b"reset") => {
            cx.db.store().reset_counters();
            cx.server.statistics().reset();
            cx.reply.line("RESET");
            return Ok(());
        }
        Some(_) => return Err(Error::UNKNOWN),
    }
    cx.reply.line("END");
    Ok(())
}

pub(super) static STATS: Verb = Verb {
    name: "stats",
    syntax: "[settings | reset]",
    words: 1,
    keys: Keys::NONE,
    summary: "Returns what has been counted, or starts it again from zero",
    run: stats,
};

fn stat(cx: &mut Context<'_>, name: &str, value: impl Display) {
    cx.reply.line(&format!("STAT {name} {value}"));
}

/// The fields of memcached that are true here. Connections and bytes are those of all protocols.
fn general(cx: &mut Context<'_>) {
    let totals = cx.server.statistics().totals();
    let store = cx.db.store().totals();
    let (limit_bytes, _) = cx.db.store().limit();
    let used_bytes = cx.db.store().used_bytes();
    let now_ms = cx.db.now_ms();
    let process = cx.server.process().clone();
    let connections = cx.server.clients().len();
    let most_connections = cx.server.config().maxclients.get();
    stat(cx, "pid", std::process::id());
    stat(cx, "uptime", now_ms.saturating_sub(process.started_at_ms) / 1000);
    stat(cx, "time", now_ms / 1000);
    stat(cx, "version", VERSION);
    stat(cx, "pointer_size", usize::BITS);
    if let Some(usage) = Usage::read() {
        stat(cx, "rusage_user", format_args!("{:.6}", usage.user.as_secs_f64()));
        stat(cx, "rusage_system", format_args!("{:.6}", usage.system.as_secs_f64()));
    }
    stat(cx, "max_connections", most_connections);
    stat(cx, "curr_connections", connections);
    stat(cx, "total_connections", totals.connections);
    stat(cx, "rejected_connections", totals.refused_connections);
    for (name, value) in totals.verbs.fields() {
        stat(cx, name, value);
    }
    stat(cx, "bytes_read", totals.input_bytes);
    stat(cx, "bytes_written", totals.output_bytes);
    stat(cx, "limit_maxbytes", limit_bytes);
    stat(cx, "threads", process.workers);
    stat(cx, "bytes", used_bytes);
    let items = cx.db.size();
    stat(cx, "curr_items", items);
    stat(cx, "evictions", store.evicted);
}

/// The settings of memcached that there are here.
fn settings(cx: &mut Context<'_>) {
    let process = cx.server.process().clone();
    let config = cx.server.config();
    let rows = [
        ("maxbytes", cx.db.store().limit().0),
        ("maxconns", config.maxclients.get()),
        ("tcpport", process.memcached_port.into()),
        ("tcp_backlog", config.tcp_backlog.get()),
        ("item_size_max", config.memcached_item_limit.get()),
        ("num_threads", process.workers as u64),
        ("idle_timeout", config.timeout_s.get()),
    ];
    let inter = config.bind.get();
    for (name, value) in rows {
        stat(cx, name, value);
    }
    stat(cx, "inter", inter.replace(' ', ","));
    stat(cx, "cas_enabled", "yes");
    stat(cx, "flush_enabled", "yes");
    stat(cx, "auth_enabled_sasl", "no");
    stat(cx, "auth_enabled_ascii", "no");
}
