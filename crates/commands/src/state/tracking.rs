//! Client-side caching: tracks the keys that clients have read and may have cached, and reports
//! changes of these.
//!
//! ```text
//! read:   remember -> read -> still remembered? -> reply
//!                              no: remember, and have the copy dropped after the reply
//! change: (latch held) forget, queue -> (none held) outbox of a worker -> push
//! ```
//!
//! A key is remembered before it is read, so that no change after the read is missed. A change
//! between the two removes it again: the cached copy may then be stale or no longer tracked, so
//! that the client gets another invalidation after the reply. Workers send the contents of their
//! outboxes between replies, so that a push never overtakes the reply to an earlier read.

use crate::state::client::{ClientInfo, Marks};
use crate::state::invalidations::{FULL_BYTES, KEY_BYTES, Message, Outbox, Push};
use crate::state::sparse::shrink;
use crate::state::tracking_options::TrackingOptions;
use nagi_store::accounting::{Charge, room_bytes};
use nagi_store::{Effect, Event, StoreChange, free_elsewhere};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Parts of the table, each with its own lock.
const STRIPES: usize = 64;
/// Approximate memory of a tracked key besides its bytes, in bytes.
const TRACKED_KEY_BYTES: usize = 120;
/// Readers of a key from which on those that have disconnected are looked for.
const FEW_READERS: usize = 64;
/// The work that a worker does at a time for invalidations, in pushes or listed keys.
const PUBLISHED: usize = 4096;

thread_local! {
    /// The client whose request this thread executes; 0 if it does not track keys.
    static EXECUTING: Cell<u64> = const { Cell::new(0) };
    /// The number of this thread, if it publishes its own queue so that the changes of a request
    /// are sent together; 0 for other threads.
    static THREAD: Cell<usize> = const { Cell::new(0) };
    /// Whether this thread publishes some invalidations at a time, and comes back for the rest.
    static IN_SLICES: Cell<bool> = const { Cell::new(false) };
}

/// A client that tracks keys.
#[derive(Clone, Debug)]
struct Tracker {
    info: Arc<ClientInfo>,
    options: Arc<TrackingOptions>,
}

/// The clients that have read a key.
#[derive(Debug, Default)]
struct Readers {
    /// The numbers of the clients, ascending. Some may have disconnected.
    clients: Vec<u64>,
    charge: Charge,
}

impl Readers {
    /// Adds a client. Returns whether it was there.
    fn add(&mut self, client: u64) -> bool {
        match self.clients.binary_search(&client) {
            Ok(_) => true,
            Err(at) => {
                let room = self.clients.capacity();
                self.clients.insert(at, client);
                let more = self.clients.capacity() - room;
                self.charge.set(self.charge.bytes() + room_bytes::<u64>(more));
                false
            }
        }
    }
}

/// A part of the table.
#[derive(Debug, Default)]
struct Stripe {
    keys: HashMap<Box<[u8]>, Readers>,
    /// The number of pairs of a key and a client. Counted here, since a flush, which holds all
    /// latches, removes many keys at once.
    items: usize,
}

/// An invalidation to send.
#[derive(Debug)]
enum Invalidation {
    /// This key, read by these clients, was changed by a request of the client in the last field.
    Key(Box<[u8]>, Vec<u64>, u64),
    /// A client must drop a key that was changed while it was read.
    Again(Box<[u8]>, u64),
    /// This key, read by these clients, was evicted from the table.
    Forgotten(Box<[u8]>, Vec<u64>),
    /// All keys were removed.
    All,
}

impl Invalidation {
    /// The number of clients that have read its key.
    fn readers(&self) -> usize {
        match self {
            Invalidation::Key(_, clients, _) | Invalidation::Forgotten(_, clients) => clients.len(),
            Invalidation::Again(..) | Invalidation::All => 0,
        }
    }

    /// Memory that it takes, in bytes.
    fn own_bytes(&self) -> usize {
        let (key, clients) = match self {
            // It is also among the unread keys.
            Invalidation::Key(key, clients, _) if clients.is_empty() => {
                (2 * (KEY_BYTES + key.len()), 0)
            }
            Invalidation::Key(key, clients, _) | Invalidation::Forgotten(key, clients) => {
                (KEY_BYTES + key.len(), clients.capacity())
            }
            Invalidation::Again(key, _) => (KEY_BYTES + key.len(), 0),
            Invalidation::All => (0, 0),
        };
        size_of::<Invalidation>() + key + room_bytes::<u64>(clients)
    }
}

