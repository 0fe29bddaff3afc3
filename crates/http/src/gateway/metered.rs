//! A connection whose received bytes are reserved from the budget until their message has been
//! taken, for a reader that buffers whole messages.

use super::budget::{Budget, Reservation};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are not counted, since a reader takes about this many at a time anyway.
const FREE_BYTES: usize = 64 << 10;

/// Wraps a connection.
pub(super) struct Metered<S> {
    stream: S,
    reservation: Reservation,
    /// Bytes received since a message was last taken.
    arrived: usize,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, budget: &Budget) -> Self {
        Metered { stream, reservation: budget.reservation(), arrived: 0 }
    }

    /// Records that the received bytes have been taken.
    pub(super) fn taken(&mut self) {
        self.reservation.clear();
        self.arrived = 0;
    }

    /// Counts received bytes; an error if the budget is exhausted.
    fn count(&mut self, bytes: usize) -> io::Result<()> {
        self.arrived += bytes;
        if self.arrived > FREE_BYTES && self.reservation.grow(bytes).is_err() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let arrived = buffer.filled().len().saturating_sub(before);
        match read {
            Poll::Ready(Ok(())) => Poll::Ready(self.count(arrived)),
            other => other,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
