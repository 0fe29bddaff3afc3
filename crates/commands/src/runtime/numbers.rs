//! Floating-point numbers in requests and replies.

pub(crate) use nagi_proto::decimal::{score, shortest};

/// Parses a number like C's `strtod`, except for leading blanks: decimal or hexadecimal, and
/// infinity by its names. Other text, overflow and underflow are refused, as by Redis.
pub(crate) fn double(argument: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(argument).ok()?;
    let number = hexadecimal(text).or_else(|| text.parse().ok()).filter(|it: &f64| !it.is_nan())?;
    if number.is_finite() && number != 0.0 {
        return Some(number);
    }
    let mantissa = text.split(['e', 'E', 'p', 'P']).next().unwrap_or_default();
    let digits = mantissa.trim_start_matches(['+', '-']).trim_start_matches("0x");
    let digits = digits.trim_start_matches("0X");
    let is_spelled = number.is_infinite() && digits.starts_with(['i', 'I']);
    let is_zero = digits.chars().all(|digit| "0.".contains(digit));
    let fits = if number.is_infinite() { is_spelled } else { is_zero };
    fits.then_some(number)
}

/// Parses a bound of a range of scores, or a sort key of SORT: decimal, up to a zero byte; empty
/// text is 0, overflow gives infinity, and underflow 0.
pub(crate) fn bound(argument: &[u8]) -> Option<f64> {
    let text = argument.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    std::str::from_utf8(text).ok()?.parse().ok().filter(|it: &f64| !it.is_nan())
}

/// A number after `0x`, with an optional exponent of two after a `p`.
fn hexadecimal(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"))?;
    let (digits, exponent) = match digits.split_once(['p', 'P']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (mut mantissa, mut dropped) = (0_u64, 0_i32);
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(digit.to_digit(16)?);
        if mantissa >> 60 == 0 {
            mantissa = mantissa << 4 | digit;
        } else {
            // Dropped digits set the lowest bit, so that rounding takes them into account.
            mantissa |= u64::from(digit != 0);
            dropped += 1;
        }
    }
    let places = i32::try_from(fraction.len()).ok()?;
    let power = exponent.saturating_add(4 * (dropped - places)).clamp(-4000, 4000);
    // In two steps, since a single factor may be out of range.
    let number = mantissa as f64 * 2_f64.powi(power / 2) * 2_f64.powi(power - power / 2);
    Some(if text.starts_with('-') { -number } else { number })
}

/// Formats a number like C's `%.17g`.
pub(crate) fn seventeen_digits(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    let scientific = format!("{number:.16e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..17).contains(&exponent) {
        let decimals = usize::try_from(16 - exponent).unwrap_or(0);
        return trimmed(&format!("{number:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::{bound, double, score, seventeen_digits};

    #[test]
    fn numbers_are_read_as_by_redis() {
        // The replies of redis-server 8.0 to ZADD, and the bounds that it accepts in ZCOUNT.
        for (text, number, limit) in [
            ("1", Some(1.0), Some(1.0)),
            ("+5", Some(5.0), Some(5.0)),
            (".5", Some(0.5), Some(0.5)),
            ("5.", Some(5.0), Some(5.0)),
            ("1E5", Some(1e5), Some(1e5)),
            ("InFinIty", Some(f64::INFINITY), Some(f64::INFINITY)),
            ("-inf", Some(f64::NEG_INFINITY), Some(f64::NEG_INFINITY)),
            ("5e-324", Some(5e-324), Some(5e-324)),
            ("0e-5000", Some(0.0), Some(0.0)),
            ("0x10", Some(16.0), None),
            ("0X1F", Some(31.0), None),
            ("0x.8", Some(0.5), None),
            ("-0x1p4", Some(-16.0), None),
            ("0x1p-1080", None, None),
            ("1e400", None, Some(f64::INFINITY)),
            ("-1e400", None, Some(f64::NEG_INFINITY)),
            ("1e-400", None, Some(0.0)),
            ("", None, Some(0.0)),
            ("1\0", None, Some(1.0)),
            ("\x001", None, Some(0.0)),
            ("nan", None, None),
            ("-nan", None, None),
            (" 1", None, None),
            ("1 ", None, None),
            ("0x", None, None),
            (".", None, None),
            ("1e", None, None),
            ("+-1", None, None),
            ("1_0", None, None),
            ("infx", None, None),
        ] {
            assert_eq!(double(text.as_bytes()), number, "{text}");
            assert_eq!(bound(text.as_bytes()), limit, "{text}");
        }
        assert!(double(b"-0").is_some_and(f64::is_sign_negative));
    }

    #[test]
    fn scores_are_written_as_redis_does() {
        // The replies of redis-server 8.0 to ZSCORE.
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-2.5, "-2.5"),
            (0.1, "0.1"),
            (0.000_001, "0.000001"),
            (0.000_000_1, "1e-7"),
            (0.001_234_567_8, "0.0012345678"),
            (1e7, "10000000"),
            (1e8, "100000000"),
            (-1e17, "-100000000000000000"),
            (4e18, "4000000000000000000"),
            (5e18, "5e+18"),
            (123_456_789_012_345_680.0, "123456789012345680"),
            (1e20, "1e+20"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(score(number), expected);
        }
    }

    #[test]
    fn numbers_are_written_as_c_does() {
        for (number, expected) in [
            (1.0, "1"),
            (-0.0, "-0"),
            (0.1, "0.10000000000000001"),
            (1.5e300, "1.5000000000000001e+300"),
            (123_456_789.25, "123456789.25"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (0.0001, "0.0001"),
            (0.000_01, "1.0000000000000001e-05"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(seventeen_digits(number), expected);
        }
    }
}
