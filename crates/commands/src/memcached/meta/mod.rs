//! The meta commands: each reply has two letters and the requested flags.

mod flags;
mod reply;
#[cfg(test)]
mod tests;

use super::binary::key_meets_claim;
use super::verb::KEY_BYTES;
use super::watch::{self, Offer};
use super::{Context, Error, Verb, operation, statistics, storage};
use crate::runtime::arguments::value;
use crate::runtime::{gate, rights};
use crate::{Access, Keys};
use flags::Flags;
use nagi_proto::Args;
use nagi_proto::memcached::base64;
use nagi_store::types::counter::Arithmetic;
use nagi_store::types::string::{Expiry, SetOptions};
use nagi_store::types::versioned::{Count, Counted, Fetch, Mode, Removal, Write, Written};
use reply::Reply;

fn mn<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.line("MN");
    Ok(())
}

pub(super) static MN: Verb = Verb {
    name: "mn",
    right: "",
    syntax: "",
    words: 1,
    keys: Keys::NONE,
    summary: "Replies MN, which marks the end of the replies to quiet requests",
    run: mn,
};

fn mg<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let flags = Flags::read(cx, args, 2)?;
    let mut room = Vec::new();
    let key = cx.key(flags.key(args.at(1), &mut room)?);
    // Without room for an entry, a miss stays one.
    let vivify = flags.vivified.filter(|_| operation::has_room(cx));
    let fetch = Fetch {
        expiry: flags.expiry.unwrap_or(Expiry::Keep),
        expiry_first: flags.expiry_before_refresh,
        vivify,
        refresh_ms: flags.refresh_ms,
        versioned: flags.versioned,
        version: flags.version,
    };
    let Context { db, reply, tally, hooks, .. } = cx;
    let touched = flags.expiry.is_some();
    let now_ms = db.now_ms();
    let db = if flags.untouched { db.untouched() } else { *db };
    let seen = db.fetch(key, &fetch, |found| {
        let found_before = found.as_ref().filter(|found| !found.vivified);
        let seen = watch::seen(hooks, found_before.map(|found| &found.entry));
        // As in memcached, a value that was made for the request counts as found, and a miss never
        // as a touch.
        match found.is_some() && touched {
            true => statistics::count_touch(tally, true),
            false => statistics::count_get(tally, found.is_some()),
        }
        tally.verbs.stored.add(found.as_ref().is_some_and(|found| found.vivified).into());
        match found {
            Some(found) => Reply::fetched(reply, &flags, args.at(1), &found, now_ms),
            None if flags.quiet => {}
            None => Reply::begin(reply, "EN").echo(&flags, args.at(1)).end(),
        }
        seen
    });
    watch::fetched(cx, key, seen);
    Ok(())
}

/// The keys of an `mg` whose flags change the entry.
static MG_CHANGES: Keys = Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE));

/// The keys of a request: `mg` changes them only with a flag that sets expiry or version, or makes
/// an entry.
pub(super) fn keys_of(verb: &'static Verb, args: Args<'_>) -> &'static Keys {
    let is_change = |word: &[u8]| matches!(word, [b'E' | b'N' | b'T', ..]);
    match verb.name == MG.name && args.from(2).any(is_change) {
        true => &MG_CHANGES,
        false => &verb.keys,
    }
}

pub(super) static MG: Verb = Verb {
    name: "mg",
    right: "getex",
    syntax: "<key> <flags>*",
    words: 2,
    keys: Keys::one(Access::RW.union(Access::ACCESS)),
    summary: "Returns a value, and what else its flags ask for; may refresh, lease or make it",
    run: mg,
};

fn ms<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (args, value) = (args.take(args.len() - 1), value(args, args.len() - 1));
    let flags = Flags::read(cx, args, 3)?;
    let mut room = Vec::new();
    let key = cx.key(flags.key(args.at(1), &mut room)?);
    let len = value.len();
    let mode = mode(&flags)?;
    let write = Write {
        mode,
        value,
        flags: flags.client_flags,
        expiry: flags.expiry.unwrap_or(Expiry::Never),
        // 0 is the number of no value. Replacing one under it fails even if it may be outdated;
        // appending ignores it.
        expected: flags.expected.filter(|expected| *expected != 0 || !mode.adds()),
        allow_older: flags.invalidate && flags.expected != Some(0),
        vivify: flags.vivify,
        // In `ms`, 0 means that the server chooses the number.
        version: flags.version.filter(|version| *version != 0),
        versioned: flags.versioned,
        limit_bytes: cx.server.config().memcached_item_limit.bytes(),
    };
    // The reply to a successful store has the resulting length; a refusal has the length of the
    // request's value.
    let stored = operation::store(cx, key, write);
    if stored == Err(Error::OUT_OF_MEMORY) {
        // The old value is outdated, since the client wanted to replace it.
        cx.db.delete(key);
    }
    let (code, cas, bytes) = match stored? {
        Written::Done { .. } if flags.quiet => return Ok(()),
        Written::Done { cas, bytes } => ("HD", cas, bytes),
        Written::Refused | Written::TooLong => ("NS", None, len),
        Written::Changed => ("EX", None, len),
        Written::Missing => ("NF", None, len),
    };
    let mut reply = Reply::begin(&mut cx.reply, code);
    for (letter, token) in flags.each() {
        match letter {
            b'c' => reply.number(b'c', cas.unwrap_or(0)),
            b's' => reply.number(b's', bytes as u64),
            _ => reply.echo_one(&flags, args.at(1), letter, token),
        };
    }
    reply.end();
    Ok(())
}

