//! Numbers of INCRBYFLOAT. Redis uses the `long double` of x86, whose mantissa has 64 bits, and
//! shows 17 decimals. This implementation gives the same results on every processor. It rounds as
//! IEEE 754 requires: to nearest, ties to even.

use std::cmp::Ordering;

/// Maximum bytes of text that are parsed as a number, as in Redis.
pub(crate) const MAX_BYTES: usize = 5 * 1024 - 1;
/// Maximum digits that are parsed. Of further digits, only whether any is not zero matters.
const MAX_DIGITS: usize = 1000;
/// The range of powers of ten. Beyond it, a number is infinite or zero.
const DECIMAL_EXPONENTS: std::ops::RangeInclusive<i64> = -4952..=4933;
const MANTISSA_BITS: i64 = 64;
/// The exponents of the largest and the smallest number. Mantissas are integers here.
const MAX_EXPONENT: i64 = 16_383 - 63;
const MIN_EXPONENT: i64 = -16_445;
const DECIMALS: u32 = 17;

/// A number: its mantissa times a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongDouble {
    negative: bool,
    mantissa: u64,
    /// `None` for infinity.
    exponent: Option<i64>,
}

impl LongDouble {
    /// Parses text that C's `strtold` would parse in full, without overflow or underflow. Leading
    /// blanks and `nan` are refused.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let (negative, text) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
            return Some(LongDouble { negative, mantissa: 0, exponent: None });
        }
        let number = match text {
            [b'0', b'x' | b'X', rest @ ..] => parse_hexadecimal(rest)?,
            _ => parse_decimal(text)?,
        };
        let is_in_range = number.exponent.is_some();
        is_in_range.then_some(LongDouble { negative, ..number })
    }

    /// Whether it is negative, or a negative zero.
    pub(crate) fn is_negative(self) -> bool {
        self.negative
    }

    /// Whether it is not an infinity.
    pub(crate) fn is_finite(self) -> bool {
        self.exponent.is_some()
    }

    /// Converts seconds to milliseconds, rounded up; `None` beyond 64 bits. Like the product in
    /// Redis, the number is first rounded to the precision of `long double`.
    pub(crate) fn milliseconds(self) -> Option<i64> {
        let mut product = Natural::from(self.mantissa);
        product.multiply_and_add(1000, 0);
        let LongDouble { mantissa, exponent, .. } =
            LongDouble::round(product, self.exponent?, false);
        let (exponent, mantissa) = (exponent?, u128::from(mantissa));
        let places = u32::try_from(exponent.unsigned_abs()).unwrap_or(u32::MAX);
        let magnitude = if exponent < 0 {
            let whole = mantissa.checked_shr(places).unwrap_or(0);
            let is_whole = whole.checked_shl(places).unwrap_or(0) == mantissa;
            whole + u128::from(!is_whole && !self.negative)
        } else if mantissa == 0 || places < u64::BITS {
            mantissa.checked_shl(places).unwrap_or(0)
        } else {
            return None;
        };
        let magnitude = i64::try_from(magnitude).ok()?;
        Some(if self.negative { -magnitude } else { magnitude })
    }

    /// The sum; `None` if the sum is infinite or one of the numbers is.
    pub(crate) fn checked_add(self, other: Self) -> Option<Self> {
        let (own, addend) = (self.exponent?, other.exponent?);
        let exponent = own.min(addend);
        let align = |number: Self, its: i64| {
            let mut magnitude = Natural::from(number.mantissa);
            magnitude.shift_left(its - exponent);
            magnitude
        };
        let (own, addend) = (align(self, own), align(other, addend));
        let (negative, magnitude) = if self.negative == other.negative {
            (self.negative, own.plus(&addend))
        } else if own.compare(&addend) == Ordering::Less {
            (other.negative, addend.minus(&own))
        } else {
            (self.negative, own.minus(&addend))
        };
        let sum = LongDouble { negative, ..LongDouble::round(magnitude, exponent, false) };
        sum.exponent.map(|_| sum)
    }

    /// The positive number nearest to `magnitude * 2^exponent`; with `inexact`, the exact magnitude
    /// is slightly larger.
    fn round(mut magnitude: Natural, exponent: i64, inexact: bool) -> Self {
        let surplus = (magnitude.bits() - MANTISSA_BITS).max(MIN_EXPONENT - exponent).max(0);
        magnitude.shift_right(surplus, inexact);
        let (mut mantissa, mut exponent) = (magnitude.low(), exponent + surplus);
        if magnitude.bits() > MANTISSA_BITS {
            // The mantissa was rounded up to the next power of two.
            (mantissa, exponent) = (1 << (MANTISSA_BITS - 1), exponent + 1);
        }
        let top = exponent + MANTISSA_BITS - i64::from(mantissa.leading_zeros());
        let is_finite = mantissa == 0 || top <= MAX_EXPONENT + MANTISSA_BITS;
        LongDouble { negative: false, mantissa, exponent: is_finite.then_some(exponent) }
    }

    /// Formats it with 17 decimals, without trailing zeros; infinity is `inf`.
    pub(crate) fn format(self) -> String {
        let Some(exponent) = self.exponent else { return "inf".to_owned() };
        let mut scaled = Natural::from(self.mantissa);
        for _ in 0..DECIMALS {
            scaled.multiply_and_add(10, 0);
        }
        if exponent < 0 {
            scaled.shift_right(-exponent, false);
        } else {
            scaled.shift_left(exponent);
        }
        let decimals = DECIMALS as usize;
        let digits = format!("{:0>width$}", scaled.into_decimal(), width = decimals + 1);
        let (whole, fraction) = digits.split_at(digits.len() - decimals);
        let number = format!("{whole}.{fraction}");
        let number = number.trim_end_matches('0').trim_end_matches('.');
        if self.negative && number != "0" { format!("-{number}") } else { number.to_owned() }
    }
}

