//! The interface to the served content: pages, commands, and access to them.

use crate::bell::Bell;
use hyper::body::Bytes;
use nagi_pipe::WorkerEnd;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The client whose requests a worker connection carries, for lists of clients.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The client's address, according to trusted proxies.
    pub address: SocketAddr,
    /// The User-Agent header, empty if there is none.
    pub agent: &'a [u8],
    /// Whether the client has a WebSocket.
    pub is_web_socket: bool,
}

/// A connection that awaits its next request, for lists of clients. No worker knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleConnection {
    /// Its number, from [`Site::next_connection_number`].
    pub number: u64,
    /// The peer's address.
    pub address: SocketAddr,
    /// The time since it was opened, in seconds.
    pub age_s: u32,
    /// The time since its last response, in seconds.
    pub idle_s: u32,
    /// Its requests so far.
    pub requests: u64,
}

/// The site's record of a worker connection's client.
pub trait WorkerClient: Send {
    /// Records that the connection now carries the requests of this client.
    fn serve(&self, requester: &Requester<'_>);
}

/// A request for a page that has passed all checks.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The path, undecoded, with its leading slash.
    pub path: &'a str,
    /// The query, undecoded; empty if there is none.
    pub query: &'a str,
    /// The Accept header; empty if there is none.
    pub accept: &'a str,
}

/// An answer; security headers for browsers are added to it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code, from 100 to 999.
    pub status: u16,
    /// The media type, with its character set.
    pub content_type: &'static str,
    /// The body, which several answers may share.
    pub body: Bytes,
}

impl Answer {
    /// A one-line message; the line feed is added.
    #[must_use]
    pub fn line(status: u16, line: &str) -> Self {
        let body = Bytes::from(format!("{line}\n"));
        Answer { status, content_type: "text/plain; charset=utf-8", body }
    }
}

/// The rule for a command over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The command only reads.
    Read,
    /// The command changes data.
    Write,
    /// The command's replies are messages without end.
    Stream,
    /// The command ends such messages.
    StreamEnd,
    /// The command is not allowed over HTTP, for this reason.
    Refused(&'static str),
    /// The command is unknown.
    Unknown,
}

/// Settings of commands over HTTP.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// Whether commands are served.
    pub is_on: bool,
    /// Whether GET may change data.
    pub writes_by_get: bool,
    /// Whether values may have media types that browsers execute.
    pub active_types: bool,
    /// Whether replies may be JSONP.
    pub jsonp: bool,
    /// Sites whose pages may send commands, separated by spaces, or `*`.
    pub origins: Arc<str>,
    /// The Cache-Control header of responses to GET.
    pub cache_control: Arc<str>,
    /// The longest argument, in bytes.
    pub longest_argument: usize,
}

/// Pages, commands, and access of clients to them. Users have names; an empty name is the default
/// user.
pub trait Site: Send + Sync + 'static {
    /// Called first on the HTTP thread.
    fn thread_starts(&self) {}

    /// Renders a page; `None` if there is no such page. Must not block.
    fn answer(&self, ask: Ask<'_>) -> Option<Answer>;

    /// Rings when the missing data of a page may be available; `None` if nothing is missing. The
    /// wait is limited to some seconds.
    fn awaited(&self, _: Ask<'_>) -> Option<&Bell> {
        None
    }

    /// Whether there is a page at this path.
    fn has_page(&self, path: &str) -> bool;

    /// Whether a path needs no password (health checks).
    fn is_open(&self, path: &str) -> bool;

    /// Whether a password is needed for everything else.
    fn has_password(&self) -> bool;

    /// Whether the user has this password, in constant time.
    fn is_login(&self, user: &[u8], password: &[u8]) -> bool;

    /// Records that a client has sent a wrong password for this user, empty for the default one.
    fn note_failed_login(&self, _user: &[u8], _client: &Requester<'_>) {}

    /// Whether a user may see pages.
    fn may_observe(&self, user: &[u8]) -> bool;

    /// Host names accepted besides the server's addresses, separated by spaces.
    fn hosts(&self) -> Arc<str>;

    /// Whether this is the address of a trusted proxy.
    fn is_trusted_proxy(&self, address: IpAddr) -> bool;

    /// The current settings of commands over HTTP.
    fn gateway(&self) -> GatewaySettings;

    /// The rule for a command from a client with this address.
    fn rule(&self, words: &[Bytes], address: IpAddr) -> Rule;

    /// Whether this is a command with subcommands.
    fn has_subcommands(&self, command: &[u8]) -> bool;

    /// Whether the command may block without limit.
    fn may_wait(&self, words: &[Bytes]) -> bool;

    /// Makes a worker serve a pipe as a RESP2 connection of this user, for requests of this client
    /// at first.
    ///
    /// # Errors
    /// There are too many connections.
    fn connect_worker(
        &self,
        user: &[u8],
        requester: &Requester<'_>,
        end: WorkerEnd,
    ) -> io::Result<Box<dyn WorkerClient>>;

    /// Counts a response with this status.
    fn count_response(&self, _status: u16, _is_page: bool) {}

    /// Counts a connection that was refused with this status.
    fn count_refusal(&self, _status: u16) {}

    /// Records how many connections there are, without WebSockets.
    fn note_connections(&self, _connections: usize) {}

    /// A number for a new connection, unique over the life of the process.
    fn next_connection_number(&self) -> u64 {
        0
    }

    /// Records which connections await a request, once a second.
    fn note_idle_connections(&self, _idle: Vec<IdleConnection>) {}

    /// Records how many WebSockets there are.
    fn note_web_sockets(&self, _web_sockets: usize) {}
}
