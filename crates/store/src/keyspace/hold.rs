//! Holds: the latches of several keys at once, so that any operations under them are atomic
//! together.
//!
//! Latches are taken in ascending order of shards, and the barrier's word is read once, after the
//! last of them. A [`Database`] of this scope finds a key's shard here instead of locking it, so
//! every operation on one key also works under a hold.

use crate::entry::key::Key;
use crate::entry::long_key::LongKey;
use crate::keyspace::database::{Database, OperationScope};
use crate::keyspace::held_shards::{Gathered, HeldShards, ShardWork};
use crate::keyspace::shard::Shard;
use crate::keyspace::store::Store;
use crate::snapshot::mutation_barrier::MutationBarrier;
use crate::sync::latch::Held;
use std::cell::RefCell;
use std::fmt;

/// The latches of several keys, held until this is dropped.
pub struct Hold<'a> {
    store: &'a Store,
    barrier: MutationBarrier,
    /// Each with its shard's index, in ascending order.
    held: RefCell<Vec<(usize, Held<'a, Shard>)>>,
    /// The keys that are long, already looked up, with the addresses of their bytes.
    long: Vec<(*const [u8], LongKey)>,
    gathered: RefCell<Gathered>,
}

impl<'a> Hold<'a> {
    /// Takes the latches of keys, which may belong to different databases.
    pub(crate) fn new(store: &'a Store, keys: &[Key<'_>]) -> Self {
        let long = |key: &Key<'_>| Some((&raw const *key.bytes, store.long_keys.made(*key)?));
        let long = keys.iter().filter_map(long).collect();
        let mut shards: Vec<usize> = keys.iter().map(|key| store.shard_of(*key)).collect();
        shards.sort_unstable();
        shards.dedup();
        let held = shards
            .iter()
            .filter_map(|shard| Some((*shard, store.shards.get(*shard)?.lock())))
            .collect();
        let barrier = store.word.read();
        Hold { store, barrier, held: RefCell::new(held), long, gathered: RefCell::default() }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let Gathered { garbage, records } = self.gathered.take();
        if !records.is_empty() {
            self.store.hook.report_many(self.barrier.epoch(), records);
        }
        // Garbage is freed, and long keys are released, only after the latches.
        self.held.get_mut().clear();
        self.store.reclaimer.free(garbage);
    }
}

impl HeldShards for Hold<'_> {
    fn with_shard(&self, key: Key<'_>, work: &mut ShardWork<'_>) {
        let shard = self.store.shard_of(key);
        let mut held = self.held.borrow_mut();
        let place = held.binary_search_by_key(&shard, |(number, _)| *number);
        #[expect(clippy::expect_used, reason = "a key that was not locked is a bug of the caller")]
        let (_, held) = place.ok().and_then(|at| held.get_mut(at)).expect("a locked shard");
        let looked_up = self.long.iter().find(|(bytes, _)| std::ptr::eq(*bytes, key.bytes));
        let made = looked_up.is_none().then(|| self.store.long_keys.made(key)).flatten();
        let long = looked_up.map(|(_, long)| long).or(made.as_ref());
        work(held, key.kept_as(long), self.barrier, &mut self.gathered.borrow_mut());
    }
}

impl fmt::Debug for Hold<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("barrier", &self.barrier).finish_non_exhaustive()
    }
}

impl<'a> Database<'a> {
    /// Takes the latches of keys, of this and of any other database. Operations on them within
    /// [`Database::within`] are atomic together. No operation outside it may begin meanwhile.
    #[must_use]
    pub fn hold(&self, keys: &[Key<'_>]) -> Hold<'a> {
        debug_assert!(!self.is_latched(), "latches are taken all at once");
        Hold::new(self.store, keys)
    }

    /// Runs `work` under the latches of `keys`, atomically.
    pub(crate) fn latched<R>(&self, keys: &[Key<'_>], work: impl FnOnce(Database<'_>) -> R) -> R {
        if self.is_latched() {
            return work(*self);
        }
        let misses = self.counters.expired_misses.get();
        let hold = Hold::new(self.store, keys);
        let result = work(self.within(&hold));
        drop(hold);
        if self.counters.expired_misses.get() != misses {
            let expired = keys.iter().filter(|key| self.has_expired(**key));
            expired.for_each(|key| self.remove_expired(*key));
        }
        result
    }

    /// Returns the same database for operations on keys whose latches are held.
    #[must_use]
    pub fn within<'h>(&'h self, hold: &'h Hold<'_>) -> Database<'h> {
        Database { scope: OperationScope::Latched(hold), ..*self }
    }
}
