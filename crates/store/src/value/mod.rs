//! Strings: what callers hand in, what readers see, and how they stand in collections.

pub(crate) mod item;
pub(crate) mod number;
pub(crate) mod rope;
pub(crate) mod string;
