//! A connection of the driver, and what the kernel does for it.

use crate::net::driver::Wanted;
use crate::net::outgoing::Outgoing;
use crate::net::receive_buffer::ReceiveBuffer;
use nagi_proto::Output;
use nagi_store::accounting::Charge;
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::OwnedFd;

/// What is on its way to the kernel counts as unsent from this length on: less is sent before
/// its number is read.
pub(super) const COUNTED_BYTES: usize = 64 * 1024;

/// A connection's socket.
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    /// What is on its way to the kernel, or has to wait for room; it comes before `unsent`.
    pub(super) first: Output,
    /// For the memory of the first, once the socket has not taken all of it at once.
    pub(super) charge: Charge,
    pub(super) unsent: Outgoing,
    pub(super) sending: Sending,
    pub(super) wanted: Wanted,
    pub(super) receiving: Receiving,
    /// Whether a receive goes on after the first bytes.
    pub(super) is_multishot: bool,
    /// Whether the kernel has been told to stop to receive.
    pub(super) cancelled: bool,
    /// A buffer for a large argument, lent and not used yet.
    pub(super) lent: Option<ReceiveBuffer>,
    /// Whether the peer will send nothing more.
    pub(super) ended: bool,
    /// Whether the worker knows of bytes that are unsent.
    pub(super) counted: Cell<bool>,
    /// Whether something was sent of which it is not known that the peer has it.
    pub(super) awaits_peer: bool,
    /// Whether it is in `again`.
    pub(super) queued: bool,
    /// Whether it is to be released once the kernel no longer works for it.
    pub(super) leaving: bool,
    pub(super) end: End,
}

/// What becomes of what is to be sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    /// There is nothing.
    Nothing,
    /// It is queued, `first` being lent to the ring with so many bytes.
    Queued(usize),
    /// The socket is full; the kernel tells when it has room.
    Blocked,
    /// It goes on in the next turn.
    Later,
}

/// What the kernel receives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiving {
    Nothing,
    /// Whatever comes, into provided buffers.
    Bytes,
    /// Once, into a buffer that was lent.
    IntoBuffer,
}

/// How far a connection is from its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Open,
    /// To be closed when everything has been sent.
    Closing,
    /// Sending has failed, as this says; it is reported in the next turn.
    Broken(Errno),
    /// To be removed. It stays until the kernel has released it.
    Gone,
}

impl Connection {
    pub(super) fn unsent_bytes(&self) -> usize {
        let first = match self.sending {
            Sending::Queued(bytes) if bytes >= COUNTED_BYTES || self.counted.get() => bytes,
            Sending::Queued(_) => 0,
            _ => self.first.len(),
        };
        first + self.unsent.bytes()
    }

    /// Forgets what is to be sent. What is queued stays so: the socket must outlive it, since the
    /// kernel knows it by a descriptor that would soon be another connection's.
    pub(super) fn drop_unsent(&mut self) {
        self.first = Output::default();
        self.charge.set(0);
        self.unsent.clear();
        if self.sending == Sending::Later {
            self.sending = Sending::Nothing;
        }
    }
}
