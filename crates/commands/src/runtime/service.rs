//! Serves clients that are blocked on keys (BLPOP), in a request that has claimed and changed these
//! keys.

use crate::Context;
use crate::registry::keys::Keys;
use crate::runtime::gate::make_room;
use crate::runtime::rights;
use crate::runtime::suspension::Slice;
use crate::runtime::tracking;
use crate::state::blocked::{Attempt, BlockedClients, Name, Step, Steps, Waiter};
use crate::state::tracking::as_client;
use nagi_proto::Args;
use nagi_store::{Claiming, Database, Intent, Kind};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The keys of a request on which clients are blocked, and transitively the keys to which their
/// elements move (BLMOVE): all of them must be claimed. Usually there are none.
#[derive(Debug, Default)]
pub(crate) struct Awaited(Option<Box<Names>>);

#[derive(Debug, Default)]
struct Names {
    keys: Vec<Name>,
    reached: BTreeSet<Name>,
    /// Whether all keys of whole databases are claimed.
    is_whole: bool,
}

impl Awaited {
    /// Adds a key that was changed or will be changed.
    pub(crate) fn add(&mut self, blocked: &BlockedClients, name: &[u8]) {
        if !blocked.may_concern(name) {
            return;
        }
        let names = self.0.get_or_insert_default();
        if blocked.reach(name, &mut names.reached) {
            names.keys.push(name.into());
        }
    }

    /// Adds all keys in all databases.
    pub(crate) fn add_everything(&mut self, blocked: &BlockedClients) {
        let names = self.0.get_or_insert_default();
        names.keys = blocked.names();
        names.is_whole = true;
    }

    /// Records that all keys in all databases are claimed.
    pub(crate) fn note_all_claimed(&mut self) {
        self.0.iter_mut().for_each(|names| names.is_whole = true);
    }

    /// Claims the keys.
    pub(crate) fn claim(&self, cx: &Context<'_>, claiming: &mut Claiming) {
        let names = self.0.iter().flat_map(|names| &names.reached);
        names.for_each(|name| claiming.add(cx.db.key(name), Intent::Write));
    }

    /// All keys that must be claimed.
    pub(crate) fn reached(&self) -> impl Iterator<Item = &Name> {
        self.0.iter().flat_map(|names| &names.reached)
    }

    /// Whether `claimed` includes all of these keys.
    pub(crate) fn is_within(&self, claimed: &Awaited) -> bool {
        let mut names = self.0.iter().flat_map(|names| &names.reached);
        names.all(|name| claimed.has(name))
    }

    fn has(&self, name: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|names| names.is_whole || names.reached.contains(name))
    }
}

/// The number of a command's keys whose order is noted: looking at very many would take long. The
/// clients of its other keys are served last.
const NOTED_KEYS: usize = 256;

/// Keys in the order in which the commands of a transaction or a script made them able to serve
/// blocked clients, each with its database. Clients that wait for several keys are served in this
/// order.
#[derive(Debug, Default)]
pub(crate) struct ReadyKeys {
    order: Vec<(Name, usize)>,
    known: BTreeSet<(Name, usize)>,
}

impl ReadyKeys {
    /// Notes those keys of a command that can serve a client now that it has ended.
    pub(crate) fn note(
        &mut self,
        blocked: &BlockedClients,
        db: Database<'_>,
        keys: &Keys,
        args: Args<'_>,
    ) {
        if blocked.is_empty() {
            return;
        }
        let written = keys.all_groups().iter().filter(|it| it.intent() == Intent::Write);
        let positions = written.flat_map(|group| group.positions(args));
        let names = positions.filter_map(|at| args.get(at)).take(NOTED_KEYS);
        names.for_each(|name| self.add(blocked, db, name));
    }

    /// Returns the names of the ready keys, followed by `names`.
    pub(crate) fn followed_by(&self, names: Vec<Name>) -> Vec<Name> {
        let ready = self.order.iter().map(|(name, _)| Arc::clone(name));
        ready.chain(names).collect()
    }

    /// Notes a key that may have been changed, if it can serve a client.
    pub(crate) fn add(&mut self, blocked: &BlockedClients, db: Database<'_>, name: &[u8]) {
        if !blocked.may_concern(name) || blocked.next(name, db.index(), 0, kind(db, name)).is_none()
        {
            return;
        }
        let key = (Name::from(name), db.index());
        if self.known.insert(key.clone()) {
            self.order.push(key);
        }
    }
}

/// The type of the value under a key, if it exists.
fn kind(db: Database<'_>, name: &[u8]) -> Option<Kind> {
    db.untouched().inspect(db.key(name), |it| it.map(|(it, _)| it.kind()))
}

