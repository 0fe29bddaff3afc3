//! Floating-point numbers as Redis writes them since version 7.2: the shortest text that identifies
//! the number, and integers with all their digits.

/// Formats a score: an integer with all digits, as in Redis 7.2 and later, unless it is very large.
#[must_use]
pub fn score(number: f64) -> String {
    let is_negative_zero = number == 0.0 && number.is_sign_negative();
    integer(number).filter(|_| !is_negative_zero).map_or_else(|| shortest(number), printed)
}

/// Formats an argument that a script passes to a command: like a score, but without a sign of zero.
#[must_use]
pub fn argument(number: f64) -> String {
    if number.is_nan() && number.is_sign_negative() {
        return "-nan".to_owned();
    }
    integer(number).map_or_else(|| shortest(number), printed)
}

/// The integer that equals a number, if Redis writes it as one (`double2ll`).
fn integer(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() <= (i64::MAX / 2) as f64).then_some(number as i64)
}

fn printed(number: i64) -> String {
    itoa::Buffer::new().format(number).to_owned()
}

/// Formats with the fewest digits that identify the number, and with an exponent in the same cases
/// as Redis (`fpconv_dtoa`).
#[must_use]
pub fn shortest(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_infinite() {
        return format!("{sign}inf");
    }
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits = mantissa.replace('.', "");
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // The exponent of ten by which the digits are multiplied.
    let power = exponent + 1 - i32::try_from(digits.len()).unwrap_or(0);
    let is_plain = if power >= 0 {
        exponent.abs() < i32::try_from(digits.len()).unwrap_or(0) + 7
    } else {
        power > -7 || exponent.abs() < 4
    };
    if is_plain {
        return format!("{sign}{}", number.abs());
    }
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{mantissa}e{exponent_sign}{}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::{argument, score};

    #[test]
    fn arguments_are_written_as_by_redis() {
        for (number, text) in [
            (19.99, "19.99"),
            (0.1, "0.1"),
            (-0.0, "0"),
            (1_700_000_000_000_000_000.0, "1700000000000000000"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (1e300, "1e+300"),
            (-f64::NAN.abs(), "-nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(argument(number), text);
        }
        assert_eq!(score(-0.0), "-0");
    }
}
