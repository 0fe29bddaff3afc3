//! Operations on values, one file per type, as methods of [`Database`](crate::Database).
//!
//! Each is one call for a command's handler, takes the latches that it needs and holds none when
//! it returns. What a caller passes to look at an entry runs under the latch: it copies or shares
//! what it wants and does nothing slow.

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

/// Why an operation changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The value is of another type.
    WrongType,
    /// The value is not a number that this operation can count with.
    NotANumber,
    /// The result would not fit.
    Overflow,
    /// The string is no sketch of a set.
    NotASketch,
    /// The string is a sketch whose inside makes no sense.
    Corrupted,
    /// The string would pass the greatest length.
    TooLong,
}

impl From<WrongType> for Refusal {
    fn from(_: WrongType) -> Self {
        Refusal::WrongType
    }
}
