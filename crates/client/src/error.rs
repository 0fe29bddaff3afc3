//! Errors between a client and a server.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// Default maximum length of a reply in bytes: the longest string of Redis, 512 MB, and its
/// framing.
pub(crate) const REPLY_LIMIT_BYTES: usize = (512 << 20) + (1 << 20);

/// Why a connection failed.
///
/// ```
/// let error = nagi_client::Error::Closed;
/// assert_eq!(error.to_string(), "connection closed by the server");
/// ```
#[derive(Debug)]
pub enum Error {
    /// The connection to the address could not be opened.
    Connect {
        /// The address as given by the user.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// Sending or receiving failed.
    Io(io::Error),
    /// The server closed the connection.
    Closed,
    /// Received bytes that are not a reply.
    Protocol(String),
    /// A reply longer than the limit.
    TooLong {
        /// The limit in bytes.
        limit_bytes: usize,
    },
}

impl Error {
    /// Returns the error for `input`, whose beginning is not a reply.
    pub(crate) fn malformed(input: &[u8]) -> Self {
        Error::Protocol(input.get(..64).unwrap_or(input).escape_ascii().to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Connect { address, source } => {
                write!(out, "cannot connect to {address}: {source}")
            }
            Error::Io(source) => write!(out, "connection failed: {source}"),
            Error::Closed => out.write_str("connection closed by the server"),
            Error::Protocol(text) => write!(out, "not a reply: {text}"),
            Error::TooLong { limit_bytes } => {
                write!(out, "a reply is longer than {limit_bytes} bytes, the limit")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Connect { source, .. } | Error::Io(source) => Some(source),
            Error::Closed | Error::Protocol(_) | Error::TooLong { .. } => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        Error::Io(source)
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error::Io(errno.into())
    }
}
