//! Bytes between sockets and memory, by epoll or io_uring.

pub(crate) mod accept_pause;
pub(crate) mod address;
pub(crate) mod connection_table;
pub(crate) mod deferred;
pub(crate) mod driver;
pub(crate) mod epoll;
pub(crate) mod io;
pub(crate) mod link;
pub(crate) mod listener;
pub(crate) mod listening;
pub(crate) mod open;
pub(crate) mod outgoing;
pub(crate) mod pipes;
pub(crate) mod protocol;
pub(crate) mod reachability;
pub(crate) mod receive_buffer;
pub(crate) mod refusal;
#[cfg(test)]
pub(crate) mod shim;
pub(crate) mod sockets;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod token;
pub(crate) mod uring;
pub(crate) mod waker;
