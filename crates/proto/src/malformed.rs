//! The error for bytes that are not a reply.

use std::error::Error;
use std::fmt;

/// Bytes that are not a valid reply, regardless of what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedReply {
    /// The offset of the invalid element or line from the reply's first byte.
    pub at: usize,
}

impl fmt::Display for MalformedReply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "malformed reply at byte {}", self.at)
    }
}

impl Error for MalformedReply {}
