//! Connections and clients.

pub(crate) mod client;
pub(crate) mod connection;
