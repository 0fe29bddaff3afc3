//! The classic text protocol: one line a request, with a data block behind the storage commands.

use crate::{Chunk, Output, Span};

/// What a request may not exceed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest data block in bytes (memcached's `-I`).
    pub item_bytes: usize,
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    Incomplete,
    /// A request: its spans were appended, verb first, the data block last where the verb has
    /// one. The word `noreply` is not among them.
    Request {
        /// Bytes that it took.
        consumed: usize,
        /// Whether the client wants no answer.
        quiet: bool,
    },
    /// Bytes to drop and a line to answer with, such as `CLIENT_ERROR bad data chunk`.
    Reject {
        /// Bytes to drop now.
        consumed: usize,
        /// What to answer; empty for nothing.
        reply: &'static str,
        /// Whether the connection cannot go on.
        close: bool,
    },
}

/// Finds requests in a connection's bytes.
#[derive(Debug, Default)]
pub struct Parser {}

impl Parser {
    /// Looks for one request at the start of `input` and appends its arguments to `spans`.
    pub fn parse(&mut self, input: &[u8], limits: &Limits, spans: &mut Vec<Span>) -> Step {
        let _ = (input, limits, spans);
        Step::Incomplete
    }
}

/// Appends replies to an [`Output`]; says nothing where the client asked for silence.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Output,
    quiet: bool,
}

impl<'a> Writer<'a> {
    /// A writer onto the end of `out`, which drops everything but errors if `quiet`.
    pub fn new(out: &'a mut Output, quiet: bool) -> Self {
        Writer { out, quiet }
    }

    /// One line, such as `STORED`; dropped if the client wants no answer.
    pub fn line(&mut self, text: &str) {
        if !self.quiet {
            self.out.push(text.as_bytes());
            self.out.push(b"\r\n");
        }
    }

    /// The result of `incr` or `decr`.
    pub fn number(&mut self, value: u64) {
        self.line(itoa::Buffer::new().format(value));
    }

    /// `VALUE key flags bytes [cas]` and the line break before the data.
    pub fn value_header(&mut self, key: &[u8], flags: u32, bytes: usize, cas: Option<u64>) {
        let _ = (key, flags, bytes, cas);
    }

    /// The data of a value, whole.
    pub fn data(&mut self, bytes: &[u8]) {
        self.out.push(bytes);
        self.out.push(b"\r\n");
    }

    /// The data of a value in chunks, which are sent from where they lie.
    pub fn data_chunks(&mut self, chunks: impl IntoIterator<Item = Chunk>) {
        for chunk in chunks {
            self.out.splice(chunk);
        }
        self.out.push(b"\r\n");
    }
}
