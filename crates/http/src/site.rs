//! The interface to what is served: pages, commands, and access to them.

use crate::bell::Bell;
use hyper::body::Bytes;
use nagi_pipe::WorkerEnd;
use parking_lot::Mutex;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Where the client is whose request has a connection to a worker, or had it last.
pub type HttpClient = Arc<Mutex<SocketAddr>>;

/// A request for a page that has passed all checks.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The path, undecoded, with its leading slash.
    pub path: &'a str,
    /// What stands after the question mark, undecoded; nothing if there is none.
    pub query: &'a str,
    /// The Accept header; nothing if there is none.
    pub accept: &'a str,
}

/// An answer; the headers that keep browsers safe are added to it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code, from 100 to 999.
    pub status: u16,
    /// The media type, with its character set.
    pub content_type: &'static str,
    /// The body, which answers may share.
    pub body: Bytes,
}

impl Answer {
    /// One line for people, which the line feed is added to.
    #[must_use]
    pub fn line(status: u16, line: &str) -> Self {
        let body = Bytes::from(format!("{line}\n"));
        Answer { status, content_type: "text/plain; charset=utf-8", body }
    }
}

/// What may be done with a command over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It only reads.
    Read,
    /// It changes something.
    Write,
    /// Its replies are messages without end.
    Stream,
    /// It may not come over HTTP, for this reason.
    Refused(&'static str),
    /// There is no such command.
    Unknown,
}

/// How commands are taken.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// Whether they are taken at all.
    pub is_on: bool,
    /// Whether GET may change something.
    pub writes_by_get: bool,
    /// Whether values may have media types that browsers run.
    pub active_types: bool,
    /// Whether a reply may be a call of a function.
    pub jsonp: bool,
    /// Sites whose pages may ask, separated by spaces, or `*`.
    pub origins: Arc<str>,
    /// The Cache-Control header of what GET reads.
    pub cache_control: Arc<str>,
    /// The longest argument, in bytes.
    pub longest_argument: usize,
}

/// Pages, commands, and which clients may have them. Users are named; an empty name stands for the
/// default one.
pub trait Site: Send + Sync + 'static {
    /// Called first on the thread that makes the answers.
    fn thread_starts(&self) {}

    /// The page that is asked for; none if there is no such page. It must not wait for anything.
    fn answer(&self, ask: Ask<'_>) -> Option<Answer>;

    /// What rings when a page that is asked for may have what it lacks now; none if it lacks
    /// nothing. It is waited for no longer than for some seconds.
    fn awaited(&self, _: Ask<'_>) -> Option<&Bell> {
        None
    }

    /// Whether there is a page at this path.
    fn has_page(&self, path: &str) -> bool;

    /// Whether a path tells so little that it needs no password.
    fn is_open(&self, path: &str) -> bool;

    /// Whether a password is needed for everything else.
    fn has_password(&self) -> bool;

    /// Whether there is such a user with such a password. It takes the same time whatever part of
    /// a password is right.
    fn is_login(&self, user: &[u8], password: &[u8]) -> bool;

    /// Whether a user may see pages.
    fn may_observe(&self, user: &[u8]) -> bool;

    /// Names by which the server may be called beside its addresses, separated by spaces.
    fn hosts(&self) -> Arc<str>;

    /// Whether this is the address of a proxy that is believed where requests come from.
    fn is_trusted_proxy(&self, address: IpAddr) -> bool;

    /// How commands are taken now.
    fn gateway(&self) -> GatewaySettings;

    /// What a client of this address may do with the command that begins with these words.
    fn rule(&self, words: &[Bytes], address: IpAddr) -> Rule;

    /// Whether the command of these words may wait for ever for something.
    fn may_wait(&self, words: &[Bytes]) -> bool;

    /// Makes a worker serve a pipe as a connection in RESP2 of this user, which `client` makes
    /// requests on.
    ///
    /// # Errors
    /// There are too many connections.
    fn connect_worker(&self, user: &[u8], client: &HttpClient, end: WorkerEnd) -> io::Result<()>;
}
