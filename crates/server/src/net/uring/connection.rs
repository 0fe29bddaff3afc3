//! A connection of the driver and its operations in the kernel.

use crate::net::driver::Wanted;
use crate::net::outgoing::Outgoing;
use crate::net::receive_buffer::ReceiveBuffer;
use nagi_proto::Output;
use nagi_store::accounting::Charge;
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::OwnedFd;

/// Minimum number of queued bytes that count as unsent. Smaller outputs are submitted before the
/// count is read.
pub(super) const COUNTED_BYTES: usize = 64 * 1024;

/// A connection's socket.
pub(super) struct Connection {
    pub(super) socket: OwnedFd,
    /// The output that is queued or waits for room; it precedes `unsent`.
    pub(super) first: Output,
    /// Accounts for the memory of `first`, once the socket has not taken all of it at once.
    pub(super) charge: Charge,
    pub(super) unsent: Outgoing,
    pub(super) sending: Sending,
    pub(super) wanted: Wanted,
    pub(super) receiving: Receiving,
    /// Whether the receive continues after the first bytes.
    pub(super) is_multishot: bool,
    /// Whether the receive has been cancelled.
    pub(super) cancelled: bool,
    /// A lent buffer for a large argument, not yet used.
    pub(super) lent: Option<ReceiveBuffer>,
    /// Whether the peer has shut down its sending side.
    pub(super) ended: bool,
    /// Whether the worker has been told of unsent bytes.
    pub(super) counted: Cell<bool>,
    /// Whether data was sent that the peer may not have acknowledged.
    pub(super) awaits_peer: bool,
    /// Whether the connection is in `again`.
    pub(super) queued: bool,
    /// Whether to release the connection once no operation is in flight.
    pub(super) leaving: bool,
    pub(super) end: End,
}

/// The state of sending.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    /// Nothing to send.
    Nothing,
    /// Queued: `first`, with this many bytes, is lent to the ring.
    Queued(usize),
    /// The socket is full; a completion will report when it has room.
    Blocked,
    /// Sending continues in the next turn.
    Later,
}

/// The state of receiving.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiving {
    Nothing,
    /// All bytes, into provided buffers.
    Bytes,
    /// Once, into a lent buffer.
    IntoBuffer,
}

/// The state of closing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Open,
    /// Closes when everything has been sent.
    Closing,
    /// Sending has failed with this error, which is reported in the next turn.
    Broken(Errno),
    /// To be removed once no operation is in flight.
    Gone,
}

impl Connection {
    pub(super) fn unsent_bytes(&self) -> usize {
        let first = match self.sending {
            // A closing connection must be watched until its last byte has been sent.
            Sending::Queued(bytes)
                if bytes >= COUNTED_BYTES || self.counted.get() || self.end == End::Closing =>
            {
                bytes
            }
            Sending::Queued(_) => 0,
            _ => self.first.len(),
        };
        first + self.unsent.bytes()
    }

    /// Whether its socket has not taken all output, or the worker is to be told that it has.
    pub(super) fn waits_for_client(&self) -> bool {
        matches!(self.sending, Sending::Blocked | Sending::Later)
            || !self.unsent.is_empty()
            || self.counted.get()
    }

    /// Drops data that is not queued. Queued data stays: the socket must outlive the send, whose
    /// descriptor number could otherwise soon belong to another connection.
    pub(super) fn drop_unsent(&mut self) {
        self.first = Output::default();
        self.charge.set(0);
        self.unsent.clear();
        if self.sending == Sending::Later {
            self.sending = Sending::Nothing;
        }
    }
}
