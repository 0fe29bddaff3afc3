//! The system calls by which the epoll driver moves bytes between sockets and memory. Tests insert
//! a shim that fails as kernels may (`shim.rs`).

use crate::net::token::Token;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

/// The number of bytes that a call has moved.
pub(crate) type Moved = Result<usize, Errno>;

/// Moves bytes without waiting. A short transfer means that the socket is empty or full, and that
/// an event will follow when it no longer is.
pub(crate) trait Sockets {
    /// Receives into `buffer`; zero bytes at the end of the stream.
    fn receive(&mut self, token: Token, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Moved;

    /// Receives into several slices.
    fn receive_slices(
        &mut self,
        token: Token,
        socket: BorrowedFd<'_>,
        slices: &mut [IoSliceMut<'_>],
    ) -> Moved;

    /// Sends what there is room for.
    fn send(&mut self, token: Token, socket: BorrowedFd<'_>, bytes: &[u8]) -> Moved;

    /// Sends from several slices what there is room for.
    fn send_slices(
        &mut self,
        token: Token,
        socket: BorrowedFd<'_>,
        slices: &[IoSlice<'_>],
    ) -> Moved;

    /// Whether there are events besides those of epoll.
    fn has_events(&self) -> bool;

    /// Moves those events to `events`.
    fn take_events(&mut self, events: &mut Vec<epoll::Event>);
}

/// The kernel itself.
#[derive(Debug)]
pub(crate) struct Kernel;

const SEND_FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

impl Sockets for Kernel {
    #[inline]
    fn receive(&mut self, _: Token, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Moved {
        rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT).map(|(_, len)| len)
    }

    fn receive_slices(
        &mut self,
        _: Token,
        socket: BorrowedFd<'_>,
        slices: &mut [IoSliceMut<'_>],
    ) -> Moved {
        let mut control = RecvAncillaryBuffer::default();
        let received = rustix::net::recvmsg(socket, slices, &mut control, RecvFlags::DONTWAIT);
        received.map(|message| message.bytes)
    }

    #[inline]
    fn send(&mut self, _: Token, socket: BorrowedFd<'_>, bytes: &[u8]) -> Moved {
        rustix::net::send(socket, bytes, SEND_FLAGS)
    }

    fn send_slices(&mut self, _: Token, socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> Moved {
        rustix::net::sendmsg(socket, slices, &mut SendAncillaryBuffer::default(), SEND_FLAGS)
    }

    #[inline]
    fn has_events(&self) -> bool {
        false
    }

    #[inline]
    fn take_events(&mut self, _: &mut Vec<epoll::Event>) {}
}
