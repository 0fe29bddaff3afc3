//! Commands as data: a row each, and what derives from the rows.

pub(crate) mod command;
pub(crate) mod describe;
pub mod docs;
pub(crate) mod help;
pub(crate) mod keys;
pub(crate) mod notes;
pub(crate) mod syntax;
pub mod table;
