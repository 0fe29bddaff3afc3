//! Parses requests of the classic text protocol and of the meta commands: one line each, followed
//! by a data block for storage commands.

use crate::{Awaited, LONG_BYTES, Span};

/// The maximum length of a line in bytes, except for `get`: the size of memcached's receive buffer.
const LINE_BYTES: usize = 16 * 1024;
/// The number of bytes of an incomplete line that may have arrived: memcached's limit.
const ENDLESS_BYTES: usize = 2048;
/// The maximum length of a line of `get` or `gets`, which may have thousands of keys.
const GET_LINE_BYTES: usize = 8 << 20;
/// The maximum number of blanks before `get` or `gets`.
const BLANKS: usize = 100;
/// The minimum length of a line that may contain a verb, including its end.
const SHORTEST_LINE: usize = 4;
/// The maximum length of a data block in a line, regardless of the limits.
const BLOCK_BYTES: usize = i32::MAX as usize - 2;
/// A partial line is parsed again from its start unless it is longer than this.
const REREAD_BYTES: usize = 512;

const BAD_LINE: &str = "CLIENT_ERROR bad command line format";
/// The reply to a data block without the expected line break.
pub const BAD_BLOCK: &str = "CLIENT_ERROR bad data chunk";
/// The reply to a data block that is too long.
pub const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
/// The reply to a login whose data block is too long.
pub const LONG_LOGIN: &str = "CLIENT_ERROR auth token too long";

/// The limits of a request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum length of a data block in bytes (memcached's `-I`).
    pub item_bytes: usize,
    /// Whether only a login is accepted, which is a `set`. A block that is too long is then not
    /// discarded: as in memcached, what follows its line is another line.
    pub login_only: bool,
}

/// The meaning of the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// More bytes are needed.
    Incomplete,
    /// A request. Its spans have been appended: the verb first, the data block last if the verb has
    /// one. The word `noreply` is not included.
    Request {
        /// The number of bytes that it takes.
        consumed: usize,
        /// Whether the client requests no reply.
        quiet: bool,
    },
    /// Bytes to discard and a line to reply, such as `CLIENT_ERROR bad data chunk`.
    ///
    /// No span is appended, unless the value of a `set` or `ms` was too large: then the spans of
    /// its line are appended, so that the caller can remove the key's old value, as memcached does.
    Reject {
        /// The number of bytes to discard now.
        consumed: usize,
        /// The reply; empty for none.
        reply: &'static str,
        /// Whether the connection must be closed.
        close: bool,
    },
}

/// Parses the requests of a connection. Keeps the state of a partially received request, so that a
/// long one is not parsed from its start after every receive.
#[derive(Debug, Default)]
pub struct Parser {
    /// Shorter input needs no parsing.
    need_bytes: usize,
    /// The number of bytes of a refused data block that have not arrived yet.
    discard_bytes: usize,
    awaited: Option<Awaited>,
    /// The state of a long line that has partially arrived.
    partial: Option<Box<Partial>>,
}

#[derive(Debug)]
struct Partial {
    cursor: Cursor,
    spans: Vec<Span>,
}

/// The position in a partially parsed line.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// The offset of the first byte that has not been examined.
    at: usize,
    /// The offset after the last blank, at which the next word starts or has started.
    word: usize,
}

/// The line of a storage command.
struct Header {
    line_bytes: usize,
    /// The index of the word with the length of the data block; the verb has index 0.
    length: usize,
    /// The number of words of the request, including the verb.
    words: usize,
    quiet: bool,
    /// Whether the data block was taken out of the input.
    is_large: bool,
}

/// The syntax of a verb.
enum Verb {
    /// The minimum number of words, including the verb.
    Classic(usize),
    /// The minimum number of words of a verb followed by a data block, whose length is the fifth
    /// word.
    Storage(usize),
    /// A meta command. After this many words, only flags may follow; they determine whether a reply
    /// is requested.
    Meta(usize),
    /// A verb that always replies, regardless of its last word.
    Other,
}

