//! Clients that are blocked until a key can serve them (BLPOP), in order of arrival.
//!
//! A client that cannot be served enters the queues of its keys before it releases its claim on
//! them. A request that changes a key for which clients wait claims it as well, and serves them
//! before it releases the key, so that no other client sees their elements. The claims order the
//! two requests: no element stays in a key for which a client waits.
//!
//! A key that expires or is evicted is removed by no request. The store reports it while it holds a
//! latch, so its clients are only noted then, and notified when no latch is held.

use crate::state::client::{ClientInfo, Marks};
use crate::state::sparse::shrink;
use crate::state::users::Users;
use nagi_store::accounting::{Charge, room_bytes};
use nagi_store::primitives::Mutex;
use nagi_store::primitives::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use nagi_store::types::collection::Limits;
use nagi_store::types::list::SharedPopped;
use nagi_store::{Database, Event, Kind, OwnedText, Selection, StoreChange, free_elsewhere};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt::{self, Debug};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::task::Waker;

/// Counters of waiting clients by the hash of the key: most requests read only one of them, which
/// is zero.
const COUNTERS: usize = if cfg!(loom) { 1 } else { 1024 };
/// A client's memory in one queue in addition to the key, in bytes.
const PLACE_BYTES: usize = 160;
/// Keys under which a client is entered or removed while all clients' queues are locked.
const KEYS_PER_HOLD: usize = 256;
/// A waiting client's memory in the table and in its session, in bytes, approximately.
const CLIENT_BYTES: usize = 256;
/// Room for popped members from which on another thread frees it.
const MANY_MEMBERS: usize = 1000;

/// A key's name.
pub(crate) type Name = Arc<[u8]>;

/// The condition that a client waits for.
pub(crate) trait Wanted: Debug + Send + Sync {
    /// The type of value that serves it.
    fn kind(&self) -> Kind;

    /// The key that receives it, if any (BLMOVE).
    fn destination(&self) -> Option<&Name>;

    /// Whether any change of its keys makes it check them, even a change of the type or a removal,
    /// which ends its wait with [`Taken::NoGroup`] (XREADGROUP).
    fn wakes_on_any_change(&self) -> bool {
        false
    }

    /// How a request takes elements before it waits, if that needs several operations and therefore
    /// a claim on the keys.
    fn steps(&self) -> Option<Box<dyn Steps>> {
        None
    }

