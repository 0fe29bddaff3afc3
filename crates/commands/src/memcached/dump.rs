//! `lru_crawler` and `stats cachedump`: every key of database 0 with its metadata, and the options
//! of memcached's crawler thread, which does not exist here.

use super::arguments::{gives_versions, number};
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
/// Maximum reply bytes of one slice.
const SLICE_REPLY_BYTES: usize = 256 << 10;

/// Writes the line of an entry, given the current time and the entry's idle time, both in
/// milliseconds.
type Line = fn(&mut Vec<u8>, &EntryView<'_>, u64, u64);

/// The format of a dump.
struct Dump {
    line: Line,
    /// Its last line.
    end: &'static str,
    /// The reply if `memcached-dump` forbids listing keys.
    refusal: &'static str,
    /// Whether an entry without the number of a version gets one.
    numbers: bool,
}

static METADUMP: Dump =
    Dump { line: metadata, end: "END", refusal: "ERROR metadump not allowed", numbers: true };

static MGDUMP: Dump =
    Dump { line: key, end: "EN", refusal: "ERROR key dump not allowed", numbers: false };

fn lru_crawler<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    match (args.get(1), args.get(2), args.len()) {
        (Some(b"metadump"), Some(classes), 3) => dump(cx, classes, &METADUMP),
        (Some(b"mgdump"), Some(classes), 3) => dump(cx, classes, &MGDUMP),
        (Some(b"crawl"), Some(b"hash"), 3) => Err(Error("ERROR an unknown error happened")),
        (Some(b"crawl"), Some(classes), 3) => {
            includes_entries(classes)?;
            accept(cx)
        }
        (Some(b"sleep"), Some(word), 3) => match number_of_32_bits(word)? {
            ..=1_000_000 => accept(cx),
            _ => Err(Error("CLIENT_ERROR sleep must be one second or less")),
        },
        (Some(b"tocrawl"), Some(word), 3) => {
            number_of_32_bits(word)?;
            accept(cx)
        }
        (Some(b"enable" | b"disable"), None, _) => accept(cx),
        _ => Err(Error::UNKNOWN),
    }
}

fn number_of_32_bits(word: &[u8]) -> Result<u32, Error> {
    number(word).and_then(|number| u32::try_from(number).ok()).ok_or(Error::BAD_LINE)
}

pub(super) static LRU_CRAWLER: Verb = Verb {
    name: "lru_crawler",
    right: "keys",
    syntax: "(metadump | mgdump) (<classes> | all | hash) | crawl (<classes> | all) | enable | \
             disable | ...",
    words: 1,
    keys: Keys::NONE,
    summary: "Returns the keys; the switches answer OK and change nothing, since what has expired \
              is always removed",
    run: lru_crawler,
};

fn accept(cx: &mut Context<'_>) -> Result<(), Error> {
    cx.reply.line("OK");
    Ok(())
}

/// The class of all entries: memory is not permanently divided among size classes here.
const CLASS: u32 = 1;
/// The number of classes in memcached.
const CLASSES: u32 = 64;

/// Whether a list of classes includes the class of the entries. memcached only reads the low 32
/// bits of a number.
fn includes_entries(classes: &[u8]) -> Result<bool, Error> {
    if matches!(classes, b"all" | b"hash") {
        return Ok(true);
    }
    let (mut is_empty, mut includes) = (true, false);
    for class in classes.split(|byte| *byte == b',').filter(|class| !class.is_empty()) {
        match number(class).map(|class| class as u32) {
            Some(class @ CLASS..CLASSES) => includes |= class == CLASS,
            _ => return Err(Error("BADCLASS invalid class id")),
        }
        is_empty = false;
    }
    if is_empty { Err(Error("NOTSTARTED no items to crawl")) } else { Ok(includes) }
}

/// `stats cachedump`: a line for each entry of class 1, up to the requested number. All entries are
/// of this class.
pub(super) fn cachedump<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if !cx.server.config().memcached_dump.is_on() {
        return Err(Error("CLIENT_ERROR stats cachedump not allowed"));
    }
    let (Some(class), Some(limit)) = (args.get(2), args.get(3)) else {
        return Err(Error("CLIENT_ERROR bad command line"));
    };
    let class = number(class).ok_or(Error::BAD_LINE)?;
    let mut left = match number(limit).ok_or(Error::BAD_LINE)? {
        0 => u64::MAX,
        limit => limit,
    };
    match u32::try_from(class).unwrap_or(CLASSES) {
        CLASS => {}
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
    show_entries(cx, each, false, "END")
}

/// Writes an entry if its key is valid in the text protocol, since other keys cannot be encoded.
/// Returns whether the key is valid.
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

/// Replies with a line for every entry of these classes. `noreply` counts as one word too many: it
/// is an error, whose reply is suppressed, so nothing happens.
fn dump(cx: &mut Context<'_>, classes: &[u8], dump: &'static Dump) -> Result<(), Error> {
    if cx.reply.is_quiet() {
        return Err(Error::UNKNOWN);
    }
    if !cx.server.config().memcached_dump.is_on() {
        return Err(Error(dump.refusal));
    }
    let includes_entries = includes_entries(classes)?;
    cx.reply.line("OK");
    if !includes_entries {
        cx.reply.line(dump.end);
        return Ok(());
    }
    let numbers = dump.numbers && gives_versions(cx);
    let each = |out: &mut Vec<u8>, entry: &EntryView<'_>, now_ms, idle_ms| {
        (dump.line)(out, entry, now_ms, idle_ms);
        true
    };
    show_entries(cx, each, numbers, dump.end)
}

/// Passes every entry to `each`, with the current time and the entry's idle time in milliseconds,
/// until `each` returns `false`. Skips keys of more than 2 KiB, which only Redis clients can set,
/// since memcached's keys have at most 250 bytes. Then writes the line `end`.
///
/// If `numbers` is set, an entry without the number of a version gets one, unless memory is full:
/// listing entries must not evict them.
fn show_entries(
    cx: &mut Context<'_>,
    mut each: impl FnMut(&mut Vec<u8>, &EntryView<'_>, u64, u64) -> bool + Send + 'static,
    numbers: bool,
    end: &'static str,
) -> Result<(), Error> {
    let mut cursor = 0;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        let before = cx.reply.waiting();
        let mut unnumbered: Vec<Box<[u8]>> = Vec::new();
        loop {
            let Context { db, reply, .. } = cx;
            let (now_ms, mut wants_more) = (db.now_ms(), true);
            let numbers = numbers && !db.store().is_over_limit();
            cursor = db.scan(cursor, STRIDE, |entry| {
                if entry.long_key().is_some() {
                    return;
                }
                if numbers && entry.cas().is_none() && entry.string().is_ok() {
                    unnumbered.push(entry.key().into());
                    return;
                }
                wants_more = each(reply.buffer(), &entry, now_ms, db.idle_ms_of(&entry));
            });
            for key in unnumbered.drain(..) {
                db.list_versioned(db.key(&key), |entry| {
                    wants_more = each(reply.buffer(), &entry, now_ms, db.idle_ms_of(&entry));
                });
            }
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
        "key={} exp={expiry_s} la={} cas={} fetch={} cls={CLASS} size={} flags={} ",
        Escaped(entry.key()),
        now_ms.saturating_sub(idle_ms) / 1000,
        entry.cas().unwrap_or(0),
        if entry.marks().fetched { "yes" } else { "no" },
        entry.bytes(),
        entry.flags(),
    );
}

/// Writes a `mg` request for the entry.
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
