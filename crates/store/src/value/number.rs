//! Integers in the decimal forms that the protocols accept in values and arguments.

/// Parses a signed integer in canonical form: digits without a leading zero, `-` but no `+`, no
/// space. Returns `None` for anything else, and for numbers that do not fit in 64 bits.
#[must_use]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        _ => (false, text),
    };
    if digits == b"0" {
        return (!negative).then_some(0);
    }
    if digits.first() == Some(&b'0') {
        return None;
    }
    let magnitude = parse_u64(digits)?;
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Parses an unsigned integer of at most 20 digits. Leading zeros are accepted, as memcached does.
#[must_use]
pub fn parse_u64(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 20 {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_is_an_integer() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("-0", None),
            ("007", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("-", None),
            ("1.0", None),
        ] {
            assert_eq!(parse_i64(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn counters_wrap_at_twenty_digits() {
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"00000000000000000001"), Some(1));
        assert_eq!(parse_u64(b"000000000000000000001"), None);
    }
}
