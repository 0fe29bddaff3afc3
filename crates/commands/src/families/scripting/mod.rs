//! Scripts: requests for the thread that runs them.

pub(crate) mod eval;
pub(crate) mod function;
pub(crate) mod script;
pub(crate) mod submission;
