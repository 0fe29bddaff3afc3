//! Strings: as arguments, as returned to readers, and inside collections.

pub(crate) mod item;
pub(crate) mod number;
pub(crate) mod rope;
pub(crate) mod string;
