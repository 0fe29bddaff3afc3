//! Parses requests: multibulk requests, and inline commands as typed in telnet.

use std::error::Error;
use std::fmt;

use super::{inline, number};
use crate::line::LineEnd;
use crate::{Awaited, LONG_BYTES, Span};

/// The maximum length of a line without its end: an inline command, or the header of a multibulk or
/// bulk.
const LINE_BYTES: usize = 64 * 1024;
/// The maximum number of arguments, and their maximum length in bytes, before authentication.
const LOGIN_ARGUMENTS: u32 = 10;
const LOGIN_BULK_BYTES: usize = 16 * 1024;
/// A partial request is parsed again from its start unless more than this has been parsed.
const REREAD_BYTES: usize = 512;

/// The limits of a request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum length of an argument in bytes (`proto-max-bulk-len`).
    pub bulk_bytes: usize,
    /// Whether the connection may send larger requests than authentication needs.
    pub authenticated: bool,
}

impl Limits {
    /// Returns the length up to which an argument needs no further checks.
    fn plain_bytes(&self) -> usize {
        self.allowed_bytes().min(LONG_BYTES - 1)
    }

    /// Returns the maximum length of an argument.
    fn allowed_bytes(&self) -> usize {
        if self.authenticated { self.bulk_bytes } else { self.bulk_bytes.min(LOGIN_BULK_BYTES) }
    }
}

/// Invalid input, after which the connection is closed; the text follows `-ERR Protocol error: `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError(pub String);

impl fmt::Display for ProtocolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Protocol error: {}", self.0)
    }
}

impl Error for ProtocolError {}

impl ProtocolError {
    fn new(text: &str) -> Self {
        ProtocolError(text.to_owned())
    }
}

/// Parses the requests of a connection. Keeps the state of a partially received request, so that a
/// long one is not parsed from its start after every receive.
#[derive(Debug, Default)]
pub struct Parser {
    /// Shorter input needs no parsing. Zero between requests, when the other fields are empty as
    /// well.
    need_bytes: usize,
    line_end: LineEnd,
    awaited: Option<Awaited>,
    /// The state of a long multibulk that has partially arrived.
    partial: Option<Box<Partial>>,
}

#[derive(Debug)]
struct Partial {
    cursor: Cursor,
    spans: Vec<Span>,
}

/// The position in a multibulk: the offset of the next argument's header, and the number of
/// arguments left.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    at: usize,
    left: u32,
}

/// The number in a header and the length of its line.
type Header = (u32, usize);

impl Parser {
    /// Parses the request at the start of `input` and appends its arguments to `spans`.
    ///
    /// Returns the number of bytes that it takes, or `None` until more bytes arrive; then the
    /// caller calls again with the same bytes and more after them. An empty request (a bare line
    /// break, a multibulk without arguments) takes bytes but appends no span. `input` is modified:
    /// the escapes of an inline command are resolved in place, so input must not be parsed twice.
    ///
    /// As in Redis, the two bytes after an argument are skipped without a check, and so is the byte
    /// after a header's carriage return.
    ///
    /// # Errors
    /// The input is invalid regardless of what follows; the connection must be closed after the
    /// reply. The arguments before the error may have been appended.
    #[inline]
    pub fn parse(
        &mut self,
        input: &mut [u8],
        limits: &Limits,
        spans: &mut Vec<Span>,
    ) -> Result<Option<usize>, ProtocolError> {
        self.parse_with_large(input, limits, &[], spans)
    }

    /// Like [`Parser::parse`], for a request from whose bytes the caller has taken long arguments,
    /// which began at the offsets `large_offsets`; see [`Parser::awaited`].
    ///
    /// # Errors
    /// Those of [`Parser::parse`].
    #[inline]
    pub fn parse_with_large(
        &mut self,
        input: &mut [u8],
        limits: &Limits,
        large_offsets: &[u32],
        spans: &mut Vec<Span>,
    ) -> Result<Option<usize>, ProtocolError> {
        if self.need_bytes == 0 {
            self.read(input, limits, large_offsets, spans)
        } else {
            self.retry(input, limits, large_offsets, spans)
        }
    }

    /// Returns the long argument that the request at the start of the input waits for, if any. Its
    /// bytes may be taken out of the input as they arrive; once all have arrived,
    /// [`Parser::skip_large`] must be called, and then [`Parser::parse`] with the bytes after them.
    #[must_use]
    pub fn awaited(&self) -> Option<Awaited> {
        self.awaited.filter(|awaited| self.need_bytes == awaited.end())
    }

