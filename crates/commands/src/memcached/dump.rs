//! `lru_crawler` and `stats cachedump`: every key of database 0 with its metadata, and the switches
//! of a thread that does not exist here.

use super::arguments::number;
use super::verb::{KEY_BYTES, Verb};
use super::watch::Escaped;
use super::{Context, Error};
use crate::runtime::suspension::Slice;
use crate::{JobProgress, Keys};
use nagi_proto::Args;
use nagi_proto::memcached::base64;
use nagi_store::EntryView;
use std::io::Write;

/// Entries between two readings of the clock.
const STRIDE: usize = 64;
/// Reply bytes of one slice.
const SLICE_REPLY_BYTES: usize = 256 << 10;

/// Writes one entry; `now_ms` is the time, followed by the milliseconds for which it was not used.
type Line = fn(&mut Vec<u8>, &EntryView<'_>, u64, u64);

fn lru_crawler<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    match (args.get(1), args.get(2)) {
        (Some(b"metadump"), Some(classes)) => dump(cx, classes, metadata, "END"),
        (Some(b"mgdump"), Some(classes)) => dump(cx, classes, key, "EN"),
        (Some(b"crawl"), Some(classes)) => {
            check_classes(classes)?;
            cx.reply.line("OK");
            Ok(())
        }
        (Some(b"sleep"), Some(word)) => match number(word).ok_or(Error::BAD_LINE)? {
            ..=1_000_000 => accept(cx),
            _ => Err(Error("CLIENT_ERROR sleep must be one second or less")),
        },
        (Some(b"tocrawl"), Some(word)) => {
            number(word).ok_or(Error::BAD_LINE)?;
            accept(cx)
        }
        (Some(b"enable" | b"disable"), None) => accept(cx),
        _ => Err(Error::UNKNOWN),
    }
}

pub(super) static LRU_CRAWLER: Verb = Verb {
    name: "lru_crawler",
    right: "keys",
    syntax: "(metadump | mgdump) (all | hash) | crawl all | enable | disable | ...",
    words: 1,
    keys: Keys::NONE,
    summary: "Returns every key; the switches answer OK and change nothing, since what has expired \
              is always removed",
    run: lru_crawler,
};

fn accept(cx: &mut Context<'_>) -> Result<(), Error> {
    cx.reply.line("OK");
    Ok(())
}

/// Accepts the classes that exist: all, or 1.
fn check_classes(classes: &[u8]) -> Result<(), Error> {
    let known = |class: &[u8]| matches!(class, b"all" | b"hash" | b"1");
    if classes.split(|byte| *byte == b',').all(known) {
        return Ok(());
    }
    Err(Error("BADCLASS invalid class id"))
}

/// `stats cachedump`: a line for each entry, or for as many as are asked for. All are of class 1.
pub(super) fn cachedump<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    /// Number of classes in memcached.
    const CLASSES: u64 = 64;
    let (Some(class), Some(limit)) = (args.get(2), args.get(3)) else {
        return Err(Error("CLIENT_ERROR bad command line"));
    };
    let class = number(class).ok_or(Error::BAD_LINE)?;
    let mut left = match number(limit).ok_or(Error::BAD_LINE)? {
        0 => u64::MAX,
        limit => limit,
    };
    match class {
        1 => {}
        CLASSES.. => return Err(Error("CLIENT_ERROR Illegal slab id")),
        _ => {
            cx.reply.line("END");
            return Ok(());
        }
    }
    let each = move |out: &mut Vec<u8>, entry: &EntryView<'_>, _, _| {
        if left > 0 && item(out, entry) {
            left -= 1;
        }
        left > 0
    };
    show_entries(cx, each, "END")
}

/// Writes an entry if its key is valid in the text protocol, which cannot encode other keys here;
/// returns whether it is.
fn item(out: &mut Vec<u8>, entry: &EntryView<'_>) -> bool {
    let key = entry.key();
    let is_plain = |byte: &u8| *byte > b' ' && *byte != 0x7f;
    let Ok(value) = entry.string() else { return false };
    if key.is_empty() || key.len() > KEY_BYTES || !key.iter().all(is_plain) {
        return false;
    }
    out.extend_from_slice(b"ITEM ");
    out.extend_from_slice(key);
    let expiry_s = entry.expire_at_ms().map_or(0, |at_ms| at_ms / 1000);
    // Writing to memory cannot fail.
    let _ = write!(out, " [{} b; {expiry_s} s]\r\n", value.len());
    true
}

/// Answers with a line for every entry of some classes.
fn dump(cx: &mut Context<'_>, classes: &[u8], line: Line, end: &'static str) -> Result<(), Error> {
    check_classes(classes)?;
    cx.reply.line("OK");
    let each = move |out: &mut Vec<u8>, entry: &EntryView<'_>, now_ms, idle_ms| {
        line(out, entry, now_ms, idle_ms);
        true
    };
    show_entries(cx, each, end)
}

/// Passes every entry to `each` with the time and the milliseconds for which it was not used, until
/// `each` returns that it wants no more; leaves out keys of more than 2 KiB, which only Redis
/// clients can set, since memcached's own have 250 bytes at most. Then writes the line `end`.
fn show_entries(
    cx: &mut Context<'_>,
    mut each: impl FnMut(&mut Vec<u8>, &EntryView<'_>, u64, u64) -> bool + Send + 'static,
    end: &'static str,
) -> Result<(), Error> {
    let mut cursor = 0;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        let before = cx.reply.waiting();
        loop {
            let Context { db, reply, .. } = cx;
            let (now_ms, mut wants_more) = (db.now_ms(), true);
            cursor = db.scan(cursor, STRIDE, |entry| {
                if entry.long_key().is_none() {
                    wants_more = each(reply.buffer(), &entry, now_ms, db.idle_ms_of(&entry));
                }
            });
            if cursor == 0 || !wants_more {
                reply.line(end);
                return Ok(JobProgress::Done);
            }
            if slice.is_over() || reply.waiting() - before > SLICE_REPLY_BYTES {
                return Ok(JobProgress::ROOM_FOR_REPLIES);
            }
        }
    }))
}

fn metadata(out: &mut Vec<u8>, entry: &EntryView<'_>, now_ms: u64, idle_ms: u64) {
    let expiry_s = entry.expire_at_ms().map(|at_ms| at_ms / 1000);
    let expiry_s = expiry_s.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1);
    // Writing to memory cannot fail.
    let _ = writeln!(
        out,
        "key={} exp={expiry_s} la={} cas={} fetch={} cls=1 size={} flags={} ",
        Escaped(entry.key()),
        now_ms.saturating_sub(idle_ms) / 1000,
        entry.cas().unwrap_or(0),
        if entry.marks().fetched { "yes" } else { "no" },
        entry.bytes(),
        entry.flags(),
    );
}

/// A `mg` for the entry.
fn key(out: &mut Vec<u8>, entry: &EntryView<'_>, _: u64, _: u64) {
    let key = entry.key();
    out.extend_from_slice(b"mg ");
    if key.iter().all(u8::is_ascii_graphic) {
        out.extend_from_slice(key);
    } else {
        base64::encode(key, out);
        out.extend_from_slice(b" b");
    }
    out.extend_from_slice(b"\r\n");
}
