//! Commands as data: the types of their rows, and lookup by name.

pub(crate) mod command;
pub(crate) mod keys;
pub(crate) mod notes;
pub(crate) mod syntax;
pub(crate) mod table;
