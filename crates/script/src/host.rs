//! The server's interface for scripts.

use nagi_proto::resp::Version;
use nagi_proto::{Args, Span};

/// A command that a script calls: its words, one after the other.
#[derive(Debug, Default)]
pub struct Words {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl Words {
    pub(crate) fn clear(&mut self) {
        /// Most bytes that are kept for the next command.
        const KEPT_BYTES: usize = 64 * 1024;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.spans.clear();
        self.spans.shrink_to(KEPT_BYTES);
    }

    /// The capacity, in bytes and in words.
    #[must_use]
    pub fn capacity(&self) -> (usize, usize) {
        (self.bytes.capacity(), self.spans.capacity())
    }

    /// The length of all words, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a word; `false` if there are more bytes than a request may have.
    #[must_use]
    pub(crate) fn push(&mut self, word: &[u8]) -> bool {
        let place = (u32::try_from(self.bytes.len()), u32::try_from(word.len()));
        let (Ok(start), Ok(len)) = place else { return false };
        self.spans.push(Span { start, len });
        self.bytes.extend_from_slice(word);
        true
    }

    /// The words as the arguments of a request.
    #[must_use]
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }
}

/// The level of a line that a script logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`
    Debug,
    /// `redis.LOG_VERBOSE`
    Verbose,
    /// `redis.LOG_NOTICE`
    Notice,
    /// `redis.LOG_WARNING`
    Warning,
}

/// The server as scripts see it.
pub trait Host: 'static {
    /// Executes a command, and appends its reply in this version of RESP.
    fn call(&mut self, words: &Words, version: Version, reply: &mut Vec<u8>);

    /// Whether the script's user may run a command; `None` if there is no such command.
    fn may_call(&mut self, words: &Words) -> Option<bool>;

    /// Records that the script's reply contains an error. `is_counted` tells whether the error was
    /// counted when a command replied with it.
    fn note_error(&mut self, text: &[u8], is_counted: bool);

    /// Writes a line into the server's log. The text is short and without line breaks.
    fn log(&mut self, level: LogLevel, text: &[u8]);

    /// Whether the script must end. Called every few microseconds, whatever the script does.
    fn is_to_end(&mut self) -> bool;
}
