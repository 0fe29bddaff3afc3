//! The ends of lines that arrive in pieces.

/// Looks for the end of a line, and at no byte of it twice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineEnd {
    /// Where the line starts that has no end yet.
    line: usize,
    /// Its end is not before this offset.
    scanned: usize,
}

impl LineEnd {
    /// Offset in `input` of the first `end` of the line that starts at `line`.
    pub(crate) fn find(&mut self, end: u8, input: &[u8], line: usize) -> Option<usize> {
        let from = if self.line == line { line.max(self.scanned) } else { line };
        let unseen = input.get(from..).unwrap_or_default();
        let found = unseen.iter().position(|&byte| byte == end);
        if found.is_none() {
            *self = LineEnd { line, scanned: input.len() };
        }
        found.map(|offset| from + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_was_seen_of_one_line_does_not_hide_another() {
        let mut end = LineEnd::default();
        assert_eq!(end.find(b'\n', b"xxxxxxxx", 4), None);
        assert_eq!(end.find(b'\n', b"a\n", 0), Some(1));
    }
}