/// Changed keys, each with the client that has changed it.
type UnreadKeys = HashSet<(Box<[u8]>, u64)>;

/// The invalidations that a thread has queued. The queue is bounded: once it is full, all clients
/// drop all their copies.
#[derive(Debug, Default)]
struct Queue {
    invalidations: VecDeque<Invalidation>,
    /// Memory of the invalidations.
    charge: Charge,
    /// Whether it ends with an invalidation of all keys, for which no room was left.
    is_full: bool,
    /// Changed keys that no client has read, each with the client that has changed it. They concern
    /// clients that receive invalidations by prefixes, for which one is enough.
    unread: UnreadKeys,
}

impl Queue {
    fn add(&mut self, invalidation: Invalidation) {
        if self.charge.bytes() >= FULL_BYTES {
            if !std::mem::replace(&mut self.is_full, true) {
                self.push(Invalidation::All);
            }
            return;
        }
        let ends_with_all = matches!(self.invalidations.back(), Some(Invalidation::All));
        if ends_with_all && matches!(invalidation, Invalidation::All) {
            return;
        }
        let is_known = match &invalidation {
            Invalidation::Key(key, clients, origin) if clients.is_empty() => {
                !self.unread.insert((key.clone(), *origin))
            }
            _ => false,
        };
        if !is_known {
            self.push(invalidation);
        }
    }

    fn push(&mut self, invalidation: Invalidation) {
        self.charge.set(self.charge.bytes() + invalidation.own_bytes());
        self.invalidations.push_back(invalidation);
    }

    /// Moves its first invalidations to `taken`, as many as cause about `most` pushes or listed
    /// keys. Returns the unread keys, which may change again, to be freed without a lock.
    fn move_to(&mut self, taken: &mut Vec<Invalidation>, most: usize) -> UnreadKeys {
        let (mut work, mut bytes) = (0, 0);
        while work < most
            && let Some(invalidation) = self.invalidations.pop_front()
        {
            work += 1 + invalidation.readers();
            bytes += invalidation.own_bytes();
            taken.push(invalidation);
        }
        self.charge.set(self.charge.bytes() - bytes);
        self.is_full &= self.charge.bytes() >= FULL_BYTES;
        std::mem::take(&mut self.unread)
    }
}

/// All clients that track keys, and the keys that they have read.
#[derive(Debug)]
pub struct Tracking {
    trackers: RwLock<HashMap<u64, Tracker>>,
    stripes: Box<[Mutex<Stripe>]>,
    hasher: RandomState,
    keys: AtomicUsize,
    /// The stripe in which the next key is evicted when the table is full.
    next_eviction: AtomicUsize,
    /// The number of clients that receive invalidations by prefixes.
    broadcasts: AtomicUsize,
    /// Invalidations by the number of the changing thread. Locked with latches held, and then only
    /// to add to it.
    queued: Mutex<BTreeMap<usize, Queue>>,
    is_pending: AtomicBool,
    /// The pushes that each worker must send, by its number.
    outboxes: Mutex<BTreeMap<usize, Outbox>>,
}

impl Default for Tracking {
    fn default() -> Self {
        Tracking {
            trackers: RwLock::default(),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            keys: AtomicUsize::new(0),
            next_eviction: AtomicUsize::new(0),
            broadcasts: AtomicUsize::new(0),
            queued: Mutex::default(),
            is_pending: AtomicBool::new(false),
            outboxes: Mutex::default(),
        }
    }
}

/// Figures about tracked keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrackingFigures {
    pub(crate) clients: usize,
    pub(crate) keys: usize,
    /// The number of pairs of a key and a client.
    pub(crate) items: usize,
    pub(crate) prefixes: usize,
}

impl Tracking {
    /// Whether any client tracks keys.
    pub(crate) fn is_used(&self) -> bool {
        !self.trackers.read().is_empty()
    }

    /// Starts tracking of keys for a client, with these options.
    pub(crate) fn start(&self, info: &Arc<ClientInfo>, options: Arc<TrackingOptions>) {
        self.broadcasts.fetch_add(usize::from(options.is_broadcast), Ordering::SeqCst);
        info.mark(Marks::TRACKING, true);
        info.mark(Marks::BROADCAST_TRACKING, options.is_broadcast);
        info.mark(Marks::BROKEN_REDIRECT, false);
        info.redirect.store(options.redirect.unwrap_or(0), Ordering::Relaxed);
        let tracker = Tracker { info: Arc::clone(info), options };
        self.forget_mode(self.trackers.write().insert(info.id, tracker));
    }

