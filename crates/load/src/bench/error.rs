//! Why there is no report, or why it is not to be trusted.

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
    /// A file, thread or event loop.
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Options(text) | Error::Unreachable(text) => out.write_str(text),
            Error::Failures(1) => out.write_str("1 error (see the report)"),
            Error::Failures(count) => write!(out, "{count} errors (see the report)"),
            Error::Io(source) => source.fmt(out),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        Error::Io(source)
    }
}
