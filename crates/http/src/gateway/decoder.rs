//! Decodes replies in RESP2 as they arrive, piece by piece, so that no whole reply has to be in
//! memory.

/// A part of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// A status, such as OK.
    Status(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Nil,
    /// The beginning of a string of this many bytes, which follow in one or more [`Part::Bytes`].
    Text(usize),
    /// The next bytes of the string that has begun, and whether they are its last.
    Bytes(&'a [u8], bool),
    /// The beginning of an array of this many elements.
    Array(usize),
    /// The end of the innermost open array.
    End,
}

/// Whether a reply of `len` elements consists of fields and their values.
pub(super) fn are_fields(verb: &[u8], len: usize) -> bool {
    verb.eq_ignore_ascii_case(b"HGETALL") && len.is_multiple_of(2)
}

/// The bytes are not RESP2, or nested deeper than any reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The longest line that is not the bytes of a string, which is kept as a whole: scripts may return
/// long errors.
const LONGEST_LINE: usize = 16 << 20;
/// Scripts may reply with a thousand nested arrays, within the array of a transaction.
const DEEPEST: usize = 1100;

/// The decoder's position within replies.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// Remaining elements of each open array.
    arrays: Vec<usize>,
    /// Remaining bytes of the open string, including its line end.
    text: Option<usize>,
    /// Ends of arrays that have not been reported.
    ends: usize,
    /// How many bytes of a line that has not arrived completely have been searched for its end.
    searched: usize,
    is_within: bool,
}

impl Decoder {
    /// Decodes the next part of a reply. Returns it with the number of bytes consumed; `None` if
    /// more must arrive.
    ///
    /// # Errors
    /// The bytes are not a reply.
    pub(super) fn next<'a>(
        &mut self,
        input: &'a [u8],
    ) -> Result<Option<(Part<'a>, usize)>, Malformed> {
        if self.ends > 0 {
            self.ends -= 1;
            self.arrays.pop();
            self.element_ends();
            return Ok(Some((Part::End, 0)));
        }
        if let Some(left) = self.text {
            return Ok(self.bytes(input, left));
        }
        let new = input.get(self.searched..).unwrap_or_default();
        let Some(end) = new.windows(2).position(|pair| pair == b"\r\n") else {
            self.searched = input.len().saturating_sub(1);
            return if input.len() > LONGEST_LINE { Err(Malformed) } else { Ok(None) };
        };
        let end = std::mem::take(&mut self.searched) + end;
        let (kind, line) = input.get(..end).and_then(<[u8]>::split_first).ok_or(Malformed)?;
        self.is_within = true;
        let part = match kind {
            b'+' => self.whole(Part::Status(line)),
            b'-' => self.whole(Part::Error(line)),
            b':' => self.whole(Part::Integer(number(line)?)),
            b'$' => match usize::try_from(number(line)?) {
                Ok(len) => {
                    self.text = Some(len + 2);
                    Part::Text(len)
                }
                Err(_) => self.whole(Part::Nil),
            },
            b'*' => match usize::try_from(number(line)?) {
                Ok(_) if self.arrays.len() == DEEPEST => return Err(Malformed),
                Ok(len) => {
                    self.arrays.push(len);
                    self.ends += usize::from(len == 0);
                    Part::Array(len)
                }
                Err(_) => self.whole(Part::Nil),
            },
            _ => return Err(Malformed),
        };
        Ok(Some((part, end + 2)))
    }

    /// Whether the current reply is complete.
    pub(super) fn is_over(&self) -> bool {
        !self.is_within
    }

    /// The next bytes of a string, of which `left` are left.
    fn bytes<'a>(&mut self, input: &'a [u8], left: usize) -> Option<(Part<'a>, usize)> {
        let text = left.saturating_sub(2);
        let here = text.min(input.len());
        let is_whole = input.len() >= left;
        if here == 0 && !is_whole {
            return None;
        }
        let part = input.get(..here).unwrap_or_default();
        if is_whole {
            self.text = None;
            self.element_ends();
            return Some((Part::Bytes(part, true), left));
        }
        // The last bytes come with the end of the line, so that there is always a last part.
        let here = if here == text { here.saturating_sub(1) } else { here };
        if here == 0 {
            return None;
        }
        self.text = Some(left - here);
        Some((Part::Bytes(part.get(..here).unwrap_or_default(), false), here))
    }

    fn whole<'a>(&mut self, part: Part<'a>) -> Part<'a> {
        self.element_ends();
        part
    }

    fn element_ends(&mut self) {
        match self.arrays.last_mut() {
            None => self.is_within = false,
            Some(left) => {
                *left -= 1;
                self.ends += usize::from(*left == 0);
            }
        }
    }
}

fn number(line: &[u8]) -> Result<i64, Malformed> {
    std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of replies that arrive in pieces of `step` bytes.
    fn parts(replies: &[u8], step: usize) -> Vec<String> {
        let (mut decoder, mut told, mut at, mut end) = (Decoder::default(), Vec::new(), 0, 0);
        let mut text = String::new();
        while end <= replies.len() {
            match decoder.next(&replies[at..end]).unwrap() {
                Some((part, consumed)) => {
                    at += consumed;
                    match part {
                        Part::Bytes(bytes, is_last) => {
                            text.push_str(std::str::from_utf8(bytes).unwrap());
                            if is_last {
                                told.push(std::mem::take(&mut text));
                            }
                        }
                        Part::Text(_) => {}
                        part => told.push(format!("{part:?}")),
                    }
                    if decoder.is_over() {
                        told.push("|".to_owned());
                    }
                }
                None if end == replies.len() => break,
                None => end = (end + step).min(replies.len()),
            }
        }
        assert_eq!(at, replies.len());
        told
    }

    #[test]
    fn replies_are_read_in_pieces_of_any_length() {
        let replies =
            b"+OK\r\n$5\r\nhello\r\n*3\r\n:1\r\n*0\r\n*2\r\n$0\r\n\r\n$-1\r\n*-1\r\n-ERR\r\n";
        let whole = parts(replies, replies.len());
        assert_eq!(whole[1..4], ["|", "hello", "|"]);
        let nested =
            ["Array(3)", "Integer(1)", "Array(0)", "End", "Array(2)", "", "Nil", "End", "End"];
        assert_eq!(whole[4..13], nested);
        for step in 1..12 {
            assert_eq!(parts(replies, step), whole, "{step}");
        }
    }

    #[test]
    fn malformed_replies_are_refused() {
        for wrong in [&b"hello\r\n"[..], b":x\r\n", b"$x\r\n", b"\r\n"] {
            assert_eq!(Decoder::default().next(wrong), Err(Malformed));
        }
        let deep = b"*1\r\n".repeat(DEEPEST + 1);
        let (mut decoder, mut at) = (Decoder::default(), 0);
        let refused = loop {
            match decoder.next(&deep[at..]) {
                Ok(Some((_, consumed))) => at += consumed,
                other => break other,
            }
        };
        assert_eq!(refused, Err(Malformed));
    }
}
