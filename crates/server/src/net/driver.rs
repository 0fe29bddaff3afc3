//! The worker's interface to the kernel, implemented by epoll and io_uring.
//!
//! The interface is completion-based, since readiness can implement it and not the other way round:
//! a driver receives into memory of its own and hands the bytes to a [`Sink`], for the length of
//! one call; it takes whole outputs to send and keeps what the socket has no room for. Callers
//! never see a partial read or write.

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
    /// Waits for events, at most for `timeout`, and reports them to `sink`. Returns their number.
    fn turn(&mut self, timeout: Option<Duration>, sink: &mut impl Sink<Self>) -> io::Result<usize>;

    /// Takes a non-blocking socket over and starts to receive from it.
    fn adopt(&mut self, socket: OwnedFd, peer: Peer) -> io::Result<Token>;

    /// The worker's pipes.
    fn pipes(&self) -> &Pipes;

    /// The worker's pipes, mutable.
    fn pipes_mut(&mut self) -> &mut Pipes;

    /// Takes everything in `output`, which is empty afterwards, and sends it in the course of
    /// this turn and later ones.
    #[inline]
    fn send(&mut self, token: Token, output: &mut Output) {
        match token.is_of_pipe() {
            true => self.pipes_mut().send(token, output),
            false => self.send_on_socket(token, output),
        }
    }

    fn send_on_socket(&mut self, token: Token, output: &mut Output);

    /// Passes queued operations to the kernel, before work that may take long.
    fn flush(&mut self);

    /// Bytes that were handed to [`Driver::send`] and that the kernel has not taken yet.
    #[inline]
    fn unsent_bytes(&self, token: Token) -> usize {
        match token.is_of_pipe() {
            true => self.pipes().unsent_bytes(token),
            false => self.unsent_on_socket(token),
        }
    }

    fn unsent_on_socket(&self, token: Token) -> usize;

    /// Memory of unsent replies; of shared chunks, a share.
    fn kept_bytes(&self, token: Token) -> usize {
        match token.is_of_pipe() {
            true => self.pipes().kept_bytes(token),
            false => self.kept_for_socket(token),
        }
    }

    fn kept_for_socket(&self, token: Token) -> usize;

    /// Whether a socket's peer has been silent for so long although it should have answered.
    fn is_unreachable(&mut self, token: Token, silence: Duration) -> bool;

    /// Sets what to receive from now on. Bytes that are already on their way are still delivered,
    /// and must be kept.
    fn receive(&mut self, token: Token, wanted: Wanted) {
        match token.is_of_pipe() {
            true => self.pipes_mut().receive(token, wanted),
            false => self.receive_from_socket(token, wanted),
        }
    }

    fn receive_from_socket(&mut self, token: Token, wanted: Wanted);

    /// Receives nothing more, sends the rest and closes. The sink is not called for it any more.
    fn close(&mut self, token: Token) {
        match token.is_of_pipe() {
            true => self.pipes_mut().close(token),
            false => self.close_socket(token),
        }
    }

    fn close_socket(&mut self, token: Token);

    /// Discards unsent bytes and closes at once. The sink is not called for it any more.
    fn abort(&mut self, token: Token) {
        match token.is_of_pipe() {
            true => self.pipes_mut().abort(token),
            false => self.abort_socket(token),
        }
    }

    fn abort_socket(&mut self, token: Token);

    /// Releases a connection, so that another driver can adopt it. Until that is possible nothing
    /// new is started for it; bytes on their way are still delivered.
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
    /// A wait has ended: events reported until the next one happened before this.
    fn wait_ended(&mut self);

    /// A client has connected that speaks `protocol`.
    fn accepted(&mut self, driver: &mut D, protocol: Protocol, socket: OwnedFd);

    /// Bytes have arrived, perhaps more than once in a turn. The sink may change them; they are
    /// invalid when it returns.
    fn received(&mut self, driver: &mut D, token: Token, bytes: &mut [u8]);

    /// Lends a buffer for a large argument, if one is arriving.
    fn lend_buffer(&mut self, token: Token) -> Option<ReceiveBuffer>;

    /// Returns a lent buffer after bytes have been received into it.
    fn received_into(&mut self, driver: &mut D, token: Token, buffer: ReceiveBuffer);

    /// Everything has been sent, after some of it had to wait.
    fn drained(&mut self, driver: &mut D, token: Token);

    /// The peer will send nothing more; it may still read.
    fn ended(&mut self, driver: &mut D, token: Token);

    /// The connection broke, as `error` says; the driver has removed it.
    fn lost(&mut self, driver: &mut D, token: Token, error: Errno);

    /// Whether to yield the processor to threads that may keep it for long. During a save the saver
    /// would keep it while clients wait.
    fn may_yield(&self) -> bool {
        true
    }

    /// [`crate::net::waker::Waker::wake`] was called.
    fn woken(&mut self, driver: &mut D);
}
