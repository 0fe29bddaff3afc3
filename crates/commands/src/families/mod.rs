//! The commands, one file for each family: rows with their handlers.

pub(crate) mod acl;
pub(crate) mod bitfield;
pub(crate) mod bitmap;
pub(crate) mod bitop;
pub(crate) mod bits;
pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod debug;
pub(crate) mod digest;
pub(crate) mod float;
pub(crate) mod hyperloglog;
pub(crate) mod info;
pub(crate) mod introspection;
pub(crate) mod key;
pub(crate) mod keyspace;
pub(crate) mod latency;
pub(crate) mod lcs;
pub(crate) mod lolwut;
pub(crate) mod long_double;
pub(crate) mod long_value;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod monitor;
pub(crate) mod object;
pub(crate) mod persistence;
pub(crate) mod range;
pub(crate) mod relocation;
pub(crate) mod replication;
pub(crate) mod serialization;
pub(crate) mod server;
pub mod slowlog;
pub(crate) mod string;
#[cfg(test)]
mod wrong_type;
