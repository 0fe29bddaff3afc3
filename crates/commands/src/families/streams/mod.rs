//! The commands of streams, and the parsing of ids and the errors that they share.

pub(crate) mod entry;
pub(crate) mod group;
pub(crate) mod info;
pub(crate) mod pending;
pub(crate) mod range;
pub(crate) mod read;
mod reply;

use crate::error::quotable;
use crate::families::elements::write;
use crate::{Context, Error};
use nagi_proto::resp::Writer;
use nagi_store::types::stream::NoGroup;
use nagi_store::{StreamEntry, StreamId, StreamLimits};

const INVALID_ID: Error =
    Error::fixed("ERR Invalid stream ID specified as stream command argument");
const INVALID_START: Error = Error::fixed("ERR invalid start ID for the interval");
const INVALID_END: Error = Error::fixed("ERR invalid end ID for the interval");

/// Maximum length of an id, in bytes.
const MAX_ID_BYTES: usize = 127;

/// Parses a whole text as an unsigned number like C's `strtoull`, which accepts negative numbers.
/// However, a negative number in Redis' format is invalid.
fn unsigned(text: &[u8]) -> Option<u64> {
    if nagi_store::parse_i64(text).is_some_and(i64::is_negative) {
        return None;
    }
    let start = text.iter().position(|byte| !b" \t\n\x0b\x0c\r".contains(byte))?;
    let text = text.get(start..)?;
    let (is_negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// An id, as parsed from an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParsedId {
    Whole(StreamId),
    /// Milliseconds, with a second number that the server chooses.
    Ms(u64),
}

fn parse_id(argument: &[u8], missing: u64) -> Result<ParsedId, Error> {
    if argument.len() > MAX_ID_BYTES {
        return Err(INVALID_ID);
    }
    // Redis reads the id as a C string.
    let text = argument.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut parts = text.splitn(2, |byte| *byte == b'-');
    let ms = parts.next().and_then(unsigned).ok_or(INVALID_ID)?;
    Ok(match parts.next() {
        None => ParsedId::Whole(StreamId { ms, seq: missing }),
        Some(b"*") => ParsedId::Ms(ms),
        Some(seq) => ParsedId::Whole(StreamId { ms, seq: unsigned(seq).ok_or(INVALID_ID)? }),
    })
}

/// Parses an id without wildcards. If it has no second number, `missing` is used.
fn strict_id(argument: &[u8], missing: u64) -> Result<StreamId, Error> {
    match parse_id(argument, missing)? {
        ParsedId::Whole(id) => Ok(id),
        ParsedId::Ms(_) => Err(INVALID_ID),
    }
}

/// Parses an id that may be `-`, the smallest id, or `+`, the greatest one.
fn any_id(argument: &[u8], missing: u64) -> Result<StreamId, Error> {
    match argument {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        argument => strict_id(argument, missing),
    }
}

/// Parses the first id of an interval; `(` excludes the given id.
fn start_of_interval(argument: &[u8]) -> Result<StreamId, Error> {
    match argument {
        [b'(', rest @ ..] if !rest.is_empty() => strict_id(rest, 0)?.next().ok_or(INVALID_START),
        argument => any_id(argument, 0),
    }
}

/// Parses the last id of an interval; `(` excludes the given id.
fn end_of_interval(argument: &[u8]) -> Result<StreamId, Error> {
    match argument {
        [b'(', rest @ ..] if !rest.is_empty() => {
            strict_id(rest, u64::MAX)?.previous().ok_or(INVALID_END)
        }
        argument => any_id(argument, u64::MAX),
    }
}

fn write_id(reply: &mut Writer<'_>, id: StreamId) {
    let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
    reply.bulk([ms.format(id.ms), seq.format(id.seq)].join("-").as_bytes());
}

/// Writes an entry: its id, and its fields.
fn write_entry(reply: &mut Writer<'_>, entry: &StreamEntry<'_>) {
    reply.array(2);
    write_id(reply, entry.id);
    let fields = entry.fields();
    reply.array(2 * fields.len());
    for (name, value) in fields {
        write(reply, name);
        write(reply, value);
    }
}

/// The limits of a stream's nodes in the settings.
fn limits(cx: &Context<'_>) -> StreamLimits {
    cx.server.config().stream_limits()
}

/// The error for a missing group, in the text that most commands use.
fn no_group(reason: NoGroup, key: &[u8], group: &[u8], after: &str) -> Error {
    if reason == NoGroup::WrongType {
        return Error::WRONG_TYPE;
    }
    // Each of the two words ends at a zero byte, but the text continues.
    let [key, group] = [key, group].map(|word| quotable(word, word.len()));
    let text = [b"NOGROUP No such key '", key, b"' or consumer group '", group].concat();
    Error::quoting("", &text, &format!("'{after}"))
}

/// The error for a missing group of an existing key.
fn no_group_of_key(reason: NoGroup, key: &[u8], group: &[u8]) -> Error {
    if reason == NoGroup::WrongType {
        return Error::WRONG_TYPE;
    }
    let [key, group] = [key, group].map(|word| quotable(word, word.len()));
    let text = [b"NOGROUP No such consumer group '", group, b"' for key name '", key].concat();
    Error::quoting("", &text, "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_group_is_named_up_to_zero_bytes() {
        let [key, group] = [&b"k\0x"[..], b"g\0y"];
        let error = no_group(NoGroup::Group, key, group, " in XREADGROUP");
        let text = b"NOGROUP No such key 'k' or consumer group 'g' in XREADGROUP";
        assert_eq!(error.0, &text[..]);
        let error = no_group_of_key(NoGroup::Group, key, group);
        assert_eq!(error.0, &b"NOGROUP No such consumer group 'g' for key name 'k'"[..]);
    }

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        let id = |ms, seq| Ok(StreamId { ms, seq });
        assert_eq!(strict_id(b"5-7", 9), id(5, 7));
        assert_eq!(strict_id(b"5", 9), id(5, 9));
        assert_eq!(strict_id(b"18446744073709551615-18446744073709551615", 0), Ok(StreamId::MAX));
        assert_eq!(strict_id(b"007-+1", 0), id(7, 1));
        for wrong in ["", "-", "+", "5-", "5-*", "a", "1-2-3x", "18446744073709551616", "$"] {
            assert_eq!(strict_id(wrong.as_bytes(), 0), Err(INVALID_ID), "{wrong}");
        }
        assert_eq!(parse_id(b"5-*", 0), Ok(ParsedId::Ms(5)));
        assert_eq!(start_of_interval(b"(5-7"), id(5, 8));
        assert_eq!(end_of_interval(b"(5-0"), id(4, u64::MAX));
        assert_eq!(end_of_interval(b"5"), id(5, u64::MAX));
        assert_eq!(end_of_interval(b"(0-0"), Err(INVALID_END));
        assert_eq!(start_of_interval(b"(+"), Err(INVALID_ID));
        assert_eq!(start_of_interval(b"-"), Ok(StreamId::MIN));
    }
}
