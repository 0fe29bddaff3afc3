//! Strings: as arguments, as readers see them, and inside collections.

pub(crate) mod item;
pub(crate) mod number;
pub(crate) mod rope;
pub(crate) mod string;
