//! Requests that are not complete when their handler returns: when and how they continue.

use nagi_store::{Interning, Wait};
use std::time::{Duration, Instant};

/// The number of requests of one connection after which its worker turns to the next connection.
pub const SLICE_REQUESTS: usize = 1024;

/// When a suspended request continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In the worker's next tick.
    NextTick,
    /// In the next tick, but only once there is room for more replies. A request that waits for
    /// room holds nothing that other clients wait for.
    RoomForReplies,
    /// When its client's waker has been called.
    Woken,
    /// Like `Woken`, but the wait may be very long: the request is abandoned if its client
    /// disconnects before.
    Served,
}

impl When {
    /// Whether the request waits for its client's waker.
    #[must_use]
    pub fn waits(self) -> bool {
        matches!(self, When::Woken | When::Served)
    }
}

/// The result of one slice of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobProgress {
    /// The reply has been written.
    Done,
    /// The job has to be called again.
    Pending {
        /// When to call it again.
        when: When,
        /// Whether data has been changed, so that it must be called even if its client has
        /// disconnected.
        is_committed: bool,
    },
}

impl JobProgress {
    /// No data has been changed yet, and there is more to do.
    pub const NEXT_TICK: JobProgress =
        JobProgress::Pending { when: When::NextTick, is_committed: false };
    /// No data has been changed yet, and there is more to do. Many replies must be read by the
    /// client before the job continues.
    pub const ROOM_FOR_REPLIES: JobProgress =
        JobProgress::Pending { when: When::RoomForReplies, is_committed: false };
    /// No data has been changed yet; the client's waker will be called.
    pub const WOKEN: JobProgress = JobProgress::Pending { when: When::Woken, is_committed: false };
    /// No data has been changed yet; the client's waker will be called, but perhaps after a very
    /// long time.
    pub const SERVED: JobProgress =
        JobProgress::Pending { when: When::Served, is_committed: false };
    /// The client's waker will be called, and the job must then continue even without its client.
    pub const COMMITTED_WOKEN: JobProgress =
        JobProgress::Pending { when: When::Woken, is_committed: true };
    /// Data has been changed, and there is more to do.
    pub const COMMITTED: JobProgress =
        JobProgress::Pending { when: When::NextTick, is_committed: true };
}

/// An incomplete request, with a job of type `J`. The client's next request waits until it is
/// complete.
pub struct Suspension<J> {
    /// When it continues.
    pub when: When,
    /// Whether it has changed data, and must be completed even if its client disconnects.
    pub is_committed: bool,
    pub(crate) what: Remainder<J>,
}

/// The rest of a request.
pub(crate) enum Remainder<J> {
    /// Call the job again.
    Job(J),
    /// Run the request from the start. The place in a queue, if any, is kept until the request has
    /// run.
    Restart(Option<Wait>),
    /// Run the request from the start when these long keys have been found, each at its index among
    /// the arguments. The client's waker is called for each key.
    LongKeys(Vec<(usize, Interning)>),
}

impl<J> Suspension<J> {
    /// A job that begins in the next tick.
    #[must_use]
    pub fn job(job: J) -> Self {
        Suspension { when: When::NextTick, is_committed: false, what: Remainder::Job(job) }
    }

    /// The suspension after a slice of a job; `None` if the job is done.
    pub(crate) fn after(progress: JobProgress, job: J) -> Option<Self> {
        match progress {
            JobProgress::Done => None,
            JobProgress::Pending { when, is_committed } => {
                Some(Suspension { when, is_committed, what: Remainder::Job(job) })
            }
        }
    }

    /// A request that has not changed data and runs from the start once its client's waker has been
    /// called, with its place in a queue.
    #[must_use]
    pub fn restart(place: Option<Wait>) -> Self {
        Suspension::woken(Remainder::Restart(place))
    }

    /// A request that has changed nothing and runs from the start in the next tick.
    pub(crate) fn again() -> Self {
        let what = Remainder::Restart(None);
        Suspension { when: When::NextTick, is_committed: false, what }
    }

    /// A request that runs from the start once these long arguments have been looked up.
    pub(crate) fn long_keys(keys: Vec<(usize, Interning)>) -> Self {
        Suspension::woken(Remainder::LongKeys(keys))
    }

    fn woken(what: Remainder<J>) -> Self {
        Suspension { when: When::Woken, is_committed: false, what }
    }

    /// Whether no part of the request has run yet.
    pub(crate) fn is_restart(&self) -> bool {
        !matches!(self.what, Remainder::Job(_))
    }

    /// The same suspension with its job, if any, replaced.
    pub(crate) fn map_job(self, change: impl FnOnce(J) -> J) -> Self {
        let what = match self.what {
            Remainder::Job(job) => Remainder::Job(change(job)),
            what => what,
        };
        Suspension { what, ..self }
    }
}

/// The time limit of one call of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice(Instant);

impl Slice {
    /// Less than the millisecond that a job may take, since the work between two checks of the
    /// clock takes time too. A loom model has no time.
    const LENGTH: Duration = if cfg!(loom) { Duration::MAX } else { Duration::from_micros(250) };

    /// A slice that begins now.
    pub(crate) fn begin() -> Self {
        Slice(Instant::now())
    }

    /// Whether the slice has ended and other requests should run.
    pub(crate) fn is_over(self) -> bool {
        self.0.elapsed() > Self::LENGTH
    }
}
