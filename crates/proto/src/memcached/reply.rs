//! Finds the ends of replies of the classic text protocol, for clients.

use crate::MalformedReply;
use crate::line::{self, LineEnd};

/// Finds the replies in a server's bytes. It allocates no memory, and continues where it stopped if
/// a reply arrives in pieces.
///
/// A reply is one line, unless it starts like one to `get` (`VALUE`) or `stats` (`STAT`): then it
/// continues to the first line of another kind, which is `END` or an error.
#[derive(Debug, Default)]
pub struct ReplyParser {
    /// The offset of the next line.
    at: usize,
    /// Shorter input needs no parsing.
    need_bytes: usize,
    line_end: LineEnd,
}

impl ReplyParser {
    /// Returns the length of the reply at the start of `input`, or `None` until all of it has
    /// arrived; then the caller calls again with the same bytes and more after them.
    ///
    /// # Errors
    /// A value without its length or its line break.
    pub fn next(&mut self, input: &[u8]) -> Result<Option<usize>, MalformedReply> {
        if input.len() < self.need_bytes {
            return Ok(None);
        }
        loop {
            let Some(end) = self.line_end.find(b'\n', input, self.at) else {
                self.need_bytes = input.len() + 1;
                return Ok(None);
            };
            let line = input.get(self.at..end).unwrap_or_default();
            let next = if line.starts_with(b"VALUE ") {
                let malformed = MalformedReply { at: self.at };
                let next = end + 1 + value_bytes(line).ok_or(malformed)? + 2;
                if input.len() < next {
                    self.need_bytes = next;
                    return Ok(None);
                }
                if input.get(next - 2..next) != Some(b"\r\n") {
                    return Err(malformed);
                }
                next
            } else if line.starts_with(b"STAT ") {
                end + 1
            } else {
                *self = ReplyParser::default();
                return Ok(Some(end + 1));
            };
            self.at = next;
        }
    }
}

/// Returns the length in a `VALUE` line, after the key and the flags.
fn value_bytes(line: &[u8]) -> Option<usize> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let flags = behind_blank(line.get(b"VALUE ".len()..)?)?;
    let len = behind_blank(flags)?;
    let digits = len.get(..line::position(b' ', len).unwrap_or(len.len()))?;
    let len: u32 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(len as usize)
}

fn behind_blank(text: &[u8]) -> Option<&[u8]> {
    text.get(line::position(b' ', text)? + 1..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::reply_lengths;

    fn lengths(input: &[u8], step: usize) -> Result<Vec<usize>, MalformedReply> {
        let mut parser = ReplyParser::default();
        reply_lengths(input, step, |bytes| parser.next(bytes))
    }

    #[test]
    fn single_and_multi_line_replies() {
        let replies = [
            "STORED\r\n",
            "END\r\n",
            "12\r\n",
            "VALUE a 0 5\r\nEND\r\n\r\nVALUE b 7 0 99\r\n\r\nEND\r\n",
            "VALUE a 0 1\r\nx\r\nSERVER_ERROR out of memory\r\n",
            "STAT pid 1\r\nSTAT version VALUE\r\nEND\r\n",
            "\r\n",
            "VALUES\r\n",
        ];
        let expected: Vec<usize> = replies.iter().map(|reply| reply.len()).collect();
        let input = replies.concat();
        for step in [input.len(), 1, 2, 3, 7] {
            assert_eq!(lengths(input.as_bytes(), step), Ok(expected.clone()), "{step} at a time");
        }
    }

    #[test]
    fn values_with_wrong_lengths_are_malformed() {
        for (input, at) in [
            ("VALUE a 0\r\n", 0),
            ("VALUE a 0 -1\r\n", 0),
            ("VALUE a 0 x\r\n", 0),
            ("VALUE a 0 1\r\nxy\r\n", 0),
            ("VALUE a 0 1\r\nx\r\nVALUE a 0 1\r\nx\n\n", 16),
        ] {
            for step in [input.len(), 1] {
                let error = lengths(input.as_bytes(), step).unwrap_err();
                assert_eq!(error, MalformedReply { at }, "{input:?}");
            }
        }
    }
}
