//! Requests with very many keys: they claim them all, see to a slice of them per tick, and give
//! them back; whoever needs one of the keys meanwhile waits, and nobody else notices.

use crate::context::Slice;
use crate::{Context, Error, Flow, Keys, dispatch};
use nagi_proto::Args;
use nagi_store::{Claim, Claiming, Intent, Step};

/// Most keys that a request takes all latches for. More would hold everybody up for too long.
const LATCHED_KEYS: usize = 128;
/// Keys between two looks at the clock.
const STRIDE: usize = 16;

/// Whether a request has so many keys that it must claim them.
pub(crate) fn is_long(keys: Keys, args: Args<'_>) -> bool {
    args.len() > LATCHED_KEYS && keys.of(args).nth(LATCHED_KEYS).is_some()
}

/// Claims all keys of the request, then shows them to `visit` one after the other with what it
/// has come to so far and their positions among the arguments; `finish` writes the reply.
///
/// # Errors
/// None yet: they would be those of a job's first slice.
pub(crate) fn each_key<S: Send + 'static>(
    cx: &mut Context<'_>,
    keys: Keys,
    mut state: S,
    mut visit: impl FnMut(&mut Context<'_>, usize, &mut S) + Send + 'static,
    mut finish: impl FnMut(&mut Context<'_>, &mut S) + Send + 'static,
) -> Result<(), Error> {
    let mut walk = Walk::new(keys);
    claimed(cx, keys, move |cx, slice| {
        let done = walk.go_on(cx, slice, |cx, position| visit(cx, position, &mut state));
        if done {
            finish(cx, &mut state);
        }
        done
    })
}

/// Claims all keys of the request, and calls `work` slice by slice until it is done.
///
/// # Errors
/// None yet: they would be those of a job's first slice.
pub(crate) fn claimed(
    cx: &mut Context<'_>,
    keys: Keys,
    mut work: impl FnMut(&mut Context<'_>, Slice) -> bool + Send + 'static,
) -> Result<(), Error> {
    let mut stage = Stage::Gathering(Walk::new(keys), cx.db.store().claiming());
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        loop {
            match stage.go_on(cx, keys.intent(), slice, &mut work) {
                Outcome::Next(next) => stage = next,
                Outcome::Flow(flow) => return Ok(flow),
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
    Flow(Flow),
}

impl Stage {
    /// Goes on until the slice is over or the next stage is reached.
    fn go_on(
        &mut self,
        cx: &mut Context<'_>,
        intent: Intent,
        slice: Slice,
        work: &mut impl FnMut(&mut Context<'_>, Slice) -> bool,
    ) -> Outcome {
        // A writer that has begun is to come to its end.
        let more = match intent {
            Intent::Read => Flow::More,
            Intent::Write => Flow::Committed,
        };
        match self {
            Stage::Gathering(walk, claiming) => {
                let done = walk.go_on(cx, slice, |cx, position| {
                    claiming.add(cx.db.key(cx.args.at(position)), intent);
                });
                let nothing = cx.db.store().claiming();
                match done {
                    true => Outcome::Next(Stage::Claiming(std::mem::replace(claiming, nothing))),
                    false => Outcome::Flow(Flow::More),
                }
            }
            Stage::Claiming(claiming) => {
                match cx.db.take_claims(claiming, &cx.client.waker, || slice.is_over()) {
                    Step::More => Outcome::Flow(Flow::More),
                    Step::Wait => Outcome::Flow(Flow::Wait),
                    Step::Held(claim) => Outcome::Next(Stage::Working(claim)),
                }
            }
            Stage::Working(claim) => {
                if intent == Intent::Write && cx.db.store().is_over_limit() {
                    // It was let in when it began, and goes on even if nothing can be evicted.
                    let _ = dispatch::make_room(cx);
                }
                if !work(cx, slice) {
                    return Outcome::Flow(more);
                }
                Outcome::Next(Stage::Releasing(claim.hand_over()))
            }
            Stage::Releasing(claim) => match claim.release(|| slice.is_over()) {
                true => Outcome::Flow(Flow::Done),
                false => Outcome::Flow(more),
            },
        }
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

    /// Visits keys until the slice is over; whether all have been.
    pub(crate) fn go_on(
        &mut self,
        cx: &mut Context<'_>,
        slice: Slice,
        mut visit: impl FnMut(&mut Context<'_>, usize),
    ) -> bool {
        for position in self.keys.positions(cx.args.len()).skip(self.visited) {
            visit(cx, position);
            self.visited += 1;
            if self.visited.is_multiple_of(STRIDE) && slice.is_over() {
                return false;
            }
        }
        true
    }
}