    /// Updates the counters after a client's tracking has ended or changed its mode.
    fn forget_mode(&self, tracker: Option<Tracker>) {
        let is_broadcast = tracker.is_some_and(|tracker| tracker.options.is_broadcast);
        self.broadcasts.fetch_sub(usize::from(is_broadcast), Ordering::SeqCst);
    }

    /// Ends a client's tracking. Returns whether it was enabled. The keys that the client has read
    /// are removed when they change, or when the last client ends its tracking.
    pub fn stop(&self, info: &ClientInfo) -> bool {
        if !info.marks().contains(Marks::TRACKING) {
            return false;
        }
        info.mark(Marks::TRACKING | Marks::BROADCAST_TRACKING | Marks::BROKEN_REDIRECT, false);
        let mut trackers = self.trackers.write();
        self.forget_mode(trackers.remove(&info.id));
        if trackers.is_empty() {
            self.clear();
        }
        true
    }

    /// Removes all tracked keys.
    fn clear(&self) {
        let taken = self.stripes.iter().map(|stripe| std::mem::take(&mut *stripe.lock()));
        let taken: Vec<Stripe> = taken.filter(|stripe| !stripe.keys.is_empty()).collect();
        for stripe in &taken {
            self.keys.fetch_sub(stripe.keys.len(), Ordering::Relaxed);
        }
        if !taken.is_empty() {
            free_elsewhere(taken);
        }
    }

