//! The decimal numbers in RESP headers.

/// Returns the value of the header at the start of `rest` and the length of its line, if it has the
/// usual form: `kind`, one to nine digits without leading zeros, and a complete line break.
///
/// `None` means only that the header must be parsed by the general function.
#[inline]
pub(super) fn short(kind: u8, rest: &[u8]) -> Option<(u32, usize)> {
    let (_, digits) = rest.split_first().filter(|&(&first, _)| first == kind)?;
    // Nearly every header has one or two digits, which need no loop.
    match *digits {
        [a @ b'0'..=b'9', b'\r', _, ..] => Some((digit(a), 4)),
        [a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', _, ..] => Some((digit(a) * 10 + digit(b), 5)),
        [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9', ..] => longer(digits),
        _ => None,
    }
}

/// [`short`] for three digits or more.
#[inline(never)]
fn longer(line: &[u8]) -> Option<(u32, usize)> {
    let digits = line.iter().take(9).take_while(|byte| byte.is_ascii_digit());
    let (value, len) =
        digits.fold((0, 0), |(value, len), &byte| (value * 10 + digit(byte), len + 1));
    (line.get(len) == Some(&b'\r') && line.len() >= len + 2).then_some((value, 1 + len + 2))
}

fn digit(byte: u8) -> u32 {
    u32::from(byte - b'0')
}

/// Parses a number in the form that Redis accepts: an optional minus, no plus, no leading zeros,
/// within 64 bits.
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
    fn short_numbers_end_with_a_complete_line_break() {
        for digits in ["0", "9", "10", "99", "100", "16384", "536870912", "999999999"] {
            let line = format!("${digits}\r\nx");
            assert_eq!(
                short(b'$', line.as_bytes()),
                Some((digits.parse().unwrap(), line.len() - 1))
            );
            assert_eq!(short(b'*', line.as_bytes()), None);
            assert_eq!(short(b'$', &line.as_bytes()[..line.len() - 2]), None);
        }
        for other in
            ["$", "$1", "$1\r", "$\r\n", "$01\r\n", "$-1\r\n", "$1234567890\r\n", "$1 \r\n"]
        {
            assert_eq!(short(b'$', other.as_bytes()), None, "{other:?}");
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