/// The progress of serving blocked clients.
pub(crate) struct Service {
    /// Keys that may be able to serve clients, each with its database.
    ready: VecDeque<(Name, usize)>,
    /// The client that was last served or examined.
    last: u64,
    /// The client for which elements of the first ready key are being taken.
    serving: Option<(Arc<Waiter>, Box<dyn Steps>)>,
    awaited: Awaited,
}

impl Service {
    /// Begins to serve the clients that are blocked on these changed keys, first on those that are
    /// known to be ready.
    pub(crate) fn new(cx: &Context<'_>, awaited: Awaited, ready: ReadyKeys) -> Self {
        let ReadyKeys { order, known } = ready;
        let nothing = Awaited::default();
        let mut service = Service { ready: order.into(), last: 0, serving: None, awaited: nothing };
        let keys = awaited.0.iter().flat_map(|names| &names.keys);
        keys.for_each(|name| service.add(cx, name, &known));
        Service { awaited, ..service }
    }

    /// Adds a key in all databases in which clients wait for it, unless it is `known`.
    fn add(&mut self, cx: &Context<'_>, name: &Name, known: &BTreeSet<(Name, usize)>) {
        let databases = cx.hooks.blocked.databases(name).into_iter();
        let keys = databases.map(|database| (Arc::clone(name), database));
        self.ready.extend(keys.filter(|key| !known.contains(key)));
    }

    /// Continues until no client is left to serve (`true`) or the time slice has ended (`false`).
    /// Clients are served in the order of arrival; elements moved to another key then serve the
    /// clients blocked on that key.
    pub(crate) fn go_on(&mut self, cx: &Context<'_>, slice: Slice) -> bool {
        while let Some((name, database)) = self.ready.front() {
            let (name, db) = (Arc::clone(name), cx.db.sibling(*database));
            if let Some((waiter, steps)) = self.serving.take() {
                self.take_for(cx, db, (waiter, steps), slice);
            } else if let Some(waiter) = self.next(cx, db, &name) {
                self.serve(cx, db, waiter);
            } else {
                self.ready.pop_front();
                self.last = 0;
                continue;
            }
            if slice.is_over() {
                return false;
            }
        }
        true
    }

    /// The next client that a key may be able to serve.
    fn next(&mut self, cx: &Context<'_>, db: Database<'_>, name: &Name) -> Option<Arc<Waiter>> {
        let waiter = cx.hooks.blocked.next(name, db.index(), self.last, kind(db, name))?;
        self.last = waiter.number();
        Some(waiter)
    }

    /// Serves a client, or begins to, if its user and the free memory permit that.
    fn serve(&mut self, cx: &Context<'_>, db: Database<'_>, waiter: Arc<Waiter>) {
        if rights::is_refused(cx, &waiter) {
            return cx.hooks.blocked.leave(&waiter);
        }
        if waiter.needs_memory() && cx.db.store().is_over_limit() && !make_room(cx) {
            waiter.refuse_memory();
            return cx.hooks.blocked.leave(&waiter);
        }
        // Recorded before the client is served, since its worker may reply at once.
        if let Some((client, keys)) = waiter.tracked() {
            tracking::remember_served(cx, client, keys);
        }
        let limits = cx.server.config().collection_limits();
        // As in Redis, it changes what it takes, not the client that serves it (NOLOOP).
        let attempt = as_client(waiter.client(), || {
            waiter.serve(db, &limits, &|name| self.awaited.has(name))
        });
        match attempt {
            Attempt::Failed => {}
            Attempt::Served => self.end(cx, &waiter),
            Attempt::Begun(steps) => self.serving = Some((waiter, steps)),
        }
    }

    /// Takes elements for a client until all were taken or the slice has ended.
    fn take_for(
        &mut self,
        cx: &Context<'_>,
        db: Database<'_>,
        (waiter, mut steps): (Arc<Waiter>, Box<dyn Steps>),
        slice: Slice,
    ) {
        let step = as_client(waiter.client(), || {
            take_for(slice, db, &mut *steps, &|name| self.awaited.has(name))
        });
        match step {
            Step::Unfinished => self.serving = Some((waiter, steps)),
            Step::Complete(taken) => {
                waiter.end_serving(taken);
                self.end(cx, &waiter);
            }
        }
    }

    /// Removes a client that was served from the queues.
    fn end(&mut self, cx: &Context<'_>, waiter: &Waiter) {
        cx.hooks.blocked.leave(waiter);
        let destination = waiter.destination().into_iter();
        destination.for_each(|name| self.add(cx, name, &BTreeSet::new()));
    }
}

/// Takes elements until all were taken or the slice has ended.
pub(crate) fn take_for(
    slice: Slice,
    db: Database<'_>,
    steps: &mut dyn Steps,
    may_take: &dyn Fn(&[u8]) -> bool,
) -> Step {
    loop {
        match steps.take_some(db, may_take) {
            Step::Unfinished if !slice.is_over() => {}
            step => return step,
        }
    }
}