    /// Figures about tracked keys.
    pub(crate) fn figures(&self) -> TrackingFigures {
        let trackers = self.trackers.read();
        let prefixes: BTreeSet<_> =
            trackers.values().flat_map(|tracker| &tracker.options.prefixes).collect();
        TrackingFigures {
            clients: trackers.len(),
            keys: self.keys.load(Ordering::Relaxed),
            items: self.stripes.iter().map(|stripe| stripe.lock().items).sum(),
            prefixes: prefixes.len(),
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the remainder is below the number of stripes")]
    fn stripe(&self, key: &[u8]) -> MutexGuard<'_, Stripe> {
        self.stripes[self.hasher.hash_one(key) as usize % STRIPES].lock()
    }

    /// Records that a client is about to read a key. Returns whether that was already recorded. If
    /// there are more than `most` keys, another key is evicted, and its clients are notified.
    pub(crate) fn remember(&self, key: &[u8], client: u64, most: usize) -> bool {
        let mut stripe = self.stripe(key);
        if let Some(readers) = stripe.keys.get_mut(key) {
            let is_known = readers.add(client);
            let count = readers.clients.len();
            stripe.items += usize::from(!is_known);
            drop(stripe);
            if !is_known && count >= FEW_READERS && count.is_power_of_two() {
                self.drop_departed(key);
            }
            return is_known;
        }
        let mut charge = Charge::default();
        charge.set(room_bytes::<u8>(key.len()) + TRACKED_KEY_BYTES);
        stripe.keys.insert(key.into(), Readers { clients: vec![client], charge });
        stripe.items += 1;
        // Counted under the lock, so that a key is never removed before it is counted.
        let keys = self.keys.fetch_add(1, Ordering::Relaxed) + 1;
        drop(stripe);
        // Two keys if there are more than that, so that the number approaches a lowered limit.
        for _ in 0..keys.saturating_sub(most).min(if most > 0 { 2 } else { 0 }) {
            self.forget_any(key);
        }
        false
    }

    /// Removes clients that do not track keys any more from the readers of a key.
    #[cold]
    fn drop_departed(&self, key: &[u8]) {
        // Locked first, as by the end of a tracking. A client that begins meanwhile cannot have
        // read the key yet.
        let trackers = self.trackers.read();
        let mut stripe = self.stripe(key);
        let Some(readers) = stripe.keys.get_mut(key) else { return };
        let before = readers.clients.len();
        readers.clients.retain(|client| trackers.contains_key(client));
        let departed = before - readers.clients.len();
        stripe.items -= departed;
    }

    /// Evicts keys until their number is at most `most`, the new limit; at most some at a time.
    pub(crate) fn limit(&self, most: usize) {
        const AT_ONCE: usize = 1000;
        let over = self.keys.load(Ordering::Relaxed).saturating_sub(most);
        for _ in 0..over.min(if most > 0 { AT_ONCE } else { 0 }) {
            self.forget_any(b"");
        }
    }

    /// Evicts any key other than `but`, and makes its clients drop it.
    fn forget_any(&self, but: &[u8]) {
        // The stripes are used in turn, so that none becomes sparse and slow to search.
        let first = self.next_eviction.fetch_add(1, Ordering::Relaxed) % STRIPES;
        for stripe in self.stripes.iter().cycle().skip(first).take(STRIPES) {
            let key = stripe.lock().keys.keys().find(|key| ***key != *but).cloned();
            let Some(key) = key else { continue };
            let clients = self.take(&key);
            return self.queue(Invalidation::Forgotten(key, clients));
        }
    }

    fn take(&self, key: &[u8]) -> Vec<u64> {
        let mut stripe = self.stripe(key);
        let Some(readers) = stripe.keys.remove(key) else { return Vec::new() };
        stripe.items -= readers.clients.len();
        shrink(&mut stripe.keys);
        drop(stripe);
        self.keys.fetch_sub(1, Ordering::Relaxed);
        readers.clients
    }

    /// Sends a client the invalidation of a key of which it may have a stale copy.
    pub(crate) fn invalidate_again(&self, key: &[u8], client: u64) {
        self.queue(Invalidation::Again(key.into(), client));
    }

    fn queue(&self, invalidation: Invalidation) {
        let mut queued = self.queued.lock();
        queued.entry(THREAD.get()).or_default().add(invalidation);
        self.is_pending.store(true, Ordering::Release);
    }

    /// Records a change; its latches are held.
    pub(crate) fn note(&self, change: &StoreChange) {
        let is_flush = |effect: &Effect| matches!(effect, Effect::Flush(_));
        if change.effects.iter().any(is_flush) && self.is_used() {
            self.clear();
            return self.queue(Invalidation::All);
        }
        let broadcasts = self.broadcasts.load(Ordering::SeqCst) > 0;
        if self.keys.load(Ordering::SeqCst) == 0 && !broadcasts {
            return;
        }
        for changed in change.keys.iter().filter(|key| key.is_modified) {
            let clients = self.take(&changed.key);
            if !clients.is_empty() || broadcasts {
                let key = Box::from(&changed.key[..]);
                // Expiry and eviction during a request are not changes by its client.
                let is_own = !matches!(changed.events[..], [Event::Expired | Event::Evicted]);
                let origin = if is_own { EXECUTING.get() } else { 0 };
                self.queue(Invalidation::Key(key, clients, origin));
            }
        }
    }

    /// Takes some of the queue of this thread, and of threads that do not publish. Returns also
    /// whether these queues have more.
    fn take_queued(&self) -> (Vec<Invalidation>, bool) {
        let (mut taken, mut unread) = (Vec::new(), Vec::new());
        let mut has_more = false;
        let mut queued = self.queued.lock();
        for thread in BTreeSet::from([0, THREAD.get()]) {
            let Some(queue) = queued.get_mut(&thread) else { continue };
            unread.push(queue.move_to(&mut taken, PUBLISHED));
            match queue.invalidations.is_empty() {
                true => drop(queued.remove(&thread)),
                false => has_more = true,
            }
        }
        self.is_pending.store(!queued.is_empty(), Ordering::Release);
        drop(queued);
        (taken, has_more)
    }

    /// Whether there are invalidations to pass to workers.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Acquire)
    }

    /// Whether this thread is to pass on invalidations: its own, or those of threads that do not.
    #[inline]
    #[must_use]
    pub fn must_publish(&self) -> bool {
        self.is_pending() && {
            let queued = self.queued.lock();
            [0, THREAD.get()].iter().any(|thread| queued.contains_key(thread))
        }
    }

    /// Passes queued invalidations to the workers of their clients, and passes to `wake` their
    /// numbers. A worker passes some at a time, and continues while [`Tracking::must_publish`]. No
    /// latch may be held.
    pub(crate) fn publish(
        &self,
        client: impl Fn(u64) -> Option<Arc<ClientInfo>>,
        mut wake: impl FnMut(usize),
    ) {
        while self.publish_some(&client, &mut wake) && !IN_SLICES.get() {}
    }

