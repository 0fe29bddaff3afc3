//! Sorted sets that are computed from the values of other keys, to be returned or stored. Small
//! ones are computed at once. Otherwise, the values are shared and read in slices; a request that
//! stores claims its keys meanwhile, so that its client sees no sources newer than the result.

use crate::families::elements::{ELEMENTS_PER_HOLD, begin_members, write_member};
use crate::runtime::context::Job;
use crate::runtime::multi_key::{self, Claimed, Values, Worked};
use crate::runtime::suspension::Slice;
use crate::{Context, Error, JobProgress, Keys};
use nagi_proto::resp::Writer;
use nagi_store::types::sorted_set::NewSortedSet;
use nagi_store::{Event, Key, Kind, SharedValue};
use std::ops::ControlFlow;

/// Maximum elements of all sources that are processed while their latches are held.
const QUICK_ELEMENTS: u64 = 128;

/// A sorted set that is being computed.
pub(crate) trait Derivation: Sized + Send + 'static {
    /// Continues until `is_over` reports the end of the slice; returns whether the set is complete.
    fn go_on(&mut self, is_over: impl Fn() -> bool) -> bool;

    /// The form in which the set is returned.
    fn shown(&self) -> Shown;

    /// The set, once it is complete.
    fn take(&mut self) -> NewSortedSet;
}

/// Begins the computation from the values of the sources. Returns an error for an invalid request.
pub(crate) type Begin<D> = fn(&Context<'_>, Vec<Option<SharedValue>>) -> Result<D, Error>;

/// A command that computes a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<D> {
    /// All of its keys.
    pub(crate) keys: &'static Keys,
    /// The keys that are read.
    pub(crate) sources: &'static Keys,
    /// The types that the sources may have.
    pub(crate) kinds: &'static [Kind],
    pub(crate) begin: Begin<D>,
}

/// The form in which a set is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Members,
    WithScores,
    /// The number of members.
    Count,
}

/// Computes a set and stores it under the key at position `to`, publishes `event`, and replies with
/// the number of members.
pub(crate) fn store<D: Derivation>(
    cx: &mut Context<'_>,
    plan: Plan<D>,
    to: usize,
    event: Event,
) -> Result<(), Error> {
    let limits = cx.server.config().collection_limits();
    if !multi_key::is_long(plan.keys, cx.args) {
        let sources: Vec<Key<'_>> = plan.sources.of(cx.args).map(|key| cx.key(key)).collect();
        let at_once = |values| {
            let mut derivation = (plan.begin)(cx, values)?;
            derivation.go_on(|| false);
            Ok::<_, Error>(derivation.take().into_collection(limits))
        };
        let (sources, to) = ((&sources[..], plan.kinds), (cx.key(cx.args.at(to)), event));
        if let Some(len) = cx.db.derive_collection(sources, to, QUICK_ELEMENTS, at_once) {
            cx.reply.integer(len? as i64);
            return Ok(());
        }
    }
    let (mut values, mut begun) = (Values::new(plan.sources, plan.kinds), None);
    multi_key::claimed(cx, Claimed::all(plan.keys), move |cx, slice| {
        let derivation = match &mut begun {
            Some(derivation) => derivation,
            None => match values.go_on(cx, slice)? {
                Some(values) => begun.insert((plan.begin)(cx, values)?),
                None => return Ok(false),
            },
        };
        if !derivation.go_on(|| slice.is_over()) {
            return Ok(false);
        }
        let made = derivation.take().into_collection(limits);
        let len = cx.db.store_collection(cx.key(cx.args.at(to)), made, event);
        cx.reply.integer(len as i64);
        Ok(true)
    })
}

/// Computes a set from the sources as of one moment, and replies with it.
pub(crate) fn show<D: Derivation>(cx: &mut Context<'_>, plan: Plan<D>) -> Result<(), Error> {
    if !multi_key::is_long(plan.sources, cx.args) {
        let keys: Vec<Key<'_>> = plan.sources.of(cx.args).map(|key| cx.key(key)).collect();
        let values = cx.db.share_all(&keys, plan.kinds)?;
        let derivation = (plan.begin)(cx, values)?;
        return cx.start(shown(derivation));
    }
    let mut values = Values::new(plan.sources, plan.kinds);
    multi_key::claimed_then(cx, Claimed::to_read(plan.sources), move |cx, slice| {
        Ok(match values.go_on(cx, slice)? {
            Some(values) => Worked::Then(shown((plan.begin)(cx, values)?)),
            None => Worked::Unfinished,
        })
    })
}

/// A job that computes a set and then replies with it, slice by slice.
fn shown<D: Derivation>(derivation: D) -> Job {
    let mut stage = Stage::Deriving(derivation);
    Box::new(move |cx| {
        let slice = Slice::begin();
        Ok(match stage.go_on(&mut cx.reply, slice) {
            true => JobProgress::Done,
            false => JobProgress::ROOM_FOR_REPLIES,
        })
    })
}

/// The progress of a set that is returned.
enum Stage<D> {
    Deriving(D),
    Showing(SetReply),
}

impl<D: Derivation> Stage<D> {
    /// Continues until the slice is over; returns whether the reply is complete.
    fn go_on(&mut self, reply: &mut Writer<'_>, slice: Slice) -> bool {
        if let Stage::Deriving(derivation) = self {
            if !derivation.go_on(|| slice.is_over()) {
                return false;
            }
            let (shown, set) = (derivation.shown(), derivation.take());
            *self = Stage::Showing(SetReply { set, shown, rank: None });
        }
        match self {
            Stage::Deriving(_) => false,
            Stage::Showing(exhibition) => exhibition.go_on(reply, slice),
        }
    }
}

/// A set that is being written into a reply.
struct SetReply {
    set: NewSortedSet,
    shown: Shown,
    /// The number of members written; `None` before the reply has begun.
    rank: Option<u64>,
}

impl SetReply {
    /// Continues until the slice is over; returns whether the reply is complete.
    fn go_on(&mut self, reply: &mut Writer<'_>, slice: Slice) -> bool {
        let (set, len) = (self.set.read(), self.set.len());
        let with_scores = self.shown == Shown::WithScores;
        if self.shown == Shown::Count {
            reply.integer(len as i64);
            return true;
        }
        let mut rank = self.rank.unwrap_or_else(|| {
            begin_members(reply, len, with_scores);
            0
        });
        while rank < len {
            let mut left = ELEMENTS_PER_HOLD;
            set.walk(rank, |member| {
                write_member(reply, &member, with_scores);
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            rank += ELEMENTS_PER_HOLD;
            if slice.is_over() {
                break;
            }
        }
        self.rank = Some(rank);
        rank >= len
    }
}