/// The mode of `ms`.
fn mode(flags: &Flags<'_>) -> Result<Mode, Error> {
    match flags.mode.map(<[u8]>::first) {
        None | Some(Some(b'S')) => Ok(Mode::Set),
        Some(Some(b'E')) => Ok(Mode::Add),
        Some(Some(b'R')) => Ok(Mode::Replace),
        Some(Some(b'A')) => Ok(Mode::Append),
        Some(Some(b'P')) => Ok(Mode::Prepend),
        Some(_) => Err(Error("CLIENT_ERROR invalid mode for ms M token")),
    }
}

pub(super) static MS: Verb = Verb {
    name: "ms",
    right: "set",
    syntax: "<key> <bytes> <flags>*",
    words: 4,
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    summary: "Stores a value, in one of the modes set, add, replace, append and prepend",
    run: ms,
};

/// Decodes the key of a meta command with the flag `b` into `room`; `None` if the key is not in
/// base64.
pub(super) fn spelled_key<'r>(args: Args<'_>, room: &'r mut Vec<u8>) -> Option<&'r [u8]> {
    // The last argument of `ms` is its value.
    let has_value = args.get(0) == Some(b"ms");
    spelled_key_of_line(args.take(args.len() - usize::from(has_value)), room)
}

/// Like [`spelled_key`], given the words of a line without a value.
fn spelled_key_of_line<'r>(line: Args<'_>, room: &'r mut Vec<u8>) -> Option<&'r [u8]> {
    let is_meta = matches!(line.get(0), Some(b"mg" | b"ms" | b"md" | b"ma" | b"me"));
    let spelled = is_meta && line.from(2).any(|word| word.starts_with(b"b"));
    (spelled && base64::decode(line.at(1), room)).then_some(room)
}

/// Handles an `ms` or `set` that was refused for the length of its value, given its line. As in
/// memcached, the key is removed, since the old value is outdated; but not if the line is wrong
/// otherwise, or if the client may not change the key, or not now. Returns `false`, with nothing
/// done, if no item of memcached can have the key.
pub fn forget_refused<'a>(cx: &mut Context<'a>, verb: &Verb, args: Args<'a>) -> bool {
    if args.at(1).len() > KEY_BYTES {
        return false;
    }
    cx.tally.verbs.too_large.add(1);
    let mut room = Vec::new();
    let name = spelled_key_of_line(args, &mut room).unwrap_or(args.at(1));
    let key = cx.db.key(name);
    let options = SetOptions::default();
    let offer = watch::offered(cx, || Offer::plain(options, 0));
    watch::refused(cx, key, "too_large", offer);
    let is_right = match verb.name {
        "ms" => Flags::read(cx, args, 3).is_ok_and(|flags| {
            mode(&flags).is_ok() && flags.key(args.at(1), &mut Vec::new()).is_ok()
        }),
        _ => storage::options(cx, args).is_ok(),
    };
    let is_allowed = is_right
        && rights::may_run_verb(cx, verb.right, &verb.keys, std::iter::once(name))
        && gate::refusal_of_verb(cx.hooks.reasons(), &verb.keys).is_none()
        && !cx.hooks.is_paused(cx.db.now_ms())
        && key_meets_claim(cx, name).is_none();
    if is_allowed {
        watch::looks_up(cx, key);
        cx.db.delete(key);
    }
    true
}

