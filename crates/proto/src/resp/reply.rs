//! Finds the ends of replies, for clients, and decodes replies, for tests and tools.

use super::number;
use crate::MalformedReply;
use crate::line::LineEnd;

/// The maximum nesting that [`Reply::decode`] supports; Redis' own replies stay below ten.
const DEPTH: usize = 64;
/// The maximum length of a string in a header, in bytes.
const STRING_BYTES: i64 = u32::MAX as i64;

/// Finds the replies in a server's bytes. It allocates no memory, and continues where it stopped if
/// a reply arrives in pieces.
///
/// An array with its elements is one reply, and so is an attribute with the reply that it precedes.
/// A push (`>`) is a separate reply, between those to requests.
#[derive(Debug, Default)]
pub struct ReplyParser {
    /// The offset of the next element.
    at: usize,
    /// The number of elements of this reply that are left; zero between replies.
    left: u64,
    /// Shorter input needs no parsing.
    need_bytes: usize,
    line_end: LineEnd,
}

/// An element without the elements nested in it.
struct Element<'a> {
    kind: u8,
    /// The first line, or the content of a string.
    text: &'a [u8],
    /// The number of bytes from its type to its last line break.
    bytes: usize,
    /// The number of elements that follow and belong to it.
    children: u64,
    null: bool,
}

impl ReplyParser {
    /// Returns the length of the reply at the start of `input`, or `None` until all of it has
    /// arrived; then the caller calls again with the same bytes and more after them.
    ///
    /// # Errors
    /// The bytes are not a valid reply.
    pub fn next(&mut self, input: &[u8]) -> Result<Option<usize>, MalformedReply> {
        if self.need_bytes == 0
            && let Some(len) = usual(input)
        {
            return Ok(Some(len));
        }
        if input.len() < self.need_bytes {
            return Ok(None);
        }
        let mut at = self.at;
        let mut left = self.left.max(1);
        while left > 0 {
            let Some(element) = self.element(input, at)? else {
                self.at = at;
                self.left = left;
                return Ok(None);
            };
            // An attribute precedes an element, but does not replace one.
            let counted = u64::from(element.kind != b'|');
            left = (left - counted).checked_add(element.children).ok_or(MalformedReply { at })?;
            at += element.bytes;
        }
        *self = ReplyParser::default();
        Ok(Some(at))
    }

    /// Returns the element at `at`, once it has arrived completely.
    fn element<'a>(
        &mut self,
        input: &'a [u8],
        at: usize,
    ) -> Result<Option<Element<'a>>, MalformedReply> {
        let rest = input.get(at..).unwrap_or_default();
        let Some(&kind) = rest.first() else {
            self.need_bytes = at + 1;
            return Ok(None);
        };
        match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {
                let line = self.line(input, at)?;
                Ok(line.map(|text| Element {
                    kind,
                    text,
                    bytes: 1 + text.len() + 2,
                    children: 0,
                    null: kind == b'_',
                }))
            }
            b'$' | b'!' | b'=' => self.string(input, at, kind),
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let Some((len, bytes)) = self.header(input, at, kind)? else {
                    return Ok(None);
                };
                let (null, len) = (len < 0, u64::try_from(len).unwrap_or(0));
                let each = if matches!(kind, b'%' | b'|') { 2 } else { 1 };
                let children = len.checked_mul(each).ok_or(MalformedReply { at })?;
                Ok(Some(Element { kind, text: b"", bytes, children, null }))
            }
            _ => Err(MalformedReply { at }),
        }
    }

    fn string<'a>(
        &mut self,
        input: &'a [u8],
        at: usize,
        kind: u8,
    ) -> Result<Option<Element<'a>>, MalformedReply> {
        let Some((len, header_bytes)) = self.header(input, at, kind)? else {
            return Ok(None);
        };
        if len < 0 {
            let null = Element { kind, text: b"", bytes: header_bytes, children: 0, null: true };
            return Ok(Some(null));
        }
        if len > STRING_BYTES {
            return Err(MalformedReply { at });
        }
        let start = at + header_bytes;
        let end = start + len as usize;
        if input.len() < end + 2 {
            self.need_bytes = end + 2;
            return Ok(None);
        }
        if input.get(end..end + 2) != Some(b"\r\n") {
            return Err(MalformedReply { at });
        }
        let text = input.get(start..end).unwrap_or_default();
        let bytes = header_bytes + text.len() + 2;
        Ok(Some(Element { kind, text, bytes, children: 0, null: false }))
    }

    /// Returns the length in the header of an element, and the length of its line. Only types that
    /// have a null in RESP2 may have the length -1.
    fn header(
        &mut self,
        input: &[u8],
        at: usize,
        kind: u8,
    ) -> Result<Option<(i64, usize)>, MalformedReply> {
        let rest = input.get(at..).unwrap_or_default();
        if let Some((len, bytes)) = number::short(kind, rest)
            && rest.get(bytes - 1) == Some(&b'\n')
        {
            return Ok(Some((len.into(), bytes)));
        }
        let Some(line) = self.line(input, at)? else {
            return Ok(None);
        };
        let least = if matches!(kind, b'$' | b'*') { -1 } else { 0 };
        let len = number::signed(line).filter(|&len| len >= least);
        let len = len.ok_or(MalformedReply { at })?;
        Ok(Some((len, 1 + line.len() + 2)))
    }

    /// Returns the line at `at` without its type and its end.
    fn line<'a>(&mut self, input: &'a [u8], at: usize) -> Result<Option<&'a [u8]>, MalformedReply> {
        let Some(end) = self.line_end.find(b'\r', input, at) else {
            self.need_bytes = input.len() + 1;
            return Ok(None);
        };
        match input.get(end + 1) {
            Some(b'\n') => Ok(input.get(at + 1..end)),
            Some(_) => Err(MalformedReply { at }),
            None => {
                self.need_bytes = end + 2;
                Ok(None)
            }
        }
    }
}

