//! Reading values, and changing their expiry.

use super::arguments::{expiry, gives_versions};
use super::{Context, Error, Verb, statistics, watch};
use crate::{Access, KeyGroup, Keys};
use nagi_proto::Args;
use nagi_proto::memcached::Writer;
use nagi_store::{EntryView, Key, StringValue};

/// Ends the reply to a request for values.
fn end(cx: &mut Context<'_>) {
    cx.reply.line("END");
}

fn get<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let show = |cx: &mut Context<'_>, key: Key<'_>| {
        let Context { db, reply, tally, hooks, .. } = cx;
        let seen = db.get(key, |entry| {
            let entry = entry.filter(|entry| entry.string().is_ok());
            statistics::count_get(tally, entry.is_some());
            if let Some(entry) = entry {
                value(reply, entry, None);
            }
            watch::seen(hooks, entry.as_ref())
        });
        watch::fetched(cx, key, seen);
    };
    cx.each_key(&GET.keys, show, end);
    Ok(())
}

pub(super) static GET: Verb = Verb {
    name: "get",
    right: "get",
    syntax: "<key>+",
    words: 2,
    keys: Keys::all(Access::RO.union(Access::ACCESS)),
    summary: "Returns values",
    run: get,
};

fn gets<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let show = |cx: &mut Context<'_>, key: Key<'_>| {
        let versioned = gives_versions(cx);
        let Context { db, reply, tally, hooks, .. } = cx;
        let seen = db.get_versioned(key, |entry| {
            statistics::count_get(tally, entry.is_some());
            if let Some((entry, cas)) = entry {
                value(reply, entry, Some(if versioned { cas } else { 0 }));
            }
            watch::seen(hooks, entry.as_ref().map(|(entry, _)| entry))
        });
        watch::fetched(cx, key, seen);
    };
    cx.each_key(&GETS.keys, show, end);
    Ok(())
}

pub(super) static GETS: Verb = Verb {
    name: "gets",
    right: "get",
    syntax: "<key>+",
    words: 2,
    keys: Keys::all(Access::RO.union(Access::ACCESS)),
    summary: "Returns values with the numbers of their versions, for cas",
    run: gets,
};

/// The keys of `gat` and `gats` follow the time.
const BEHIND_EXPTIME: Keys =
    Keys::only(KeyGroup::range(2, -1, 1, Access::RW.union(Access::ACCESS).union(Access::UPDATE)));

fn gat<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let expiry = expiry(args.at(1), cx.db.now_ms()).ok_or(Error::EXPTIME)?;
    let show = move |cx: &mut Context<'_>, key: Key<'_>| {
        let Context { db, reply, tally, hooks, .. } = cx;
        let seen = db.get_and_touch(key, expiry, |entry| {
            statistics::count_touch(tally, entry.is_some());
            if let Some(entry) = entry {
                value(reply, entry, None);
            }
            watch::seen(hooks, entry.as_ref())
        });
        let seen = seen.unwrap_or_else(|_| {
            statistics::count_touch(tally, false);
            watch::seen(hooks, None)
        });
        watch::fetched(cx, key, seen);
    };
    cx.each_key(&GAT.keys, show, end);
    Ok(())
}

pub(super) static GAT: Verb = Verb {
    name: "gat",
    right: "getex",
    syntax: "<exptime> <key>+",
    words: 3,
    keys: BEHIND_EXPTIME,
    summary: "Returns values and changes when they expire",
    run: gat,
};

fn gats<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let expiry = expiry(args.at(1), cx.db.now_ms()).ok_or(Error::EXPTIME)?;
    let show = move |cx: &mut Context<'_>, key: Key<'_>| {
        let versioned = gives_versions(cx);
        let Context { db, reply, tally, hooks, .. } = cx;
        let seen = db.get_versioned_and_touch(key, expiry, |entry| {
            statistics::count_touch(tally, entry.is_some());
            if let Some((entry, cas)) = entry {
                value(reply, entry, Some(if versioned { cas } else { 0 }));
            }
            watch::seen(hooks, entry.as_ref().map(|(entry, _)| entry))
        });
        watch::fetched(cx, key, seen);
    };
    cx.each_key(&GATS.keys, show, end);
    Ok(())
}

pub(super) static GATS: Verb = Verb {
    name: "gats",
    right: "getex",
    syntax: "<exptime> <key>+",
    words: 3,
    keys: BEHIND_EXPTIME,
    summary: "Returns values with the numbers of their versions and changes when they expire",
    run: gats,
};

/// Writes a value, with the number of its version if `cas` has one.
fn value(reply: &mut Writer<'_>, entry: EntryView<'_>, cas: Option<u64>) {
    let Ok(value) = entry.string() else { return };
    reply.value_header(entry.key(), entry.flags(), value.len(), cas);
    match value {
        StringValue::Rope(rope) => reply.data_chunks(rope.share(), rope.len()),
        value => value.with_bytes(|bytes| reply.data(bytes)),
    }
}

fn touch<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let expiry = expiry(args.at(2), cx.db.now_ms()).ok_or(Error::EXPTIME)?;
    cx.tally.verbs.touches.add(1);
    let key = cx.key(args.at(1));
    watch::looks_up(cx, key);
    if cx.db.get_and_touch(key, expiry, |entry| entry.is_some()) == Ok(true) {
        cx.tally.verbs.touch_hits.add(1);
        cx.reply.line("TOUCHED");
    } else {
        cx.tally.verbs.touch_misses.add(1);
        cx.reply.line("NOT_FOUND");
    }
    Ok(())
}

pub(super) static TOUCH: Verb = Verb {
    name: "touch",
    right: "expire",
    syntax: "<key> <exptime> [noreply]",
    words: 3,
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    summary: "Changes when a key expires",
    run: touch,
};
