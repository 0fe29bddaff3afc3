//! What a handler is given.

use crate::{Client, Error, Server};
use nagi_proto::resp::Writer;
use nagi_store::{Database, Key};

/// Everything that a handler may use, for the length of one request.
pub struct Context<'a> {
    /// The client's database, at the time of the batch.
    pub db: Database<'a>,
    /// The client that sent the request.
    pub client: &'a mut Client,
    /// The process around it.
    pub server: &'a dyn Server,
    /// Where the reply goes.
    pub reply: Writer<'a>,
    /// The request's first key, hashed when the batch was prefetched.
    pub prefetched: Option<Key<'a>>,
    /// Set by a handler whose work goes on over several ticks.
    pub job: Option<Job>,
}

/// Work that goes on over many ticks, a slice of at most a millisecond at each call; the client's
/// next request waits until it is done, other clients do not.
pub type Job = Box<dyn FnMut(&mut Context<'_>) -> Result<Flow, Error> + Send>;

/// Whether a [`Job`] is to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Call it again in the next tick.
    More,
    /// The reply has been written.
    Done,
}

impl<'a> Context<'a> {
    /// Hashes a key, unless the batch has done so already.
    #[inline]
    pub fn key(&self, bytes: &'a [u8]) -> Key<'a> {
        match self.prefetched {
            Some(key) if std::ptr::eq(key.bytes(), bytes) => key,
            _ => self.db.key(bytes),
        }
    }
}
