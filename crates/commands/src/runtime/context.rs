//! What a handler is given.

use crate::{Attention, Client, Error, Server, Tally};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::{Database, Interning, Key, Wait};
use std::time::{Duration, Instant};

/// Everything that a handler may use, for the length of one request: `db` is made anew for each,
/// from `client.database`, which SELECT changes.
pub struct Context<'a> {
    /// The client's database, at the time of the batch.
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
    pub reply: Writer<'a>,
    /// The request, the same for every slice of its job.
    pub args: Args<'a>,
    /// The request's first key, hashed when the batch was prefetched.
    pub prefetched: Option<Key<'a>>,
    /// Set where the request is not over yet.
    pub suspension: Option<Suspension>,
}

/// How a request goes on that is not over, by a job of type `J`; the client's next one waits until
/// it is.
pub enum Suspension<J = Job> {
    /// With this job, in the next tick.
    Turn(J),
    /// The same, once there is room for more replies if there is not.
    Room(J),
    /// With this job in the next tick, whether or not the client is still there: something has
    /// been changed already.
    Committed(J),
    /// With this job, once the client's waker has been called. Nothing has been changed yet.
    Called(J),
    /// From the start, once the client's waker has been called. The place in the queue is to be
    /// kept until the request has run.
    Retry(Wait),
    /// From the start, once the client's waker has been called: all are held up.
    Held,
    /// From the start, once these long keys have been found, each of which is the argument at its
    /// place. The client's waker is called for each.
    Interning(Vec<(usize, Interning)>),
}

impl<J> Suspension<J> {
    /// How a job goes on that has answered with `flow`, if it does.
    pub(crate) fn of(flow: Flow, job: J) -> Option<Self> {
        match flow {
            Flow::More => Some(Suspension::Turn(job)),
            Flow::Room => Some(Suspension::Room(job)),
            Flow::Committed => Some(Suspension::Committed(job)),
            Flow::Wait => Some(Suspension::Called(job)),
            Flow::Done => None,
        }
    }

    /// The same with another job in place of the one that it has, if it has one.
    pub(crate) fn map<K>(self, change: impl FnOnce(J) -> K) -> Suspension<K> {
        match self {
            Suspension::Turn(job) => Suspension::Turn(change(job)),
            Suspension::Room(job) => Suspension::Room(change(job)),
            Suspension::Committed(job) => Suspension::Committed(change(job)),
            Suspension::Called(job) => Suspension::Called(change(job)),
            Suspension::Retry(wait) => Suspension::Retry(wait),
            Suspension::Held => Suspension::Held,
            Suspension::Interning(keys) => Suspension::Interning(keys),
        }
    }
}

/// Work that goes on over many ticks, a slice of at most a millisecond at each call; the client's
/// next request waits until it is done, other clients do not.
pub type Job = Box<dyn FnMut(&mut Context<'_>) -> Result<Flow, Error> + Send>;

/// The time that one call of a [`Job`] may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice(Instant);

impl Slice {
    /// Less than the millisecond that a job may take, since what runs between two looks at the
    /// clock takes time as well.
    const LENGTH: Duration = Duration::from_micros(500);

    /// One that begins now.
    pub(crate) fn begin() -> Self {
        Slice(Instant::now())
    }

    /// Whether it is time to let others go on.
    pub(crate) fn is_over(self) -> bool {
        self.0.elapsed() > Self::LENGTH
    }
}

/// Whether a [`Job`] is to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Call it again in the next tick.
    More,
    /// The same, once there is room for more replies if there is not. Who says so holds nothing
    /// that others wait for.
    Room,
    /// Call it again in the next tick even if the client has left, since something has been
    /// changed already.
    Committed,
    /// Call it again once the client's waker has been called.
    Wait,
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

    /// Does a slice of a job now, and leaves it in `self.suspension` if there is more to do.
    ///
    /// # Errors
    /// Those of the job, which is over then.
    pub fn start(&mut self, mut job: Job) -> Result<(), Error> {
        let flow = job(self)?;
        self.suspension = Suspension::of(flow, job);
        Ok(())
    }
}
