//! Parts of strings: reading and overwriting them.

use crate::families::strings::long_value;
use crate::runtime::arguments::{integer, value};
use crate::{Access, Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::{EntryView, StringInput, StringValue, WrongType};
use std::ops::Range;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&GETRANGE, &SETRANGE, &SUBSTR];

const OFFSET_OUT_OF_RANGE: Error = Error::fixed("ERR offset is out of range");

fn getrange<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
    let key = cx.key(args.at(1));
    let Context { db, reply, .. } = cx;
    Ok(db.get(key, |entry| part(reply, entry, start, end))?)
}

pub(crate) static GETRANGE: Command = Command {
    name: "GETRANGE",
    syntax: "key start end",
    arity: 4,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::STRING,
    group: Group::String,
    since: "2.4.0",
    notes: Notes::of("O(N), N being the length of the range"),
    summary: "Returns the part of a string between two positions, negative ones from its end",
    subcommands: &[],
    run: getrange,
};

pub(crate) static SUBSTR: Command = Command {
    name: "SUBSTR",
    syntax: "key start end",
    arity: 4,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::STRING,
    group: Group::String,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the length of the range").replaced("2.0.0", "GETRANGE"),
    summary: "Returns a part of a string, exactly as GETRANGE does",
    subcommands: &[],
    run: getrange,
};

/// Maximum length of a part of a long string that is copied; a longer part is shared.
const COPIED_BYTES: usize = 16 * 1024;

/// Writes a part of the string under a key; empty if the key does not exist.
fn part(
    reply: &mut Writer<'_>,
    entry: Option<EntryView<'_>>,
    start: i64,
    end: i64,
) -> Result<(), WrongType> {
    let value = entry.map_or(Ok(StringValue::Bytes(b"")), |entry| entry.string())?;
    let range = resolve(start, end, value.len()).unwrap_or(0..0);
    match value {
        StringValue::Rope(rope) if range.len() > COPIED_BYTES => {
            reply.bulk_chunks(rope.share(), range);
        }
        StringValue::Rope(rope) => {
            let mut bytes = Vec::with_capacity(range.len());
            rope.copy_range(range, &mut bytes);
            reply.bulk(&bytes);
        }
        value => {
            value.with_bytes(|bytes| reply.bulk(bytes.get(range).unwrap_or_default()));
        }
    }
    Ok(())
}

/// The range between two inclusive positions in a string of `len` elements; `None` if it is empty.
/// Negative positions count from the end. The range is clipped to the string.
pub(crate) fn resolve(start: i64, end: i64, len: usize) -> Option<Range<usize>> {
    let is_reversed = start < 0 && end < 0 && start > end;
    if is_reversed { None } else { resolve_loosely(start, end, len) }
}

/// Like `resolve`, except that two positions before the beginning mean the first element, whatever
/// their order.
pub(crate) fn resolve_loosely(start: i64, end: i64, len: usize) -> Option<Range<usize>> {
    let len = i64::try_from(len).ok()?;
    let from_front = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let (start, end) = (from_front(start), from_front(end).min(len - 1));
    if start > end {
        return None;
    }
    Some(usize::try_from(start).ok()?..usize::try_from(end).ok()? + 1)
}

fn setrange<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let offset = usize::try_from(integer(args.at(2))?).map_err(|_| OFFSET_OUT_OF_RANGE)?;
    let most = cx.server.config().proto_max_bulk_len.bytes();
    let bytes = match value(args, 3) {
        StringInput::Bytes(bytes) => bytes,
        StringInput::Rope(rope) => {
            return long_value::write(cx, &SETRANGE.keys, rope, Some(offset));
        }
    };
    let len = cx.db.set_range(cx.key(args.at(1)), offset, bytes, most)?;
    cx.reply.integer(len as i64);
    Ok(())
}

pub(crate) static SETRANGE: Command = Command {
    name: "SETRANGE",
    syntax: "key offset value",
    arity: 4,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::STRING,
    group: Group::String,
    since: "2.2.0",
    notes: Notes::of("O(N), N being the length of what is written"),
    summary: "Overwrites a part of a string, which grows with zeros if it is too short",
    subcommands: &[],
    run: setrange,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, converse};

    #[test]
    fn positions_resolve_to_ranges_within_the_string() {
        for (start, end, len, range) in [
            (0, -1, 5, Some(0..5)),
            (1, 3, 5, Some(1..4)),
            (-3, -2, 5, Some(2..4)),
            (-100, 100, 5, Some(0..5)),
            (3, 1, 5, None),
            (-1, -5, 5, None),
            (-100, -50, 5, Some(0..1)),
            (5, 10, 5, None),
            (0, 0, 0, None),
            (0, -1, 0, None),
            (i64::MIN, i64::MAX, 5, Some(0..5)),
            (i64::MAX, i64::MIN, 5, None),
        ] {
            assert_eq!(resolve(start, end, len), range, "{start} {end} of {len}");
        }
    }

    #[test]
    fn parts_are_read_and_overwritten() {
        converse(
            "GETRANGE k 0 -1 => $0||
             SETRANGE k 0 '' => :0|
             EXISTS k => :0|
             SETRANGE k 3 ab => :5|
             GETRANGE k 3 -1 => $2|ab|
             SUBSTR k -1 -1 => $1|b|
             SETRANGE k 4 cde => :7|
             GETRANGE k 3 100 => $4|acde|
             SET n 1234 EX 100 => +OK|
             SETRANGE n 0 '' => :4|
             SETRANGE n 1 9 => :4|
             GET n => $4|1934|
             TTL n => :100|
             SETRANGE n -1 x => -ERR offset is out of range|
             SETRANGE n x x => -ERR value is not an integer or out of range|
             GETRANGE n x 0 => -ERR value is not an integer or out of range|
             SETRANGE n 536870911 xy => -ERR string exceeds maximum allowed size
             ... (proto-max-bulk-len)|
             SETRANGE n 9223372036854775807 xy => -ERR string exceeds maximum allowed size
             ... (proto-max-bulk-len)|
             SETRANGE n 536870911 '' => :4|
             SETRANGE n 536870911 x => :536870912|
             GETRANGE n 536870910 -1 => $2|\0x|
             STRLEN n => :536870912|
             GETRANGE n 0 5 => $6|1934\0\0|",
        );
    }

    #[test]
    fn parts_of_long_strings_are_read_across_chunks() {
        let mut bench = Bench::new();
        let long: String = (0..40_000).map(|number| format!("{number:05}")).collect();
        assert_eq!(bench.call(&["SET", "k", &long]), "+OK|");
        for (start, end) in [(0, 0), (65_519, 65_520), (65_000, 140_000), (100, 199_999)] {
            let reply = bench.call(&["GETRANGE", "k", &start.to_string(), &end.to_string()]);
            let part = &long[start..=end];
            assert!(reply == format!("${}|{part}|", part.len()), "{start} to {end}");
        }
    }
}
