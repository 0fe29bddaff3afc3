//! Numbers as C writes, reads and converts them on x86-64: scripts see what Redis shows there.

use crate::strtod;

/// Formats a number like C's `%.{precision}g`.
pub(crate) fn general(value: f64, precision: usize) -> String {
    let precision = precision.max(1);
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    let scientific = format!("{value:.*e}", precision - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let most = i32::try_from(precision).unwrap_or(i32::MAX);
    if exponent < -4 || exponent >= most {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(digits), exponent.unsigned_abs());
    }
    let decimals = usize::try_from(most - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}")).to_owned()
}

/// Removes zeros at the end of a fraction.
fn trimmed(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// The integer that equals a number, if there is one and its magnitude is at most 2^53, up to which
/// a `double` represents every integer.
pub(crate) fn integer(value: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (value.trunc() == value && value.abs() <= EXACT && !(value == 0.0 && value.is_sign_negative()))
        .then_some(value as i64)
}

/// The integer that is replied for a number, converted as by an x86-64 processor: truncated, or the
/// least integer if the number does not fit.
pub(crate) fn replied(value: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&value) { value as i64 } else { i64::MIN }
}

/// The 32-bit integer to which C converts a number on x86-64: truncated, or the least integer if
/// the number does not fit.
pub(crate) fn int(value: f64) -> i32 {
    i32::try_from(replied(value)).unwrap_or(i32::MIN)
}

/// The unsigned integer to which C converts a number on x86-64: a negative one modulo 2^64, and 0
/// or 2^63 if the number does not fit.
pub(crate) fn unsigned(value: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    match value >= HALF {
        true => replied(value - HALF).cast_unsigned() ^ (1 << 63),
        false => replied(value).cast_unsigned(),
    }
}

/// The number to which Lua converts a text, which must end with a zero byte.
pub(crate) fn converted(text: &[u8]) -> Option<f64> {
    let (number, len) = strtod::number_at(text, 0);
    let rest = text.get(len..)?.iter().find(|byte| !matches!(byte, b' ' | b'\t'..=b'\r'));
    (len > 0 && rest == Some(&0)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_do_not_fit_are_the_least_integer() {
        for (value, integer) in [
            (-3.9, -3),
            (9_223_372_036_854_774_784.0, 9_223_372_036_854_774_784),
            (-9_223_372_036_854_775_808.0, i64::MIN),
            (9_223_372_036_854_775_808.0, i64::MIN),
            (f64::INFINITY, i64::MIN),
            (f64::NAN, i64::MIN),
        ] {
            assert_eq!(replied(value), integer, "{value}");
        }
    }

    #[test]
    fn numbers_are_written_as_by_printf() {
        for (value, precision, text) in [
            (0.0, 17, "0"),
            (-0.0, 17, "-0"),
            (1.5, 14, "1.5"),
            (100.0, 2, "1e+02"),
            (1e14, 14, "1e+14"),
            (123_456_789_012_345.0, 14, "1.2345678901234e+14"),
            (0.1, 17, "0.10000000000000001"),
            (0.0001, 14, "0.0001"),
            (0.00001, 14, "1e-05"),
            (1e300, 17, "1.0000000000000001e+300"),
            (f64::INFINITY, 14, "inf"),
        ] {
            assert_eq!(general(value, precision), text);
        }
    }

    #[test]
    fn texts_are_converted_as_by_lua() {
        for (text, number) in [
            ("10", Some(10.0)),
            (" \t10\x0b\r\n", Some(10.0)),
            ("0x10", Some(16.0)),
            ("-0X1p-1", Some(-0.5)),
            (".5e1", Some(5.0)),
            ("inf", Some(f64::INFINITY)),
            ("10\0x", Some(10.0)),
            ("", None),
            (" ", None),
            ("1_0", None),
            ("1 0", None),
            ("0x", None),
        ] {
            assert_eq!(converted(format!("{text}\0").as_bytes()), number, "{text:?}");
        }
    }

    #[test]
    fn numbers_become_unsigned_integers_as_in_c() {
        for (value, integer) in [
            (1.9, 1),
            (-1.5, u64::MAX),
            (9_223_372_036_854_775_808.0, 1 << 63),
            (18_446_744_073_709_549_568.0, u64::MAX - 2047),
            (18_446_744_073_709_551_616.0, 0),
            (f64::INFINITY, 0),
            (f64::NEG_INFINITY, 1 << 63),
            (f64::NAN, 1 << 63),
        ] {
            assert_eq!(unsigned(value), integer, "{value}");
        }
    }
}