impl Verb {
    /// Returns the syntax of the verb `name`.
    fn find(name: &[u8]) -> Verb {
        match name {
            b"get" | b"gets" | b"gat" | b"gats" | b"version" | b"stats" | b"quit" | b"watch" => {
                Verb::Other
            }
            b"set" | b"add" | b"replace" | b"append" | b"prepend" => Verb::Storage(5),
            b"cas" => Verb::Storage(6),
            b"mg" | b"md" | b"ma" => Verb::Meta(2),
            b"ms" => Verb::Meta(3),
            b"mn" | b"me" => Verb::Other,
            b"incr" | b"decr" | b"touch" => Verb::Classic(3),
            b"delete" | b"verbosity" => Verb::Classic(2),
            _ => Verb::Classic(1),
        }
    }
}

/// Whether a word after a meta command's key is a flag; otherwise the line is invalid.
fn begins_flag(first: u8) -> bool {
    first.is_ascii_digit() || (b'A'..b'{').contains(&first)
}

impl Parser {
    /// Parses the request at the start of `input` and appends its arguments to `spans`.
    ///
    /// Lines end with `\n` or `\r\n`, data blocks with `\r\n`. The parser distinguishes verbs only
    /// by whether they have a data block, and whether they ignore `noreply`; an unknown verb is an
    /// ordinary request. Words after the last one that a storage verb accepts are dropped.
    ///
    /// `noreply` is recognized as the last word of any other verb. If the verb requires that word
    /// (`delete noreply`), it is the argument as well, as in memcached.
    ///
    /// Only the length of a storage line is parsed; the verb's handler validates the rest, once the
    /// block has arrived. A request whose line and block are both invalid is therefore refused for
    /// its block here, but for its line by memcached.
    ///
    /// A line that is longer than any valid request closes the connection without a reply, as in
    /// memcached: after 2 KB without an end, even if the next piece contains it, or after 16 KB. A
    /// `get` may be longer.
    #[inline]
    pub fn parse(&mut self, input: &[u8], limits: &Limits, spans: &mut Vec<Span>) -> Parsed {
        self.parse_with_large(input, limits, &[], spans)
    }

    /// Like [`Parser::parse`], for a request whose data block the caller has taken out of the
    /// input, if it began at one of the offsets `large_offsets`; see [`Parser::awaited`].
    pub fn parse_with_large(
        &mut self,
        input: &[u8],
        limits: &Limits,
        large_offsets: &[u32],
        spans: &mut Vec<Span>,
    ) -> Parsed {
        if self.discard_bytes > 0 {
            return self.discard(input.len());
        }
        if input.len() < self.need_bytes {
            return Parsed::Incomplete;
        }
        let before = spans.len();
        let Some(line_bytes) = self.line(input, spans) else {
            if input.len() > longest_line(input, ENDLESS_BYTES, limits) {
                return self.give_up(input);
            }
            self.need_bytes = input.len() + 1;
            return Parsed::Incomplete;
        };
        if line_bytes > LINE_BYTES && line_bytes > longest_line(input, LINE_BYTES, limits) + 1 {
            spans.truncate(before);
            return self.give_up(input);
        }
        self.need_bytes = 0;
        let words = spans.get(before..).unwrap_or_default();
        let noreply = words.last().is_some_and(|&last| text(input, last) == b"noreply");
        if line_bytes < SHORTEST_LINE || input.first() == Some(&b' ') {
            let reply = match line_bytes {
                ..SHORTEST_LINE => BAD_LINE,
                _ if noreply => "",
                _ => "ERROR",
            };
            spans.truncate(before);
            return Parsed::Reject { consumed: line_bytes, reply, close: false };
        }
        let verb = words.first().map_or(Verb::Other, |&verb| Verb::find(text(input, verb)));
        let is_large = large_offsets.contains(&(line_bytes as u32));
        let mut header =
            Header { line_bytes, length: 4, words: words.len(), quiet: false, is_large };
        match verb {
            Verb::Other => {}
            Verb::Classic(needed) => {
                header.quiet = noreply && words.len() >= needed;
                if header.quiet && words.len() > needed {
                    spans.pop();
                }
            }
            Verb::Storage(needed) => {
                header.quiet = noreply && words.len() >= needed;
                header.words = needed;
                return self.block(input, &header, limits, before, spans);
            }
            Verb::Meta(first_flag) => {
                let first = |&word: &Span| text(input, word).first().copied().unwrap_or_default();
                let mut flags = words.get(first_flag..).unwrap_or_default().iter().map(first);
                if words.len() < first_flag || !flags.all(begins_flag) {
                    spans.truncate(before);
                    let (consumed, reply) = (line_bytes, BAD_LINE);
                    return Parsed::Reject { consumed, reply, close: false };
                }
                if first_flag == 3 {
                    header.length = 2;
                    return self.block(input, &header, limits, before, spans);
                }
            }
        }
        Parsed::Request { consumed: line_bytes, quiet: header.quiet }
    }