    /// Takes elements from the first key that has some and for which `may_take` returns `true`.
    /// Other keys may be claimed by another request, which may be in the middle of its changes.
    fn take(
        &self,
        db: Database<'_>,
        limits: &Limits,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Taken>;

    /// Like [`Self::take`], but ends after the first of several steps that has taken anything.
    fn begin_to_take(
        &self,
        db: Database<'_>,
        limits: &Limits,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> FirstStep {
        FirstStep::Complete(self.take(db, limits, may_take))
    }
}

/// The result of beginning to take elements.
pub(crate) enum FirstStep {
    /// Some were taken, and there may be more.
    Unfinished(Box<dyn Steps>),
    /// All was taken; `None` if there was nothing.
    Complete(Option<Taken>),
}

/// The result of a step in taking elements.
#[derive(Debug)]
pub(crate) enum Step {
    /// There may be more to take.
    Unfinished,
    /// All was taken; `None` if there was nothing.
    Complete(Option<Taken>),
}

/// A condition whose elements are taken in several steps.
pub(crate) trait Stepwise: Send {
    /// What was taken so far.
    type Progress: Default + Send;

    /// Takes some elements from keys for which `may_take` returns `true`.
    fn take_some(
        &self,
        progress: &mut Self::Progress,
        db: Database<'_>,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> Step;

    /// Whether any element was taken.
    fn has_taken(progress: &Self::Progress) -> bool;

    /// Takes all elements at once.
    fn take_all(&self, db: Database<'_>, may_take: &dyn Fn(&[u8]) -> bool) -> Option<Taken> {
        let mut progress = Self::Progress::default();
        loop {
            if let Step::Complete(taken) = self.take_some(&mut progress, db, may_take) {
                return taken;
            }
        }
    }
}

/// Takes elements in several steps, so that other requests can run between two of them.
pub(crate) trait Steps: Send {
    /// Takes some elements from keys for which `may_take` returns `true`.
    fn take_some(&mut self, db: Database<'_>, may_take: &dyn Fn(&[u8]) -> bool) -> Step;
}

/// The steps of a condition.
pub(crate) struct StepsOf<W: Stepwise> {
    wanted: W,
    progress: W::Progress,
}

impl<W: Stepwise + 'static> StepsOf<W> {
    /// The steps, before the first one.
    pub(crate) fn begin(wanted: W) -> Box<dyn Steps> {
        Box::new(StepsOf { wanted, progress: W::Progress::default() })
    }

    /// Takes elements until a step has taken any.
    pub(crate) fn first(wanted: &W, db: Database<'_>, may_take: &dyn Fn(&[u8]) -> bool) -> FirstStep
    where
        W: Clone,
    {
        let mut progress = W::Progress::default();
        loop {
            match wanted.take_some(&mut progress, db, may_take) {
                Step::Complete(taken) => return FirstStep::Complete(taken),
                Step::Unfinished if W::has_taken(&progress) => {
                    let steps = StepsOf { wanted: wanted.clone(), progress };
                    return FirstStep::Unfinished(Box::new(steps));
                }
                Step::Unfinished => {}
            }
        }
    }
}

impl<W: Stepwise> Steps for StepsOf<W> {
    fn take_some(&mut self, db: Database<'_>, may_take: &dyn Fn(&[u8]) -> bool) -> Step {
        self.wanted.take_some(&mut self.progress, db, may_take)
    }
}

/// Whether a key has a value of another type, and not only in the middle of another request.
pub(crate) fn has_other_type(db: Database<'_>, name: &[u8], kind: Kind) -> bool {
    let key = db.key(name);
    db.inspect(key, |entry| {
        entry.is_some_and(|(entry, _)| entry.kind() != kind) && !db.is_key_claimed(key)
    })
}

/// Popped members with their scores, in order.
#[derive(Debug, Default)]
pub(crate) struct Scored(VecDeque<(OwnedText, f64)>);

impl Scored {
    /// Adds a member at the end.
    pub(crate) fn push(&mut self, member: OwnedText, score: f64) {
        self.0.push_back((member, score));
    }

    /// Takes the first member.
    pub(crate) fn take_first(&mut self) -> Option<(OwnedText, f64)> {
        self.0.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for Scored {
    fn drop(&mut self) {
        // A client may disconnect before it has received them.
        if self.0.capacity() > MANY_MEMBERS {
            free_elsewhere(std::mem::take(&mut self.0));
        }
    }
}

/// Entries of streams, by key.
pub(crate) type Streams = Vec<(Name, Selection)>;

/// The result of a blocked request.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Nothing: a value is of another type.
    WrongType,
    /// An element of the list under a key.
    Element(Name, OwnedText),
    /// Elements of the list under a key.
    Elements(Name, SharedPopped),
    /// An element that was moved to another list.
    Moved(OwnedText),
    /// Members of the sorted set under a key, with their scores.
    Members(Name, Scored),
    /// Entries of streams.
    Streams(Streams),
    /// Nothing: the stream has no such group, or was removed.
    NoGroup(Name),
}

/// Checks whether a waiting client's user still has the permission for its request.
pub(crate) struct Permission(Box<dyn Fn(&Users) -> bool + Send + Sync>);

impl Permission {
    /// `is_permitted` is called when the permission is checked, with the users at that time.
    pub(crate) fn new(is_permitted: impl Fn(&Users) -> bool + Send + Sync + 'static) -> Self {
        Permission(Box::new(is_permitted))
    }
}

impl Debug for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permission")
    }
}

/// The state of a waiting client.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is still waiting.
    Waiting,
    /// Some elements were taken for it, and more are being taken.
    Serving,
    /// It was served this result.
    Served(Taken),
    /// CLIENT UNBLOCK has ended its wait.
    Unblocked {
        /// Whether the reply is an error instead of that of a time-out.
        with_error: bool,
    },
    /// Its user has lost the permission for its request.
    Refused,
    /// Memory is exhausted, and serving it would need more.
    OutOfMemory,
    /// Its wait has ended, and the outcome was taken.
    Over,
}

/// The result of an attempt to serve a client.
pub(crate) enum Attempt {
    /// It does not wait, or there was nothing for it.
    Failed,
    /// It was served.
    Served,
    /// It will have been served after these steps.
    Begun(Box<dyn Steps>),
}

/// A waiting client.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Ascending in the order of arrival.
    number: u64,
    client: Arc<ClientInfo>,
    database: usize,
    keys: Box<[Name]>,
    wanted: Box<dyn Wanted>,
    permission: Permission,
    /// Whether it is notified of changes of the keys that it reads.
    tracks: bool,
    /// Whether it is refused when memory is exhausted.
    needs_memory: bool,
    waker: Waker,
    outcome: Mutex<Outcome>,
}

impl Waiter {
    /// Ends its wait if its user lacks the permission for its request. Returns whether it did.
    pub(crate) fn refuse(&self, users: &Users) -> bool {
        let is_refused = !(self.permission.0)(users);
        if is_refused {
            self.end(Outcome::Refused);
        }
        is_refused
    }