fn parse_decimal(text: &[u8]) -> Option<LongDouble> {
    let (digits, exponent) = split(text, |byte| byte.is_ascii_digit(), b'e', 1)?;
    let significant: Vec<u8> = digits.iter().copied().skip_while(|digit| *digit == b'0').collect();
    let (kept, dropped) = significant.split_at(significant.len().min(MAX_DIGITS));
    let exponent = exponent + dropped.len() as i64;
    let mut magnitude = Natural::default();
    for digit in kept {
        magnitude.multiply_and_add(10, u32::from(digit - b'0'));
    }
    let zero = LongDouble { negative: false, mantissa: 0, exponent: Some(0) };
    let top = exponent.saturating_add(kept.len() as i64);
    if kept.is_empty() {
        return Some(zero);
    }
    if top < *DECIMAL_EXPONENTS.start() {
        return None;
    }
    if top > *DECIMAL_EXPONENTS.end() {
        return Some(LongDouble { exponent: None, ..zero });
    }
    let mut inexact = dropped.iter().any(|digit| *digit != b'0');
    if exponent >= 0 {
        for _ in 0..exponent {
            magnitude.multiply_and_add(10, 0);
        }
        return Some(LongDouble::round(magnitude, 0, inexact));
    }
    // Enough bits for the quotient: a power of ten has less than 10/3 bits a digit.
    let shift = (-exponent * 10 / 3 + 2 * MANTISSA_BITS - magnitude.bits()).max(0);
    magnitude.shift_left(shift);
    let mut fives = -exponent;
    while fives > 0 {
        // The largest power of five that fits in 32 bits is the 13th.
        let some = fives.min(13);
        inexact |= magnitude.divide(5_u32.pow(some as u32)) != 0;
        fives -= some;
    }
    let number = LongDouble::round(magnitude, exponent - shift, inexact);
    (number.mantissa != 0).then_some(number)
}

fn parse_hexadecimal(text: &[u8]) -> Option<LongDouble> {
    let (digits, exponent) = split(text, |byte| byte.is_ascii_hexdigit(), b'p', 4)?;
    let mut magnitude = Natural::default();
    for digit in digits {
        magnitude.multiply_and_add(16, char::from(digit).to_digit(16)?);
    }
    let is_zero = magnitude.bits() == 0;
    let far = 1 << 20;
    let number = LongDouble::round(magnitude, exponent.clamp(-far, far), false);
    (is_zero || number.mantissa != 0).then_some(number)
}

/// Splits a number into its digits, without the point, and the exponent of the last digit. Each
/// digit after the point decreases the exponent by `step`.
fn split(
    text: &[u8],
    is_digit: impl Fn(u8) -> bool,
    mark: u8,
    step: i64,
) -> Option<(Vec<u8>, i64)> {
    let count = |text: &[u8]| text.iter().take_while(|byte| is_digit(**byte)).count();
    let (whole, rest) = text.split_at(count(text));
    let rest_of_point = rest.strip_prefix(b".");
    let rest = rest_of_point.unwrap_or(rest);
    let (decimals, rest) = rest.split_at(if rest_of_point.is_some() { count(rest) } else { 0 });
    if whole.is_empty() && decimals.is_empty() {
        return None;
    }
    let exponent = match rest.split_first() {
        None => 0,
        Some((byte, exponent)) if byte.eq_ignore_ascii_case(&mark) => parse_exponent(exponent)?,
        Some(_) => return None,
    };
    Some(([whole, decimals].concat(), exponent - decimals.len() as i64 * step))
}

