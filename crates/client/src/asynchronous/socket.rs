//! A connection for the engine that is polled by an async runtime.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::{timeout, timeout_at};

use crate::cache::Socket;
use crate::ring::Server;
use crate::{Address, Error};

/// A TCP or a Unix socket.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Socket for Stream {
    async fn resolve(server: &Server) -> Result<Address, Error> {
        let found = lookup_host((server.host.as_str(), server.port)).await;
        Address::resolved(&server.host, server.port, found.map(Vec::from_iter))
    }

    async fn connect(address: &Address, limit: Duration) -> Result<Self, Error> {
        let opened = match address {
            Address::Unix(path) => within(limit, UnixStream::connect(path)).await.map(Stream::Unix),
            Address::Tcp { resolved, .. } => connect_tcp(resolved, limit).await.map(Stream::Tcp),
        };
        opened.map_err(|source| Error::Connect { address: address.to_string(), source })
    }

    async fn send(&mut self, mut bytes: &[u8], limit: Duration) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = match self {
                Stream::Tcp(stream) => within(limit, stream.write(bytes)).await?,
                Stream::Unix(stream) => within(limit, stream.write(bytes)).await?,
            };
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    async fn receive(&mut self, input: &mut Vec<u8>, deadline: Instant) -> io::Result<usize> {
        let deadline = deadline.into();
        let received = match self {
            Stream::Tcp(stream) => timeout_at(deadline, stream.read_buf(input)).await,
            Stream::Unix(stream) => timeout_at(deadline, stream.read_buf(input)).await,
        };
        received.unwrap_or_else(|_| Err(timed_out()))
    }
}

async fn connect_tcp(addresses: &[SocketAddr], limit: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match within(limit, TcpStream::connect(address)).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(limit, work).await.unwrap_or_else(|_| Err(timed_out()))
}

/// Returns the error with which blocking clients report a timeout.
fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "connection timed out")
}
