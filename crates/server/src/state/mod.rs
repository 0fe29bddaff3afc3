//! The state that a server's threads share.

pub(crate) mod client_limit;
pub(crate) mod client_lines;
pub(crate) mod client_memory;
pub(crate) mod descriptors;
pub(crate) mod mail;
pub(crate) mod mailbox;
pub(crate) mod registry;
pub(crate) mod shared;
pub(crate) mod thread_times;