/// Parses an exponent. If it is beyond all limits, returns a large one.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    const LARGE: i64 = 1 << 40;
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: i64, digit: &u8| (sum * 10 + i64::from(digit - b'0')).min(LARGE);
    let magnitude = digits.iter().fold(0, add);
    Some(if text.starts_with(b"-") { -magnitude } else { magnitude })
}

/// A natural number of any size, in words of 32 bits, the lowest word first.
#[derive(Clone, Debug, Default)]
struct Natural(Vec<u32>);

impl From<u64> for Natural {
    fn from(value: u64) -> Self {
        Natural(vec![value as u32, (value >> 32) as u32]).trimmed()
    }
}

impl Natural {
    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    /// The number of significant bits; 0 for zero.
    fn bits(&self) -> i64 {
        let top = self.0.last().map_or(0, |word| i64::from(word.leading_zeros()));
        self.0.len() as i64 * 32 - top
    }

    /// Its lowest 64 bits.
    fn low(&self) -> u64 {
        let word = |index: usize| self.0.get(index).map_or(0, |word| u64::from(*word));
        word(1) << 32 | word(0)
    }

    fn multiply_and_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for word in &mut self.0 {
            carry += u64::from(*word) * u64::from(factor);
            *word = carry as u32;
            carry >>= 32;
        }
        self.0.extend((carry > 0).then_some(carry as u32));
    }

    /// Divides the number in place, and returns the remainder.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0;
        for word in self.0.iter_mut().rev() {
            let part = rest << 32 | u64::from(*word);
            *word = (part / u64::from(divisor)) as u32;
            rest = part % u64::from(divisor);
        }
        *self = std::mem::take(self).trimmed();
        rest as u32
    }

    fn shift_left(&mut self, bits: i64) {
        self.multiply_and_add(1 << (bits % 32), 0);
        if !self.0.is_empty() {
            let words = std::iter::repeat_n(0, usize::try_from(bits / 32).unwrap_or(0));
            self.0.splice(0..0, words);
        }
    }

    /// Divides by a power of two and rounds. With `inexact`, the exact number is slightly larger.
    fn shift_right(&mut self, bits: i64, inexact: bool) {
        if bits == 0 {
            return;
        }
        // One bit less, so that the last bit is the half.
        let words = usize::try_from((bits - 1) / 32).unwrap_or(0).min(self.0.len());
        let mut sticky = inexact || self.0.iter().take(words).any(|word| *word != 0);
        self.0.drain(..words);
        sticky |= self.divide(1 << ((bits - 1) % 32)) != 0;
        let half = self.divide(2) == 1;
        let is_odd = self.low() & 1 == 1;
        if half && (sticky || is_odd) {
            *self = self.plus(&Natural(vec![1]));
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn plus(&self, other: &Self) -> Self {
        let (longer, shorter) =
            if self.0.len() < other.0.len() { (other, self) } else { (self, other) };
        let mut carry = 0;
        let addend = shorter.0.iter().copied().chain(std::iter::repeat(0));
        let words = longer.0.iter().zip(addend).map(|(one, other)| {
            carry += u64::from(*one) + u64::from(other);
            let word = carry as u32;
            carry >>= 32;
            word
        });
        let mut words: Vec<u32> = words.collect();
        words.push(carry as u32);
        Natural(words).trimmed()
    }

    /// The difference between this number and `other`, which must not be larger.
    fn minus(&self, other: &Self) -> Self {
        let mut borrow = false;
        let addend = other.0.iter().copied().chain(std::iter::repeat(0));
        let words = self.0.iter().zip(addend).map(|(one, other)| {
            let (word, first) = one.overflowing_sub(other);
            let (word, second) = word.overflowing_sub(u32::from(borrow));
            borrow = first || second;
            word
        });
        Natural(words.collect()).trimmed()
    }

    fn into_decimal(mut self) -> String {
        const STEP: u32 = 1_000_000_000;
        let mut groups = Vec::new();
        while !self.0.is_empty() {
            groups.push(self.divide(STEP));
        }
        let digits: String = groups.iter().rev().map(|group| format!("{group:09}")).collect();
        digits.trim_start_matches('0').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> Option<String> {
        LongDouble::parse(text.as_bytes()).map(LongDouble::format)
    }

    fn sum(one: &str, other: &str) -> Option<String> {
        let [one, other] = [one, other].map(|text| LongDouble::parse(text.as_bytes()).unwrap());
        one.checked_add(other).map(LongDouble::format)
    }

    #[test]
    fn seconds_are_rounded_up_to_milliseconds() {
        for (seconds, expected) in [
            ("0", Some(0)),
            ("1", Some(1000)),
            ("0.001", Some(1)),
            ("0.0010001", Some(2)),
            ("1e-4000", Some(1)),
            ("-1e-4000", Some(0)),
            ("-0.0001", Some(0)),
            ("-0.0015", Some(-1)),
            ("1.5", Some(1500)),
            ("9223372036854775.807", Some(i64::MAX)),
            ("9223372036854775.808", None),
            ("1e30", None),
            ("-1e30", None),
            ("inf", None),
        ] {
            let number = LongDouble::parse(seconds.as_bytes()).unwrap();
            assert_eq!(number.milliseconds(), expected, "{seconds}");
        }
    }

    #[test]
    fn numbers_are_read_and_formatted_as_in_redis() {
        for (text, number) in [
            ("0", "0"),
            ("-0", "0"),
            ("3.0", "3"),
            ("+5", "5"),
            ("5.", "5"),
            (".5", "0.5"),
            ("0.1", "0.1"),
            ("1e3", "1000"),
            ("-1.5E-2", "-0.015"),
            ("0x10", "16"),
            ("0x1.8p1", "3"),
            ("17179869184.3", "17179869184.30000000074505806"),
            ("9223372036854775807", "9223372036854775807"),
            ("18446744073709551617", "18446744073709551616"),
            ("18446744073709551619", "18446744073709551620"),
            ("1e-30", "0"),
            ("0e99999999999999999999", "0"),
            ("INF", "inf"),
            ("1e22", "10000000000000000000000"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(number), "{text}");
        }
        for text in [
            "",
            " 1",
            "1 ",
            "x",
            "-",
            ".",
            "1e",
            "1e+",
            "1.2.3",
            "nan",
            "0x",
            "1p3",
            "--1",
            "1e5000",
            "1e-5000",
            "0x1p99999",
            "0x1p-99999",
            "1e99999999999999999999",
            "infi",
            "1\u{0}",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
        assert_eq!(shown(&"9".repeat(4932)).unwrap().len(), 4933, "rounded up");
        assert_eq!(shown(&"1".repeat(5120)), None);
        assert!(shown("1.18973149535723176502e+4932").is_some());
        assert_eq!(shown("1.1897314953572317651e+4932"), None);
        assert!(shown("3.6451995318824746e-4951").is_some(), "the smallest of all");
    }

    #[test]
    fn sums_are_rounded_as_in_redis() {
        assert_eq!(sum("3", "1.1").as_deref(), Some("4.1"));
        assert_eq!(sum("1.5", "-1.5").as_deref(), Some("0"));
        assert_eq!(sum("17179869184", "1.5").as_deref(), Some("17179869185.5"));
        assert_eq!(sum("1", "1e-25").as_deref(), Some("1"));
        assert_eq!(sum("-1e4930", "1").unwrap().len(), 4932);
        assert_eq!(sum("1e4932", "1e4932"), None);
        assert_eq!(sum("inf", "-1"), None);
    }

    proptest! {
        /// The mantissa of 64 bits represents all doubles exactly.
        #[test]
        fn short_sums_equal_those_of_doubles(one in -1_000_000_i32..1_000_000, other: i32) {
            let [one, other] = [one, other].map(|number| f64::from(number) / 1024.0);
            let expected = format!("{:.17}", one + other);
            let expected = expected.trim_end_matches('0').trim_end_matches('.');
            let expected = if expected == "-0" { "0" } else { expected };
            prop_assert_eq!(sum(&one.to_string(), &other.to_string()).unwrap(), expected);
        }

        #[test]
        fn any_double_is_read_within_its_precision(number: f64) {
            prop_assume!(number.is_finite() && number.abs() < 1e300);
            let shown = shown(&format!("{number:e}")).unwrap();
            let back: f64 = shown.parse().unwrap();
            // Since the sum is rounded twice, to 64 and to 53 bits, it may be the next double.
            let ulp = number.abs() * f64::EPSILON;
            prop_assert!((back - number).abs() <= ulp.max(1e-17), "{shown}");
        }
    }
}
