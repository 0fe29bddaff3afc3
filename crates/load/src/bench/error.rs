//! Reasons for a report that is missing or unreliable.

use std::fmt;
use std::io;

/// The reason why a run has failed.
#[derive(Debug)]
pub enum Error {
    /// Options that contradict each other, or a file in an option that cannot be read.
    Options(String),
    /// No connection could be made.
    Unreachable(String),
    /// This many requests or connections failed; the report was written.
    Failures(u64),
    /// --verify found this many wrong replies; the report was written.
    Wrong(u64),
    /// The measurement does not allow a verdict; the report was written, if anything was measured.
    Unjudged(String),
    /// The measurement is valid and misses the objective; the report was written.
    Verdict(String),
    /// An error of a file, thread or event loop.
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Options(text)
            | Error::Unreachable(text)
            | Error::Unjudged(text)
            | Error::Verdict(text) => out.write_str(text),
            Error::Wrong(count) => {
                write!(out, "--verify has found {count} wrong replies (see the report)")
            }
            Error::Failures(1) => out.write_str("1 error (see the report)"),
            Error::Failures(count) => write!(out, "{count} errors (see the report)"),
            Error::Io(source) => source.fmt(out),
        }
    }
}

impl Error {
    /// The exit status: 1 for a failure and 3 for an exceeded limit, so that scripts can
    /// distinguish them (2 is a malformed command line).
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        if matches!(self, Error::Verdict(_)) { 3 } else { 1 }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        Error::Io(source)
    }
}
