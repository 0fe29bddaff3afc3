//! One non-blocking connection with many requests in flight.
//!
//! The caller encodes requests and owns the event loop. A connection keeps the bytes that did not
//! fit into the socket's buffer, and splits received bytes into replies.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::error::REPLY_LIMIT_BYTES;
use crate::outcome::Parser;
use crate::{Address, Error, Framing, Outcome, Protocol};

/// Maximum capacity of an unused buffer, in bytes.
const IDLE_BYTES: usize = 256 * 1024;

/// A connection.
///
/// ```
/// # use std::io::{Read, Write};
/// use nagi_client::{Connection, Framing, Outcome};
/// let (socket, mut peer) = std::os::unix::net::UnixStream::pair()?;
/// let mut connection = Connection::over(socket.into(), Framing::Memcached)?;
/// connection.send(b"get a\r\nget b\r\n", 2)?;
/// peer.write_all(b"END\r\nVALUE b 0 1\r\nx\r\nEND\r\n")?;
/// let mut outcomes = Vec::new();
/// connection.receive(&mut [0; 1000], |outcome| outcomes.push(outcome == Outcome::Hit))?;
/// assert_eq!(outcomes, [false, true]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    parser: Parser,
    /// The beginning of a reply whose end has not arrived.
    partial: Vec<u8>,
    /// Bytes of requests that did not fit into the socket's buffer. The first `flushed` bytes have
    /// been sent since.
    unsent: Vec<u8>,
    flushed: usize,
    in_flight: usize,
    reply_limit_bytes: usize,
}