    /// Continues after the awaited argument, which was taken out of the input.
    pub fn skip_large(&mut self) {
        if let Some(awaited) = self.awaited.take() {
            self.need_bytes = awaited.at as usize + 2;
        }
    }

    /// Returns the capacity for arguments of a partially received request.
    #[must_use]
    #[inline]
    pub fn kept_spans(&self) -> usize {
        self.partial.as_ref().map_or(0, |partial| partial.spans.capacity())
    }

    /// Returns the length of the input below which nothing more can be parsed; zero between
    /// requests.
    #[must_use]
    #[inline]
    pub fn needed_bytes(&self) -> usize {
        self.need_bytes
    }

    /// Continues to parse a partially parsed request.
    #[inline(never)]
    fn retry(
        &mut self,
        input: &mut [u8],
        limits: &Limits,
        large_offsets: &[u32],
        spans: &mut Vec<Span>,
    ) -> Result<Option<usize>, ProtocolError> {
        if input.len() < self.need_bytes {
            return Ok(None);
        }
        let found = match self.partial.take() {
            Some(partial) => self.resume(partial, input, limits, large_offsets, spans)?,
            None => self.read(input, limits, large_offsets, spans)?,
        };
        if found.is_some() {
            *self = Parser::default();
        }
        Ok(found)
    }

    /// Parses a request from its start.
    #[inline]
    fn read(
        &mut self,
        input: &mut [u8],
        limits: &Limits,
        large_offsets: &[u32],
        spans: &mut Vec<Span>,
    ) -> Result<Option<usize>, ProtocolError> {
        match input.first() {
            Some(b'*') => self.multibulk(input, limits, large_offsets, spans),
            Some(_) => self.inline(input, spans),
            None => Ok(None),
        }
    }

    #[inline]
    fn multibulk(
        &mut self,
        input: &[u8],
        limits: &Limits,
        large_offsets: &[u32],
        spans: &mut Vec<Span>,
    ) -> Result<Option<usize>, ProtocolError> {
        let (count, at) = match number::short(b'*', input) {
            Some(header) if header.0 <= LOGIN_ARGUMENTS || limits.authenticated => header,
            _ => match self.count(input, limits)? {
                Some(header) => header,
                None => return Ok(None),
            },
        };
        let before = spans.len();
        let cursor =
            self.arguments(input, limits, large_offsets, Cursor { at, left: count }, spans)?;
        if cursor.left == 0 {
            return Ok(Some(cursor.at));
        }
        if cursor.at > REREAD_BYTES {
            let spans = spans.get(before..).unwrap_or_default().to_vec();
            self.partial = Some(Box::new(Partial { cursor, spans }));
        }
        spans.truncate(before);
        Ok(None)
    }

    fn resume(
        &mut self,
        mut partial: Box<Partial>,
        input: &[u8],
        limits: &Limits,
        large_offsets: &[u32],
        spans: &mut Vec<Span>,
    ) -> Result<Option<usize>, ProtocolError> {
        partial.cursor =
            self.arguments(input, limits, large_offsets, partial.cursor, &mut partial.spans)?;
        if partial.cursor.left == 0 {
            let at = partial.cursor.at;
            // Not copied if possible, since there may be millions of spans.
            match spans.is_empty() {
                true => *spans = partial.spans,
                false => spans.append(&mut partial.spans),
            }
            return Ok(Some(at));
        }
        self.partial = Some(partial);
        Ok(None)
    }

    /// Parses arguments from `cursor` on until there are no more or the input ends.
    #[inline(always)]
    fn arguments(
        &mut self,
        input: &[u8],
        limits: &Limits,
        large_offsets: &[u32],
        mut cursor: Cursor,
        spans: &mut Vec<Span>,
    ) -> Result<Cursor, ProtocolError> {
        let plain_bytes = limits.plain_bytes();
        while cursor.left > 0 {
            let rest = input.get(cursor.at..).unwrap_or_default();
            let (len, header_bytes) = match number::short(b'$', rest) {
                Some(header) if header.0 as usize <= plain_bytes => header,
                _ => match self.length(input, cursor.at, limits)? {
                    Some(header) => header,
                    None => return Ok(cursor),
                },
            };
            let start = cursor.at + header_bytes;
            let end = start + len as usize + 2;
            if end > u32::MAX as usize {
                return Err(ProtocolError::new("invalid bulk length"));
            }
            if len as usize >= LONG_BYTES {
                if let Some(index) = large_offsets.iter().position(|&at| at as usize == start) {
                    if start + 2 > input.len() {
                        self.need_bytes = start + 2;
                        return Ok(cursor);
                    }
                    spans.push(Span::large(index));
                    cursor = Cursor { at: start + 2, left: cursor.left - 1 };
                    continue;
                }
                self.awaited = Some(Awaited { at: start as u32, len });
            }
            if end > input.len() {
                self.need_bytes = end;
                return Ok(cursor);
            }
            spans.push(Span { start: start as u32, len });
            cursor.at = end;
            cursor.left -= 1;
        }
        Ok(cursor)
    }

