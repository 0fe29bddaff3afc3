//! Versions and the encoding of strings, shared by files and payloads.

use crate::length::Length;
use nagi_store::parse_i64;

/// The version that is written: the lowest that has all that is written, so that older servers
/// read it too.
pub(crate) const VERSION: u16 = 10;
/// The newest version of Redis' that is read, and Valkey's, which counts on its own.
pub(crate) const NEWEST_VERSION: u16 = 12;
pub(crate) const VALKEY_VERSIONS: std::ops::RangeInclusive<u16> = 80..=80;

/// Shorter strings are not worth compressing, nor is what does not save so much.
pub(crate) const MIN_COMPRESSED_BYTES: usize = 21;
pub(crate) const MIN_SAVED_BYTES: usize = 4;

/// Appends an integer in as many bytes as it needs, unless it needs more than four.
pub(crate) fn encode_integer(out: &mut Vec<u8>, value: i64) -> bool {
    if let Ok(value) = i8::try_from(value) {
        out.push(0xc0 | Length::INT8);
        out.extend_from_slice(&value.to_le_bytes());
    } else if let Ok(value) = i16::try_from(value) {
        out.push(0xc0 | Length::INT16);
        out.extend_from_slice(&value.to_le_bytes());
    } else if let Ok(value) = i32::try_from(value) {
        out.push(0xc0 | Length::INT32);
        out.extend_from_slice(&value.to_le_bytes());
    } else {
        return false;
    }
    true
}

/// The same of a text that is short and spells an integer as it would be written.
pub(crate) fn encode_spelled_integer(out: &mut Vec<u8>, text: &[u8]) -> bool {
    const LONGEST_BYTES: usize = 11;
    let value = if text.len() <= LONGEST_BYTES { parse_i64(text) } else { None };
    value.is_some_and(|value| encode_integer(out, value))
}
