//! What is served: pages, and which clients may see them.

use hyper::body::Bytes;
use std::sync::Arc;

/// A request that has passed all checks.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The path, undecoded, with its leading slash.
    pub path: &'a str,
    /// What stands behind the question mark, undecoded; nothing if there is none.
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

/// Pages, and which clients may see them.
pub trait Site: Send + Sync + 'static {
    /// Called first on the thread that makes the answers.
    fn thread_starts(&self) {}

    /// The page that is asked for; none if there is no such page. It must not wait for anything.
    fn answer(&self, ask: Ask<'_>) -> Option<Answer>;

    /// Whether a path tells so little that it needs no password.
    fn is_open(&self, path: &str) -> bool;

    /// Whether a password is needed for everything else.
    fn has_password(&self) -> bool;

    /// Whether there is such a user with such a password; an empty user is the default one. It
    /// takes the same time whatever part of a password is right.
    fn is_login(&self, user: &[u8], password: &[u8]) -> bool;

    /// Names by which the server may be called beside its addresses, separated by spaces.
    fn hosts(&self) -> Arc<str>;
}
