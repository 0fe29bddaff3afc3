//! Publish and subscribe: messages between clients.

pub(crate) mod channels;
pub(crate) mod publication;
pub(crate) mod subscription;
