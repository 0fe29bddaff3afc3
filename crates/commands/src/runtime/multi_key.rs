//! Requests with very many keys, or with much work on a few keys. Such a request claims all its
//! keys, works one slice per tick, and releases the keys. Meanwhile, only requests for these keys
//! wait. Clients blocked on the keys are served before the keys are released.

use crate::runtime::context::Job;
use crate::runtime::gate;
use crate::runtime::service::{Awaited, ReadyKeys, Service};
use crate::runtime::suspension::Slice;
use crate::{CommandSet, Context, Error, JobProgress, KeyGroup, Keys};
use nagi_proto::Args;
use nagi_store::{Claim, ClaimProgress, Claiming, Database, Intent, Key, Kind, Rope, SharedValue};
use std::collections::HashMap;

/// The maximum number of keys whose latches one request takes together. Taking more would delay all
/// clients for too long.
const LATCHED_KEYS: usize = 128;
/// The number of keys between two checks of the clock.
const STRIDE: usize = 16;

/// Whether a request has so many keys that it must claim them.
pub(crate) fn is_long(keys: &Keys, args: Args<'_>) -> bool {
    args.len() > LATCHED_KEYS && keys.of(args).nth(LATCHED_KEYS).is_some()
}

/// Whether these are so many keys that a request must claim them.
pub(crate) fn are_long<T>(keys: &[T]) -> bool {
    keys.len() > LATCHED_KEYS
}

/// The keys that a request claims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    keys: &'static Keys,
    /// The intent for all keys; if `None`, each group has the intent in the command's row.
    intent: Option<Intent>,
}

impl Claimed {
    /// All keys, each with the intent in the request's row.
    pub(crate) fn all(keys: &'static Keys) -> Self {
        Claimed { keys, intent: None }
    }

    /// All keys, for reading.
    pub(crate) fn to_read(keys: &'static Keys) -> Self {
        Claimed { keys, intent: Some(Intent::Read) }
    }

    /// The strongest intent of the claims on the keys.
    fn intent(&self) -> Intent {
        self.intent.unwrap_or_else(|| self.keys.intent())
    }

    /// The progress of work that has begun. A request that writes must be completed then.
    fn begun(&self) -> JobProgress {
        match self.intent() {
            Intent::Read => JobProgress::NEXT_TICK,
            Intent::Write => JobProgress::COMMITTED,
        }
    }
}

/// Claims all keys of the request, then calls `visit` with each in turn, the accumulated result and
/// the key's index among the arguments; `finish` writes the reply.
///
/// # Errors
/// None: `visit` cannot fail.
pub(crate) fn each_key<S: Send + 'static>(
    cx: &mut Context<'_>,
    keys: &'static Keys,
    mut state: S,
    mut visit: impl FnMut(&mut Context<'_>, usize, &mut S) + Send + 'static,
    mut finish: impl FnMut(&mut Context<'_>, &mut S) + Send + 'static,
) -> Result<(), Error> {
    let mut walk = Walk::new(keys);
    claimed(cx, Claimed::all(keys), move |cx, slice| {
        let done = walk.go_on(cx, |_| slice.is_over(), |cx, at, _| visit(cx, at, &mut state));
        if done {
            finish(cx, &mut state);
        }
        Ok(done)
    })
}

/// Claims the keys of a request, and replies with the number of those for which `is_counted` holds.
///
/// # Errors
/// None of its own.
pub(crate) fn count(
    cx: &mut Context<'_>,
    keys: &'static Keys,
    is_counted: fn(&Database<'_>, Key<'_>) -> bool,
) -> Result<(), Error> {
    each_key(
        cx,
        keys,
        0,
        move |cx, position, count| {
            *count += i64::from(is_counted(&cx.db, cx.key(cx.args.at(position))));
        },
        |cx, count| cx.reply.integer(*count),
    )
}

/// Claims keys of the request, and calls `work` slice by slice until it is done.
///
/// # Errors
/// An error of `work`'s first slice.
pub(crate) fn claimed(
    cx: &mut Context<'_>,
    claimed: Claimed,
    mut work: impl FnMut(&mut Context<'_>, Slice) -> Result<bool, Error> + Send + 'static,
) -> Result<(), Error> {
    claimed_then(cx, claimed, move |cx, slice| {
        Ok(if work(cx, slice)? { Worked::Done } else { Worked::Unfinished })
    })
}

/// The progress of the work on claimed keys.
pub(crate) enum Worked {
    /// There is more to do.
    Unfinished,
    /// It is done, and the reply has been written.
    Done,
    /// It is done; the job writes the reply once the keys are released, since claims must not be
    /// held while a client reads slowly.
    Then(Job),
}

/// Like `claimed`, but the reply may be written after the keys are released.
///
/// # Errors
/// An error of `work`'s first slice.
pub(crate) fn claimed_then(
    cx: &mut Context<'_>,
    claimed: Claimed,
    work: impl FnMut(&mut Context<'_>, Slice) -> Result<Worked, Error> + Send + 'static,
) -> Result<(), Error> {
    let mut work = at_one_time(work);
    if cx.db.is_claimed() {
        return unclaimed(cx, claimed.begun(), work);
    }
    let mut stage = Stage::begin(cx, claimed);
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        loop {
            match stage.go_on(cx, claimed, slice, &mut work)? {
                Outcome::Next(next) => stage = next,
                Outcome::Held(begun) => {
                    stage = begun;
                    return Ok(JobProgress::WOKEN);
                }
                Outcome::Pause(progress) => return Ok(progress),
            }
        }
    }))
}

