//! Finds the ends of lines, also of those that arrive in pieces.

/// Searches for the end of a line, examining each byte only once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineEnd {
    /// The start of the incomplete line.
    line: usize,
    /// The end of the line is not before this offset.
    scanned: usize,
}

impl LineEnd {
    /// Returns the offset in `input` of the first `end` of the line that starts at `line`.
    pub(crate) fn find(&mut self, end: u8, input: &[u8], line: usize) -> Option<usize> {
        let from = if self.line == line { line.max(self.scanned) } else { line };
        let unseen = input.get(from..).unwrap_or_default();
        let found = position(end, unseen);
        if found.is_none() {
            *self = LineEnd { line, scanned: input.len() };
        }
        found.map(|offset| from + offset)
    }
}

/// Returns the line at the start of `input` without its end, and the bytes after it; `None` if the
/// line is not complete. It ends with `\n` or `\r\n`.
#[must_use]
pub fn split_line(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (line, rest) = input.split_at_checked(position(b'\n', input)?)?;
    Some((line.strip_suffix(b"\r").unwrap_or(line), rest.get(1..)?))
}

/// Returns the offset of the first `wanted` in `bytes`.
#[inline]
pub(crate) fn position(wanted: u8, bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let (chunks, tail) = bytes.as_chunks();
    for (index, chunk) in chunks.iter().enumerate() {
        // A matching byte becomes zero, and the subtraction borrows into its top bit. The borrow
        // may propagate to later bytes, but only the first match is used.
        let differing = u64::from_le_bytes(*chunk) ^ (ONES * u64::from(wanted));
        let found = differing.wrapping_sub(ONES) & !differing & (ONES * 0x80);
        if found != 0 {
            return Some(index * chunk.len() + found.trailing_zeros() as usize / 8);
        }
    }
    let in_tail = tail.iter().position(|&byte| byte == wanted)?;
    Some(bytes.len() - tail.len() + in_tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn positions_equal_those_of_a_linear_search(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), 9_u8..15, 138_u8..142], 0..40),
            wanted in 9_u8..15,
        ) {
            prop_assert_eq!(
                position(wanted, &bytes),
                bytes.iter().position(|&byte| byte == wanted)
            );
        }
    }

    #[test]
    fn ends_are_found_at_any_cut() {
        let input = b"ab\ncd\n";
        let mut end = LineEnd::default();
        assert_eq!(end.find(b'\n', &input[..1], 0), None);
        assert_eq!(end.find(b'\n', &input[..2], 0), None);
        assert_eq!(end.find(b'\n', input, 0), Some(2));
        assert_eq!(end.find(b'\n', &input[..5], 3), None);
        assert_eq!(end.find(b'\n', input, 3), Some(5));
    }

    #[test]
    fn lines_are_split_at_either_line_break() {
        for input in [&b"ab\nc\r\n"[..], b"ab\r\nc\r\n"] {
            assert_eq!(split_line(input), Some((&b"ab"[..], &b"c\r\n"[..])));
        }
        assert_eq!(split_line(b"\n"), Some((&b""[..], &b""[..])));
        assert_eq!(split_line(b"a\r\r\n"), Some((&b"a\r"[..], &b""[..])));
        assert_eq!((split_line(b""), split_line(b"ab\r")), (None, None));
    }

    #[test]
    fn scan_of_one_line_does_not_affect_the_next() {
        let mut end = LineEnd::default();
        assert_eq!(end.find(b'\n', b"xxxxxxxx", 4), None);
        assert_eq!(end.find(b'\n', b"a\n", 0), Some(1));
    }
}
