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
use crate::state::sparse::shrink;
use crate::state::tracking_options::TrackingOptions;
use nagi_proto::Output;
use nagi_proto::resp::{Version, Writer};
use nagi_store::accounting::{Charge, room_bytes};
use nagi_store::{Effect, Event, StoreChange, free_elsewhere};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Parts of the table, each with its own lock.
const STRIPES: usize = 64;
/// Approximate memory of a key besides its bytes, in bytes.
const KEY_BYTES: usize = 120;
/// Readers of a key from which on those that have disconnected are looked for.
const FEW_READERS: usize = 64;
/// The channel of invalidations for RESP2 clients.
const CHANNEL: &[u8] = b"__redis__:invalidate";

thread_local! {
    /// The client whose request this thread executes; 0 if it does not track keys.
    static EXECUTING: Cell<u64> = const { Cell::new(0) };
    /// The number of this thread, if it publishes its own queue so that the changes of a request
    /// are sent together; 0 for other threads.
    static THREAD: Cell<usize> = const { Cell::new(0) };
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

type Stripe = HashMap<Box<[u8]>, Readers>;

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

/// A push to a client. It is encoded when it is sent, since the client may change its protocol
/// version or its subscriptions before.
#[derive(Debug)]
pub struct Push {
    /// The client.
    pub client: Arc<ClientInfo>,
    message: Message,
    /// Whether it concerns reads of another client.
    is_redirected: bool,
}

/// The content of a push.
#[derive(Clone, Debug)]
enum Message {
    /// These keys have changed.
    Changed(Arc<[Box<[u8]>]>),
    /// All keys were removed.
    Flushed,
    /// The client with this number, to which invalidations were redirected, is gone.
    RedirectBroken(u64),
}

impl Push {
    /// Its encoding; `None` if the client could not distinguish it from a reply.
    #[must_use]
    pub fn encode(&self) -> Option<Output> {
        let mut output = Output::default();
        let version = version(&self.client);
        let mut writer = Writer::new(&mut output, version);
        match (version, &self.message) {
            (Version::Three, Message::RedirectBroken(target)) => {
                writer.push(2);
                writer.bulk(b"tracking-redir-broken");
                writer.integer(i64::try_from(*target).unwrap_or(i64::MAX));
                return Some(output);
            }
            (Version::Three, _) => {
                writer.push(2);
                writer.bulk(b"invalidate");
            }
            (Version::Two, Message::Changed(_) | Message::Flushed)
                if self.is_redirected && self.client.is_subscriber() =>
            {
                writer.message(3);
                writer.bulk(b"message");
                writer.bulk(CHANNEL);
            }
            (Version::Two, _) => return None,
        }
        if let Message::Changed(keys) = &self.message {
            writer.array(keys.len());
            keys.iter().for_each(|key| writer.bulk(key));
        } else {
            writer.null();
        }
        Some(output)
    }
}

/// The invalidations that a thread has queued.
#[derive(Debug, Default)]
struct Queue {
    invalidations: Vec<Invalidation>,
    /// Changed keys that no client has read, each with the client that has changed it. They concern
    /// clients that receive invalidations by prefixes, for which one is enough.
    unread: HashSet<(Box<[u8]>, u64)>,
}

/// All clients that track keys, and the keys that they have read.
#[derive(Debug)]
pub struct Tracking {
    trackers: RwLock<HashMap<u64, Tracker>>,
    stripes: Box<[Mutex<Stripe>]>,
    hasher: RandomState,
    keys: AtomicUsize,
    /// The number of pairs of a key and a client.
    items: AtomicUsize,
    /// The stripe in which the next key is evicted when the table is full.
    next_eviction: AtomicUsize,
    /// The number of clients that receive invalidations by prefixes.
    broadcasts: AtomicUsize,
    /// Invalidations by the number of the changing thread. Locked with latches held, and then only
    /// to add to it.
    queued: Mutex<BTreeMap<usize, Queue>>,
    is_pending: AtomicBool,
    /// The pushes that each worker must send, by its number.
    outboxes: Mutex<BTreeMap<usize, Vec<Push>>>,
}

impl Default for Tracking {
    fn default() -> Self {
        Tracking {
            trackers: RwLock::default(),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
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
        let taken: Vec<Stripe> = taken.filter(|stripe| !stripe.is_empty()).collect();
        for stripe in &taken {
            self.keys.fetch_sub(stripe.len(), Ordering::Relaxed);
            let items = stripe.values().map(|readers| readers.clients.len()).sum();
            self.items.fetch_sub(items, Ordering::Relaxed);
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
            items: self.items.load(Ordering::Relaxed),
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
        if let Some(readers) = stripe.get_mut(key) {
            let is_known = readers.add(client);
            let count = readers.clients.len();
            // Counted under the lock, as below.
            self.items.fetch_add(usize::from(!is_known), Ordering::Relaxed);
            drop(stripe);
            if !is_known && count >= FEW_READERS && count.is_power_of_two() {
                self.drop_departed(key);
            }
            return is_known;
        }
        let mut charge = Charge::default();
        charge.set(room_bytes::<u8>(key.len()) + KEY_BYTES);
        stripe.insert(key.into(), Readers { clients: vec![client], charge });
        // Counted under the lock, so that a key is never removed before it is counted.
        let keys = self.keys.fetch_add(1, Ordering::Relaxed) + 1;
        self.items.fetch_add(1, Ordering::Relaxed);
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
        let Some(readers) = stripe.get_mut(key) else { return };
        let before = readers.clients.len();
        readers.clients.retain(|client| trackers.contains_key(client));
        self.items.fetch_sub(before - readers.clients.len(), Ordering::Relaxed);
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
            let key = stripe.lock().keys().find(|key| ***key != *but).cloned();
            let Some(key) = key else { continue };
            let clients = self.take(&key);
            return self.queue(Invalidation::Forgotten(key, clients));
        }
    }

    fn take(&self, key: &[u8]) -> Vec<u64> {
        let mut stripe = self.stripe(key);
        let Some(readers) = stripe.remove(key) else { return Vec::new() };
        shrink(&mut stripe);
        drop(stripe);
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.items.fetch_sub(readers.clients.len(), Ordering::Relaxed);
        readers.clients
    }

    /// Sends a client the invalidation of a key of which it may have a stale copy.
    pub(crate) fn invalidate_again(&self, key: &[u8], client: u64) {
        self.queue(Invalidation::Again(key.into(), client));
    }

    fn queue(&self, invalidation: Invalidation) {
        let mut queued = self.queued.lock();
        let queue = queued.entry(THREAD.get()).or_default();
        let is_known = match &invalidation {
            Invalidation::Key(key, clients, origin) if clients.is_empty() => {
                !queue.unread.insert((key.clone(), *origin))
            }
            _ => false,
        };
        if !is_known {
            queue.invalidations.push(invalidation);
        }
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

    /// Takes the queue of this thread, and those of threads that do not publish.
    fn take_queued(&self) -> Vec<Invalidation> {
        let mut queued = self.queued.lock();
        let of_others = queued.remove(&0).unwrap_or_default();
        let own = queued.remove(&THREAD.get()).unwrap_or_default();
        self.is_pending.store(!queued.is_empty(), Ordering::Release);
        // What else is in the queues is freed without the lock.
        drop(queued);
        let mut taken = of_others.invalidations;
        taken.extend(own.invalidations);
        taken
    }

    /// Whether there are invalidations to pass to workers.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Acquire)
    }

    /// Passes queued invalidations to the workers of their clients, and passes to `wake` their
    /// numbers. No latch may be held.
    pub(crate) fn publish(
        &self,
        client: impl Fn(u64) -> Option<Arc<ClientInfo>>,
        mut wake: impl FnMut(usize),
    ) {
        // Held until all pushes are in outboxes, so that they stay in order.
        let mut outboxes = self.outboxes.lock();
        let queued = self.take_queued();
        let trackers = self.trackers.read();
        let is_broadcast = |tracker: &&Tracker| tracker.options.is_broadcast;
        let broadcasts: Vec<&Tracker> = match self.broadcasts.load(Ordering::SeqCst) {
            0 => Vec::new(),
            _ => trackers.values().filter(is_broadcast).collect(),
        };
        let mut by_prefix = BTreeMap::<(u64, &[u8]), BTreeSet<&[u8]>>::new();
        let mut workers = BTreeSet::new();
        let changed = |key: &[u8]| Message::Changed(Arc::new([Box::from(key)]));
        let mut push = |id: u64, message: &Message| {
            let Some(tracker) = trackers.get(&id) else { return };
            let push = tracker.push(&client, message);
            let worker = push.client.worker();
            outboxes.entry(worker).or_default().push(push);
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
                    for &tracker in broadcasts.iter().filter(|tracker| !is_own(tracker)) {
                        if let Some(prefix) = tracker.prefix_of(key) {
                            let keys = by_prefix.entry((tracker.info.id, prefix)).or_default();
                            keys.insert(key);
                        }
                    }
                }
            }
        }
        for ((id, _), keys) in by_prefix {
            push(id, &Message::Changed(keys.into_iter().map(Box::from).collect()));
        }
        drop((trackers, outboxes));
        workers.into_iter().for_each(&mut wake);
    }

    /// Adds a push to the outbox of a client's worker.
    pub fn put_into_outbox(&self, worker: usize, push: Push) {
        self.outboxes.lock().entry(worker).or_default().push(push);
    }

    /// Takes the pushes that a worker must send.
    #[must_use]
    pub fn take_outbox(&self, worker: usize) -> Vec<Push> {
        self.outboxes.lock().remove(&worker).unwrap_or_default()
    }
}

impl Tracker {
    /// The prefix of a key whose invalidations it receives; a client's prefixes do not overlap.
    fn prefix_of(&self, key: &[u8]) -> Option<&[u8]> {
        self.options.prefixes.iter().map(|it| &**it).find(|it| key.starts_with(it))
    }

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

fn version(info: &ClientInfo) -> Version {
    if info.resp.load(Ordering::Relaxed) == 3 { Version::Three } else { Version::Two }
}

/// Makes this thread publish its own changes, as the worker with this number.
pub fn begin_worker(worker: usize) {
    THREAD.set(worker + 1);
}

/// Calls `run` on behalf of a client, so that changes are attributed to the client.
pub(crate) fn as_client<T>(client: u64, run: impl FnOnce() -> T) -> T {
    let before = EXECUTING.replace(client);
    let outcome = run();
    EXECUTING.set(before);
    outcome
}