    /// Completes a storage request with its data block.
    fn block(
        &mut self,
        input: &[u8],
        header: &Header,
        limits: &Limits,
        before: usize,
        spans: &mut Vec<Span>,
    ) -> Parsed {
        let length =
            spans.get(before + header.length).and_then(|&word| block_length(text(input, word)));
        let start = header.line_bytes;
        let Some(len) = length else {
            spans.truncate(before);
            return Parsed::Reject { consumed: start, reply: BAD_LINE, close: false };
        };
        let end = if header.is_large { start + 2 } else { start + len + 2 };
        if len > limits.item_bytes && !header.is_large {
            let verb = spans.get(before).map(|&verb| text(input, verb));
            if limits.login_only {
                let reply = if verb == Some(b"set") { LONG_LOGIN } else { BAD_LINE };
                spans.truncate(before);
                return Parsed::Reject { consumed: start, reply, close: false };
            }
            let line = if matches!(verb, Some(b"set" | b"ms")) { header.words } else { 0 };
            spans.truncate(before + line);
            self.discard_bytes = end - input.len().min(end);
            let reply = if header.quiet { "" } else { TOO_LARGE };
            return Parsed::Reject { consumed: input.len().min(end), reply, close: false };
        }
        if input.len() < end {
            spans.truncate(before);
            self.need_bytes = end;
            let long = len >= LONG_BYTES && !header.is_large;
            self.awaited = long.then_some(Awaited { at: start as u32, len: len as u32 });
            return Parsed::Incomplete;
        }
        if input.get(end - 2..end) != Some(b"\r\n") {
            spans.truncate(before);
            let reply = if header.quiet { "" } else { BAD_BLOCK };
            return Parsed::Reject { consumed: end, reply, close: false };
        }
        spans.truncate(before + header.words);
        spans.push(match header.is_large {
            true => Span::large(0),
            false => Span { start: start as u32, len: len as u32 },
        });
        Parsed::Request { consumed: end, quiet: header.quiet }
    }

    /// Returns the long data block that the request at the start of the input waits for; see
    /// [`crate::resp::Parser::awaited`].
    #[must_use]
    pub fn awaited(&self) -> Option<Awaited> {
        self.awaited.filter(|awaited| self.need_bytes == awaited.end())
    }

    /// Continues after the awaited block, which was taken out of the input.
    pub fn skip_large(&mut self) {
        if let Some(awaited) = self.awaited.take() {
            self.need_bytes = awaited.at as usize + 2;
        }
    }

    /// Discards bytes of a refused data block that have arrived.
    fn discard(&mut self, arrived: usize) -> Parsed {
        let consumed = self.discard_bytes.min(arrived);
        if consumed == 0 {
            return Parsed::Incomplete;
        }
        self.discard_bytes -= consumed;
        Parsed::Reject { consumed, reply: "", close: false }
    }

    /// Returns the capacity for arguments of a partially received request.
    #[must_use]
    #[inline]
    pub fn kept_spans(&self) -> usize {
        self.partial.as_ref().map_or(0, |partial| partial.spans.capacity())
    }