    /// Does this for some of them. Returns whether there are more.
    fn publish_some(
        &self,
        client: impl Fn(u64) -> Option<Arc<ClientInfo>>,
        mut wake: impl FnMut(usize),
    ) -> bool {
        // Held until all pushes are in outboxes, so that they stay in order.
        let mut outboxes = self.outboxes.lock();
        let (queued, has_more) = self.take_queued();
        if queued.is_empty() {
            return has_more;
        }
        let trackers = self.trackers.read();
        let is_broadcast = |tracker: &&Tracker| tracker.options.is_broadcast;
        let broadcasts: Vec<&Tracker> = match self.broadcasts.load(Ordering::SeqCst) {
            0 => Vec::new(),
            _ => trackers.values().filter(is_broadcast).collect(),
        };
        let mut workers = BTreeSet::new();
        let changed = |key: &[u8]| Message::changed(std::iter::once(key));
        let mut push = |id: u64, message: &Message| {
            let Some(tracker) = trackers.get(&id) else { return };
            let push = tracker.push(&client, message);
            let worker = push.client.worker();
            outboxes.entry(worker).or_default().put(push);
            workers.insert(worker);
        };
        let has_again = queued.iter().any(|it| matches!(it, Invalidation::Again(..)));
        let mut told = HashSet::<(&[u8], u64)>::new();
        for invalidation in &queued {
            match invalidation {
                Invalidation::All => {
                    trackers.keys().for_each(|id| push(*id, &Message::Flushed));
                }
                // Invalidations that are passed together are sent after the same reply, so one is
                // enough.
                Invalidation::Again(key, id) if told.contains(&(&**key, *id)) => {}
                Invalidation::Again(key, id) => push(*id, &changed(key)),
                Invalidation::Forgotten(key, clients) => {
                    let by_key = |id: &&u64| trackers.get(id).is_some_and(|it| !is_broadcast(&it));
                    let message = changed(key);
                    clients.iter().filter(by_key).for_each(|id| push(*id, &message));
                }
                Invalidation::Key(key, clients, origin) => {
                    if has_again {
                        told.extend(clients.iter().map(|id| (&**key, *id)));
                    }
                    let is_own = |tracker: &Tracker| {
                        tracker.info.id == *origin && tracker.options.ignores_own
                    };
                    // Keys that a client read before it switched to prefixes no longer count.
                    let by_key = |tracker: &Tracker| !is_broadcast(&tracker) && !is_own(tracker);
                    let message = (!clients.is_empty()).then(|| changed(key));
                    for (id, message) in clients.iter().zip(message.iter().cycle()) {
                        if trackers.get(id).is_some_and(by_key) {
                            push(*id, message);
                        }
                    }
                }
            }
        }
        broadcast(&queued, &broadcasts).iter().for_each(|(id, message)| push(*id, message));
        drop((trackers, outboxes));
        workers.into_iter().for_each(&mut wake);
        has_more
    }

    /// Adds a push to the outbox of a client's worker.
    pub fn put_into_outbox(&self, worker: usize, push: Push) {
        self.outboxes.lock().entry(worker).or_default().put(push);
    }

    /// Takes some of the pushes that a worker must send. Returns also whether there are more.
    #[must_use]
    pub fn take_pushes(&self, worker: usize) -> (Vec<Push>, bool) {
        let mut outboxes = self.outboxes.lock();
        outboxes.get_mut(&worker).map_or_else(Default::default, Outbox::take)
    }
}

impl Tracker {
    /// The push of an invalidation.
    fn push(&self, client: impl Fn(u64) -> Option<Arc<ClientInfo>>, message: &Message) -> Push {
        let own = |message| Push { client: Arc::clone(&self.info), message, is_redirected: false };
        let Some(redirect) = self.options.redirect else { return own(message.clone()) };
        match client(redirect) {
            Some(client) => Push { client, message: message.clone(), is_redirected: true },
            None => {
                self.info.mark(Marks::BROKEN_REDIRECT, true);
                own(Message::RedirectBroken(redirect))
            }
        }
    }
}

