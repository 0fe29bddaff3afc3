//! `lru_crawler`: every key of database 0 with what is known of it, and the switches of a thread
//! that there is not here.

use super::arguments::number;
use super::watch::Escaped;
use super::{Context, Error, Verb};
use crate::runtime::suspension::Slice;
use crate::{JobProgress, Keys};
use nagi_proto::Args;
use nagi_proto::memcached::base64;
use nagi_store::EntryView;
use std::io::Write;

/// Entries between two looks at the clock.
const STRIDE: usize = 64;
/// What one slice may write before others have their turn.
const SLICE_REPLY_BYTES: usize = 256 << 10;

/// Writes one entry; `now_ms` is the time, then come the milliseconds for which it was not used.
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

/// Accepts the classes that there are: all, or 1.
fn check_classes(classes: &[u8]) -> Result<(), Error> {
    let known = |class: &[u8]| matches!(class, b"all" | b"hash" | b"1");
    if classes.split(|byte| *byte == b',').all(known) {
        return Ok(());
    }
    Err(Error("BADCLASS invalid class id"))
}

/// Answers with a line for every entry whose key is no long one of a Redis client's: of more than
/// 2 KiB, where memcached's own have 250 bytes at most.
fn dump(cx: &mut Context<'_>, classes: &[u8], line: Line, end: &'static str) -> Result<(), Error> {
    check_classes(classes)?;
    cx.reply.line("OK");
    let mut cursor = 0;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        let before = cx.reply.waiting();
        loop {
            let Context { db, reply, .. } = cx;
            let now_ms = db.now_ms();
            cursor = db.scan(cursor, STRIDE, |entry| {
                if entry.long_key().is_none() {
                    line(reply.buffer(), &entry, now_ms, db.idle_ms_of(&entry));
                }
            });
            if cursor == 0 {
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
