//! The worker's interface to the kernel, implemented by epoll and io_uring.
//!
//! The interface is completion-based, because completions can be built on readiness but not the
//! other way round. A driver receives into its own memory and lends the bytes to a [`Sink`] for one
//! call. It takes whole outputs to send and keeps the bytes that the socket has no room for.
//! Callers never see a partial read or write.

use crate::net::address::Peer;
pub(crate) use crate::net::link::Release;
use crate::net::listener::Listeners;
use crate::net::pipes::Pipes;
use crate::net::protocol::Protocol;
use crate::net::receive_buffer::ReceiveBuffer;
pub(crate) use crate::net::token::{Token, Wanted};
use nagi_proto::Output;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Moves bytes between a worker's connections and its [`Sink`]. Methods with `socket` in their
/// names differ by driver; the others also handle pipes.
pub(crate) trait Driver: Sized {
    /// Waits at most `timeout` for events and reports them to `sink`. Returns their number.
    fn turn(&mut self, timeout: Option<Duration>, sink: &mut impl Sink<Self>) -> io::Result<usize>;

    /// Takes over a non-blocking socket and starts receiving from it.
    fn adopt(&mut self, socket: OwnedFd, peer: Peer) -> io::Result<Token>;

    /// The worker's pipes.
    fn pipes(&self) -> &Pipes;

    /// The worker's pipes, mutable.
    fn pipes_mut(&mut self) -> &mut Pipes;

    /// Moves all data out of `output` and sends it during this turn and later ones.
    #[inline]
    fn send(&mut self, token: Token, output: &mut Output) {
        match token.is_of_pipe() {
            true => self.pipes_mut().send(token, output),
            false => self.send_on_socket(token, output),
        }
    }

    fn send_on_socket(&mut self, token: Token, output: &mut Output);

    /// Submits queued operations to the kernel, ahead of work that may take long.
    fn flush(&mut self);

    /// Bytes given to [`Driver::send`] that the kernel has not accepted yet.
    #[inline]
    fn unsent_bytes(&self, token: Token) -> usize {
        match token.is_of_pipe() {
            true => self.pipes().unsent_bytes(token),
            false => self.unsent_on_socket(token),
        }
    }

    fn unsent_on_socket(&self, token: Token) -> usize;

    /// Unsent bytes, and those that the peer has not acknowledged: fewer and fewer while it reads.
    fn unacknowledged_bytes(&self, token: Token) -> usize {
        match token.is_of_pipe() {
            true => self.pipes().unsent_bytes(token),
            false => self.unsent_on_socket(token) + self.unacknowledged_by_socket(token),
        }
    }

    fn unacknowledged_by_socket(&self, token: Token) -> usize;

    /// Memory of unsent replies, with a proportional share of shared chunks.
    fn kept_bytes(&self, token: Token) -> usize {
        match token.is_of_pipe() {
            true => self.pipes().kept_bytes(token),
            false => self.kept_for_socket(token),
        }
    }

    fn kept_for_socket(&self, token: Token) -> usize;

    /// Whether a socket's peer has left data unacknowledged and been silent for `silence`.
    fn is_unreachable(&mut self, token: Token, silence: Duration) -> bool;

    /// Sets what to receive from now on. Bytes already in flight are still delivered, and the sink
    /// must keep them.
    fn receive(&mut self, token: Token, wanted: Wanted) {
        match token.is_of_pipe() {
            true => self.pipes_mut().receive(token, wanted),
            false => self.receive_from_socket(token, wanted),
        }
    }

    fn receive_from_socket(&mut self, token: Token, wanted: Wanted);

    /// Stops receiving, sends the rest and closes. The sink gets no further calls for this token.
    fn close(&mut self, token: Token) {
        match token.is_of_pipe() {
            true => self.pipes_mut().close(token),
            false => self.close_socket(token),
        }
    }

    fn close_socket(&mut self, token: Token);

    /// Discards unsent bytes and closes at once. The sink gets no further calls for this token.
    fn abort(&mut self, token: Token) {
        match token.is_of_pipe() {
            true => self.pipes_mut().abort(token),
            false => self.abort_socket(token),
        }
    }

    fn abort_socket(&mut self, token: Token);

    /// Releases a connection, so that another driver can adopt it. Until that is possible, nothing
    /// more is received from it unless its client has to read first; bytes in flight are still
    /// delivered.
    fn release(&mut self, token: Token) -> Release {
        match token.is_of_pipe() {
            true => self.pipes_mut().release(token),
            false => self.release_socket(token),
        }
    }

    fn release_socket(&mut self, token: Token) -> Release;

    /// Keeps a connection that was to be released.
    fn retain(&mut self, token: Token) {
        if !token.is_of_pipe() {
            self.retain_socket(token);
        }
    }

    fn retain_socket(&mut self, token: Token);

    /// Accepts from these listeners only.
    fn listen_to(&mut self, listeners: &Listeners) -> io::Result<()>;

    /// Gives up the listening sockets.
    fn stop_listening(&mut self);

    /// Number of connections, including those that only have unsent bytes.
    fn connections(&self) -> usize {
        self.sockets() + self.pipes().len()
    }

    fn sockets(&self) -> usize;
}

/// Receives the events of a [`Driver`].
pub(crate) trait Sink<D> {
    /// A wait has ended. The events reported before the next wait happened before this call.
    fn wait_ended(&mut self);

    /// A client has connected to a listener of `protocol`.
    fn accepted(&mut self, driver: &mut D, protocol: Protocol, socket: OwnedFd);

    /// Bytes have arrived; this may be called several times in a turn. The sink may change the
    /// bytes, which are valid only during the call.
    fn received(&mut self, driver: &mut D, token: Token, bytes: &mut [u8]);

    /// Lends a buffer for a large argument, if one is arriving.
    fn lend_buffer(&mut self, token: Token) -> Option<ReceiveBuffer>;

    /// Returns a lent buffer after bytes have been received into it.
    fn received_into(&mut self, driver: &mut D, token: Token, buffer: ReceiveBuffer);

    /// All data has been sent, after some of it had to wait.
    fn drained(&mut self, driver: &mut D, token: Token);

    /// The peer has shut down its sending side; it may still read.
    fn ended(&mut self, driver: &mut D, token: Token);

    /// The connection broke, as `error` says; the driver has removed it.
    fn lost(&mut self, driver: &mut D, token: Token, error: Errno);

    /// Whether the worker may yield the processor. Not during a save: the saving thread would keep
    /// the processor while clients wait.
    fn may_yield(&self) -> bool {
        true
    }

    /// [`crate::net::waker::Waker::wake`] was called.
    fn woken(&mut self, driver: &mut D);
}
