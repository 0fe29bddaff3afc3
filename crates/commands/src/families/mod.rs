//! The commands, a folder for each group and a file for each family: rows with their handlers.

pub(crate) mod bitmaps;
pub(crate) mod connections;
#[cfg(test)]
mod events;
pub(crate) mod hyperloglog;
pub(crate) mod keys;
pub(crate) mod server;
pub(crate) mod strings;
#[cfg(test)]
mod wrong_type;
