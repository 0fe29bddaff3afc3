//! Why a request has no answer, and which server did not answer.

use std::fmt;

/// A request without an answer.
///
/// ```
/// use nagi_client::cache::{Failure, Reason};
/// let failure = Failure { server: "kyoto:11211".into(), reason: Reason::Dead };
/// assert_eq!(failure.to_string(), "kyoto:11211: not asked: it did not answer a moment ago");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The server's name; empty if no server was selected.
    pub server: String,
    /// The reason.
    pub reason: Reason,
}

/// The reason for a failure.
///
/// ```
/// assert_ne!(nagi_client::cache::Reason::Dead, nagi_client::cache::Reason::TimedOut);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The request cannot be sent, because its key is invalid or the protocol has no such request.
    /// Nothing was sent.
    Request(String),
    /// The connection could not be opened. Nothing was sent.
    Connect(String),
    /// The server failed a moment ago and is skipped for a while. Nothing was sent.
    Dead,
    /// The answer to a read did not arrive in time.
    TimedOut,
    /// The connection broke before the answer to a read.
    Broken(String),
    /// A write was sent and its answer was lost: the write may or may not have been executed.
    Unknown(String),
    /// The server returned this error.
    Refused(String),
    /// The server sent an invalid answer; it may speak another protocol.
    Protocol(String),
    /// The answer to a read is longer than [`Settings`] allow.
    ///
    /// [`Settings`]: super::Settings::reply_limit_bytes
    TooLong {
        /// The limit in bytes.
        limit_bytes: usize,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.server.is_empty() {
            write!(out, "{}: ", self.server)?;
        }
        self.reason.fmt(out)
    }
}

impl Reason {
    /// Describes the reason as the cause of another request's failure.
    pub(super) fn cause(&self) -> String {
        match self {
            Reason::Broken(text) => text.clone(),
            reason => reason.to_string(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Request(text) | Reason::Refused(text) => out.write_str(text),
            Reason::Connect(text) => write!(out, "cannot connect: {text}"),
            Reason::Dead => out.write_str("not asked: it did not answer a moment ago"),
            Reason::TimedOut => out.write_str("no answer in time"),
            Reason::Broken(text) => write!(out, "the connection broke: {text}"),
            Reason::Unknown(text) => write!(out, "unknown whether it was executed: {text}"),
            Reason::Protocol(text) => write!(out, "invalid answer: {text}"),
            Reason::TooLong { limit_bytes } => {
                write!(out, "the answer is longer than {limit_bytes} bytes, the limit")
            }
        }
    }
}

impl std::error::Error for Failure {}
