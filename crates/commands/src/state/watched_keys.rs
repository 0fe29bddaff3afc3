//! Keys that clients watch (WATCH), and their changes since.
//!
//! The store reports a change while the key's latch is held. EXEC claims the keys that its client
//! watches, so it sees all earlier changes. While no key is watched, the store reports no changes.

use crate::state::sparse::shrink;
use nagi_store::accounting::{Charge, room_bytes};
use nagi_store::{Effect, Event, Store, StoreChange, free_elsewhere, pace};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Parts of the table, each with its own lock.
const STRIPES: usize = 64;
/// The memory of a watched key besides its bytes, which exist twice: here and with its client.
pub(crate) const KEY_BYTES: usize = 160;
/// From this many keys on, a separate thread removes them.
const MANY_KEYS: usize = 1000;

/// A database's number and a key.
type WatchedKey = (usize, Box<[u8]>);

/// A client that watches a key, and whether the key existed at the start.
#[derive(Debug)]
struct Watcher {
    client: Arc<AtomicBool>,
    was_there: bool,
}

type Stripe = HashMap<WatchedKey, Vec<Watcher>>;

/// How often all keys of a database were replaced: removed, or exchanged with another database's.
/// Clients compare the counts, since all latches are held when a flush is reported.
#[derive(Debug, Default)]
struct Replacements {
    of_all: u64,
    of_one: HashMap<usize, u64>,
}

impl Replacements {
    /// Counts a replacement of the keys of a database, or of all databases.
    fn note(&mut self, database: Option<usize>) {
        match database {
            Some(database) => *self.of_one.entry(database).or_default() += 1,
            None => self.of_all += 1,
        }
    }

    /// How often the keys of a database were replaced.
    fn of(&self, database: usize) -> u64 {
        self.of_all + self.of_one.get(&database).copied().unwrap_or(0)
    }
}

/// All watched keys.
#[derive(Debug)]
pub struct WatchedKeys {
    stripes: Box<[Mutex<Stripe>]>,
    hasher: RandomState,
    replacements: Mutex<Replacements>,
    /// The sum of the numbers of keys that clients watch.
    keys: AtomicU64,
    /// The number of clients that watch keys.
    clients: AtomicU64,
    /// Whether subscribers to events of keys need reports of changes. Locked while reports are
    /// enabled or disabled.
    listening: Mutex<bool>,
}

impl Default for WatchedKeys {
    fn default() -> Self {
        WatchedKeys {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            replacements: Mutex::default(),
            keys: AtomicU64::new(0),
            clients: AtomicU64::new(0),
            listening: Mutex::new(false),
        }
    }
}

impl WatchedKeys {
    /// The number of clients that watch keys, and the number of these keys.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.clients.load(Ordering::Relaxed), self.keys.load(Ordering::Relaxed))
    }

    /// Makes the store report changes if clients watch keys, or if reports are needed for other
    /// reasons.
    pub(crate) fn settle(&self, store: &Store) {
        let listening = self.listening.lock();
        store.listen(*listening || self.clients.load(Ordering::SeqCst) > 0);
    }

    /// Like `settle`, with `is_wanted` to find out whether reports are needed for other reasons.
    pub(crate) fn settle_with(&self, store: &Store, is_wanted: impl FnOnce() -> bool) {
        let mut listening = self.listening.lock();
        *listening = is_wanted();
        store.listen(*listening || self.clients.load(Ordering::SeqCst) > 0);
    }

    #[expect(clippy::indexing_slicing, reason = "the remainder is below the number of stripes")]
    fn stripe(&self, key: &WatchedKey) -> MutexGuard<'_, Stripe> {
        self.stripes[self.hasher.hash_one(key) as usize % STRIPES].lock()
    }

    fn add(&self, key: WatchedKey, watcher: Watcher) {
        self.keys.fetch_add(1, Ordering::Relaxed);
        self.stripe(&key).entry(key).or_default().push(watcher);
    }

    fn remove(&self, key: &WatchedKey, client: &Arc<AtomicBool>) {
        self.keys.fetch_sub(1, Ordering::Relaxed);
        let mut stripe = self.stripe(key);
        let Some(watchers) = stripe.get_mut(key) else { return };
        watchers.retain(|watcher| !Arc::ptr_eq(&watcher.client, client));
        if watchers.is_empty() {
            stripe.remove(key);
            shrink(&mut stripe);
        }
    }

    /// Records that a key was changed. If it has expired, watchers for which it did not exist are
    /// not affected.
    fn touch(&self, key: &WatchedKey, expired: bool) {
        if let Some(watchers) = self.stripe(key).get(key) {
            watchers.iter().filter(|it| it.was_there || !expired).for_each(Watcher::touch);
        }
    }
}

impl Watcher {
    fn touch(&self) {
        self.client.store(true, Ordering::Release);
    }
}

