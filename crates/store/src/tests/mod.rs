//! Tests the whole store, against a model and for its guarantees.

mod effects;
mod evict;
mod expire;
pub(crate) mod holds;
mod model;
mod mutation_barrier;
mod relocation;
pub(crate) mod replica;
mod scan;
mod schedules;
mod scope;
#[cfg(not(miri))]
mod shrinking;
mod snapshot;
mod threads;

use crate::memory::accounting::tests::PagesAlone;
use crate::{Clock, Counters, Database, Store, StoreOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A store with its own clock, which does not count the memory of other tests.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) counters: Counters,
    pub(crate) now_ms: Arc<AtomicU64>,
    _pages_alone: PagesAlone,
}

impl Fixture {
    pub(crate) fn new(shards: usize) -> Self {
        Fixture::masked(shards, u64::MAX)
    }

    /// Creates a store whose hashes differ only in the bits of `mask`.
    pub(crate) fn masked(shards: usize, mask: u64) -> Self {
        let now_ms = Arc::new(AtomicU64::new(1_000_000));
        let clock = Clock::Manual(Arc::clone(&now_ms));
        let options = StoreOptions { shards, clock, ..StoreOptions::default() };
        let mut hasher = crate::entry::key::Hasher::new(7);
        hasher.mask = mask;
        let store = Store::with_hasher(&options, hasher);
        let _pages_alone = PagesAlone::new();
        Fixture { store, counters: Counters::default(), now_ms, _pages_alone }
    }

    pub(crate) fn db(&self, index: usize) -> Database<'_> {
        self.store.database(index, &self.counters, self.now_ms.load(Ordering::Relaxed))
    }

    /// Whether all recorded halves in all tables are correct.
    pub(crate) fn has_right_halves(&self) -> bool {
        let tell_true = |shard: &crate::sync::latch::Latch<crate::keyspace::shard::Shard>| {
            shard.lock().tables_mut().iter().all(|table| table.has_right_halves())
        };
        self.store.shards.iter().all(tell_true)
    }

    pub(crate) fn pass_ms(&self, ms: u64) {
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

/// Returns the string under a key.
pub(crate) fn text(db: Database<'_>, key: &[u8]) -> Option<Vec<u8>> {
    db.get(db.key(key), |entry| {
        entry.map(|entry| entry.string().unwrap().with_bytes(<[u8]>::to_vec))
    })
}
