//! Values: what callers hand in and what readers see, of every type.

pub(crate) mod attributes;
pub(crate) mod hash;
pub(crate) mod number;
pub(crate) mod root;
pub(crate) mod rope;
pub(crate) mod string;
pub(crate) mod typed;
