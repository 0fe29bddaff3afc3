//! What goes because its time has come.

pub(crate) mod active;
