//! The error for bytes that are not a reply.

use std::error::Error;
use std::fmt;

/// Bytes that no server sends, and that no later byte can mend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedReply {
    /// Where the element or line starts that cannot be read, from the reply's first byte.
    pub at: usize,
}

impl fmt::Display for MalformedReply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "malformed reply at byte {}", self.at)
    }
}

impl Error for MalformedReply {}
