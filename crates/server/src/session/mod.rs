//! The session of one client, without its socket.

pub(crate) mod batch;
pub(crate) mod conversation;
mod dialect;
pub(crate) mod input;
pub(crate) mod large_arguments;
pub(crate) mod sampling;
pub(crate) mod suspended;
pub(crate) mod timing;
