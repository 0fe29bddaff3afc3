//! A client that sends one command and waits for its reply.

use std::os::fd::OwnedFd;
use std::time::Duration;

use nagi_proto::resp::{Reply, ReplyParser};
use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::error::REPLY_LIMIT_BYTES;
use crate::{Address, Error};

/// Bytes received at once.
const RECEIVE_BYTES: usize = 16 * 1024;

/// Replies to commands as they arrive, without the socket that they come from.
#[derive(Debug)]
pub(crate) struct CommandReplies {
    parser: ReplyParser,
    /// Received and not looked at.
    input: Vec<u8>,
    /// How many bytes a reply may have.
    pub(crate) limit_bytes: usize,
    /// Whether a command has no reply yet. If it is given up, its reply would be taken for that of
    /// the next.
    is_waiting: bool,
}

impl Default for CommandReplies {
    fn default() -> Self {
        CommandReplies {
            parser: ReplyParser::default(),
            input: Vec::new(),
            limit_bytes: REPLY_LIMIT_BYTES,
            is_waiting: false,
        }
    }
}

impl CommandReplies {
    /// A command is about to be sent.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        if self.is_waiting {
            return Err(Error::Closed);
        }
        self.is_waiting = true;
        Ok(())
    }

    /// The command has its reply.
    pub(crate) fn end(&mut self) {
        self.is_waiting = false;
    }

    /// The next reply, once it is there.
    pub(crate) fn next(&mut self) -> Result<Option<Reply>, Error> {
        let malformed = || Error::malformed(&self.input);
        let len = self.parser.next(&self.input).map_err(|_| malformed())?;
        if len.unwrap_or(self.input.len()) > self.limit_bytes {
            return Err(Error::TooLong { limit_bytes: self.limit_bytes });
        }
        let Some(len) = len else { return Ok(None) };
        let decoded = Reply::decode(self.input.get(..len).unwrap_or_default());
        let (reply, _) = decoded.ok().flatten().ok_or_else(malformed)?;
        self.input.drain(..len);
        Ok(Some(reply))
    }

    /// Where more may be received to.
    pub(crate) fn room(&mut self) -> &mut Vec<u8> {
        self.input.reserve(RECEIVE_BYTES);
        &mut self.input
    }
}

/// A blocking RESP client.
#[derive(Debug)]
pub struct Client {
    socket: OwnedFd,
    replies: CommandReplies,
    request: Vec<u8>,
}

impl Client {
    /// Connects to a server.
    ///
    /// # Errors
    /// No server listens there.
    pub fn connect(address: &Address) -> Result<Self, Error> {
        let (socket, replies) = (address.connect()?, CommandReplies::default());
        Ok(Client { socket, replies, request: Vec::new() })
    }

    /// Sets how many bytes a reply may have, which is 513 MiB at first; a longer one is an error.
    pub fn set_reply_limit(&mut self, bytes: usize) {
        self.replies.limit_bytes = bytes;
    }

    /// Lets sends and receives fail after `timeout` without progress; `None` waits for ever.
    ///
    /// # Errors
    /// A timeout of zero.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<(), Error> {
        set_socket_timeout(&self.socket, Timeout::Recv, timeout)?;
        Ok(set_socket_timeout(&self.socket, Timeout::Send, timeout)?)
    }

    /// Sends one command, its name first, and waits for the reply. The server's errors are
    /// replies like any other.
    ///
    /// # Errors
    /// The connection is broken, the server sends what is no reply, or an earlier command was given
    /// up, whose reply may still come.
    pub fn command(&mut self, arguments: &[&[u8]]) -> Result<Reply, Error> {
        self.replies.begin()?;
        let mut request = std::mem::take(&mut self.request);
        request.clear();
        encode_command(arguments, &mut request);
        let sent = self.send(&request);
        self.request = request;
        sent?;
        let reply = self.receive()?;
        self.replies.end();
        Ok(reply)
    }

    /// Sends bytes as they are, such as several commands at once.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let sent = retry_on_intr(|| send(&self.socket, bytes, SendFlags::NOSIGNAL))?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// The connection is broken, or the server sends what is no reply.
    pub fn receive(&mut self) -> Result<Reply, Error> {
        loop {
            if let Some(reply) = self.replies.next()? {
                return Ok(reply);
            }
            let input = self.replies.room();
            let received = retry_on_intr(|| {
                recv(&self.socket, spare_capacity(&mut *input), RecvFlags::empty())
            });
            if received?.1 == 0 {
                return Err(Error::Closed);
            }
        }
    }
}

/// Appends a command as RESP's array of bulk strings.
pub fn encode_command(arguments: &[&[u8]], out: &mut Vec<u8>) {
    let mut number = itoa::Buffer::new();
    let mut header = |kind: u8, count: usize, out: &mut Vec<u8>| {
        out.push(kind);
        out.extend_from_slice(number.format(count).as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    header(b'*', arguments.len(), out);
    for argument in arguments {
        header(b'$', argument.len(), out);
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}
