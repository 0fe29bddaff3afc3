//! One client's conversation, without its socket.

pub(crate) mod conversation;
pub(crate) mod input;
pub(crate) mod large_arguments;
pub(crate) mod suspended;
pub(crate) mod timing;
