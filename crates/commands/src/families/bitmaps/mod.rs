//! The commands that treat strings as arrays of bits or of small integers.

pub(crate) mod bitfield;
pub(crate) mod bitmap;
pub(crate) mod bitop;
pub(crate) mod bits;
