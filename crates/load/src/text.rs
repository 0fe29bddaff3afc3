//! Formatting of numbers, and escaping of text for pages.

use num_format::{Locale, ToFormattedString as _};

/// Formats 1234567 as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    number.to_formatted_string(&Locale::en)
}

/// Formats nanoseconds as microseconds with about four digits: `85.31`, `853.1`, `8,531`.
pub(crate) fn microseconds(ns: u64) -> String {
    let us = ns as f64 / 1000.0;
    match us {
        ..100.0 => format!("{us:.2}"),
        ..1000.0 => format!("{us:.1}"),
        _ => grouped(us.round() as u64),
    }
}

/// Formats bytes per second in a suitable unit.
pub(crate) fn bytes_per_second(bytes: f64) -> String {
    match bytes {
        ..1e6 => format!("{:.1} kB/s", bytes / 1e3),
        ..1e9 => format!("{:.1} MB/s", bytes / 1e6),
        _ => format!("{:.2} GB/s", bytes / 1e9),
    }
}

/// Escapes text for HTML, including attribute values in quotes.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            other => out.push(other),
        }
    }
    out
}

/// Replaces control characters, so that text printed on a terminal cannot contain escape sequences.
#[must_use]
pub fn plain(text: &str) -> String {
    let replaced = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    text.chars().map(replaced).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(plain("a\x1b[2Jb\r\n"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}");
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!(
            [0, 999, 1000, 123_456, 1_234_567].map(grouped),
            ["0", "999", "1,000", "123,456", "1,234,567"]
        );
    }

    #[test]
    fn microseconds_keep_about_four_digits() {
        assert_eq!(
            [9, 85_314, 853_140, 8_531_400].map(microseconds),
            ["0.01", "85.31", "853.1", "8,531"]
        );
    }

    #[test]
    fn bytes_per_second_have_a_unit() {
        assert_eq!(
            [1500.0, 2.5e6, 3.21e9].map(bytes_per_second),
            ["1.5 kB/s", "2.5 MB/s", "3.21 GB/s"]
        );
    }
}
