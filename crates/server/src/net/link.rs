//! The transport of a connection: a socket or a pipe.

use crate::net::address::{self, Peer};
use crate::net::protocol::Protocol;
use crate::net::refusal::{Refusal, refuse};
use nagi_http::WorkerEnd;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};

/// What a client's descriptor is where there is none.
const NO_DESCRIPTOR: RawFd = -1;

/// A socket, or a pipe to the thread that serves HTTP.
#[derive(Debug)]
pub(crate) enum Link {
    Socket(OwnedFd),
    Pipe(WorkerEnd),
}

impl Link {
    /// Where its client is.
    pub(crate) fn peer(&self) -> Peer {
        match self {
            Link::Socket(socket) => Peer::of(socket),
            Link::Pipe(_) => Peer::FileSystem,
        }
    }

    /// Where its client has connected to.
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

/// What becomes of a connection that is to be released.
#[derive(Debug)]
pub(crate) enum Release {
    /// It is released, and its token names nothing any more.
    Done(Link),
    /// The kernel still works for it, or replies are unsent: to be asked again in the next turn.
    Later,
    /// It cannot be for now: it is about to end.
    Refused,
}
