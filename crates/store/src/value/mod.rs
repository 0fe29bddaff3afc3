//! Values: what callers hand in and what readers see.

pub(crate) mod number;
pub(crate) mod rope;
pub(crate) mod string;
