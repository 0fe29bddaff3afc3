//! Verbs for administrators. Those for settings that do not exist here are parsed as in memcached,
//! and have no effect.

use super::arguments::number;
use super::{Context, Error, Verb};
use crate::config::Origin;
use crate::runtime::gate;
use crate::{HookFlags, JobProgress, Keys};
use nagi_proto::Args;

fn cache_memlimit<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let megabytes = args.get(1).and_then(number).ok_or(Error::UNKNOWN)?;
    if megabytes < 8 {
        return Err(Error("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"));
    }
    let config = cx.server.config();
    let value = format!("{megabytes}mb");
    if config.set("maxmemory", &value, Origin::Runtime).is_err() {
        return Err(Error::BAD_LINE);
    }
    config.limit_memory(cx.db.store());
    cx.reply.line("OK");
    Ok(())
}

pub(super) static CACHE_MEMLIMIT: Verb = Verb {
    name: "cache_memlimit",
    right: "config|set",
    syntax: "<megabytes> [noreply]",
    words: 1,
    keys: Keys::NONE,
    summary: "Changes the setting maxmemory",
    run: cache_memlimit,
};

fn shutdown<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if !cx.server.config().memcached_shutdown.is_on() {
        return Err(Error("SERVER_ERROR: shutdown not enabled"));
    }
    if !matches!(args.get(1), None | Some(b"graceful")) {
        return Err(Error("CLIENT_ERROR invalid shutdown mode"));
    }
    let is_loading = cx.hooks.reasons().contains(HookFlags::LOADING);
    if is_loading || !cx.server.config().has_save_points() {
        cx.client.quit();
        cx.server.shut_down(false);
        return Ok(());
    }
    if gate::note_slow_script(cx.server) && cx.server.scripts().busy().is_some() {
        return Err(Error("SERVER_ERROR a script is running: stop the server by SIGTERM instead"));
    }
    // The saver stops the server, or continues writes, even if this client has disconnected.
    let ticket = cx.server.saves().order_before_shutdown(cx.hooks, false);
    cx.start(Box::new(move |cx| {
        match cx.server.saves().outcome(ticket, &cx.client.waker) {
            None => return Ok(JobProgress::WOKEN),
            Some(Ok(())) => cx.client.quit(),
            Some(Err(why)) => {
                let why = why.replace(['\r', '\n'], " ");
                cx.reply.line(&format!("SERVER_ERROR the data could not be saved: {why}"));
            }
        }
        Ok(JobProgress::Done)
    }))
}

pub(super) static SHUTDOWN: Verb = Verb {
    name: "shutdown",
    right: "shutdown",
    syntax: "[graceful]",
    words: 1,
    keys: Keys::NONE,
    summary: "Stops the server, as SHUTDOWN does, if memcached-shutdown allows it",
    run: shutdown,
};

fn slabs<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let words = (args.get(1), args.get(2), args.get(3));
    match words {
        (Some(b"reassign"), Some(from), Some(to)) => {
            number(from).and(number(to)).ok_or(Error::BAD_LINE)?;
            Err(Error("NOSPARE source class has no spare pages"))
        }
        (Some(b"automove"), Some(mode), _) => {
            number(mode).ok_or(Error::BAD_LINE)?;
            cx.reply.line("OK");
            Ok(())
        }
        _ => Err(Error::UNKNOWN),
    }
}

pub(super) static SLABS: Verb = Verb {
    name: "slabs",
    right: "config|set",
    syntax: "reassign <from> <to> | automove <mode>",
    words: 1,
    keys: Keys::NONE,
    summary: "Has no effect: there are no fixed slab classes",
    run: slabs,
};

fn lru<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let accepted = match (args.get(1), args.get(2)) {
        (Some(b"mode"), Some(mode)) => matches!(mode, b"flat" | b"segmented"),
        (Some(b"temp_ttl"), Some(ttl)) => number(ttl.strip_prefix(b"-").unwrap_or(ttl)).is_some(),
        (Some(b"tune"), Some(_)) => args.len() == 6,
        _ => false,
    };
    if !accepted {
        return Err(Error::UNKNOWN);
    }
    cx.reply.line("OK");
    Ok(())
}

pub(super) static LRU: Verb = Verb {
    name: "lru",
    right: "config|set",
    syntax: "mode <mode> | temp_ttl <ttl> | tune <hot> <warm> <hot factor> <warm factor>",
    words: 1,
    keys: Keys::NONE,
    summary: "Answers OK and changes nothing: maxmemory-policy says what is evicted",
    run: lru,
};