/// The messages about changed keys to clients that receive invalidations by prefixes, with the
/// clients' numbers. Clients with the same prefix share a message. A client's prefixes do not
/// overlap.
fn broadcast(queued: &[Invalidation], trackers: &[&Tracker]) -> Vec<(u64, Message)> {
    if trackers.is_empty() {
        return Vec::new();
    }
    let changed: BTreeSet<(&[u8], u64)> = queued
        .iter()
        .filter_map(|invalidation| match invalidation {
            Invalidation::Key(key, _, origin) => Some((&**key, *origin)),
            _ => None,
        })
        .collect();
    let origins: HashSet<u64> = changed.iter().map(|(_, origin)| *origin).collect();
    let list = |prefix: &[u8], but: Option<u64>| {
        let fitting = changed.range((prefix, 0)..).take_while(|(key, _)| key.starts_with(prefix));
        let mut keys: Vec<&[u8]> =
            fitting.filter(|(_, origin)| Some(*origin) != but).map(|(key, _)| *key).collect();
        keys.dedup();
        (!keys.is_empty()).then(|| Message::changed(keys.into_iter()))
    };
    let is_changed = |prefix: &[u8]| {
        changed.range((prefix, 0)..).next().is_some_and(|(key, _)| key.starts_with(prefix))
    };
    let mut shared = HashMap::<&[u8], Option<Message>>::new();
    let mut messages = Vec::new();
    for tracker in trackers {
        let id = tracker.info.id;
        let has_ignored = tracker.options.ignores_own && origins.contains(&id);
        for prefix in tracker.options.prefixes.iter().filter(|prefix| is_changed(prefix)) {
            let message = match has_ignored {
                true => list(prefix, Some(id)),
                false => shared.entry(prefix).or_insert_with(|| list(prefix, None)).clone(),
            };
            messages.extend(message.map(|message| (id, message)));
        }
    }
    messages
}

/// Makes this thread publish its own changes, as the worker with this number: some at a time,
/// while [`Tracking::must_publish`].
pub fn begin_worker(worker: usize) {
    begin_publishing(worker);
    IN_SLICES.set(true);
}

/// Makes this thread publish its own changes, all at once. No other thread has this number.
pub(crate) fn begin_publishing(thread: usize) {
    THREAD.set(thread + 1);
}

/// Calls `run` on behalf of a client, so that changes are attributed to the client.
pub(crate) fn as_client<T>(client: u64, run: impl FnOnce() -> T) -> T {
    let before = EXECUTING.replace(client);
    let outcome = run();
    EXECUTING.set(before);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(prefix: &[u8]) -> Arc<TrackingOptions> {
        let prefixes = BTreeSet::from([Box::from(prefix)]);
        Arc::new(TrackingOptions { is_broadcast: true, prefixes, ..TrackingOptions::default() })
    }

    #[test]
    fn a_request_that_changes_too_much_makes_clients_drop_all_keys() {
        let (tracking, info) = (Tracking::default(), Arc::new(ClientInfo::default()));
        tracking.start(&info, options(b"a"));
        let key = |number: usize| format!("{number:0>1000}").into_bytes().into_boxed_slice();
        let queue = |number| tracking.queue(Invalidation::Key(key(number), Vec::new(), 0));
        (0..100_000).for_each(queue);
        let charged = tracking.queued.lock().values().map(|it| it.charge.bytes()).sum::<usize>();
        assert!(charged < FULL_BYTES + 4096, "{charged}");
        tracking.publish(|_| None, |_| ());
        assert!(!tracking.is_pending());
        let (pushes, has_more) = tracking.take_pushes(0);
        let flushes = pushes.iter().filter(|it| matches!(it.message, Message::Flushed)).count();
        // None of the keys has the client's prefix.
        assert_eq!((flushes, pushes.len(), has_more), (1, 1, false));
        // The next change is listed.
        tracking.queue(Invalidation::Key(Box::from(*b"ab"), Vec::new(), 0));
        tracking.publish(|_| None, |_| ());
        let (pushes, _) = tracking.take_pushes(0);
        assert!(matches!(pushes[..], [Push { message: Message::Changed(_), .. }]), "{pushes:?}");
    }

    #[test]
    fn a_worker_publishes_some_invalidations_at_a_time() {
        let (tracking, info) = (Tracking::default(), Arc::new(ClientInfo::default()));
        tracking.start(&info, options(b""));
        begin_worker(0);
        let key = |number: usize| number.to_string().into_bytes().into_boxed_slice();
        let queue = |number| tracking.queue(Invalidation::Key(key(number), Vec::new(), 0));
        (0..=PUBLISHED).for_each(queue);
        tracking.publish(|_| None, |_| ());
        assert!(tracking.is_pending());
        // A key that has been published and changes again is published again.
        queue(0);
        tracking.publish(|_| None, |_| ());
        assert!(!tracking.is_pending());
        let counts = [(); 2].map(|()| match &tracking.take_pushes(0).0[..] {
            [Push { message: Message::Changed(keys), .. }] => keys.count(),
            pushes => panic!("{pushes:?}"),
        });
        assert_eq!(counts, [PUBLISHED, 2]);
    }
}
