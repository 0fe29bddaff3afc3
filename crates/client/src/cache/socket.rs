//! The engine's interface to a connection. A blocking connection is always ready, so that the same
//! code serves programs with and without an async runtime.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::ring::Server;
use crate::{Address, Error};

/// A connection to a server. Operations that take too long fail with [`io::ErrorKind::TimedOut`].
pub(crate) trait Socket: AsFd + Sized {
    /// Looks up the address of a server.
    async fn resolve(server: &Server) -> Result<Address, Error>;

    /// Connects. The attempt for each address of a host may take `timeout`.
    async fn connect(address: &Address, timeout: Duration) -> Result<Self, Error>;

    /// Sends all bytes. Fails if there is no progress for `timeout`.
    async fn send(&mut self, bytes: &[u8], timeout: Duration) -> io::Result<()>;

    /// Appends received bytes to `input`, which must have spare capacity. Returns the number of
    /// bytes; 0 at the end of the stream.
    async fn receive(&mut self, input: &mut Vec<u8>, deadline: Instant) -> io::Result<usize>;
}

/// Returns the result of a future that is always ready.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
    }
}

/// A connection that blocks its thread.
#[derive(Debug)]
pub(crate) struct Blocking(OwnedFd);

impl AsFd for Blocking {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Socket for Blocking {
    async fn resolve(server: &Server) -> Result<Address, Error> {
        Address::tcp(&server.host, server.port)
    }

    async fn connect(address: &Address, timeout: Duration) -> Result<Self, Error> {
        let socket = address.connect_within(timeout)?;
        set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
        Ok(Blocking(socket))
    }

    async fn send(&mut self, mut bytes: &[u8], _timeout: Duration) -> io::Result<()> {
        while !bytes.is_empty() {
            match retry_on_intr(|| send(&self.0, bytes, SendFlags::NOSIGNAL)) {
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    async fn receive(&mut self, input: &mut Vec<u8>, deadline: Instant) -> io::Result<usize> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let time = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&time)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let received =
            retry_on_intr(|| recv(&self.0, spare_capacity(&mut *input), RecvFlags::empty()));
        Ok(received?.1)
    }
}
