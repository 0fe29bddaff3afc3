//! Strings: GET, SET and commands on parts of a string.

pub(crate) mod float;
pub(crate) mod lcs;
pub(crate) mod long_double;
pub(crate) mod long_value;
pub(crate) mod range;
pub(crate) mod string;
