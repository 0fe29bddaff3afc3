//! One key with its value and attributes, as it lies in memory.

pub(crate) mod block;
pub(crate) mod key;
pub(crate) mod long_key;