    /// Returns the number of arguments of the multibulk at the start of `input`.
    #[cold]
    #[inline(never)]
    fn count(&mut self, input: &[u8], limits: &Limits) -> Result<Option<Header>, ProtocolError> {
        let Some((line, line_bytes)) = self.line(input, 0, "too big mbulk count string")? else {
            return Ok(None);
        };
        let count = number::signed(line.get(1..).unwrap_or_default())
            .filter(|&count| count <= i64::from(i32::MAX))
            .ok_or_else(|| ProtocolError::new("invalid multibulk length"))?;
        let count = u32::try_from(count).unwrap_or(0);
        if count > LOGIN_ARGUMENTS && !limits.authenticated {
            return Err(ProtocolError::new("unauthenticated multibulk length"));
        }
        Ok(Some((count, line_bytes)))
    }

    /// Returns the length of the argument whose header is at `at`.
    #[cold]
    #[inline(never)]
    fn length(
        &mut self,
        input: &[u8],
        at: usize,
        limits: &Limits,
    ) -> Result<Option<Header>, ProtocolError> {
        let Some((line, line_bytes)) = self.line(input, at, "too big bulk count string")? else {
            return Ok(None);
        };
        if input.get(at) != Some(&b'$') {
            return Err(not_a_bulk(input.get(at)));
        }
        let len = number::signed(line.get(1..).unwrap_or_default())
            .and_then(|len| u32::try_from(len).ok())
            .filter(|&len| len as usize <= limits.bulk_bytes)
            .ok_or_else(|| ProtocolError::new("invalid bulk length"))?;
        if len as usize > limits.allowed_bytes() {
            return Err(ProtocolError::new("unauthenticated bulk length"));
        }
        Ok(Some((len, line_bytes)))
    }

    /// Returns the header at `at` without its line break, and its length including the line break.
    fn line<'a>(
        &mut self,
        input: &'a [u8],
        at: usize,
        too_long: &str,
    ) -> Result<Option<(&'a [u8], usize)>, ProtocolError> {
        let Some(len) = self.find(b'\r', input, at, too_long)? else {
            return Ok(None);
        };
        let next = at + len + 2;
        if input.len() < next {
            self.need_bytes = next;
            return Ok(None);
        }
        Ok(Some((input.get(at..at + len).unwrap_or_default(), len + 2)))
    }

    fn inline(
        &mut self,
        input: &mut [u8],
        spans: &mut Vec<Span>,
    ) -> Result<Option<usize>, ProtocolError> {
        let Some(len) = self.find(b'\n', input, 0, "too big inline request")? else {
            return Ok(None);
        };
        let line = input.get_mut(..len).unwrap_or_default();
        inline::split(line, spans)
            .map_err(|_| ProtocolError::new("unbalanced quotes in request"))?;
        Ok(Some(len + 1))
    }

    /// Returns the distance from `at` to the first `end`.
    fn find(
        &mut self,
        end: u8,
        input: &[u8],
        at: usize,
        too_long: &str,
    ) -> Result<Option<usize>, ProtocolError> {
        let longest = input.len().min(at + LINE_BYTES + 1);
        let found = self.line_end.find(end, input.get(..longest).unwrap_or_default(), at);
        if found.is_none() && longest - at > LINE_BYTES {
            return Err(ProtocolError::new(too_long));
        }
        if found.is_none() {
            self.need_bytes = input.len() + 1;
        }
        Ok(found.map(|offset| offset - at))
    }
}