    /// Appends the words of the line to `spans` and returns its length, or records the position in
    /// an incomplete line.
    #[inline]
    fn line(&mut self, input: &[u8], spans: &mut Vec<Span>) -> Option<usize> {
        if self.partial.is_some() {
            return self.resume_line(input, spans);
        }
        let before = spans.len();
        let mut cursor = Cursor::default();
        if read_words(input, &mut cursor, spans) {
            return Some(cursor.at);
        }
        if cursor.at > REREAD_BYTES {
            let spans = spans.get(before..).unwrap_or_default().to_vec();
            self.partial = Some(Box::new(Partial { cursor, spans }));
        }
        spans.truncate(before);
        None
    }

    #[cold]
    fn resume_line(&mut self, input: &[u8], spans: &mut Vec<Span>) -> Option<usize> {
        let partial = self.partial.as_mut()?;
        if !read_words(input, &mut partial.cursor, &mut partial.spans) {
            return None;
        }
        let line_bytes = partial.cursor.at;
        spans.append(&mut partial.spans);
        self.partial = None;
        Some(line_bytes)
    }

    /// Closes a connection that sends an endless line.
    #[cold]
    fn give_up(&mut self, input: &[u8]) -> Parsed {
        *self = Parser::default();
        Parsed::Reject { consumed: input.len(), reply: "", close: true }
    }
}

/// Returns the maximum length of the line at the start of `input`, without its end: `bytes`, unless
/// it may contain many keys, which no login does.
fn longest_line(input: &[u8], bytes: usize, limits: &Limits) -> usize {
    if limits.login_only {
        return bytes;
    }
    let blanks = input.iter().take(BLANKS).take_while(|byte| **byte == b' ').count();
    let line = input.get(blanks..).unwrap_or_default();
    let many_keys = line.starts_with(b"get ") || line.starts_with(b"gets ");
    if many_keys { GET_LINE_BYTES } else { bytes }
}

/// Appends the words from `cursor` on to `spans`, up to the end of the line (`true`) or of the
/// input (`false`).
fn read_words(input: &[u8], cursor: &mut Cursor, spans: &mut Vec<Span>) -> bool {
    let Cursor { mut at, mut word } = *cursor;
    let (chunks, tail) = input.get(at..).unwrap_or_default().as_chunks();
    for chunk in chunks {
        let mut found = controls(u64::from_le_bytes(*chunk));
        while found != 0 {
            let place = at + found.trailing_zeros() as usize / 8;
            if end_word(input, place, &mut word, spans) {
                *cursor = Cursor { at: word, word };
                return true;
            }
            found &= found - 1;
        }
        at += chunk.len();
    }
    for _ in tail {
        if end_word(input, at, &mut word, spans) {
            *cursor = Cursor { at: word, word };
            return true;
        }
        at += 1;
    }
    *cursor = Cursor { at, word };
    false
}

/// Returns the top bit of each byte of `chunk` that is a blank or a control character.
fn controls(chunk: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    // Adding 0x5f carries into the top bit from 0x21 on; without its own top bit, a byte cannot
    // carry into the next one.
    let printable = (chunk & (ONES * 0x7f)) + ONES * 0x5f;
    !(printable | chunk) & (ONES * 0x80)
}

/// Ends the word that started at `word` if the byte at `at` is a delimiter. Returns whether that
/// ends the line.
#[inline]
fn end_word(input: &[u8], at: usize, word: &mut usize, spans: &mut Vec<Span>) -> bool {
    let byte = input.get(at).copied().unwrap_or_default();
    let end = match byte {
        b' ' => at,
        b'\n' if at > *word && input.get(at - 1) == Some(&b'\r') => at - 1,
        b'\n' => at,
        _ => return false,
    };
    if end > *word {
        spans.push(Span { start: *word as u32, len: (end - *word) as u32 });
    }
    *word = at + 1;
    byte == b'\n'
}

