//! Requests that block until a key can serve them (BLPOP), and requests that change keys on which
//! clients are blocked.

#[cfg(all(test, loom))]
mod model;

use crate::runtime::context::{Command, Entry, Job};
use crate::runtime::multi_key::{self, Claimed, Worked};
use crate::runtime::resume::go_on;
use crate::runtime::rights;
use crate::runtime::service::take_for;
use crate::runtime::suspension::Remainder;
use crate::runtime::tracking;
use crate::state::blocked::{Name, NewWaiter, Outcome, Permission, Step, Taken, Waiting, Wanted};
use crate::state::hooks::Alarm;
use crate::{Context, Error, Flags, HookFlags, JobProgress, Marks, Suspension, When};
use nagi_proto::resp::Writer;
use nagi_store::types::collection::Limits;
use nagi_store::{Database, Kind};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

const UNBLOCKED: Error = Error::fixed("UNBLOCKED client unblocked via CLIENT UNBLOCK");

/// A blocking request.
pub(crate) struct Blocking {
    /// The keys that it waits for.
    pub(crate) keys: Box<[Name]>,
    /// What it waits for.
    pub(crate) wanted: Box<dyn Wanted>,
    /// The end of the wait, in milliseconds since 1970; `None` for an unlimited wait.
    pub(crate) until_ms: Option<u64>,
    /// Whether it waits if it cannot be served at once.
    pub(crate) may_wait: bool,
    /// Writes the reply of a request that cannot be served and may not wait.
    pub(crate) nothing: fn(&mut Writer<'_>),
    /// Writes the reply of a served request.
    pub(crate) reply: Reply,
}

/// Replies with the result of a request, and returns the rest of the reply if it is long.
pub(crate) type Reply = fn(&mut Context<'_>, Taken) -> Result<Option<Job>, Error>;

/// Serves a request at once if one of its keys can serve it, and otherwise once one can.
///
/// # Errors
/// A value is of another type.
pub(crate) fn wait(
    cx: &mut Context<'_>,
    command: &'static Command,
    blocking: Blocking,
) -> Result<(), Error> {
    let blocked = &cx.hooks.blocked;
    let is_awaited = |name: &Name| blocked.may_concern(name);
    let is_short = !multi_key::is_long(&command.keys, cx.args);
    let mut steps = blocking.wanted.steps();
    let may_take = is_short && !blocking.wanted.destination().is_some_and(is_awaited);
    if steps.is_none() && (may_take || cx.db.is_claimed()) {
        let limits = cx.server.config().collection_limits();
        match blocking.wanted.take(cx.db, &limits, &|_| true) {
            Some(taken) => return reply(cx, blocking.reply, taken),
            // Within a transaction, requests do not wait.
            None if cx.db.is_claimed() || !blocking.may_wait => {
                (blocking.nothing)(&mut cx.reply);
                return Ok(());
            }
            None => {}
        }
    }
    let tracks = tracking::is_remembered(command, cx);
    let may_wait = blocking.may_wait && !cx.db.is_claimed();
    let mut blocking = Some(blocking);
    multi_key::claimed_then(cx, Claimed::all(&command.keys), move |cx, slice| {
        let mut taken = None;
        if let Some(steps) = &mut steps {
            match take_for(slice, cx.db, &mut **steps, &|_| true) {
                Step::Unfinished => return Ok(Worked::Unfinished),
                Step::Complete(all) => taken = all,
            }
        }
        let Some(blocking) = blocking.take() else {
            return Ok(Worked::Done);
        };
        let Blocking { keys, wanted, until_ms, nothing, reply, .. } = blocking;
        if steps.is_none() {
            let limits = cx.server.config().collection_limits();
            taken = wanted.take(cx.db, &limits, &|_| true);
        }
        if let Some(taken) = taken {
            return Ok(Worked::Then(later(reply, taken)));
        }
        if !may_wait {
            nothing(&mut cx.reply);
            return Ok(Worked::Done);
        }
        let new = NewWaiter {
            client: Arc::clone(&cx.client.info),
            database: cx.db.index(),
            keys,
            wanted,
            permission: rights::permission(cx),
            tracks,
            needs_memory: command.flags.contains(Flags::DENYOOM),
            waker: cx.client.waker.clone(),
        };
        Ok(Worked::Then(block(cx, new, until_ms, (reply, |reply| reply.null_array()))))
    })
}

/// Makes a request that can never be served (WAIT) wait until its time-out, or until CLIENT UNBLOCK
/// ends the wait. `nothing` then replies; within a transaction or a script, it replies at once.
///
/// # Errors
/// CLIENT UNBLOCK has ended the wait with an error.
pub(crate) fn pass_time(
    cx: &mut Context<'_>,
    until_ms: Option<u64>,
    nothing: fn(&mut Writer<'_>),
) -> Result<(), Error> {
    if cx.client.is_executing {
        nothing(&mut cx.reply);
        return Ok(());
    }
    let new = NewWaiter {
        client: Arc::clone(&cx.client.info),
        database: cx.db.index(),
        keys: Box::default(),
        wanted: Box::new(Time),
        permission: Permission::new(|_| true),
        tracks: false,
        needs_memory: false,
        waker: cx.client.waker.clone(),
    };
    let never_given: Reply = |_, _| Ok(None);
    let waits = block(cx, new, until_ms, (never_given, nothing));
    cx.start(waits)
}

/// The condition of a request that only waits for its time-out.
#[derive(Debug)]
struct Time;

impl Wanted for Time {
    fn kind(&self) -> Kind {
        Kind::String
    }

    fn destination(&self) -> Option<&Name> {
        None
    }

    fn take(&self, _: Database<'_>, _: &Limits, _: &dyn Fn(&[u8]) -> bool) -> Option<Taken> {
        None
    }
}

/// Blocks a client. The job replies with the result, or with `nothing` after a time-out.
fn block(
    cx: &Context<'_>,
    new: NewWaiter,
    until_ms: Option<u64>,
    replies: (Reply, fn(&mut Writer<'_>)),
) -> Job {
    let alarm = until_ms.map(|at_ms| alarm(cx, at_ms));
    cx.client.info.mark(Marks::WAITING, true);
    let waiting = cx.hooks.block(new, cx.db.store());
    // CLIENT KILL marks a client before it removes it from the queues.
    fence(Ordering::SeqCst);
    if cx.client.info.marks().intersects(Marks::KILLED | Marks::EVICTED) {
        waiting.leave();
    }
    waits(waiting, alarm, replies)
}

/// Calls the client's waker at the time `at_ms`.
pub(crate) fn alarm(cx: &Context<'_>, at_ms: u64) -> Alarm {
    let (alarm, is_first) = cx.hooks.alarm(at_ms, &cx.client.waker);
    if is_first {
        cx.server.check_timers();
    }
    alarm
}

/// A job that waits until the client is served or its wait ends, and then replies.
fn waits(
    waiting: Waiting,
    alarm: Option<Alarm>,
    (reply, nothing): (Reply, fn(&mut Writer<'_>)),
) -> Job {
    let mut waiting = Some((waiting, alarm));
    let mut rest: Option<Job> = None;
    Box::new(move |cx| {
        if let Some((waits, alarm)) = &waiting {
            let is_time_up = alarm.as_ref().is_some_and(Alarm::was_made);
            let outcome = waits.outcome(is_time_up);
            let is_waiting = match outcome {
                Outcome::Waiting => !is_time_up,
                Outcome::Serving => true,
                _ => false,
            };
            if is_waiting {
                return Ok(JobProgress::SERVED);
            }
            waiting = None;
            cx.client.info.mark(Marks::WAITING, false);
            match outcome {
                Outcome::Served(taken) => rest = reply(cx, taken)?,
                Outcome::Unblocked { with_error: true } => return Err(UNBLOCKED),
                Outcome::Refused => return Err(rights::refusal(cx)),
                Outcome::OutOfMemory => return Err(Error::OUT_OF_MEMORY),
                Outcome::Unblocked { .. } | Outcome::Waiting | Outcome::Serving | Outcome::Over => {
                    nothing(&mut cx.reply);
                }
            }
        }
        rest.as_mut().map_or(Ok(JobProgress::Done), |rest| rest(cx))
    })
}

fn reply(cx: &mut Context<'_>, reply: Reply, taken: Taken) -> Result<(), Error> {
    match reply(cx, taken)? {
        Some(rest) => cx.start(rest),
        None => Ok(()),
    }
}

/// A job that replies with a result.
fn later(reply: Reply, taken: Taken) -> Job {
    let (mut taken, mut rest): (_, Option<Job>) = (Some(taken), None);
    Box::new(move |cx| {
        if let Some(taken) = taken.take() {
            rest = reply(cx, taken)?;
        }
        rest.as_mut().map_or(Ok(JobProgress::Done), |rest| rest(cx))
    })
}

/// Whether a request may change keys on which clients are blocked. The caller must have checked for
/// claims before, since a client is entered into the queues while it holds a claim on the keys.
#[cold]
pub(crate) fn is_awaited(entry: &Entry, cx: &Context<'_>) -> bool {
    let blocked = &cx.hooks.blocked;
    if blocked.is_empty() {
        cx.hooks.end_blocking(cx.db.store());
        return false;
    }
    let Command { flags, keys, .. } = entry.command;
    // The script thread claims the keys itself, and serves their clients.
    let serves_itself = Flags::BLOCKING.union(Flags::RUNS_SCRIPTS);
    if !flags.contains(Flags::WRITE) || flags.intersects(serves_itself) || cx.db.is_claimed() {
        return false;
    }
    // Checking very many keys would take long; they are checked once they are claimed.
    keys.is_whole()
        || multi_key::is_long(keys, cx.args)
        || keys.of(cx.args).any(|name| blocked.may_concern(name))
}

/// Runs a request that may change keys on which clients are blocked. Its keys are claimed
/// meanwhile, so that these clients are served before other clients see the elements.
///
/// # Errors
/// Those of its handler.
#[cold]
pub(crate) fn run(entry: &'static Entry, cx: &mut Context<'_>) -> Result<(), Error> {
    let (mut begun, mut suspended): (bool, Option<Suspension>) = (false, None);
    multi_key::claimed_then(cx, Claimed::all(&entry.command.keys), move |cx, _| {
        match suspended.take() {
            Some(suspended) => go_on(cx, suspended),
            None if !std::mem::replace(&mut begun, true) => (entry.command.run)(cx, cx.args)?,
            None => {}
        }
        Ok(match cx.suspension.take() {
            None => Worked::Done,
            // The request has been executed; the rest of its reply is written once the keys are
            // released.
            Some(Suspension {
                when: When::RoomForReplies,
                is_committed: false,
                what: Remainder::Job(job),
            }) => Worked::Then(job),
            Some(more) => {
                suspended = Some(more);
                Worked::Unfinished
            }
        })
    })
}

/// Whether any client is blocked on keys; for callers that have checked for claims.
#[inline]
pub(crate) fn has_waiting(cx: &Context<'_>) -> bool {
    cx.hooks.reasons().contains(HookFlags::AWAITED)
}