/// Returns Redis' error for an invalid header; a byte beyond ASCII is shown as one of Latin-1.
fn not_a_bulk(got: Option<&u8>) -> ProtocolError {
    let got = char::from(got.copied().unwrap_or_default());
    ProtocolError(format!("expected '$', got '{got}'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Args, LargeArgument};

    const LIMITS: Limits = Limits { bulk_bytes: 512 << 20, authenticated: true };
    const LOGIN: Limits = Limits { bulk_bytes: 512 << 20, authenticated: false };

    fn words(input: &[u8], spans: &[Span]) -> Vec<Vec<u8>> {
        let word = |span: &Span| input[span.start as usize..][..span.len as usize].to_vec();
        spans.iter().map(word).collect()
    }

    /// Returns all requests in `input`, fed `step` bytes at a time.
    fn requests(
        input: &[u8],
        step: usize,
        limits: &Limits,
    ) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let mut parser = Parser::default();
        let mut found = Vec::new();
        let mut buffer = Vec::new();
        for piece in input.chunks(step) {
            buffer.extend_from_slice(piece);
            let mut spans = Vec::new();
            while let Some(taken) = parser.parse(&mut buffer, limits, &mut spans)? {
                found.push(words(&buffer, &spans));
                buffer.drain(..taken);
                spans.clear();
            }
            assert!(spans.is_empty(), "a partial request must leave no span");
        }
        Ok(found)
    }

    fn check(input: &[u8], expected: &[&[&str]]) {
        let expected: Vec<Vec<Vec<u8>>> = expected
            .iter()
            .map(|request| request.iter().map(|word| word.as_bytes().to_vec()).collect())
            .collect();
        for step in [input.len(), 1, 2, 3, 7] {
            assert_eq!(requests(input, step, &LIMITS), Ok(expected.clone()), "{step} at a time");
        }
    }

    fn check_error(input: &[u8], limits: &Limits, expected: &str) {
        for step in [input.len(), 1000, 1] {
            let error = requests(input, step, limits).unwrap_err();
            assert_eq!(error.0, expected, "{step} at a time");
        }
    }

    #[test]
    fn multibulk_requests_in_a_pipeline() {
        check(
            b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n\
              *3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\r\n\r\n",
            &[&["GET", "a"], &["PING"], &["SET", "", "\r\n"]],
        );
    }

    #[test]
    fn requests_without_arguments_are_consumed() {
        check(
            b"*0\r\n*-1\r\n*-100\r\n\r\n\n  \r\nPING\r\n",
            &[&[], &[], &[], &[], &[], &[], &["PING"]],
        );
    }

    #[test]
    fn inline_requests_may_end_in_either_line_break() {
        check(b"SET a 'b c'\r\nGET a\n", &[&["SET", "a", "b c"], &["GET", "a"]]);
    }

    #[test]
    fn spans_are_appended_after_those_of_earlier_requests() {
        let mut spans = vec![Span { start: 7, len: 7 }];
        let mut input = *b"*1\r\n$4\r\nPING\r\n";
        assert_eq!(Parser::default().parse(&mut input, &LIMITS, &mut spans), Ok(Some(14)));
        assert_eq!(spans, [Span { start: 7, len: 7 }, Span { start: 8, len: 4 }]);
    }

    #[test]
    fn many_arguments_in_small_pieces() {
        let mut input = b"*20000\r\n".to_vec();
        let mut expected = Vec::new();
        for number in 0..20_000 {
            let word = number.to_string();
            input.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
            expected.push(word.into_bytes());
        }
        for step in [1, 1000, input.len()] {
            assert_eq!(requests(&input, step, &LIMITS), Ok(vec![expected.clone()]));
        }
    }

    #[test]
    fn progress_within_a_long_request_is_kept() {
        let mut parser = Parser::default();
        let mut input = b"*200\r\n".to_vec();
        input.extend(b"$1\r\na\r\n".repeat(199));
        assert_eq!(parser.parse(&mut input, &LIMITS, &mut Vec::new()), Ok(None));
        let at = parser.partial.as_ref().map(|partial| (partial.cursor.at, partial.spans.len()));
        assert_eq!(at, Some((input.len(), 199)));
        input.extend(b"$100000\r\n");
        assert_eq!(parser.parse(&mut input, &LIMITS, &mut Vec::new()), Ok(None));
        assert_eq!(parser.need_bytes, input.len() + 100_002);
    }

    #[test]
    fn long_arguments_may_be_taken_as_they_arrive() {
        let long = [vec![b'1'; LONG_BYTES], vec![b'2'; LONG_BYTES + 9]];
        let mut input = b"*5\r\n$4\r\nMSET\r\n$1\r\na\r\n".to_vec();
        let mut parser = Parser::default();
        let mut large_offsets = Vec::new();
        for (word, after) in long.iter().zip(["\r\n$1\r\nb\r\n", "\r\n"]) {
            input.extend(format!("${}\r\n", word.len()).bytes());
            let at = input.len() as u32;
            input.extend_from_slice(&word[..5]);
            let parsed =
                parser.parse_with_large(&mut input, &LIMITS, &large_offsets, &mut Vec::new());
            assert_eq!(parsed, Ok(None));
            assert_eq!(parser.awaited(), Some(Awaited { at, len: word.len() as u32 }));
            input.truncate(at as usize);
            large_offsets.push(at);
            parser.skip_large();
            assert_eq!(parser.awaited(), None);
            for byte in after.bytes().take(after.len() - 1) {
                let parsed =
                    parser.parse_with_large(&mut input, &LIMITS, &large_offsets, &mut Vec::new());
                assert_eq!(parsed, Ok(None));
                input.push(byte);
            }
            input.extend(after.bytes().last());
        }
        input.extend(b"*1\r\n");
        // The request is the same whether the parser starts over or continues.
        for parser in [&mut parser, &mut Parser::default()] {
            let mut spans = Vec::new();
            let taken = parser.parse_with_large(&mut input, &LIMITS, &large_offsets, &mut spans);
            assert_eq!(taken, Ok(Some(input.len() - 4)), "up to the next request");
            let places: Vec<LargeArgument> =
                long.iter().map(|word| LargeArgument::new(vec![word[..].into()])).collect();
            let args = Args::new(&input, &spans).with_large(&places);
            let words: Vec<&[u8]> = args.from(0).collect();
            assert_eq!(words, [b"MSET", &b"a"[..], &long[0], b"b", &long[1]]);
            let lens = (0..args.len()).map(|index| args.len_of(index));
            assert_eq!(args.total_len(), lens.sum());
            assert_eq!(args.take(2).total_len(), "MSETa".len());
        }
    }

    #[test]
    fn protocol_errors_have_the_messages_of_redis() {
        check_error(b"*1x\r\n", &LIMITS, "invalid multibulk length");
        check_error(b"*\r\n", &LIMITS, "invalid multibulk length");
        check_error(b"*01\r\n", &LIMITS, "invalid multibulk length");
        check_error(b"*-0\r\n", &LIMITS, "invalid multibulk length");
        check_error(b"*2147483648\r\n", &LIMITS, "invalid multibulk length");
        check_error(b"*11\r\n", &LOGIN, "unauthenticated multibulk length");
        check_error(b"*1\r\nfoo\r\n", &LIMITS, "expected '$', got 'f'");
        check_error(b"*1\r\n\r\n", &LIMITS, "expected '$', got '\r'");
        check_error(b"*1\r\n$-1\r\n", &LIMITS, "invalid bulk length");
        check_error(b"*1\r\n$536870913\r\n", &LIMITS, "invalid bulk length");
        check_error(b"*1\r\n$99999999999999999999\r\n", &LIMITS, "invalid bulk length");
        check_error(b"*1\r\n$16385\r\n", &LOGIN, "unauthenticated bulk length");
        check_error(b"GET 'a\r\n", &LIMITS, "unbalanced quotes in request");
    }

    #[test]
    fn lines_without_an_end_are_refused_beyond_64_kib() {
        let junk = vec![b'1'; LINE_BYTES + 1];
        check_error(&junk, &LIMITS, "too big inline request");
        check_error(&[b"*", &junk[..]].concat(), &LIMITS, "too big mbulk count string");
        check_error(&[b"*1\r\n$", &junk[..]].concat(), &LIMITS, "too big bulk count string");
        check_error(&[&junk[..], b"\n"].concat(), &LIMITS, "too big inline request");
        let longest = "1".repeat(LINE_BYTES);
        check(format!("{longest}\n").as_bytes(), &[&[&longest]]);
    }

    #[test]
    fn request_beyond_the_range_of_spans_is_refused() {
        let limits = Limits { bulk_bytes: usize::MAX, authenticated: true };
        check_error(b"*1\r\n$4294967290\r\n", &limits, "invalid bulk length");
        assert_eq!(requests(b"*1\r\n$4294967200\r\n", 1, &limits), Ok(vec![]));
    }

    #[test]
    fn line_in_pieces_does_not_affect_the_next_request() {
        check(
            b"*1\r\n$4\r\nPING\r\nECHO a\r\n*1\r\n$1\r\na\r\n",
            &[&["PING"], &["ECHO", "a"], &["a"]],
        );
        let ten_digits = b"*1000000000\r\n$4\r\nPING\r\n$0";
        assert_eq!(requests(ten_digits, 1, &LIMITS), Ok(vec![]));
    }

    #[test]
    fn an_idle_parser_is_small() {
        assert!(size_of::<Parser>() <= 64);
    }
}
