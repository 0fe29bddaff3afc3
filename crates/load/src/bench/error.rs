//! Why there is no report, or why it must not be trusted.

use std::fmt;
use std::io;

/// The reason.
#[derive(Debug)]
pub enum Error {
    /// BenchOptions that contradict each other, or a file of theirs that cannot be read.
    Options(String),
    /// Not one connection could be made.
    Unreachable(String),
    /// So many requests or connections failed; the report was written.
    Failures(u64),
    /// So many replies were wrong, which --verify found; the report was written.
    Wrong(u64),
    /// Nothing can be said of what was to be judged; the report was written.
    Unjudged(String),
    /// What was measured is sound and is not as it was to be; the report was written.
    Verdict(String),
    /// A file, thread or event loop.
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
    /// The exit status: 1 where something failed, and 3 where a limit was not kept, so that
    /// scripts can tell them apart (2 is a malformed command line).
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
