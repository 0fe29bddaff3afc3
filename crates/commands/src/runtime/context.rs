//! What a handler is given, of whichever protocol.

use crate::runtime::suspension::{Job, Suspension};
use crate::{Attention, Client, Server, Tally};
use nagi_proto::Args;
use nagi_store::{Database, Key};

/// A set of commands with the form of its replies: [`Redis`]' commands, or
/// [`Memcached`](crate::memcached::Memcached)'s verbs.
pub trait CommandSet: Sized + 'static {
    /// Writes the replies.
    type Writer<'a>;
    /// Why a handler gives up.
    type Error;

    /// Runs the request from lookup to reply. If `cx.suspension` is set afterwards, it is not over.
    fn execute(cx: &mut Context<'_, Self>);

    /// Answers with an error.
    fn refuse(cx: &mut Context<'_, Self>, error: &Self::Error);
}

/// The commands of Redis, answered in RESP.
#[derive(Debug)]
pub enum Redis {}

/// Everything that a handler may use, for the length of one request: `db` is made anew for each,
/// from `client.database`, which SELECT changes.
pub struct Context<'a, C: CommandSet = Redis> {
    /// The client's database, at the time of the batch; database 0 for memcached's verbs.
    pub db: Database<'a>,
    /// The client that sent the request.
    pub client: &'a mut Client,
    /// The process around it.
    pub server: &'a dyn Server,
    /// Why requests are looked at more closely.
    pub attention: &'a Attention,
    /// What this worker counts.
    pub tally: &'a Tally,
    /// Where the reply goes.
    pub reply: C::Writer<'a>,
    /// The request, the same for every slice of its job; none in memcached's binary protocol.
    pub args: Args<'a>,
    /// The request's first key, hashed when the batch was prefetched.
    pub prefetched: Option<Key<'a>>,
    /// Set where the request is not over yet.
    pub suspension: Option<Suspension<C>>,
}

impl<'a, C: CommandSet> Context<'a, C> {
    /// Hashes a key, unless the batch has done so already.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k>
    where
        'a: 'k,
    {
        match self.prefetched {
            Some(key) if std::ptr::eq(key.bytes(), bytes) => key,
            _ => self.db.key(bytes),
        }
    }

    /// Does a slice of a job now, and leaves it in `self.suspension` if there is more to do.
    ///
    /// # Errors
    /// Those of the job, which is over then.
    pub fn start(&mut self, mut job: Job<C>) -> Result<(), C::Error> {
        let progress = job(self)?;
        self.suspension = Suspension::after(progress, job);
        Ok(())
    }
}
