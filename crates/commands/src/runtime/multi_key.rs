//! Requests with very many keys, or much to do with few: they claim them all, work for a slice
//! per tick, and give them back; whoever needs one of the keys meanwhile waits, and nobody else
//! notices.

use crate::runtime::dispatch;
use crate::runtime::suspension::Slice;
use crate::{Context, Error, JobProgress, Keys};
use nagi_proto::Args;
use nagi_store::{Claim, Claiming, Intent, Rope, Step};

/// Most keys that a request takes all latches for. More would hold everybody up for too long.
const LATCHED_KEYS: usize = 128;
/// Keys between two looks at the clock.
const STRIDE: usize = 16;

/// Whether a request has so many keys that it must claim them.
pub(crate) fn is_long(keys: Keys, args: Args<'_>) -> bool {
    args.len() > LATCHED_KEYS && keys.of(args).nth(LATCHED_KEYS).is_some()
}

/// The keys that a request claims, and what for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    keys: Keys,
    first: Intent,
    others: Intent,
}

impl Claimed {
    /// All of them, for what the request's row says.
    pub(crate) fn all(keys: Keys) -> Self {
        Claimed { keys, first: keys.intent(), others: keys.intent() }
    }

    /// All of them, to be read.
    pub(crate) fn to_read(keys: Keys) -> Self {
        Claimed { keys, first: Intent::Read, others: Intent::Read }
    }

    /// The first one to be changed, which the others are only read for.
    pub(crate) fn first_from_others(keys: Keys) -> Self {
        Claimed { keys, first: Intent::Write, others: Intent::Read }
    }
}

/// Claims all keys of the request, then shows them to `visit` one after the other with what it
/// has come to so far and their positions among the arguments; `finish` writes the reply.
///
/// # Errors
/// None: `visit` cannot fail.
pub(crate) fn each_key<S: Send + 'static>(
    cx: &mut Context<'_>,
    keys: Keys,
    mut state: S,
    mut visit: impl FnMut(&mut Context<'_>, usize, &mut S) + Send + 'static,
    mut finish: impl FnMut(&mut Context<'_>, &mut S) + Send + 'static,
) -> Result<(), Error> {
    let mut walk = Walk::new(keys);
    claimed(cx, Claimed::all(keys), move |cx, slice| {
        let words = cx.args.len();
        let done = walk.go_on(cx, words, |_| slice.is_over(), |cx, at| visit(cx, at, &mut state));
        if done {
            finish(cx, &mut state);
        }
        Ok(done)
    })
}

/// Claims keys of the request, and calls `work` slice by slice until it is done.
///
/// # Errors
/// Those of `work`'s first slice.
pub(crate) fn claimed(
    cx: &mut Context<'_>,
    claimed: Claimed,
    mut work: impl FnMut(&mut Context<'_>, Slice) -> Result<bool, Error> + Send + 'static,
) -> Result<(), Error> {
    let mut stage = Stage::Gathering(Walk::new(claimed.keys), cx.db.store().claiming());
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        loop {
            match stage.go_on(cx, claimed, slice, &mut work)? {
                Outcome::Next(next) => stage = next,
                Outcome::Pause(progress) => return Ok(progress),
            }
        }
    }))
}

/// How far a request has come.
enum Stage {
    /// Its keys are being hashed.
    Gathering(Walk, Claiming),
    /// They are being claimed.
    Claiming(Claiming),
    /// They are its own.
    Working(Claim),
    /// It has replied and gives them back.
    Releasing(Claim),
}

enum Outcome {
    Next(Stage),
    Pause(JobProgress),
}

impl Stage {
    /// Goes on until the slice is over or the next stage is reached.
    fn go_on(
        &mut self,
        cx: &mut Context<'_>,
        claimed: Claimed,
        slice: Slice,
        work: &mut impl FnMut(&mut Context<'_>, Slice) -> Result<bool, Error>,
    ) -> Result<Outcome, Error> {
        // A writer that has begun is to come to its end.
        let more = match claimed.first {
            Intent::Read => JobProgress::NEXT_TICK,
            Intent::Write => JobProgress::COMMITTED,
        };
        Ok(match self {
            Stage::Gathering(walk, claiming) => {
                let words = cx.args.len();
                let done = walk.go_on(
                    cx,
                    words,
                    |_| slice.is_over(),
                    |cx, position| {
                        let is_first = usize::try_from(claimed.keys.first) == Ok(position);
                        let intent = if is_first { claimed.first } else { claimed.others };
                        claiming.add(cx.db.key(cx.args.at(position)), intent);
                    },
                );
                let nothing = cx.db.store().claiming();
                match done {
                    true => Outcome::Next(Stage::Claiming(std::mem::replace(claiming, nothing))),
                    false => Outcome::Pause(JobProgress::NEXT_TICK),
                }
            }
            Stage::Claiming(claiming) => {
                match cx.db.take_claims(claiming, &cx.client.waker, || slice.is_over()) {
                    Step::More => Outcome::Pause(JobProgress::NEXT_TICK),
                    Step::Wait => Outcome::Pause(JobProgress::WOKEN),
                    Step::Held(claim) => Outcome::Next(Stage::Working(claim)),
                }
            }
            Stage::Working(claim) => {
                if claimed.first == Intent::Write && cx.db.store().is_over_limit() {
                    // It was let in when it began, and goes on even if nothing can be evicted.
                    let _ = dispatch::make_room(cx);
                }
                if !work(cx, slice)? {
                    return Ok(Outcome::Pause(more));
                }
                Outcome::Next(Stage::Releasing(claim.hand_over()))
            }
            Stage::Releasing(claim) => match claim.release(|| slice.is_over()) {
                true => Outcome::Pause(JobProgress::Done),
                false => Outcome::Pause(more),
            },
        })
    }
}

/// A walk over the positions of a request's keys.
#[derive(Clone)]
pub(crate) struct Walk {
    keys: Keys,
    /// How many keys have been visited.
    visited: usize,
}

impl Walk {
    pub(crate) fn new(keys: Keys) -> Self {
        Walk { keys, visited: 0 }
    }

    /// Visits keys of a request of so many words until `is_over` says that the slice is; whether
    /// all have been.
    pub(crate) fn go_on<C>(
        &mut self,
        cx: &mut C,
        words: usize,
        mut is_over: impl FnMut(&C) -> bool,
        mut visit: impl FnMut(&mut C, usize),
    ) -> bool {
        for position in self.keys.positions(words).skip(self.visited) {
            visit(cx, position);
            self.visited += 1;
            if self.visited.is_multiple_of(STRIDE) && is_over(cx) {
                return false;
            }
        }
        true
    }
}

/// The strings under keys that are claimed, long ones shared; read a few at a time.
pub(crate) struct Strings {
    walk: Walk,
    read: Vec<Option<Rope>>,
}

impl Strings {
    pub(crate) fn new(keys: Keys) -> Self {
        Strings { walk: Walk::new(keys), read: Vec::new() }
    }

    /// Goes on until the slice is over; the strings in the order of their keys, once all are read.
    pub(crate) fn go_on(
        &mut self,
        cx: &mut Context<'_>,
        slice: Slice,
    ) -> Option<Vec<Option<Rope>>> {
        let (read, words) = (&mut self.read, cx.args.len());
        let done = self.walk.go_on(
            cx,
            words,
            |_| slice.is_over(),
            |cx, position| {
                read.append(&mut cx.db.strings(&[cx.key(cx.args.at(position))]));
            },
        );
        done.then(|| std::mem::take(read))
    }
}