impl Connection {
    /// Connects, and waits until the connection is established.
    ///
    /// # Errors
    /// No server listens there, or the socket cannot be made non-blocking.
    ///
    /// ```
    /// use nagi_client::{Address, Connection, Protocol};
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let address = Address::from(listener.local_addr()?);
    /// assert_eq!(Connection::open(&address, Protocol::Resp)?.in_flight(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(address: &Address, protocol: Protocol) -> Result<Self, Error> {
        Connection::over(address.connect()?, protocol.into())
    }

    /// Takes over a socket. The socket may still be connecting: bytes are then sent when it is
    /// connected.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    ///
    /// ```
    /// use nagi_client::{Connection, Framing};
    /// let (socket, _peer) = std::os::unix::net::UnixStream::pair()?;
    /// let connection = Connection::over(socket.into(), Framing::Resp)?;
    /// # drop(connection);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn over(socket: OwnedFd, framing: Framing) -> Result<Self, Error> {
        rustix::io::ioctl_fionbio(&socket, true).map_err(Error::from)?;
        Ok(Connection {
            socket,
            parser: Parser::new(framing),
            partial: Vec::new(),
            unsent: Vec::new(),
            flushed: 0,
            in_flight: 0,
            reply_limit_bytes: REPLY_LIMIT_BYTES,
        })
    }

    /// Sets the maximum length of a reply in bytes, by default 513 MiB; a longer one is an error.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// use nagi_client::{Connection, Framing};
    /// let (socket, mut peer) = std::os::unix::net::UnixStream::pair()?;
    /// let mut connection = Connection::over(socket.into(), Framing::Memcached)?;
    /// connection.set_reply_limit(100);
    /// connection.send(b"get a\r\n", 1)?;
    /// peer.write_all(b"VALUE a 0 999\r\n")?;
    /// peer.write_all(&[b'x'; 200])?;
    /// let mut scratch = [0; 120];
    /// connection.receive(&mut scratch, |_| {})?;
    /// assert!(connection.receive(&mut scratch, |_| {}).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_reply_limit(&mut self, bytes: usize) {
        self.reply_limit_bytes = bytes;
    }

    /// Returns the number of requests that are sent and not answered.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// use nagi_client::{Connection, Framing};
    /// let (socket, mut peer) = std::os::unix::net::UnixStream::pair()?;
    /// let mut connection = Connection::over(socket.into(), Framing::Memcached)?;
    /// connection.send(b"get a\r\n", 1)?;
    /// assert_eq!(connection.in_flight(), 1);
    /// peer.write_all(b"END\r\n")?;
    /// connection.receive(&mut [0; 100], |_| {})?;
    /// assert_eq!(connection.in_flight(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether unsent bytes wait for the socket to become writable.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// use nagi_client::{Connection, Framing};
    /// let (socket, mut peer) = std::os::unix::net::UnixStream::pair()?;
    /// let mut connection = Connection::over(socket.into(), Framing::Memcached)?;
    /// assert!(!connection.has_unsent());
    /// connection.send(&vec![b'x'; 50_000_000], 1)?;
    /// assert!(connection.has_unsent());
    /// # peer.read(&mut [0; 1])?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends `bytes`, which contain `requests` requests. Keeps the bytes that do not fit into the
    /// socket's buffer.
    ///
    /// # Errors
    /// The connection is broken.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// use nagi_client::{Connection, Framing};
    /// let (socket, mut peer) = std::os::unix::net::UnixStream::pair()?;
    /// let mut connection = Connection::over(socket.into(), Framing::Memcached)?;
    /// connection.send(b"get a\r\nget b\r\n", 2)?;
    /// let mut received = [0; 14];
    /// peer.read_exact(&mut received)?;
    /// assert_eq!(&received, b"get a\r\nget b\r\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send(&mut self, bytes: &[u8], requests: usize) -> Result<(), Error> {
        self.in_flight += requests;
        if self.has_unsent() {
            self.unsent.extend_from_slice(bytes);
            return self.flush();
        }
        let sent = send_once(&self.socket, bytes)?;
        self.unsent.extend_from_slice(bytes.get(sent..).unwrap_or_default());
        Ok(())
    }

    /// Sends bytes that earlier sends have left, as far as they fit into the socket's buffer.
    ///
    /// # Errors
    /// The connection is broken.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// use nagi_client::{Connection, Framing};
    /// let (socket, mut peer) = std::os::unix::net::UnixStream::pair()?;
    /// let mut connection = Connection::over(socket.into(), Framing::Memcached)?;
    /// connection.send(&vec![b'x'; 1_000_000], 1)?;
    /// let mut received = vec![0; 100_000];
    /// while connection.has_unsent() {
    ///     peer.read(&mut received)?;
    ///     connection.flush()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush(&mut self) -> Result<(), Error> {
        self.flushed +=
            send_once(&self.socket, self.unsent.get(self.flushed..).unwrap_or_default())?;
        if self.flushed == self.unsent.len() {
            self.flushed = 0;
            self.unsent.clear();
            self.unsent.shrink_to(IDLE_BYTES);
        }
        Ok(())
    }

    /// Receives once and passes the outcome of each complete reply to `on_reply`. In all other
    /// respects like [`Connection::receive_replies`].
    ///
    /// # Errors
    /// As for `receive_replies`.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// use nagi_client::{Connection, Framing, Outcome};
    /// let (socket, mut peer) = std::os::unix::net::UnixStream::pair()?;
    /// let mut connection = Connection::over(socket.into(), Framing::Memcached)?;
    /// connection.send(b"delete a\r\n", 1)?;
    /// peer.write_all(b"DELETED\r\n")?;
    /// connection.receive(&mut [0; 100], |outcome| assert_eq!(outcome, Outcome::Done))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn receive(
        &mut self,
        scratch: &mut [u8],
        mut on_reply: impl FnMut(Outcome<'_>),
    ) -> Result<usize, Error> {
        self.receive_replies(scratch, |outcome, _| on_reply(outcome))
    }

    /// Receives once and passes each complete reply to `on_reply`, with its outcome and its bytes.
    /// All connections of a thread should share one `scratch`, so that only connections with an
    /// incomplete reply hold memory.
    ///
    /// Returns the number of bytes received; fewer than the length of `scratch` means that the
    /// socket is drained.
    ///
    /// # Errors
    /// The connection is closed or broken, a reply belongs to no request, or a reply is too long.
    /// Replies before the error have been passed to `on_reply`.
    ///
    /// ```
    /// # use std::io::{Read, Write};
    /// use nagi_client::{Connection, Framing};
    /// let (socket, mut peer) = std::os::unix::net::UnixStream::pair()?;
    /// let mut connection = Connection::over(socket.into(), Framing::Memcached)?;
    /// connection.send(b"incr a 1\r\n", 1)?;
    /// peer.write_all(b"7\r\n")?;
    /// connection.receive_replies(&mut [0; 100], |_, reply| assert_eq!(reply, b"7\r\n"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn receive_replies(
        &mut self,
        scratch: &mut [u8],
        on_reply: impl FnMut(Outcome<'_>, &[u8]),
    ) -> Result<usize, Error> {
        if self.partial.is_empty() {
            let bytes =
                received(retry_on_intr(|| recv(&self.socket, &mut *scratch, RecvFlags::empty())))?;
            let input = scratch.get(..bytes).unwrap_or_default();
            let done = self.take_replies(input, on_reply)?;
            self.partial.extend_from_slice(input.get(done..).unwrap_or_default());
            return Ok(bytes);
        }
        let mut partial = std::mem::take(&mut self.partial);
        partial.reserve(scratch.len());
        let bytes = received(retry_on_intr(|| {
            recv(&self.socket, spare_capacity(&mut partial), RecvFlags::empty())
        }))?;
        let done = self.take_replies(&partial, on_reply)?;
        partial.drain(..done);
        if partial.is_empty() {
            partial.shrink_to(IDLE_BYTES);
        }
        self.partial = partial;
        if self.partial.len() > self.reply_limit_bytes {
            return Err(Error::TooLong { limit_bytes: self.reply_limit_bytes });
        }
        Ok(bytes)
    }

    /// Passes the complete replies in `input` to the caller. Returns the offset of the first
    /// incomplete one.
    fn take_replies(
        &mut self,
        input: &[u8],
        mut on_reply: impl FnMut(Outcome<'_>, &[u8]),
    ) -> Result<usize, Error> {
        let mut at = 0;
        while let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) {
            let next = self.parser.next(rest);
            let Some((len, outcome)) = next.map_err(|_| Error::malformed(rest))? else { break };
            let reply = rest.get(..len).unwrap_or_default();
            at += len;
            if let Some(outcome) = outcome {
                self.in_flight =
                    self.in_flight.checked_sub(1).ok_or_else(|| unsolicited(outcome))?;
                on_reply(outcome, reply);
            }
        }
        Ok(at)
    }
}

/// Sends once. Returns the number of bytes sent; 0 if the socket's buffer is full.
fn send_once(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Error> {
    match retry_on_intr(|| send(socket, bytes, SendFlags::NOSIGNAL)) {
        Ok(sent) => Ok(sent),
        Err(Errno::AGAIN) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}

/// Converts the result of a receive to the number of bytes; 0 if nothing has arrived. The end of
/// the stream is an error.
fn received(result: rustix::io::Result<(usize, usize)>) -> Result<usize, Error> {
    match result {
        Ok((0, _)) => Err(Error::Closed),
        Ok((bytes, _)) => Ok(bytes),
        Err(Errno::AGAIN) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}

fn unsolicited(outcome: Outcome<'_>) -> Error {
    Error::Protocol(match outcome {
        Outcome::Error(text) => format!("unsolicited: {}", String::from_utf8_lossy(text)),
        _ => "a reply that answers no request".to_owned(),
    })
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