    /// Whether its user is not the default one, and may have been removed.
    pub(crate) fn is_named(&self) -> bool {
        self.client.names().user.is_some()
    }

    /// Whether it is refused when memory is exhausted.
    pub(crate) fn needs_memory(&self) -> bool {
        self.needs_memory
    }

    /// Ends its wait because memory is exhausted.
    pub(crate) fn refuse_memory(&self) {
        self.end(Outcome::OutOfMemory);
    }

    /// Ends its wait. Returns whether it was waiting.
    fn end(&self, end: Outcome) -> bool {
        let mut outcome = self.outcome.lock();
        let waits = matches!(*outcome, Outcome::Waiting);
        if waits {
            *outcome = end;
            self.end_wait();
        }
        waits
    }

    /// Serves it, if that is possible, or begins to: from then on, its wait ends only with the rest
    /// of the steps, or with its connection.
    pub(crate) fn serve(
        &self,
        db: Database<'_>,
        limits: &Limits,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> Attempt {
        let mut outcome = self.outcome.lock();
        if !matches!(*outcome, Outcome::Waiting) {
            return Attempt::Failed;
        }
        match self.wanted.begin_to_take(db, limits, may_take) {
            FirstStep::Complete(None) => Attempt::Failed,
            FirstStep::Complete(Some(taken)) => {
                *outcome = Outcome::Served(taken);
                self.end_wait();
                Attempt::Served
            }
            FirstStep::Unfinished(steps) => {
                *outcome = Outcome::Serving;
                Attempt::Begun(steps)
            }
        }
    }

    /// Ends the steps with what was taken.
    pub(crate) fn end_serving(&self, taken: Option<Taken>) {
        let mut outcome = self.outcome.lock();
        if matches!(*outcome, Outcome::Serving) {
            *outcome = taken.map_or(Outcome::Waiting, Outcome::Served);
            self.end_wait();
        }
    }

    /// Makes the client's worker write the reply. From now on the client is not shown as waiting,
    /// so that a request that follows the one that ended its wait does not see it waiting. The
    /// outcome must be locked: the client may wait again once its worker has taken it.
    fn end_wait(&self) {
        self.client.mark(Marks::WAITING, false);
        self.waker.wake_by_ref();
    }

    /// The key to which its elements move, if any.
    pub(crate) fn destination(&self) -> Option<&Name> {
        self.wanted.destination()
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The number of its client.
    pub(crate) fn client(&self) -> u64 {
        self.client.id
    }

    /// The client and the keys that it reads, if it is notified of their changes.
    pub(crate) fn tracked(&self) -> Option<(u64, impl Iterator<Item = &[u8]>)> {
        self.tracks.then(|| (self.client.id, self.keys.iter().map(|key| &**key)))
    }
}

/// The clients that wait for one key in one database.
#[derive(Debug, Default)]
struct Queue {
    /// Waiters by their numbers.
    waiters: BTreeMap<u64, Arc<Waiter>>,
    /// The destination keys (BLMOVE), with the number of clients for each, so that a change of the
    /// key need not go through ten thousand clients.
    destinations: HashMap<Name, usize>,
}

impl Queue {
    /// Adds a client. Returns whether it is new.
    fn insert(&mut self, waiter: &Arc<Waiter>) -> bool {
        let is_new = self.waiters.insert(waiter.number, Arc::clone(waiter)).is_none();
        if let Some(name) = waiter.destination().filter(|_| is_new) {
            *self.destinations.entry(Arc::clone(name)).or_default() += 1;
        }
        is_new
    }

    /// Removes a client. Returns whether it was in the queue.
    fn remove(&mut self, waiter: &Waiter) -> bool {
        let was_there = self.waiters.remove(&waiter.number).is_some();
        if let Some(name) = waiter.destination().filter(|_| was_there)
            && let Some(count) = self.destinations.get_mut(name)
        {
            *count -= 1;
            if *count == 0 {
                self.destinations.remove(name);
            }
        }
        was_there
    }
}

#[derive(Debug, Default)]
struct Table {
    queues: HashMap<Name, BTreeMap<usize, Queue>>,
    clients: HashMap<u64, Arc<Waiter>>,
    last_number: u64,
}

/// All waiting clients.
#[derive(Debug)]
pub(crate) struct BlockedClients {
    table: Mutex<Table>,
    clients: AtomicUsize,
    counters: Box<[AtomicU32]>,
    hasher: RandomState,
    /// Keys that have expired or were evicted while clients may have waited for them, with their
    /// databases.
    lost: Mutex<Vec<(usize, Name)>>,
    /// Whether `lost` has any keys.
    has_lost: AtomicBool,
}

impl Default for BlockedClients {
    fn default() -> Self {
        BlockedClients {
            table: Mutex::default(),
            clients: AtomicUsize::new(0),
            counters: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect(),
            hasher: RandomState::new(),
            lost: Mutex::default(),
            has_lost: AtomicBool::new(false),
        }
    }
}

/// The parts of a client's wait, before it is in the queues.
#[derive(Debug)]
pub(crate) struct NewWaiter {
    pub(crate) client: Arc<ClientInfo>,
    pub(crate) database: usize,
    pub(crate) keys: Box<[Name]>,
    pub(crate) wanted: Box<dyn Wanted>,
    pub(crate) permission: Permission,
    /// Whether it is notified of changes of the keys that it reads.
    pub(crate) tracks: bool,
    /// Whether it is refused when memory is exhausted.
    pub(crate) needs_memory: bool,
    pub(crate) waker: Waker,
}

impl BlockedClients {
    /// Whether no client waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.clients.load(Ordering::Relaxed) == 0
    }

    /// The number of keys for which clients wait.
    pub(crate) fn keys(&self) -> usize {
        self.table.lock().queues.values().map(BTreeMap::len).sum()
    }

    /// The number of keys whose removal ends the wait of clients.
    pub(crate) fn keys_on_removal(&self) -> usize {
        let table = self.table.lock();
        let queues = table.queues.values().flat_map(BTreeMap::values);
        let ends = |queue: &&Queue| {
            queue.waiters.values().any(|waiter| waiter.wanted.wakes_on_any_change())
        };
        queues.filter(ends).count()
    }

    #[expect(clippy::indexing_slicing, reason = "the remainder is below the number of counters")]
    fn counter(&self, name: &[u8]) -> &AtomicU32 {
        &self.counters[self.hasher.hash_one(name) as usize % COUNTERS]
    }

    /// Whether a client may be waiting for a key, in any database.
    pub(crate) fn may_concern(&self, name: &[u8]) -> bool {
        self.counter(name).load(Ordering::Relaxed) > 0
    }

    /// Adds a client to the queues of its keys, which it has claimed. Calls `enter` before the
    /// client can be removed.
    pub(crate) fn enter(self: &Arc<Self>, new: NewWaiter, enter: impl FnOnce()) -> Waiting {
        let NewWaiter { client, database, keys, wanted, permission, tracks, needs_memory, waker } =
            new;
        let mut charge = Charge::default();
        let places_bytes: usize = keys.iter().map(|key| key.len() + PLACE_BYTES).sum();
        let wanted_bytes = room_bytes::<u8>(size_of_val(&*wanted));
        let permission_bytes = room_bytes::<u8>(size_of_val(&*permission.0)) + places_bytes;
        charge.set(
            room_bytes::<Waiter>(1) + CLIENT_BYTES + wanted_bytes + places_bytes + permission_bytes,
        );
        let mut table = self.table.lock();
        table.last_number += 1;
        let outcome = Mutex::new(Outcome::Waiting);
        let number = table.last_number;
        let waiter = Arc::new(Waiter {
            number,
            client,
            database,
            keys,
            wanted,
            permission,
            tracks,
            needs_memory,
            waker,
            outcome,
        });
        table.clients.insert(waiter.client.id, Arc::clone(&waiter));
        self.clients.fetch_add(1, Ordering::Relaxed);
        enter();
        let (first, rest) = waiter.keys.split_at(waiter.keys.len().min(KEYS_PER_HOLD));
        self.queue(&mut table, &waiter, first);
        drop(table);
        // The keys are claimed, so no request can serve the client meanwhile.
        rest.chunks(KEYS_PER_HOLD)
            .for_each(|keys| self.queue(&mut self.table.lock(), &waiter, keys));
        Waiting { blocked: Arc::clone(self), waiter, _charge: charge }
    }

    /// Adds a client to the queues of some of its keys.
    fn queue(&self, table: &mut Table, waiter: &Arc<Waiter>, keys: &[Name]) {
        for key in keys {
            let queues = table.queues.entry(Arc::clone(key)).or_default();
            if queues.entry(waiter.database).or_default().insert(waiter) {
                self.counter(key).fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Removes a client from all queues.
    pub(crate) fn leave(&self, waiter: &Waiter) {
        let mut table = self.table.lock();
        let is_it = |it: &Arc<Waiter>| it.number == waiter.number;
        if table.clients.get(&waiter.client.id).is_some_and(is_it) {
            table.clients.remove(&waiter.client.id);
            shrink(&mut table.clients);
            self.clients.fetch_sub(1, Ordering::Relaxed);
        }
        let (first, rest) = waiter.keys.split_at(waiter.keys.len().min(KEYS_PER_HOLD));
        self.unqueue(&mut table, waiter, first);
        drop(table);
        rest.chunks(KEYS_PER_HOLD)
            .for_each(|keys| self.unqueue(&mut self.table.lock(), waiter, keys));
    }

    /// Removes a client from the queues of some of its keys, if it is there.
    fn unqueue(&self, table: &mut Table, waiter: &Waiter, keys: &[Name]) {
        for key in keys {
            let Some(queues) = table.queues.get_mut(key) else { continue };
            let Some(queue) = queues.get_mut(&waiter.database) else { continue };
            if queue.remove(waiter) {
                self.counter(key).fetch_sub(1, Ordering::Relaxed);
            }
            if queue.waiters.is_empty() {
                queues.remove(&waiter.database);
            }
            if queues.is_empty() {
                table.queues.remove(key);
            }
        }
    }

    /// Calls `end` if no client waits. No client can begin to wait meanwhile.
    pub(crate) fn end_if_empty(&self, end: impl FnOnce()) {
        let table = self.table.lock();
        if table.clients.is_empty() {
            end();
        }
    }

    /// Ends the wait of a client. Returns whether it was waiting.
    pub(crate) fn unblock(&self, client: u64, with_error: bool) -> bool {
        let Some(waiter) = self.table.lock().clients.get(&client).cloned() else { return false };
        waiter.end(Outcome::Unblocked { with_error })
    }

    /// Removes a client that is about to be closed from all queues.
    pub(crate) fn abandon(&self, client: u64) {
        let waiter = self.table.lock().clients.get(&client).cloned();
        if let Some(waiter) = waiter {
            self.leave(&waiter);
        }
    }

    /// All keys that clients wait for.
    pub(crate) fn names(&self) -> Vec<Name> {
        self.table.lock().queues.keys().cloned().collect()
    }

    /// The databases in which clients wait for a key.
    pub(crate) fn databases(&self, name: &[u8]) -> Vec<usize> {
        let table = self.table.lock();
        table.queues.get(name).map_or_else(Vec::new, |queues| queues.keys().copied().collect())
    }

    /// The first client in a queue whose number is above `after`, and which waits for a value of
    /// this type or for any change.
    pub(crate) fn next(
        &self,
        name: &[u8],
        database: usize,
        after: u64,
        kind: Option<Kind>,
    ) -> Option<Arc<Waiter>> {
        let table = self.table.lock();
        let queue = table.queues.get(name)?.get(&database)?;
        let mut waiters = queue.waiters.range(after + 1..).map(|(_, waiter)| waiter);
        let concerns = |wanted: &dyn Wanted| {
            kind.is_some_and(|kind| wanted.kind() == kind) || wanted.wakes_on_any_change()
        };
        waiters.find(|waiter| concerns(&*waiter.wanted)).cloned()
    }

    /// Notes the keys that have expired or were evicted, if clients may be waiting for them. Called
    /// while latches are held.
    pub(crate) fn note_removals(&self, change: &StoreChange) {
        if self.is_empty() {
            return;
        }
        let is_lost = |events: &[Event]| matches!(events, [Event::Expired | Event::Evicted]);
        for removed in change.keys.iter().filter(|key| is_lost(&key.events)) {
            if self.may_concern(&removed.key) {
                self.lost.lock().push((removed.database, Name::from(&removed.key[..])));
                self.has_lost.store(true, Ordering::Release);
            }
        }
    }

    /// Whether noted keys are left.
    #[inline]
    pub(crate) fn has_lost_keys(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    /// Ends the wait of clients for the noted keys, unless a key exists again: the request that has
    /// created it has served its clients. No latch may be held.
    #[cold]
    pub(crate) fn end_for_lost_keys(&self, exists: impl Fn(usize, &[u8]) -> bool) {
        let lost = {
            let mut lost = self.lost.lock();
            self.has_lost.store(false, Ordering::Release);
            std::mem::take(&mut *lost)
        };
        for (database, name) in lost {
            if exists(database, &name) {
                continue;
            }
            let mut after = 0;
            while let Some(waiter) = self.next(&name, database, after, None) {
                waiter.end(Outcome::Served(Taken::NoGroup(Arc::clone(&name))));
                after = waiter.number;
            }
        }
    }

    /// Adds a key to `reached` if clients wait for it. Also adds the keys to which their elements
    /// move, transitively. Returns whether any client waits for the key.
    pub(crate) fn reach(&self, name: &[u8], reached: &mut BTreeSet<Name>) -> bool {
        let table = self.table.lock();
        let Some((name, _)) = table.queues.get_key_value(name) else { return false };
        let mut next = vec![Arc::clone(name)];
        while let Some(name) = next.pop() {
            let queues = table.queues.get(&name).into_iter().flat_map(BTreeMap::values);
            if reached.insert(name) {
                next.extend(queues.flat_map(|queue| queue.destinations.keys()).cloned());
            }
        }
        true
    }
}

/// A client's wait, which ends on drop.
#[derive(Debug)]
pub(crate) struct Waiting {
    blocked: Arc<BlockedClients>,
    waiter: Arc<Waiter>,
    /// Accounts for the memory of the queues, which is not data.
    _charge: Charge,
}

impl Waiting {
    /// Removes the client from all queues; it is about to be closed.
    pub(crate) fn leave(&self) {
        self.blocked.leave(&self.waiter);
    }

    /// Takes its outcome. If its time is up and it is still waiting, its wait ends, and
    /// `Outcome::Waiting` is returned. While it is being served, it goes on to wait.
    pub(crate) fn outcome(&self, is_time_up: bool) -> Outcome {
        let mut outcome = self.waiter.outcome.lock();
        match *outcome {
            Outcome::Serving => Outcome::Serving,
            Outcome::Waiting if !is_time_up => Outcome::Waiting,
            _ => std::mem::replace(&mut outcome, Outcome::Over),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        *self.waiter.outcome.lock() = Outcome::Over;
        self.blocked.leave(&self.waiter);
    }
}
