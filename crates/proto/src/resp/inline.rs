//! Inline commands: words separated by spaces, with the quotes and escapes of redis-cli.

use crate::Span;

/// A quote is not closed, or is closed in the middle of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unbalanced;

/// Splits a text into words, by the rules of inline commands; `None` if a quote is not closed.
#[must_use]
pub fn words(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut text, mut spans) = (text.to_vec(), Vec::new());
    split(&mut text, &mut spans).ok()?;
    let word = |span: &Span| {
        let rest = text.get(span.start as usize..).unwrap_or_default();
        rest.get(..span.len as usize).unwrap_or_default().to_vec()
    };
    Some(spans.iter().map(word).collect())
}

/// Splits `line` into words and appends their spans to `spans`. Words are unescaped in place, which
/// only makes them shorter.
///
/// Quotes may open within a word and must close at its end. In double quotes `\xHH` is a byte,
/// `\n \r \t \b \a` are control characters and a backslash before any other character is dropped;
/// in single quotes only `\'` is special.
pub(super) fn split(line: &mut [u8], spans: &mut Vec<Span>) -> Result<(), Unbalanced> {
    let before = spans.len();
    let mut read = 0;
    loop {
        while line.get(read).is_some_and(|&byte| is_space(byte)) {
            read += 1;
        }
        if read >= line.len() {
            return Ok(());
        }
        match word(line, read) {
            Some((len, next)) => {
                // A line is at most 64 KB.
                spans.push(Span { start: read as u32, len: len as u32 });
                read = next;
            }
            None => {
                spans.truncate(before);
                return Err(Unbalanced);
            }
        }
    }
}

/// The blanks of C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Unescapes the word at `start`. Returns its length and the offset after its source.
fn word(line: &mut [u8], start: usize) -> Option<(usize, usize)> {
    let mut read = start;
    let mut write = start;
    let mut quote = None;
    while let Some(&byte) = line.get(read) {
        let (unescaped, taken) = match (quote, byte) {
            // Unlike between words, a vertical tab or form feed does not end a word.
            (None, b' ' | b'\t' | b'\n' | b'\r') => break,
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                read += 1;
                continue;
            }
            (Some(open), _) if byte == open => {
                let next = line.get(read + 1);
                let at_end = next.is_none_or(|&next| is_space(next));
                return at_end.then_some((write - start, read + 1));
            }
            (Some(b'"'), b'\\') => escape(line.get(read..).unwrap_or_default()),
            (Some(b'\''), b'\\') if line.get(read + 1) == Some(&b'\'') => (b'\'', 2),
            _ => (byte, 1),
        };
        if let Some(place) = line.get_mut(write) {
            *place = unescaped;
        }
        write += 1;
        read += taken;
    }
    quote.is_none().then_some((write - start, read))
}

/// Returns the byte of an escape sequence in double quotes, and the length of the sequence.
fn escape(text: &[u8]) -> (u8, usize) {
    match *text {
        [_, b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            (hex(high) << 4 | hex(low), 4)
        }
        [_, b'n', ..] => (b'\n', 2),
        [_, b'r', ..] => (b'\r', 2),
        [_, b't', ..] => (b'\t', 2),
        [_, b'b', ..] => (0x08, 2),
        [_, b'a', ..] => (0x07, 2),
        [_, other, ..] => (other, 2),
        _ => (b'\\', 1),
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_quotes_and_escapes() {
        let cases: [(&str, &[&[u8]]); 14] = [
            ("", &[]),
            (" \t\x0b\x0c\r", &[]),
            ("GET a", &[b"GET", b"a"]),
            ("  GET\t a \r", &[b"GET", b"a"]),
            ("a\x0bb", &[b"a\x0bb"]),
            (r#""a b" 'c d'"#, &[b"a b", b"c d"]),
            (r#""" ''"#, &[b"", b""]),
            (r#"a"b c""#, &[b"ab c"]),
            (r#""\x41\xfF\x4" x"#, &[b"A\xffx4", b"x"]),
            (r#""\n\r\t\b\a\\\"\q""#, &[b"\n\r\t\x08\x07\\\"q"]),
            (r"'\n\'\\ '", &[br"\n'\\ "]),
            (r#"'"' "'""#, &[b"\"", b"'"]),
            (r"a\x41", &[br"a\x41"]),
            ("\"a\"\x0bb", &[b"a", b"b"]),
        ];
        for (line, expected) in cases {
            let expected = expected.iter().map(|word| word.to_vec()).collect();
            assert_eq!(words(line.as_bytes()), Some(expected), "{line:?}");
        }
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in ["\"", "'", "a \"b", "a 'b", "\"a\"b", "'a'b", "\"a\"\"b\"", "\"a\\\"", "'a\\'"]
        {
            assert_eq!(words(line.as_bytes()), None, "{line:?}");
        }
    }
}
