//! A TCP connection shared by its task with the check of all connections. tokio's stream can only
//! be read by its owner, and a second descriptor would cost two system calls per connection.
//! Received bytes are [inspected](Inspector) and passed on one request after the other.

use crate::framing::{Admitted, Expected, Inspector};
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

pub(crate) struct SharedStream {
    stream: Arc<TcpStream>,
    inspector: Inspector,
    /// Received bytes that were held back, and how many of them have been passed on since.
    ahead: Vec<u8>,
    taken: usize,
}

/// A byte that no head may contain: it makes the parser refuse the head.
const REFUSED: u8 = 0;

impl SharedStream {
    pub(crate) fn new(stream: Arc<TcpStream>, expected: Expected) -> Self {
        let inspector = Inspector::new(expected);
        SharedStream { stream, inspector, ahead: Vec::new(), taken: 0 }
    }

    /// Passes on bytes that have already been received. Returns whether there were any.
    fn hand_over(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<bool> {
        let there = self.ahead.get(self.taken..).unwrap_or_default();
        let there = there.get(..buffer.remaining()).unwrap_or(there);
        if there.is_empty() {
            return Ok(false);
        }
        let (len, is_wrong) = length(self.inspector.admit(there))?;
        let before = buffer.filled().len();
        buffer.put_slice(there.get(..len).unwrap_or_default());
        self.taken += len;
        if self.taken == self.ahead.len() {
            (self.ahead, self.taken) = (Vec::new(), 0);
        }
        if is_wrong {
            self.refuse(buffer, before + len);
        }
        Ok(true)
    }

    /// Holds back received bytes, after the `before` bytes in `buffer`, that must not be passed on
    /// yet.
    fn keep_back(&mut self, buffer: &mut ReadBuf<'_>, before: usize) -> io::Result<()> {
        let arrived = buffer.filled().get(before..).unwrap_or_default();
        if arrived.is_empty() {
            return Ok(());
        }
        let (len, is_wrong) = length(self.inspector.admit(arrived))?;
        if let Some(rest) = arrived.get(len..).filter(|rest| !rest.is_empty()) {
            self.ahead.extend_from_slice(rest);
        }
        buffer.set_filled(before + len);
        if is_wrong {
            self.refuse(buffer, before + len);
        }
        Ok(())
    }

    /// Makes the parser refuse the head that ends there, and drops the bytes after it.
    fn refuse(&mut self, buffer: &mut ReadBuf<'_>, end: usize) {
        if let Some(last) = buffer.filled_mut().get_mut(..end).and_then(<[u8]>::last_mut) {
            *last = REFUSED;
        }
        (self.ahead, self.taken) = (Vec::new(), 0);
    }

    /// Writes when there is room.
    fn write(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            match write(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

/// The number of admitted bytes, and whether the last one is invalid.
fn length(admitted: Admitted) -> io::Result<(usize, bool)> {
    match admitted {
        Admitted::Bytes(len) => Ok((len, false)),
        Admitted::Wrong(len) => Ok((len, true)),
        Admitted::Disagreed => Err(io::ErrorKind::InvalidData.into()),
    }
}

impl AsyncRead for SharedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.hand_over(buffer)? {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read_buf(buffer) {
                Ok(len) => {
                    if len > 0 && buffer.remaining() > 0 {
                        // The socket is empty now. The kernel reports when it no longer is, and
                        // another read would only return the same error.
                        let empty = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                        let _ = self.stream.try_io(Interest::READABLE, empty);
                    }
                    return Poll::Ready(self.keep_back(buffer, before));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for SharedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// If a client has sent more than was read, closing resets the connection: the client must know
    /// before then that the response is complete.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.stream).shutdown(Shutdown::Write))
    }
}
