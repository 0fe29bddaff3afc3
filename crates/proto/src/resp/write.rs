//! Encodes replies. One writer supports both versions, so that handlers need not distinguish them.

use crate::{Chunk, Chunks, Output, OutputMark};
use std::ops::Range;
use std::sync::Arc;

/// The protocol version of a connection; HELLO changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// RESP2, the default.
    #[default]
    Two,
    /// RESP3.
    Three,
}

impl Version {
    /// Returns 2 or 3.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Version::Two => 2,
            Version::Three => 3,
        }
    }
}

/// Appends replies to an [`Output`] in the connection's version.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Output,
    version: Version,
}

impl<'a> Writer<'a> {
    /// Creates a writer of `version` that appends to `out`.
    pub fn new(out: &'a mut Output, version: Version) -> Self {
        Writer { out, version }
    }

    /// Returns the same writer, for a part of the reply.
    pub fn reborrow(&mut self) -> Writer<'_> {
        Writer { out: self.out, version: self.version }
    }

    /// Returns the number of bytes in the output.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether the output is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns the current end of the output.
    #[must_use]
    pub fn mark(&self) -> OutputMark {
        self.out.mark()
    }

    /// Returns the number of bytes written since `mark`, without shared chunks.
    #[inline]
    #[must_use]
    pub fn copied_since(&self, mark: OutputMark) -> usize {
        self.out.copied_since(mark)
    }

    /// Removes everything written since `mark`, of which nothing may have been sent.
    pub fn cut_back(&mut self, mark: OutputMark) {
        self.out.cut_back(mark);
    }

    /// Sets the version of all following replies.
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    /// Writes `+OK`.
    pub fn ok(&mut self) {
        self.out.push(b"+OK\r\n");
    }

    /// Writes a simple string; `text` must not contain a line break.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// Writes an error, beginning with its code (`ERR ...`); line breaks become spaces.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let buffer = self.out.buffer();
        buffer.push(b'-');
        buffer.extend(
            text.as_ref()
                .iter()
                .map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }),
        );
        buffer.extend_from_slice(b"\r\n");
    }

    /// Writes an integer.
    pub fn integer(&mut self, value: i64) {
        self.number(b':', value);
    }

    /// Writes a bulk string.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.out.push(bytes);
        self.out.push(b"\r\n");
    }

    /// Writes an integer as a bulk string.
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Writes a range of a value's bytes as a bulk string; they are sent without a copy.
    pub fn bulk_chunks(&mut self, chunks: Chunks, range: Range<usize>) {
        self.header(b'$', range.len());
        self.out.splice(chunks, range);
        self.out.push(b"\r\n");
    }

    /// Writes a chunk as a bulk string; it is sent without a copy.
    pub fn bulk_chunk(&mut self, chunk: Chunk) {
        let len = chunk.len();
        self.bulk_chunks(Arc::new([chunk]), 0..len);
    }

    /// Writes a missing value: RESP2's null bulk string, RESP3's null.
    pub fn null(&mut self) {
        self.out.push(match self.version {
            Version::Two => b"$-1\r\n",
            Version::Three => b"_\r\n",
        });
    }

    /// Writes a missing array: RESP2's null array, RESP3's null.
    pub fn null_array(&mut self) {
        self.out.push(match self.version {
            Version::Two => b"*-1\r\n",
            Version::Three => b"_\r\n",
        });
    }

    /// Begins an array of `len` replies.
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    /// Begins a list of pairs, each begun by [`Writer::pair`]: an array of arrays of two, which is
    /// flat in RESP2.
    pub fn pairs(&mut self, pairs: usize) {
        match self.version {
            Version::Two => self.array(2 * pairs),
            Version::Three => self.array(pairs),
        }
    }

    /// Begins a pair of [`Writer::pairs`].
    pub fn pair(&mut self) {
        if self.version == Version::Three {
            self.array(2);
        }
    }

    /// Begins a map of `pairs` keys and values; in RESP2 an array of twice as many.
    pub fn map(&mut self, pairs: usize) {
        match self.version {
            Version::Two => self.header(b'*', pairs * 2),
            Version::Three => self.header(b'%', pairs),
        }
    }

    /// Begins a map of pairs, each begun by [`Writer::nested_pair`]: in RESP2 an array of arrays of
    /// two.
    pub fn nested_map(&mut self, pairs: usize) {
        match self.version {
            Version::Two => self.array(pairs),
            Version::Three => self.map(pairs),
        }
    }

    /// Begins a pair of [`Writer::nested_map`].
    pub fn nested_pair(&mut self) {
        if self.version == Version::Two {
            self.array(2);
        }
    }

    /// Begins a set of `len` replies; in RESP2 an array.
    pub fn set(&mut self, len: usize) {
        let kind = if self.version == Version::Three { b'~' } else { b'*' };
        self.header(kind, len);
    }

    /// Begins a message of `len` replies that answers no request; RESP3 only.
    pub fn push(&mut self, len: usize) {
        self.header(b'>', len);
    }

    /// Begins a published message of `len` replies: in RESP3 one that answers no request.
    pub fn message(&mut self, len: usize) {
        match self.version {
            Version::Two => self.array(len),
            Version::Three => self.push(len),
        }
    }

    /// Begins `pairs` attributes, names and values, of the reply after them; RESP3 only.
    pub fn attributes(&mut self, pairs: usize) {
        self.header(b'|', pairs);
    }

    /// Writes a boolean; in RESP2 an integer, 1 or 0.
    pub fn boolean(&mut self, value: bool) {
        match (self.version, value) {
            (Version::Two, _) => self.integer(i64::from(value)),
            (Version::Three, true) => self.out.push(b"#t\r\n"),
            (Version::Three, false) => self.out.push(b"#f\r\n"),
        }
    }

    /// Writes a decimal number, given its digits; in RESP2 a bulk string.
    pub fn decimal(&mut self, digits: &str) {
        match self.version {
            Version::Two => self.bulk(digits.as_bytes()),
            Version::Three => self.line(b',', digits.as_bytes()),
        }
    }

    /// Writes an integer of any length, given its digits; in RESP2 a bulk string.
    pub fn big_number(&mut self, digits: &str) {
        match self.version {
            Version::Two => self.bulk(digits.as_bytes()),
            Version::Three => self.line(b'(', digits.as_bytes()),
        }
    }

    /// Writes a verbatim string of plain text; in RESP2 a bulk string.
    pub fn text(&mut self, text: &str) {
        if self.version == Version::Two {
            return self.bulk(text.as_bytes());
        }
        self.header(b'=', text.len() + 4);
        self.out.push(b"txt:");
        self.out.push(text.as_bytes());
        self.out.push(b"\r\n");
    }

    /// Appends replies that another writer of the same version has encoded.
    pub fn encoded(&mut self, bytes: &[u8]) {
        self.out.push(bytes);
    }

    /// Appends everything that is waiting in `output`, encoded in the same version.
    pub fn append(&mut self, output: &Output) {
        self.out.append(output);
    }

    /// Appends a chunk of encoded replies, which is sent without a copy.
    pub fn encoded_chunk(&mut self, chunk: Chunk) {
        let len = chunk.len();
        self.out.splice(Arc::new([chunk]), 0..len);
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        let buffer = self.out.buffer();
        buffer.push(kind);
        buffer.extend_from_slice(text);
        buffer.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn header(&mut self, kind: u8, len: usize) {
        let digit = |value: usize| b'0' + value as u8;
        // Nearly every length has one or two digits.
        match len {
            0..10 => self.out.push(&[kind, digit(len), b'\r', b'\n']),
            10..100 => self.out.push(&[kind, digit(len / 10), digit(len % 10), b'\r', b'\n']),
            _ => self.number(kind, i64::try_from(len).unwrap_or(i64::MAX)),
        }
    }

    fn number(&mut self, kind: u8, value: i64) {
        let buffer = self.out.buffer();
        buffer.push(kind);
        buffer.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        buffer.extend_from_slice(b"\r\n");
    }
}
