//! Requests that are not over when their handler returns: when they go on, and with what.

use crate::runtime::context::{CommandSet, Context, Redis};
use crate::runtime::gate;
use nagi_store::{Interning, Rope, Wait};
use std::time::{Duration, Instant};

/// When a suspended request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In the worker's next tick.
    NextTick,
    /// The same, once there is room for more replies if there is not. A request that waits for
    /// room holds nothing that other clients wait for.
    RoomForReplies,
    /// Once its client's waker has been called.
    Woken,
}

/// What a [`Job`] answers after each slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobProgress {
    /// The reply has been written.
    Done,
    /// The job is to be called again.
    Pending {
        /// When.
        when: When,
        /// Whether something has been changed, so that it is called even if its client has left.
        is_committed: bool,
    },
}

impl JobProgress {
    /// Nothing has been changed yet, and there is more to do.
    pub const NEXT_TICK: JobProgress =
        JobProgress::Pending { when: When::NextTick, is_committed: false };
    /// The same, with replies that its client has to read first if they are many.
    pub const ROOM_FOR_REPLIES: JobProgress =
        JobProgress::Pending { when: When::RoomForReplies, is_committed: false };
    /// Nothing has been changed yet, and something calls the client's waker.
    pub const WOKEN: JobProgress = JobProgress::Pending { when: When::Woken, is_committed: false };
    /// Something has been changed, and there is more to do.
    pub const COMMITTED: JobProgress =
        JobProgress::Pending { when: When::NextTick, is_committed: true };
}

/// Work that goes on over many ticks, a slice of at most a millisecond at each call; the client's
/// next request waits until it is done, other clients do not.
pub type Job<C = Redis> =
    Box<dyn FnMut(&mut Context<'_, C>) -> Result<JobProgress, <C as CommandSet>::Error> + Send>;

/// A request that is not over. Its client's next one waits until it is.
pub struct Suspension<C: CommandSet = Redis> {
    /// When it goes on.
    pub when: When,
    /// Whether it has changed something, and must come to its end even without its client.
    pub is_committed: bool,
    what: Remainder<C>,
}

/// What is left to do of a request.
enum Remainder<C: CommandSet> {
    /// To call the job again.
    Job(Job<C>),
    /// To run it from the start. The place in a queue, if it has one, is kept until it has run.
    Restart(Option<Wait>),
    /// To run it from the start when these long keys have been found, each of which is the
    /// argument at its place. The client's waker is called for each.
    LongKeys(Vec<(usize, Interning)>),
}

impl<C: CommandSet> Suspension<C> {
    /// A job that begins in the next tick.
    #[must_use]
    pub fn job(job: Job<C>) -> Self {
        Suspension { when: When::NextTick, is_committed: false, what: Remainder::Job(job) }
    }

    /// A job after a slice; none if it is done.
    pub(crate) fn after(progress: JobProgress, job: Job<C>) -> Option<Self> {
        match progress {
            JobProgress::Done => None,
            JobProgress::Pending { when, is_committed } => {
                Some(Suspension { when, is_committed, what: Remainder::Job(job) })
            }
        }
    }

    /// A request that has changed nothing and runs from the start once its client's waker has been
    /// called, with its place in a queue.
    #[must_use]
    pub fn restart(place: Option<Wait>) -> Self {
        Suspension::woken(Remainder::Restart(place))
    }

    /// A request that runs from the start once these long arguments have been looked up.
    pub(crate) fn long_keys(keys: Vec<(usize, Interning)>) -> Self {
        Suspension::woken(Remainder::LongKeys(keys))
    }

    fn woken(what: Remainder<C>) -> Self {
        Suspension { when: When::Woken, is_committed: false, what }
    }

    /// Whether nothing of the request has run yet.
    pub(crate) fn is_restart(&self) -> bool {
        !matches!(self.what, Remainder::Job(_))
    }

    /// The same with another job in place of the one that it has, if it has one.
    pub(crate) fn map_job(self, change: impl FnOnce(Job<C>) -> Job<C>) -> Self {
        let what = match self.what {
            Remainder::Job(job) => Remainder::Job(change(job)),
            what => what,
        };
        Suspension { what, ..self }
    }

    /// Goes on for one slice. If `cx.suspension` is set afterwards, there is more to do.
    pub fn go_on(self, cx: &mut Context<'_, C>) {
        match self.what {
            Remainder::Job(job) => {
                if let Err(error) = cx.start(job) {
                    C::refuse(cx, &error);
                }
            }
            // The place in the queue is kept meanwhile.
            Remainder::Restart(_place) => {
                gate::end_hold(cx);
                C::execute(cx);
            }
            Remainder::LongKeys(keys) => restart_with(cx, keys),
        }
    }
}

/// Runs a request from the start if its long keys have been found.
#[cold]
fn restart_with<C: CommandSet>(cx: &mut Context<'_, C>, keys: Vec<(usize, Interning)>) {
    if keys.iter().any(|(_, key)| key.found().is_none()) {
        cx.suspension = Some(Suspension::long_keys(keys));
        return;
    }
    for (place, key) in keys {
        if let Some((argument, found)) = cx.args.landed(place).zip(key.found()) {
            // As a rope, what is large is freed by the reclaimer.
            drop(Rope::from_chunks(argument.join_as(found)));
        }
    }
    C::execute(cx);
}

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

    /// Whether it is time to let other requests go on.
    pub(crate) fn is_over(self) -> bool {
        self.0.elapsed() > Self::LENGTH
    }
}