/// Returns the length of the reply at the start of `input` if it is complete and one of the two
/// most frequent for load tools: a short string, or `+OK`.
#[inline]
fn usual(input: &[u8]) -> Option<usize> {
    if let Some((len, header_bytes)) = number::short(b'$', input) {
        let end = header_bytes + len as usize;
        let breaks_at = |at: usize| input.get(at..at + 2) == Some(b"\r\n");
        return (breaks_at(header_bytes - 2) && breaks_at(end)).then_some(end + 2);
    }
    input.starts_with(b"+OK\r\n").then_some(5)
}

/// A reply as a tree, for tests and tools, without attributes.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+`; invalid UTF-8 is replaced.
    Simple(String),
    /// `-` or `!`; invalid UTF-8 is replaced.
    Error(String),
    /// `:`
    Integer(i64),
    /// `$`
    Bulk(Vec<u8>),
    /// RESP3's `_` and RESP2's null bulk string.
    Null,
    /// RESP2's null array.
    NullArray,
    /// `#`
    Boolean(bool),
    /// `,`
    Double(f64),
    /// `(`
    BigNumber(String),
    /// `=`
    Verbatim {
        /// The format of the text, such as `txt`.
        format: [u8; 3],
        /// The text.
        text: Vec<u8>,
    },
    /// `*`
    Array(Vec<Reply>),
    /// `~`
    Set(Vec<Reply>),
    /// `%`
    Map(Vec<(Reply, Reply)>),
    /// `>`
    Push(Vec<Reply>),
}

impl Reply {
    /// Decodes the reply at the start of `input`. Returns it and its length, or `None` if it is not
    /// complete. Its memory is proportional to its bytes.
    ///
    /// # Errors
    /// The bytes are not a valid reply, or nested too deeply.
    pub fn decode(input: &[u8]) -> Result<Option<(Reply, usize)>, MalformedReply> {
        let Some(len) = ReplyParser::default().next(input)? else {
            return Ok(None);
        };
        let mut decoder = Decoder { input, at: 0 };
        Ok(Some((decoder.reply(DEPTH)?, len)))
    }
}

/// Decodes a reply that is known to be complete.
struct Decoder<'a> {
    input: &'a [u8],
    at: usize,
}

impl Decoder<'_> {
    fn reply(&mut self, depth: usize) -> Result<Reply, MalformedReply> {
        let at = self.at;
        let malformed = MalformedReply { at };
        let depth = depth.checked_sub(1).ok_or(malformed)?;
        let element = ReplyParser::default().element(self.input, at)?.ok_or(malformed)?;
        self.at += element.bytes;
        let children = usize::try_from(element.children).map_err(|_| malformed)?;
        Ok(match element.kind {
            b'*' if element.null => Reply::NullArray,
            b'*' => Reply::Array(self.replies(children, depth)?),
            b'~' => Reply::Set(self.replies(children, depth)?),
            b'>' => Reply::Push(self.replies(children, depth)?),
            b'%' => {
                let pair = |_| Ok((self.reply(depth)?, self.reply(depth)?));
                Reply::Map((0..children / 2).map(pair).collect::<Result<_, _>>()?)
            }
            b'|' => {
                self.replies(children, depth)?;
                self.reply(depth)?
            }
            _ => scalar(&element).ok_or(malformed)?,
        })
    }

    fn replies(&mut self, count: usize, depth: usize) -> Result<Vec<Reply>, MalformedReply> {
        (0..count).map(|_| self.reply(depth)).collect()
    }
}

