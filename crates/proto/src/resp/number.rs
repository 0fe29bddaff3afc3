//! The decimal numbers in RESP headers.

/// The number at `at` and the offset behind its line, if it is of the usual kind: one to nine
/// digits, no sign, no needless zero, its line break there in full.
///
/// `None` says only that a closer look is needed.
#[inline]
pub(super) fn short(input: &[u8], at: usize) -> Option<(u32, usize)> {
    let line = input.get(at..)?;
    let mut value = 0;
    for (digits, &byte) in line.iter().take(10).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let padded = digits > 1 && line.first() == Some(&b'0');
            let complete = byte == b'\r' && digits + 2 <= line.len();
            return (digits > 0 && complete && !padded).then_some((value, at + digits + 2));
        }
        // Only the tenth digit can overflow, and its value is not used.
        value = u32::wrapping_add(u32::wrapping_mul(value, 10), u32::from(digit));
    }
    None
}

/// A number as Redis accepts one: an optional minus, no plus, no needless zero, within 64 bits.
pub(super) fn signed(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let negative = digits.len() < text.len();
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    digits.iter().try_fold(0_i64, |value, &byte| {
        let digit = i64::from(byte.is_ascii_digit().then(|| byte - b'0')?);
        let value = value.checked_mul(10)?;
        if negative { value.checked_sub(digit) } else { value.checked_add(digit) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_end_in_a_whole_line_break() {
        assert_eq!(short(b"$0\r\n", 1), Some((0, 4)));
        assert_eq!(short(b"$536870912\r\nx", 1), Some((536_870_912, 12)));
        for other in
            ["$", "$1", "$1\r", "$\r\n", "$01\r\n", "$-1\r\n", "$1234567890\r\n", "$1 \r\n"]
        {
            assert_eq!(short(other.as_bytes(), 1), None, "{other:?}");
        }
    }

    #[test]
    fn signed_numbers_are_canonical() {
        for text in ["0", "7", "-1", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(signed(text.as_bytes()), text.parse().ok());
        }
        for other in
            ["", "-", "-0", "+1", "01", "1x", "9223372036854775808", "-9223372036854775809"]
        {
            assert_eq!(signed(other.as_bytes()), None, "{other:?}");
        }
    }
}
