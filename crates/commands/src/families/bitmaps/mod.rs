//! Strings as arrays of bits.

pub(crate) mod bitfield;
pub(crate) mod bitmap;
pub(crate) mod bitop;
pub(crate) mod bits;
