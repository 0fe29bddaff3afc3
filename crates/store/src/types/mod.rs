//! Operations on values, one file per type, as methods of [`Database`](crate::Database).
//!
//! Each is one call for a command's handler, takes the latches that it needs and holds none when it
//! returns. A closure that reads an entry runs under the latch, so it only copies or shares data.

pub mod bitmap;
pub mod collection;
pub mod counter;
pub mod derived;
pub mod field_expiry;
pub mod hash;
pub mod hyperloglog;
pub mod key;
pub mod list;
pub mod relocation;
pub mod restore;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod string;
pub mod versioned;

use crate::entry::value::WrongType;

/// Why an operation failed without changing anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The value is of another type.
    WrongType,
    /// The value is not a number that the operation accepts.
    NotANumber,
    /// The result would not fit.
    Overflow,
    /// The string is not a HyperLogLog.
    NotASketch,
    /// The string is a HyperLogLog with invalid contents.
    Corrupted,
    /// The string would exceed the maximum length.
    TooLong,
}

impl From<WrongType> for Refusal {
    fn from(_: WrongType) -> Self {
        Refusal::WrongType
    }
}