impl WatchedKeys {
    /// Records a change; its latches are held.
    pub(crate) fn note(&self, change: &StoreChange) {
        for effect in &change.effects {
            match effect {
                Effect::Flush(database) => self.replacements.lock().note(*database),
                Effect::Swap(first, second) => {
                    let mut replacements = self.replacements.lock();
                    replacements.note(Some(*first));
                    replacements.note(Some(*second));
                }
                Effect::Key(_) | Effect::Transfer { .. } => {}
            }
        }
        if self.keys.load(Ordering::Relaxed) == 0 {
            return;
        }
        for key in change.keys.iter().filter(|key| key.is_modified) {
            let expired = key.events == [Event::Expired];
            self.touch(&(key.database, key.key[..].into()), expired);
        }
    }
}

/// The keys that a client watches; they are no longer watched after drop.
#[derive(Debug, Default)]
pub(crate) struct Watches(Option<Box<Watching>>);

#[derive(Debug)]
struct Watching {
    shared: Arc<WatchedKeys>,
    /// Whether any of them was changed.
    is_changed: Arc<AtomicBool>,
    /// The keys, and whether they existed.
    keys: HashMap<WatchedKey, bool>,
    /// The databases of keys that existed, and how often their keys had been replaced. EXEC itself
    /// checks whether a key now exists that did not exist before.
    replacements: HashMap<usize, u64>,
    /// Accounts for the memory of the keys, which is not data.
    charge: Charge,
    bytes: usize,
}

impl Watches {
    /// Prepares to watch keys of this table.
    pub(crate) fn begin(&mut self, shared: &Arc<WatchedKeys>) {
        self.0.get_or_insert_with(|| Box::new(Watching::new(shared)));
    }

    /// Adds a key; `was_there` is whether it exists.
    pub(crate) fn add(&mut self, database: usize, key: &[u8], was_there: bool) {
        let Some(watching) = &mut self.0 else { return };
        let key: WatchedKey = (database, key.into());
        if watching.keys.contains_key(&key) {
            return;
        }
        watching.bytes += 2 * room_bytes::<u8>(key.1.len()) + KEY_BYTES;
        watching.charge.set(watching.bytes);
        if was_there {
            let now = || watching.shared.replacements.lock().of(database);
            watching.replacements.entry(database).or_insert_with(now);
        }
        let client = Arc::clone(&watching.is_changed);
        watching.shared.add(key.clone(), Watcher { client, was_there });
        watching.keys.insert(key, was_there);
    }

    /// Marks one of the keys as changed.
    pub(crate) fn touch(&self) {
        self.0.iter().for_each(|watching| watching.is_changed.store(true, Ordering::Release));
    }

    /// Whether no key is watched.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The number of watched keys.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |watching| watching.keys.len())
    }

    /// The keys with the numbers of their databases, and whether they existed.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (usize, &[u8], bool)> {
        let keys = self.0.iter().flat_map(|watching| &watching.keys);
        keys.map(|((database, key), was_there)| (*database, &**key, *was_there))
    }

    /// Whether any of them was changed.
    pub(crate) fn is_changed(&self) -> bool {
        self.0.as_ref().is_some_and(|watching| {
            watching.is_changed.load(Ordering::Acquire) || watching.is_replaced()
        })
    }
}

impl Watching {
    fn new(shared: &Arc<WatchedKeys>) -> Self {
        shared.clients.fetch_add(1, Ordering::SeqCst);
        Watching {
            shared: Arc::clone(shared),
            is_changed: Arc::default(),
            keys: HashMap::new(),
            replacements: HashMap::new(),
            charge: Charge::default(),
            bytes: 0,
        }
    }

    /// Whether the keys of a database were replaced since one of them is watched.
    fn is_replaced(&self) -> bool {
        let now = self.shared.replacements.lock();
        self.replacements.iter().any(|(database, before)| now.of(*database) != *before)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.shared.clients.fetch_sub(1, Ordering::Relaxed);
        let end = WatchingEnd {
            shared: Arc::clone(&self.shared),
            is_changed: Arc::clone(&self.is_changed),
            keys: std::mem::take(&mut self.keys),
            _charge: std::mem::take(&mut self.charge),
        };
        if end.keys.len() >= MANY_KEYS {
            free_elsewhere(end);
        }
    }
}

/// Keys that are no longer watched, to be removed.
struct WatchingEnd {
    shared: Arc<WatchedKeys>,
    is_changed: Arc<AtomicBool>,
    keys: HashMap<WatchedKey, bool>,
    /// Dropped after the keys: they are accounted for until they are freed.
    _charge: Charge,
}

impl Drop for WatchingEnd {
    fn drop(&mut self) {
        for key in self.keys.keys() {
            self.shared.remove(key, &self.is_changed);
            pace::pause();
        }
    }
}
