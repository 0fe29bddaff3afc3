//! The transport of a connection: a socket or a pipe.

use crate::net::address::{self, Peer};
use crate::net::protocol::Protocol;
use crate::net::refusal::{Refusal, refuse};
use nagi_http::WorkerEnd;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

/// Shown as the descriptor of a client that has none.
const NO_DESCRIPTOR: RawFd = -1;

/// A socket, or a pipe to the thread that serves HTTP.
#[derive(Debug)]
pub(crate) enum Link {
    Socket(OwnedFd),
    Pipe(WorkerEnd),
}

impl Link {
    /// Where the client connects from.
    pub(crate) fn peer(&self) -> Peer {
        match self {
            Link::Socket(socket) => Peer::of(socket),
            Link::Pipe(_) => Peer::FileSystem,
        }
    }

    /// The local address that the client has connected to.
    pub(crate) fn local_address(&self) -> String {
        match self {
            Link::Socket(socket) => address::local(socket),
            Link::Pipe(_) => address::GATEWAY.to_owned(),
        }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        match self {
            Link::Socket(socket) => socket.as_raw_fd(),
            Link::Pipe(_) => NO_DESCRIPTOR,
        }
    }

    /// Sends a client the reason for refusing its connection.
    pub(crate) fn refuse(&self, protocol: Protocol, refusal: Refusal) {
        match self {
            Link::Socket(socket) => refuse(socket, protocol, refusal),
            // The client sees the end of the pipe.
            Link::Pipe(_) => {}
        }
    }
}

/// The result of releasing a connection.
#[derive(Debug)]
pub(crate) enum Release {
    /// Released; its token is no longer valid.
    Done(Link),
    /// Operations are still in flight or replies unsent; try again in the next turn.
    Later,
    /// Not possible, because the connection is closing.
    Refused,
}
