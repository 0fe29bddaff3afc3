//! Versions and the encoding of strings, shared by files and payloads.

use crate::length::Length;
use nagi_store::parse_i64;

/// The version that is written by default: the lowest with all features that are used, so that
/// older servers can read it.
pub(crate) const VERSION: u16 = 10;
/// The newest versions of Redis, and of Valkey, which numbers its own, that can be read.
pub(crate) const NEWEST_VERSION: u16 = 12;
pub(crate) const VALKEY_VERSIONS: std::ops::RangeInclusive<u16> = 80..=80;

/// Shorter strings, and strings that would shrink by less than this, are not compressed.
pub(crate) const MIN_COMPRESSED_BYTES: usize = 21;
pub(crate) const MIN_SAVED_BYTES: usize = 4;

/// Appends an integer in the minimum number of bytes, unless it needs more than four. Returns
/// whether it was appended.
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

/// Like [`encode_integer`], for a short text that is the canonical form of an integer.
pub(crate) fn encode_spelled_integer(out: &mut Vec<u8>, text: &[u8]) -> bool {
    const LONGEST_BYTES: usize = 11;
    let value = if text.len() <= LONGEST_BYTES { parse_i64(text) } else { None };
    value.is_some_and(|value| encode_integer(out, value))
}
