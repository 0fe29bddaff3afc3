//! Numbers and times in the syntax of memcached, which is the syntax of C with an optional sign.

use super::Context;
use nagi_store::types::string::Expiry;

/// A time for an expiry or a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Not at all.
    Never,
    /// At this time, in milliseconds since 1970.
    At(u64),
}

/// Whether replies have the actual numbers of versions; otherwise, 0.
pub(super) fn gives_versions(cx: &Context<'_>) -> bool {
    cx.server.config().memcached_cas.is_on()
}

/// Reads an unsigned number.
pub(super) fn number(word: &[u8]) -> Option<u64> {
    nagi_store::parse_u64(word.strip_prefix(b"+").unwrap_or(word))
}

/// Reads client flags, of which memcached keeps the low 32 bits.
pub(super) fn flags(word: &[u8]) -> Option<u32> {
    number(word).map(|number| number as u32)
}

/// Reads seconds in the format of all verbs except storage commands: a signed 32-bit number.
fn seconds(word: &[u8]) -> Option<i32> {
    let (digits, sign) = word.strip_prefix(b"-").map_or((word, 1), |digits| (digits, -1));
    let number = i64::try_from(nagi_store::parse_u64(digits)?).ok()?;
    i32::try_from(sign * number).ok()
}

/// Reads a time: 0 for never, seconds from now up to thirty days, seconds since 1970 beyond.
pub(super) fn when(word: &[u8], now_ms: u64) -> Option<When> {
    seconds(word).map(|seconds| timestamp(seconds.into(), now_ms))
}

/// Reads the seconds of a storage command: 64 bits, of which memcached keeps the low 32. Therefore,
/// a time after January 2038 is in the past, and 2^32 means never.
fn stored_seconds(word: &[u8]) -> Option<i32> {
    let seconds = match word.strip_prefix(b"-") {
        Some(digits) => 0_i64.checked_sub_unsigned(nagi_store::parse_u64(digits)?),
        None => i64::try_from(number(word)?).ok(),
    };
    seconds.map(|seconds| seconds as i32)
}

/// Converts seconds to a time. A negative number means the past; a time beyond the latest one of
/// Redis' commands means that latest time.
pub(super) fn timestamp(seconds: i64, now_ms: u64) -> When {
    const THIRTY_DAYS_S: u64 = 60 * 60 * 24 * 30;
    const LATEST_MS: u64 = i64::MAX as u64;
    let Ok(seconds) = u64::try_from(seconds) else { return When::At(0) };
    let ms = seconds.saturating_mul(1000);
    match seconds {
        0 => When::Never,
        1..=THIRTY_DAYS_S => When::At(now_ms.saturating_add(ms)),
        _ => When::At(ms.min(LATEST_MS)),
    }
}

/// Reads a time as the expiry of a value.
pub(super) fn expiry(word: &[u8], now_ms: u64) -> Option<Expiry> {
    when(word, now_ms).map(Expiry::from)
}

/// Reads the expiry that a storage command gives a value.
pub(super) fn stored_expiry(word: &[u8], now_ms: u64) -> Option<Expiry> {
    stored_seconds(word).map(|seconds| timestamp(seconds.into(), now_ms).into())
}

impl From<When> for Expiry {
    fn from(when: When) -> Self {
        match when {
            When::Never => Expiry::Never,
            When::At(at_ms) => Expiry::AtMs(at_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (word, expected) in [
            ("0", Some(When::Never)),
            ("-0", Some(When::Never)),
            ("-1", Some(When::At(0))),
            ("1", Some(When::At(1_000_001_000))),
            ("2592000", Some(When::At(3_592_000_000))),
            ("2592001", Some(When::At(2_592_001_000))),
            ("2147483647", Some(When::At(2_147_483_647_000))),
            ("2147483648", None),
            ("-2147483649", None),
            ("+1", None),
            ("", None),
            ("+-1", None),
            ("1x", None),
        ] {
            assert_eq!(when(word.as_bytes(), 1_000_000_000), expected, "{word}");
        }
    }

    #[test]
    fn storage_commands_keep_the_low_bits_of_a_time() {
        for (word, expected) in [
            ("+1", Some(1)),
            ("2147483648", Some(i32::MIN)),
            ("4294967296", Some(0)),
            ("4294967297", Some(1)),
            ("-2147483649", Some(i32::MAX)),
            ("-4294967296", Some(0)),
            ("9223372036854775807", Some(-1)),
            ("-9223372036854775808", Some(0)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("", None),
            ("-", None),
            ("1x", None),
        ] {
            assert_eq!(stored_seconds(word.as_bytes()), expected, "{word}");
        }
    }

    #[test]
    fn flags_keep_their_low_bits() {
        assert_eq!(flags(b"4294967295"), Some(u32::MAX));
        assert_eq!(flags(b"4294967297"), Some(1));
        assert_eq!(flags(b"18446744073709551616"), None);
        assert_eq!(flags(b"-1"), None);
        assert_eq!(flags(b"+1"), Some(1));
    }
}