fn md<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let flags = Flags::read(cx, args, 2)?;
    let mut room = Vec::new();
    let key = cx.key(flags.key(args.at(1), &mut room)?);
    let removal = Removal {
        expected: flags.expected,
        invalidate: flags.invalidate,
        clear: flags.clear.then_some(flags.client_flags),
        expiry: flags.expiry.unwrap_or(Expiry::Keep),
        version: flags.version,
    };
    let shown = watch::to_be_deleted(cx, key).filter(|_| !removal.invalidate);
    let removed = operation::remove(cx, key, &removal);
    let is_done = matches!(removed, Written::Done { .. });
    let is_cleared = is_done && removal.clear.is_some();
    if removed == Written::Changed {
        // As in memcached, which does not count a mismatch in the binary protocol.
        statistics::count_removal(cx.tally, false);
    }
    cx.tally.verbs.stored.add(is_cleared.into());
    if is_cleared {
        let nothing = watch::offered(cx, || Offer::plain(SetOptions::default(), 0));
        watch::stored(cx, key, "stored", nothing);
    }
    let shown = shown.map(|bytes| if is_cleared { 0 } else { bytes });
    watch::deleted(cx, key, "md", shown.filter(|_| is_done));
    let code = match removed {
        Written::Done { .. } if flags.quiet => return Ok(()),
        Written::Done { .. } => "HD",
        Written::Missing => "NF",
        _ => "EX",
    };
    Reply::begin(&mut cx.reply, code).echo(&flags, args.at(1)).end();
    Ok(())
}

pub(super) static MD: Verb = Verb {
    name: "md",
    right: "del",
    syntax: "<key> <flags>*",
    words: 2,
    keys: Keys::one(Access::RM.union(Access::DELETE)),
    summary: "Removes a key, or declares its value stale",
    run: md,
};

fn ma<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    const INVALID: Error = Error("CLIENT_ERROR invalid or duplicate flag");
    let flags = Flags::read(cx, args, 2).map_err(|_| INVALID)?;
    let mut room = Vec::new();
    let key = cx.key(flags.key(args.at(1), &mut room).map_err(|_| INVALID)?);
    let step = match flags.mode.map(<[u8]>::first) {
        None | Some(Some(b'I' | b'+')) => Arithmetic::Up(flags.delta),
        Some(Some(b'D' | b'-')) => Arithmetic::Down(flags.delta),
        Some(_) => return Err(Error("CLIENT_ERROR invalid mode for ma M token")),
    };
    let count = Count {
        step,
        expected: flags.expected.filter(|expected| *expected != 0),
        expiry: flags.expiry.unwrap_or(Expiry::Keep),
        initial: flags.vivified.map(|expiry| (flags.initial, expiry)),
        version: flags.version,
        versioned: flags.versioned,
    };
    let now_ms = cx.db.now_ms();
    match operation::count(cx, key, &count)? {
        Counted::At { .. } if flags.quiet => {}
        Counted::At { number, cas, expire_at_ms: (after, before), created } => {
            let expire_at_ms = match created {
                true => flags.vivified_expire_at_ms(),
                false if flags.time_first => before,
                false => after,
            };
            let digits = number.to_string();
            let mut reply = match flags.value {
                true => Reply::value(&mut cx.reply, digits.len()),
                false => Reply::begin(&mut cx.reply, "HD"),
            };
            for (letter, token) in flags.each() {
                match letter {
                    b'c' => reply.number(b'c', cas.unwrap_or(0)),
                    b't' => reply.time_left(expire_at_ms, now_ms),
                    _ => reply.echo_one(&flags, args.at(1), letter, token),
                };
            }
            reply.end();
            if flags.value {
                cx.reply.data(digits.as_bytes());
            }
        }
        Counted::Missing => Reply::begin(&mut cx.reply, "NF").echo(&flags, args.at(1)).end(),
        Counted::Changed => Reply::begin(&mut cx.reply, "EX").echo(&flags, args.at(1)).end(),
    }
    Ok(())
}

pub(super) static MA: Verb = Verb {
    name: "ma",
    right: "incrby",
    syntax: "<key> <flags>*",
    words: 2,
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    summary: "Counts up or down, from a number of the client's choice where there is none",
    run: ma,
};

fn me<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    // memcached counts no other meta command here.
    cx.tally.verbs.meta.add(1);
    let spelled = args.from(2).any(|word| word.starts_with(b"b"));
    let mut room = Vec::new();
    if spelled && !base64::decode(args.at(1), &mut room) {
        return Err(Error::BAD_LINE);
    }
    let key = if spelled { cx.db.key(&room) } else { cx.key(args.at(1)) };
    watch::looks_up(cx, key);
    let Context { db, reply, .. } = cx;
    let now_ms = db.now_ms();
    db.inspect(key, |entry| match entry.filter(|(entry, _)| entry.string().is_ok()) {
        None => reply.line("EN"),
        Some((entry, idle_ms)) => Reply::described(reply, args.at(1), &entry, idle_ms, now_ms),
    });
    Ok(())
}

pub(super) static ME: Verb = Verb {
    name: "me",
    right: "get",
    syntax: "<key> [b]",
    words: 2,
    keys: Keys::one(Access::RO),
    summary: "Describes an entry, without using it",
    run: me,
};