/// Parses the length of a data block, which consists only of digits.
fn block_length(word: &[u8]) -> Option<usize> {
    let digits = word.iter().try_fold(0_usize, |value, &byte| {
        let digit = byte.is_ascii_digit().then(|| usize::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })?;
    (digits <= BLOCK_BYTES && !word.is_empty()).then_some(digits)
}

fn text(input: &[u8], span: Span) -> &[u8] {
    input.get(span.start as usize..).and_then(|rest| rest.get(..span.len as usize)).unwrap_or(b"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { item_bytes: 1000, login_only: false };

    /// Returns the results of parsing `input`, fed `step` bytes at a time: one string per request
    /// (`~` before quiet ones), reply or close.
    fn steps(input: &[u8], step: usize) -> Vec<String> {
        let mut parser = Parser::default();
        let mut found = Vec::new();
        let mut buffer = Vec::new();
        for piece in input.chunks(step) {
            buffer.extend_from_slice(piece);
            loop {
                let mut spans = Vec::new();
                let step = parser.parse(&buffer, &LIMITS, &mut spans);
                let words =
                    spans.iter().map(|&span| text(&buffer, span).escape_ascii().to_string());
                let words = words.collect::<Vec<_>>().join("|");
                let consumed = match step {
                    Parsed::Incomplete => {
                        assert_eq!(words, "", "a partial request must leave no span");
                        break;
                    }
                    Parsed::Request { consumed, quiet } => {
                        found.push(format!("{}{words}", if quiet { "~" } else { "" }));
                        consumed
                    }
                    Parsed::Reject { consumed, reply, close } => {
                        let forget = if words.is_empty() { "" } else { " " };
                        if !(reply.is_empty() && words.is_empty()) {
                            found.push(format!("!{reply}{forget}{words}"));
                        }
                        if close {
                            found.push("closed".to_owned());
                            return found;
                        }
                        consumed
                    }
                };
                assert!(consumed > 0, "every step but the last takes bytes");
                buffer.drain(..consumed);
            }
        }
        found
    }

    fn check(input: &[u8], expected: &[&str]) {
        for step in [input.len(), 1, 2, 3, 7, 1000] {
            assert_eq!(steps(input, step), expected, "{step} at a time: {}", input.escape_ascii());
        }
    }

    #[test]
    fn requests_of_plain_words() {
        check(b"get a bc\r\ngets  d \nversion\r\n", &["get|a|bc", "gets|d", "version"]);
        check(b"stats noreply\r\nget a noreply\r\n", &["stats|noreply", "get|a|noreply"]);
        check(b"get a\tb\rc\r\r\n", &["get|a\\tb\\rc\\r"]);
    }

    #[test]
    fn storage_requests_contain_their_block() {
        check(b"set a 1 2 3\r\nabc\r\nget a\r\n", &["set|a|1|2|3|abc", "get|a"]);
        check(b"cas a 1 2 4 9\n\r\n\n\r\r\n", &["cas|a|1|2|4|9|\\r\\n\\n\\r"]);
        check(b"append a x y 00 extra words\r\n\r\n", &["append|a|x|y|00|"]);
        check(b"cas a 1 2 1\r\nx\r\n", &["cas|a|1|2|1|x"]);
    }

    #[test]
    fn noreply_is_the_last_word_of_verbs_that_accept_it() {
        check(b"set a 0 0 1 noreply\r\nx\r\n", &["~set|a|0|0|1|x"]);
        check(b"cas a 0 0 1 7 noreply \r\nx\r\n", &["~cas|a|0|0|1|7|x"]);
        check(b"set a 0 0 1 noreply x\r\nx\r\n", &["set|a|0|0|1|x"]);
        check(b"incr a 1 noreply\r\nincr a noreply\r\n", &["~incr|a|1", "~incr|a|noreply"]);
        check(b"delete a noreply\r\ndelete noreply\r\n", &["~delete|a", "~delete|noreply"]);
        check(b"flush_all noreply\r\nflush_all 1 noreply\r\n", &["~flush_all", "~flush_all|1"]);
        check(b"delete a NOREPLY\r\n", &["delete|a|NOREPLY"]);
        check(b"incr noreply\r\ntouch noreply\r\n", &["incr|noreply", "touch|noreply"]);
        check(b"nothing a noreply\r\nnoreply\r\n", &["~nothing|a", "~noreply"]);
    }

    #[test]
    fn storage_lines_without_a_length_are_refused_alone() {
        for line in ["set", "set noreply", "set a 0 0", "set a 0 0 noreply", "set a 0 0 x noreply"]
        {
            check(format!("{line}\r\nget a\r\n").as_bytes(), &[&format!("!{BAD_LINE}"), "get|a"]);
        }
        for length in ["-1", "+1", "1x", "2147483646", "18446744073709551617"] {
            let input = format!("set a 0 0 {length}\r\nget a\r\n");
            check(input.as_bytes(), &[&format!("!{BAD_LINE}"), "get|a"]);
        }
    }

    #[test]
    fn block_without_a_line_break_is_discarded_with_two_more_bytes() {
        let bad = format!("!{BAD_BLOCK}");
        check(b"set a 0 0 3\r\nabcdefghi\r\nget a\r\n", &[&bad, "fghi", "get|a"]);
        check(b"set a 0 0 1\r\nx\nget a\r\n", &[&bad, "et|a"]);
        check(b"set a 0 0 1 noreply\r\nxyzget a\r\n", &["get|a"]);
    }

    #[test]
    fn block_beyond_the_limit_is_discarded() {
        let block = "x".repeat(1001);
        for (line, expected) in [
            ("set a 0 0 1001", format!("!{TOO_LARGE} set|a|0|0|1001")),
            ("set a 0 0 1001 noreply", "! set|a|0|0|1001".to_owned()),
            ("ms a 1001 ME q", format!("!{TOO_LARGE} ms|a|1001|ME|q")),
            ("add a 0 0 1001", format!("!{TOO_LARGE}")),
        ] {
            let input = format!("{line}\r\n{block}zzget a\r\n");
            check(input.as_bytes(), &[&expected, "get|a"]);
        }
        check(format!("add a 0 0 1001 noreply\r\n{block}\r\nget a\r\n").as_bytes(), &["get|a"]);
        let mut parser = Parser::default();
        let huge = parser.parse(b"set a 0 0 2147483645\r\nab", &LIMITS, &mut Vec::new());
        assert_eq!(huge, Parsed::Reject { consumed: 24, reply: TOO_LARGE, close: false });
        assert_eq!(parser.parse(b"", &LIMITS, &mut Vec::new()), Parsed::Incomplete);
        assert_eq!(parser.discard_bytes, 2_147_483_645);
    }

    #[test]
    fn block_beyond_the_limit_of_a_login_is_not_awaited() {
        let limits = Limits { item_bytes: 14, login_only: true };
        let mut parser = Parser::default();
        let mut parse = |input: &str| parser.parse(input.as_bytes(), &limits, &mut Vec::new());
        for (line, reply) in [
            ("set a 0 0 15\r\n", LONG_LOGIN),
            ("set a 0 0 15 noreply\r\n", LONG_LOGIN),
            ("add a 0 0 15\r\n", BAD_LINE),
            ("ms a 15\r\n", BAD_LINE),
        ] {
            for next in ["", "default sesame\r\n"] {
                let rejected = Parsed::Reject { consumed: line.len(), reply, close: false };
                assert_eq!(parse(&format!("{line}{next}")), rejected, "{line}");
            }
        }
        let login = "set a 0 0 14\r\ndefault sesame\r\n";
        assert_eq!(parse(login), Parsed::Request { consumed: login.len(), quiet: false });
    }

    #[test]
    fn meta_requests() {
        check(b"mg a v noreply\r\nmn\r\n", &["mg|a|v|noreply", "mn"]);
        check(b"ms a 2 T5 noreply\r\nhi\r\nmd a\r\n", &["ms|a|2|T5|noreply|hi", "md|a"]);
        let bad = format!("!{BAD_LINE}");
        for line in ["mg", "ms", "ms a", "ms a x", "ms a -1 v", "mg a !1", "ms a 2 v {", "ma a -"] {
            check(format!("{line}\r\nmn\r\n").as_bytes(), &[&bad, "mn"]);
        }
    }

    #[test]
    fn lines_without_a_verb() {
        let bad = format!("!{BAD_LINE}");
        check(b"\r\n\na\r\n \r\n\r\r\nab\n", &[bad.as_str(); 6]);
        check(b"  \r\n get a\r\n set a 0 0 1 noreply\r\n", &["!ERROR", "!ERROR"]);
        check(b"a \r\nx\r\r\n", &["a", "x\\r"]);
    }

    #[test]
    fn lines_without_an_end() {
        for begin in ["", "gat 0 ", "GET ", &" ".repeat(BLANKS + 1)] {
            let begun = |len: usize| format!("{begin}{}", "a".repeat(len - begin.len()));
            check(begun(ENDLESS_BYTES).as_bytes(), &[]);
            check(begun(ENDLESS_BYTES + 1).as_bytes(), &["closed"]);
            check(format!("{}\n", begun(LINE_BYTES + 1)).as_bytes(), &["closed"]);
        }
        let longest = "a".repeat(ENDLESS_BYTES);
        check(format!("{longest}\nversion\n").as_bytes(), &[&longest, "version"]);
        let longest = "a".repeat(LINE_BYTES);
        let input = format!("{longest}\nversion\n");
        assert_eq!(steps(input.as_bytes(), input.len()), [&longest, "version"]);
        assert_eq!(steps(input.as_bytes(), ENDLESS_BYTES + 1), ["closed"]);
        let late = format!("{}gets{}\r\n", " ".repeat(BLANKS), " key".repeat(LINE_BYTES));
        check(late.as_bytes(), &["!ERROR"]);
        let keys = format!("get{}\r\n", " key".repeat(LINE_BYTES));
        check(keys.as_bytes(), &[keys.trim_end().replace(' ', "|").as_str()]);
    }

    #[test]
    fn progress_within_a_long_line_is_kept() {
        let mut parser = Parser::default();
        let input = [&b"get"[..], &b" key".repeat(200), b" k"].concat();
        assert_eq!(parser.parse(&input, &LIMITS, &mut Vec::new()), Parsed::Incomplete);
        let at = parser.partial.as_ref().map(|partial| (partial.cursor.at, partial.spans.len()));
        assert_eq!(at, Some((input.len(), 201)));
    }

    #[test]
    fn long_block_may_be_taken_as_it_arrives() {
        let limits = Limits { item_bytes: 1 << 20, ..LIMITS };
        for (after, last) in [("\r\n", Some(Span::large(0))), ("xx", None)] {
            let mut input = format!("set a 0 0 {LONG_BYTES}\r\n").into_bytes();
            let at = input.len() as u32;
            let mut parser = Parser::default();
            input.extend(b"some of it");
            assert_eq!(parser.parse(&input, &limits, &mut Vec::new()), Parsed::Incomplete);
            assert_eq!(parser.awaited(), Some(Awaited { at, len: LONG_BYTES as u32 }));
            input.truncate(at as usize);
            parser.skip_large();
            let mut parse = |input: &[u8], spans: &mut Vec<Span>| {
                parser.parse_with_large(input, &limits, &[at], spans)
            };
            assert_eq!(parse(&input, &mut Vec::new()), Parsed::Incomplete);
            input.extend(after.bytes());
            input.extend(b"get a\r\n");
            let mut spans = Vec::new();
            let consumed = at as usize + 2;
            match parse(&input, &mut spans) {
                Parsed::Request { consumed: taken, quiet } => {
                    assert_eq!((taken, quiet), (consumed, false))
                }
                step => {
                    assert_eq!(step, Parsed::Reject { consumed, reply: BAD_BLOCK, close: false })
                }
            }
            assert_eq!(spans.last().copied(), last);
        }
    }

    #[test]
    fn an_idle_parser_is_small() {
        assert!(size_of::<Parser>() <= 64);
    }
}
