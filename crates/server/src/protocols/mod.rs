//! Batches of requests, protocol by protocol.

pub(crate) mod binary;
pub(crate) mod resp;
pub(crate) mod text;
