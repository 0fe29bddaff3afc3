//! Strings: GET, SET and what works on parts of one.

pub(crate) mod float;
pub(crate) mod lcs;
pub(crate) mod long_double;
pub(crate) mod long_value;
pub(crate) mod range;
pub(crate) mod string;
