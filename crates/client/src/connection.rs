//! One non-blocking connection with many requests in flight.
//!
//! The caller encodes requests and owns the event loop; this keeps what did not fit into the
//! socket, and tells replies apart in what comes back. A connection at rest owns no buffer.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::outcome::Scanner;
use crate::{Address, Error, Outcome, Protocol};

/// A connection.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    protocol: Protocol,
    scanner: Scanner,
    /// The start of a line whose end has not arrived.
    partial: Vec<u8>,
    unsent: Vec<u8>,
    in_flight: usize,
}

impl Connection {
    /// Connects, waiting until the server has accepted.
    ///
    /// # Errors
    /// Nobody listens there, or the socket cannot be made non-blocking.
    pub fn open(address: &Address, protocol: Protocol) -> Result<Self, Error> {
        let socket = address.connect()?;
        rustix::io::ioctl_fionbio(&socket, true).map_err(|errno| Error::Io(errno.into()))?;
        Ok(Connection {
            socket,
            protocol,
            scanner: Scanner::default(),
            partial: Vec::new(),
            unsent: Vec::new(),
            in_flight: 0,
        })
    }

    /// Requests sent and not answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether bytes wait for the socket to be writable.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends `bytes`, which hold `requests` requests, keeping what the socket does not take.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, bytes: &[u8], requests: usize) -> Result<(), Error> {
        self.in_flight += requests;
        if self.has_unsent() {
            self.unsent.extend_from_slice(bytes);
            return self.flush();
        }
        let sent = self.send_once(bytes)?;
        self.unsent.extend_from_slice(bytes.get(sent..).unwrap_or_default());
        Ok(())
    }

    /// Sends what an earlier send left, as far as the socket takes it.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn flush(&mut self) -> Result<(), Error> {
        let sent = self.send_once(&self.unsent)?;
        self.unsent.drain(..sent);
        Ok(())
    }

    fn send_once(&self, bytes: &[u8]) -> Result<usize, Error> {
        loop {
            match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => return Ok(sent),
                Err(Errno::AGAIN) => return Ok(0),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::Io(errno.into())),
            }
        }
    }

    /// Receives once into `scratch` and hands each reply that is complete to `on_reply`.
    ///
    /// Returns how many bytes came; fewer than `scratch` holds mean that the socket is drained.
    ///
    /// # Errors
    /// The connection is closed or broken, or what came is no reply to anything; replies before
    /// that have been handed over.
    pub fn receive(
        &mut self,
        scratch: &mut [u8],
        on_reply: impl FnMut(Outcome<'_>),
    ) -> Result<usize, Error> {
        let bytes = loop {
            match rustix::net::recv(&self.socket, &mut *scratch, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Error::Closed),
                Ok((received, _)) => break received,
                Err(Errno::AGAIN) => return Ok(0),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::Io(errno.into())),
            }
        };
        let input = scratch.get(..bytes).unwrap_or_default();
        if self.partial.is_empty() {
            let left = self.take_replies(input, on_reply)?;
            self.partial.extend_from_slice(left);
        } else {
            let mut joined = std::mem::take(&mut self.partial);
            joined.extend_from_slice(input);
            let left = self.take_replies(&joined, on_reply)?.len();
            joined.drain(..joined.len() - left);
            self.partial = joined;
        }
        Ok(bytes)
    }

    fn take_replies<'a>(
        &mut self,
        mut input: &'a [u8],
        mut on_reply: impl FnMut(Outcome<'_>),
    ) -> Result<&'a [u8], Error> {
        while !input.is_empty() {
            let (consumed, outcome) = self.scanner.scan(self.protocol, input)?;
            if consumed == 0 {
                break;
            }
            input = input.get(consumed..).unwrap_or_default();
            let Some(outcome) = outcome else { continue };
            self.in_flight = self.in_flight.checked_sub(1).ok_or_else(|| unasked(outcome))?;
            on_reply(outcome);
        }
        Ok(input)
    }
}

fn unasked(outcome: Outcome<'_>) -> Error {
    Error::Protocol(match outcome {
        Outcome::Error(text) => format!("unasked: {}", String::from_utf8_lossy(text)),
        _ => "a reply that answers no request".to_owned(),
    })
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
