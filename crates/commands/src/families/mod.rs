//! The commands: a folder for each group, and a file for each family with rows and their handlers.

pub(crate) mod bitmaps;
pub(crate) mod cluster;
pub(crate) mod connections;
pub(crate) mod deadline;
pub(crate) mod derived_set;
pub(crate) mod elements;
#[cfg(test)]
mod events;
mod first_of_several;
pub(crate) mod geo;
pub(crate) mod hashes;
pub(crate) mod hyperloglog;
pub(crate) mod keys;
pub(crate) mod lists;
pub(crate) mod pubsub;
pub(crate) mod scripting;
pub(crate) mod server;
pub(crate) mod sets;
pub(crate) mod sorted_sets;
pub(crate) mod streams;
pub(crate) mod strings;
pub(crate) mod transactions;
#[cfg(test)]
mod wrong_type;