/// Makes all slices see the time of the first one, so that no key expires between two of them.
fn at_one_time(
    mut work: impl FnMut(&mut Context<'_>, Slice) -> Result<Worked, Error> + Send + 'static,
) -> impl FnMut(&mut Context<'_>, Slice) -> Result<Worked, Error> + Send + 'static {
    let mut began_at_ms = None;
    move |cx, slice| {
        cx.db = cx.db.at(*began_at_ms.get_or_insert(cx.db.now_ms()));
        work(cx, slice)
    }
}

/// Calls `work` slice by slice until it is done, for a request whose keys are claimed already.
/// `begun` is the progress after each slice of the work.
fn unclaimed(
    cx: &mut Context<'_>,
    begun: JobProgress,
    mut work: impl FnMut(&mut Context<'_>, Slice) -> Result<Worked, Error> + Send + 'static,
) -> Result<(), Error> {
    let mut rest: Option<Job> = None;
    cx.start(Box::new(move |cx| {
        if rest.is_none() {
            match work(cx, Slice::begin())? {
                Worked::Unfinished => return Ok(begun),
                Worked::Done => return Ok(JobProgress::Done),
                Worked::Then(job) => rest = Some(job),
            }
        }
        rest.as_mut().map_or(Ok(JobProgress::Done), |job| job(cx))
    }))
}

/// The stage of a request.
enum Stage {
    /// Its keys are being hashed.
    Gathering(Walk, Claiming, Awaited),
    /// The keys are being claimed.
    Claiming(Claiming, Awaited),
    /// The keys are claimed, and those on which clients have blocked meanwhile are collected.
    Looking(Claim, Walk, Awaited, Awaited),
    /// The work is being done.
    Working(Claim, Awaited),
    /// Clients blocked on the keys are being served.
    Serving(Claim, Service, Option<Job>),
    /// The keys are released; the reply has been written unless there is a job for it.
    Releasing(Claim, Option<Job>),
    /// The reply is being written.
    Replying(Job),
}

enum Outcome {
    Next(Stage),
    /// A pause has begun: the keys are claimed again after it.
    Held(Stage),
    Pause(JobProgress),
}

/// Goes through the keys of a request, and claims them if `claiming` is given. Collects keys on
/// which clients are blocked, if the request changes them. Returns whether all keys have been
/// visited.
fn gather(
    cx: &mut Context<'_>,
    claimed: Claimed,
    slice: Slice,
    walk: &mut Walk,
    awaited: &mut Awaited,
    mut claiming: Option<&mut Claiming>,
) -> bool {
    let looks = !cx.hooks.blocked.is_empty() && claimed.intent() == Intent::Write;
    if claiming.is_none() && !looks {
        return true;
    }
    if claimed.keys.is_whole() {
        claiming.into_iter().for_each(Claiming::add_everything);
        if looks {
            awaited.add_everything(&cx.hooks.blocked);
        }
        return true;
    }
    walk.go_on(
        cx,
        |_| slice.is_over(),
        |cx, position, group| {
            let intent = claimed.intent.unwrap_or_else(|| group.intent());
            let name = cx.args.at(position);
            if let Some(claiming) = &mut claiming {
                claiming.add(cx.db.key(name), intent);
            }
            if looks && intent == Intent::Write {
                awaited.add(&cx.hooks.blocked, name);
            }
        },
    )
}

impl Stage {
    fn begin(cx: &Context<'_>, claimed: Claimed) -> Self {
        let mut claiming = cx.db.store().claiming();
        claiming.reserve(claimed.keys.count(cx.args));
        Stage::Gathering(Walk::new(claimed.keys), claiming, Awaited::default())
    }

    /// Continues until the slice has ended or the next stage is reached.
    fn go_on(
        &mut self,
        cx: &mut Context<'_>,
        claimed: Claimed,
        slice: Slice,
        work: &mut impl FnMut(&mut Context<'_>, Slice) -> Result<Worked, Error>,
    ) -> Result<Outcome, Error> {
        let more = claimed.begun();
        Ok(match self {
            Stage::Gathering(walk, claiming, awaited) => {
                match gather(cx, claimed, slice, walk, awaited, Some(claiming)) {
                    true => {
                        awaited.claim(cx, claiming);
                        let claiming = std::mem::replace(claiming, cx.db.store().claiming());
                        Outcome::Next(Stage::Claiming(claiming, std::mem::take(awaited)))
                    }
                    false => Outcome::Pause(JobProgress::NEXT_TICK),
                }
            }
            Stage::Claiming(claiming, awaited) => {
                match cx.db.take_claims(claiming, &cx.client.waker, || slice.is_over()) {
                    ClaimProgress::More => Outcome::Pause(JobProgress::NEXT_TICK),
                    ClaimProgress::Wait => Outcome::Pause(JobProgress::WOKEN),
                    ClaimProgress::Held(claim) => Outcome::Next(Stage::Looking(
                        claim,
                        Walk::new(claimed.keys),
                        std::mem::take(awaited),
                        Awaited::default(),
                    )),
                }
            }
            Stage::Looking(claim, walk, before, awaited) => {
                if !gather(cx, claimed, slice, walk, awaited, None) {
                    return Ok(Outcome::Pause(JobProgress::NEXT_TICK));
                }
                if !awaited.is_within(before) {
                    return Ok(Outcome::Next(Stage::begin(cx, claimed)));
                }
                if gate::is_held(cx, claimed.intent() == Intent::Write) {
                    return Ok(Outcome::Held(Stage::begin(cx, claimed)));
                }
                gate::admit_held(cx)?;
                Outcome::Next(Stage::Working(claim.hand_over(), std::mem::take(awaited)))
            }
            Stage::Working(claim, awaited) => {
                if claimed.intent() == Intent::Write && cx.db.store().is_over_limit() {
                    // The request was admitted when it began, and continues even if no key can be
                    // evicted.
                    let _ = gate::make_room(cx);
                }
                let reply = match work(&mut cx.claimed_by(claim), slice)? {
                    Worked::Unfinished => return Ok(Outcome::Pause(more)),
                    Worked::Done => None,
                    Worked::Then(reply) => Some(reply),
                };
                let service = Service::new(cx, std::mem::take(awaited), ReadyKeys::default());
                Outcome::Next(Stage::Serving(claim.hand_over(), service, reply))
            }
            Stage::Serving(claim, service, reply) => {
                match service.go_on(&cx.claimed_by(claim), slice) {
                    true => Outcome::Next(Stage::Releasing(claim.hand_over(), reply.take())),
                    false => Outcome::Pause(more),
                }
            }
            Stage::Releasing(claim, reply) => match claim.release(|| slice.is_over()) {
                true => match reply.take() {
                    Some(reply) => Outcome::Next(Stage::Replying(reply)),
                    None => Outcome::Pause(JobProgress::Done),
                },
                false => Outcome::Pause(more),
            },
            Stage::Replying(reply) => Outcome::Pause(reply(cx)?),
        })
    }
}

/// A walk over the keys of a request, group by group.
#[derive(Clone)]
pub(crate) struct Walk {
    keys: &'static Keys,
    /// The number of completed groups, and the number of visited keys of the next group.
    group: usize,
    visited: usize,
}

impl Walk {
    pub(crate) fn new(keys: &'static Keys) -> Self {
        Walk { keys, group: 0, visited: 0 }
    }

    /// Visits keys, by index and group, until `is_over` says that the slice has ended. Returns
    /// whether all have been visited.
    pub(crate) fn go_on<C: CommandSet>(
        &mut self,
        cx: &mut Context<'_, C>,
        is_over: impl FnMut(&Context<'_, C>) -> bool,
        mut visit: impl FnMut(&mut Context<'_, C>, usize, &KeyGroup),
    ) -> bool {
        self.go_on_while(cx, is_over, |cx, position, group| {
            visit(cx, position, group);
            true
        })
    }

    /// Like `go_on`, but also ends when `visit` returns `false`; that key will be visited again.
    pub(crate) fn go_on_while<C: CommandSet>(
        &mut self,
        cx: &mut Context<'_, C>,
        mut is_over: impl FnMut(&Context<'_, C>) -> bool,
        mut visit: impl FnMut(&mut Context<'_, C>, usize, &KeyGroup) -> bool,
    ) -> bool {
        while let Some(group) = self.keys.all_groups().get(self.group) {
            let args = cx.args;
            let positions = group.positions(args).skip(self.visited);
            for position in positions.take_while(|position| *position < args.len()) {
                if !visit(cx, position, group) {
                    return false;
                }
                self.visited += 1;
                if self.visited.is_multiple_of(STRIDE) && is_over(cx) {
                    return false;
                }
            }
            self.group += 1;
            self.visited = 0;
        }
        true
    }
}

/// Reads the strings under claimed keys, a few at a time; long ones are shared.
pub(crate) struct Strings {
    walk: Walk,
    read: Vec<Option<Rope>>,
    /// For each key's hash, the position of its first argument, and its index in `read`: a key that
    /// is given repeatedly is read once, since a short string is copied.
    first: HashMap<u64, (usize, usize)>,
}

impl Strings {
    pub(crate) fn new(keys: &'static Keys) -> Self {
        Strings { walk: Walk::new(keys), read: Vec::new(), first: HashMap::new() }
    }

    /// Continues until the slice has ended. Returns the strings in the order of their keys, once
    /// all are read.
    ///
    /// # Errors
    /// One of the values is not a string.
    pub(crate) fn go_on(
        &mut self,
        cx: &mut Context<'_>,
        slice: Slice,
    ) -> Result<Option<Vec<Option<Rope>>>, Error> {
        let Strings { walk, read, first } = self;
        let mut all_strings = Ok(());
        let done = walk.go_on(
            cx,
            |_| slice.is_over(),
            |cx, position, _| {
                let name = cx.args.at(position);
                let key = cx.key(name);
                let (at, index) = *first.entry(key.hash()).or_insert((position, read.len()));
                if at != position && cx.args.at(at) == name {
                    let earlier = read.get(index).cloned().flatten();
                    return read.push(earlier);
                }
                match cx.db.strings(&[key]) {
                    Ok(mut strings) => read.append(&mut strings),
                    Err(wrong_type) => all_strings = Err(wrong_type),
                }
            },
        );
        all_strings?;
        Ok(done.then(|| std::mem::take(read)))
    }
}

/// Reads the values under claimed keys, a few at a time, shared for later use.
pub(crate) struct Values {
    walk: Walk,
    kinds: &'static [Kind],
    read: Vec<Option<SharedValue>>,
}

impl Values {
    /// The values of `keys`, which are of these types.
    pub(crate) fn new(keys: &'static Keys, kinds: &'static [Kind]) -> Self {
        Values { walk: Walk::new(keys), kinds, read: Vec::new() }
    }

    /// Continues until the slice has ended. Returns the values in the order of their keys, once all
    /// are read.
    ///
    /// # Errors
    /// One of the values is of another type.
    pub(crate) fn go_on(
        &mut self,
        cx: &mut Context<'_>,
        slice: Slice,
    ) -> Result<Option<Vec<Option<SharedValue>>>, Error> {
        let Values { walk, kinds, read } = self;
        let mut all_right = Ok(());
        let done = walk.go_on(
            cx,
            |_| slice.is_over(),
            |cx, position, _| match cx.db.share_as(cx.key(cx.args.at(position)), kinds) {
                Ok(value) => read.push(value),
                Err(wrong_type) => all_right = Err(wrong_type),
            },
        );
        all_right?;
        Ok(done.then(|| std::mem::take(read)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;
    use crate::runtime::dispatch;
    use crate::testing::Bench;
    use nagi_proto::Span;
    use std::task::Waker;

    #[test]
    fn requests_that_write_are_completed() {
        static KEYS: Keys = Keys::one(Access::RW);
        assert_eq!(Claimed::all(&KEYS).begun(), JobProgress::COMMITTED);
        assert_eq!(Claimed::to_read(&KEYS).begun(), JobProgress::NEXT_TICK);
    }

    #[test]
    fn a_key_is_claimed_with_the_intent_of_its_group() {
        const KEYS: Keys =
            Keys::groups(&[KeyGroup::at(1, Access::OW), KeyGroup::counted(2, Access::RO)]);
        let bench = Bench::new();
        let db = bench.store.database(0, &bench.counters, 0);
        let waits = |request: &[u8; 7]| {
            let spans = [0, 2, 4, 6].map(|start| Span { start, len: 1 });
            let args = Args::new(request, &spans);
            dispatch::meets_claim(&KEYS, db, &bench.client, args).is_some()
        };
        let claim = |key, intent| {
            let mut claiming = bench.store.claiming();
            claiming.add(db.key(key), intent);
            match db.take_claims(&mut claiming, Waker::noop(), || false) {
                ClaimProgress::Held(claim) => claim,
                ClaimProgress::More | ClaimProgress::Wait => panic!("nothing else is claimed"),
            }
        };
        let mut read = claim(b"a", Intent::Read);
        assert!(!waits(b"z b 1 a"), "a is a source of both");
        assert!(waits(b"z a 1 b"), "a would be written");
        read.hand_over().release(|| false);
        let mut written = claim(b"a", Intent::Write);
        assert!(waits(b"z b 1 a") && waits(b"z a 1 b"));
        assert!(!waits(b"z b 1 c") && !waits(b"z b 0 a"));
        written.hand_over().release(|| false);
        assert!(!waits(b"z a 1 b"));
    }
}
