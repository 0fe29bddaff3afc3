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

/// Maximum number of bytes received at once.
const RECEIVE_BYTES: usize = 16 * 1024;

/// Parses replies to commands as their bytes arrive; independent of the socket.
#[derive(Debug)]
pub(crate) struct CommandReplies {
    parser: ReplyParser,
    /// Received bytes that are not parsed yet.
    input: Vec<u8>,
    /// Maximum length of a reply in bytes.
    pub(crate) limit_bytes: usize,
    /// Whether a command has no reply yet. If the command is cancelled, its reply would be taken
    /// for the reply to the next command.
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
    /// Records that a command is about to be sent. Fails if an earlier command has no reply.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        if self.is_waiting {
            return Err(Error::Closed);
        }
        self.is_waiting = true;
        Ok(())
    }

    /// Records that the reply to the command has arrived.
    pub(crate) fn end(&mut self) {
        self.is_waiting = false;
    }

    /// Returns the next reply; `None` if it is incomplete.
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

    /// Returns the buffer to receive into, with spare capacity.
    pub(crate) fn room(&mut self) -> &mut Vec<u8> {
        self.input.reserve(RECEIVE_BYTES);
        &mut self.input
    }
}

/// A blocking RESP client.
///
/// ```
/// # use std::io::Write;
/// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// # let address = nagi_client::Address::from(listener.local_addr()?);
/// let mut client = nagi_client::Client::connect(&address)?;
/// # let mut peer = listener.accept()?.0;
/// # peer.write_all(b":2\r\n")?;
/// assert_eq!(client.command(&[b"INCR", b"visits"])?, nagi_client::Reply::Integer(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    ///
    /// ```
    /// use nagi_client::{Address, Client};
    /// let address = Address::tcp("127.0.0.1", 1)?;
    /// assert!(Client::connect(&address).is_err(), "no server listens there");
    /// # Ok::<(), nagi_client::Error>(())
    /// ```
    pub fn connect(address: &Address) -> Result<Self, Error> {
        let (socket, replies) = (address.connect()?, CommandReplies::default());
        Ok(Client { socket, replies, request: Vec::new() })
    }

    /// Sets the maximum length of a reply in bytes, by default 513 MiB; a longer one is an error.
    ///
    /// ```
    /// # use std::io::Write;
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// # let address = nagi_client::Address::from(listener.local_addr()?);
    /// # let mut client = nagi_client::Client::connect(&address)?;
    /// # let mut peer = listener.accept()?.0;
    /// client.set_reply_limit(1000);
    /// # peer.write_all(b"$2000\r\n")?;
    /// # peer.write_all(&[b'x'; 2002])?;
    /// assert!(client.command(&[b"GET", b"key"]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_reply_limit(&mut self, bytes: usize) {
        self.replies.limit_bytes = bytes;
    }

    /// Makes sends and receives fail after `timeout` without progress; `None` means no limit.
    ///
    /// # Errors
    /// The timeout is zero.
    ///
    /// ```
    /// # use std::io::Write;
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// # let address = nagi_client::Address::from(listener.local_addr()?);
    /// # let mut client = nagi_client::Client::connect(&address)?;
    /// # let mut peer = listener.accept()?.0;
    /// client.set_timeout(Some(std::time::Duration::from_millis(1)))?;
    /// # peer.write_all(b"$2000\r\n")?;
    /// assert!(client.command(&[b"GET", b"key"]).is_err(), "only a part of the reply has come");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<(), Error> {
        set_socket_timeout(&self.socket, Timeout::Recv, timeout)?;
        Ok(set_socket_timeout(&self.socket, Timeout::Send, timeout)?)
    }

    /// Sends one command, beginning with its name, and waits for the reply. Errors of the server
    /// are returned as replies.
    ///
    /// # Errors
    /// The connection is broken, the server sends an invalid reply, or the reply to an earlier
    /// command that was cancelled may still arrive.
    ///
    /// ```
    /// # use std::io::Write;
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// # let address = nagi_client::Address::from(listener.local_addr()?);
    /// # let mut client = nagi_client::Client::connect(&address)?;
    /// # let mut peer = listener.accept()?.0;
    /// # peer.write_all(b"-ERR unknown command\r\n")?;
    /// let reply = client.command(&[b"NONSENSE"])?;
    /// assert_eq!(reply, nagi_client::Reply::Error("ERR unknown command".to_owned()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// Sends bytes without encoding them, such as several commands at once.
    ///
    /// # Errors
    /// The connection is broken.
    ///
    /// ```
    /// # use std::io::Write;
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// # let address = nagi_client::Address::from(listener.local_addr()?);
    /// # let mut client = nagi_client::Client::connect(&address)?;
    /// # let mut peer = listener.accept()?.0;
    /// # peer.write_all(b"+PONG\r\n+PONG\r\n")?;
    /// client.send(b"PING\r\nPING\r\n")?;
    /// assert_eq!(client.receive()?, client.receive()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    /// The connection is broken, or the server sends an invalid reply.
    ///
    /// ```
    /// # use std::io::Write;
    /// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// # let address = nagi_client::Address::from(listener.local_addr()?);
    /// # let mut client = nagi_client::Client::connect(&address)?;
    /// # let mut peer = listener.accept()?.0;
    /// # peer.write_all(b"*1\r\n:7\r\n")?;
    /// client.send(b"LRANGE list 0 0\r\n")?;
    /// let seven = nagi_client::Reply::Integer(7);
    /// assert_eq!(client.receive()?, nagi_client::Reply::Array(vec![seven]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

/// Appends a command, encoded as an array of bulk strings.
///
/// ```
/// let mut bytes = Vec::new();
/// nagi_client::encode_command(&[b"GET", b"key"], &mut bytes);
/// assert_eq!(bytes, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
/// ```
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
