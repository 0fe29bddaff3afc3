//! Verbs for the cache as a whole, and for its statistics.

use super::arguments::{When, number, when};
use super::{Context, Error, VERSION, Verb, dump, stats};
use crate::Keys;
use crate::runtime::rights;
use nagi_proto::Args;
use nagi_store::Scope;

fn flush_all<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if !cx.server.config().memcached_flush_all.is_on() {
        return Err(Error("CLIENT_ERROR flush_all not allowed"));
    }
    let delay = args.get(1).map_or(Some(When::Never), |delay| when(delay, cx.db.now_ms()));
    flush(cx, delay.ok_or(Error::EXPTIME)?);
    cx.reply.line("OK");
    Ok(())
}

/// Empties the cache, now or later.
pub(super) fn flush(cx: &Context<'_>, delay: When) {
    cx.tally.verbs.flushes.add(1);
    match delay {
        When::At(at_ms) if at_ms > cx.db.now_ms() => cx.server.flush_at(at_ms),
        When::Never | When::At(_) => {
            // An immediate flush also cancels a scheduled one.
            cx.server.flush_at(u64::MAX);
            cx.db.flush(Scope::Database(cx.db.index()));
        }
    }
}

pub(super) static FLUSH_ALL: Verb = Verb {
    name: "flush_all",
    right: "flushall",
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
    right: "",
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
    right: "config|set",
    syntax: "<level> [noreply]",
    words: 2,
    keys: Keys::NONE,
    summary: "Answers OK and changes nothing: what is logged is chosen when nagi starts",
    run: verbosity,
};

fn quit<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.client.quit();
    Ok(())
}

pub(super) static QUIT: Verb = Verb {
    name: "quit",
    right: "",
    syntax: "",
    words: 1,
    keys: Keys::NONE,
    summary: "Closes the connection",
    run: quit,
};

fn stats<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    match (args.get(1), args.get(2)) {
        (Some(b"detail"), sub) => return detail(cx, sub),
        (Some(b"cachedump"), _) => {
            need_right(cx, "keys")?;
            return dump::cachedump(cx, args);
        }
        (Some(b"reset"), _) => {
            need_right(cx, "config|resetstat")?;
            reset(cx);
            cx.reply.line("RESET");
            return Ok(());
        }
        (group, _) => {
            for (name, value) in stats::fields(cx, group).ok_or(Error::UNKNOWN)? {
                cx.reply.line(&format!("STAT {name} {value}"));
            }
        }
    }
    cx.reply.line("END");
    Ok(())
}

/// Checks the permission for a command of Redis that does the same, beyond that for the verb.
pub(super) fn need_right(cx: &mut Context<'_>, command: &str) -> Result<(), Error> {
    match rights::may_run_verb(cx, command, &Keys::NONE, std::iter::empty()) {
        true => Ok(()),
        false => Err(Error::NO_RIGHT),
    }
}

/// Resets all counters to zero.
pub(super) fn reset(cx: &Context<'_>) {
    cx.db.store().reset_counters();
    cx.server.statistics().reset();
}

/// `stats detail`, statistics by prefixes of keys, is not supported: the replies are those of a
/// memcached without such statistics.
fn detail(cx: &mut Context<'_>, sub: Option<&[u8]>) -> Result<(), Error> {
    if !cx.server.config().memcached_dump.is_on() {
        return Err(Error("CLIENT_ERROR stats detail not allowed"));
    }
    match sub {
        Some(b"on" | b"off") => cx.reply.line("OK"),
        Some(b"dump") => cx.reply.line("END"),
        _ => return Err(Error("CLIENT_ERROR usage: stats detail on|off|dump")),
    }
    Ok(())
}

pub(super) static STATS: Verb = Verb {
    name: "stats",
    right: "info",
    syntax: "[settings | items | slabs | sizes | conns | cachedump <class> <limit> | detail (on | \
             off | dump) | reset]",
    words: 1,
    keys: Keys::NONE,
    summary: "Returns the statistics, or resets them",
    run: stats,
};