/// Decodes an element without nested elements.
fn scalar(element: &Element<'_>) -> Option<Reply> {
    let text = element.text;
    let lossy = || String::from_utf8_lossy(text).into_owned();
    Some(match element.kind {
        _ if element.null => text.is_empty().then_some(Reply::Null)?,
        b'+' => Reply::Simple(lossy()),
        b'-' | b'!' => Reply::Error(lossy()),
        b':' => Reply::Integer(std::str::from_utf8(text).ok()?.parse().ok()?),
        b'#' => match text {
            b"t" => Reply::Boolean(true),
            b"f" => Reply::Boolean(false),
            _ => return None,
        },
        b',' => Reply::Double(std::str::from_utf8(text).ok()?.parse().ok()?),
        b'(' => Reply::BigNumber(lossy()),
        b'=' => {
            let (format, text) = text.split_first_chunk::<3>()?;
            Reply::Verbatim { format: *format, text: text.strip_prefix(b":")?.to_vec() }
        }
        _ => Reply::Bulk(text.to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::reply_lengths;

    fn lengths(input: &[u8], step: usize) -> Result<Vec<usize>, MalformedReply> {
        let mut parser = ReplyParser::default();
        reply_lengths(input, step, |bytes| parser.next(bytes))
    }

    fn check(replies: &[&str]) {
        let input = replies.concat();
        let expected: Vec<usize> = replies.iter().map(|reply| reply.len()).collect();
        for step in [input.len(), 1, 2, 3, 7] {
            assert_eq!(lengths(input.as_bytes(), step), Ok(expected.clone()), "{step} at a time");
        }
    }

    fn decoded(input: &str) -> Reply {
        let (reply, len) = Reply::decode(input.as_bytes()).unwrap().unwrap();
        assert_eq!(len, input.len());
        reply
    }

    #[test]
    fn replies_end_with_their_last_element() {
        check(&[
            "+OK\r\n",
            "-ERR a b\r\n",
            ":-1\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "$0\r\n\r\n",
            "*0\r\n",
        ]);
        check(&["$12\r\nhello\r\nworld\r\n", "*2\r\n*1\r\n$1\r\na\r\n*-1\r\n", "_\r\n", "#t\r\n"]);
        check(&[
            "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n",
            "~1\r\n,1.5\r\n",
            "(123456789012345678901\r\n",
        ]);
        check(&[">2\r\n+a\r\n+b\r\n", "=8\r\ntxt:some\r\n", "!5\r\nERR x\r\n", "+\r\n"]);
        check(&["|1\r\n+ttl\r\n:3\r\n*2\r\n|1\r\n+a\r\n*0\r\n+b\r\n+c\r\n", "+OK\r\n"]);
    }

    #[test]
    fn deeply_nested_replies_are_delimited() {
        let nested = format!("{}:1\r\n", "*1\r\n".repeat(100_000));
        check(&[&nested]);
        assert!(Reply::decode(nested.as_bytes()).is_err());
    }

    #[test]
    fn invalid_replies_are_malformed() {
        for (input, at) in [
            ("x\r\n", 0),
            ("+a\rb\r\n", 0),
            ("$x\r\n", 0),
            ("$-2\r\n", 0),
            ("%-1\r\n", 0),
            ("=-1\r\n", 0),
            ("$1\r\nabc", 0),
            ("$1\rxa\r\n", 0),
            ("$4294967296\r\n", 0),
            ("*01\r\n", 0),
            ("%9223372036854775807\r\n*9223372036854775807\r\n*9223372036854775807\r\n", 22),
            ("*2\r\n+a\r\n\r\n", 8),
        ] {
            for step in [input.len(), 1] {
                let error = lengths(input.as_bytes(), step).unwrap_err();
                assert_eq!(error, MalformedReply { at }, "{input:?}");
            }
        }
        for input in ["#x\r\n", ":x\r\n", ",x\r\n", "=3\r\ntxt\r\n", "_x\r\n"] {
            assert_eq!(Reply::decode(input.as_bytes()), Err(MalformedReply { at: 0 }), "{input:?}");
        }
    }

    #[test]
    fn trees() {
        let simple = |text: &str| Reply::Simple(text.to_owned());
        assert_eq!(decoded("-ERR a\r\n"), Reply::Error("ERR a".to_owned()));
        assert_eq!(decoded("!5\r\nERR a\r\n"), Reply::Error("ERR a".to_owned()));
        assert_eq!(
            decoded("*4\r\n$-1\r\n*-1\r\n_\r\n$1\r\n\n\r\n"),
            Reply::Array(vec![
                Reply::Null,
                Reply::NullArray,
                Reply::Null,
                Reply::Bulk(b"\n".to_vec())
            ])
        );
        assert_eq!(
            decoded("%1\r\n+a\r\n~1\r\n#f\r\n"),
            Reply::Map(vec![(simple("a"), Reply::Set(vec![Reply::Boolean(false)]))])
        );
        assert_eq!(decoded("|1\r\n+a\r\n+b\r\n:7\r\n"), Reply::Integer(7));
        assert_eq!(
            decoded(">3\r\n,-inf\r\n(12\r\n=7\r\nmkd:abc\r\n"),
            Reply::Push(vec![
                Reply::Double(f64::NEG_INFINITY),
                Reply::BigNumber("12".to_owned()),
                Reply::Verbatim { format: *b"mkd", text: b"abc".to_vec() }
            ])
        );
        assert_eq!(Reply::decode(b"*2\r\n+a\r\n"), Ok(None));
    }
}
