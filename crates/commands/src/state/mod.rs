//! What the process remembers beside the keyspace.

pub(crate) mod attention;
pub(crate) mod client;
pub mod histogram;
pub mod loading;
pub(crate) mod login_log;
pub mod phases;
pub(crate) mod rates;
pub mod saves;
pub(crate) mod statistics;
pub(crate) mod usage;
