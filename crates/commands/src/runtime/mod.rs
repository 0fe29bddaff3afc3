//! From a request to its handler and back: dispatch, its context, its gates and its errors.

pub mod admission;
pub(crate) mod arguments;
pub(crate) mod context;
pub mod dispatch;
pub(crate) mod error;
pub mod gate;
pub(crate) mod glob;
pub(crate) mod multi_key;
pub(crate) mod process;
pub(crate) mod suspension;
#[cfg(test)]
pub(crate) mod testing;
