//! The shards, and what concerns all of them at once.

use crate::clock::Clock;
use crate::counters::{Counters, Totals};
use crate::database::Database;
use crate::key::{Hasher, Key};
use crate::latch::Latch;
use crate::shard::{Shard, Table};
use std::sync::Arc;

/// How a store is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many databases SELECT can choose from.
    pub databases: usize,
    /// How many shards, a power of two.
    pub shards: usize,
    /// The seed of the hash function; random in service, fixed in tests.
    pub seed: u128,
    /// Where the time comes from.
    pub clock: Clock,
    /// How many workers will hold [`Counters`].
    pub workers: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { databases: 16, shards: 256, seed: 0, clock: Clock::System, workers: 1 }
    }
}

/// Which databases an operation on whole databases means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One of them.
    Database(usize),
    /// All of them.
    All,
}

/// The whole keyspace.
#[derive(Debug)]
pub struct Store {
    pub(crate) shards: Box<[Latch<Shard>]>,
    pub(crate) clock: Clock,
    hasher: Hasher,
    databases: usize,
    counters: Vec<Arc<Counters>>,
}

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Store {
            shards: (0..options.shards).map(|_| Latch::new(Shard::default())).collect(),
            clock: options.clock.clone(),
            hasher: Hasher::new(options.seed),
            databases: options.databases,
            counters: (0..options.workers).map(|_| Arc::default()).collect(),
        }
    }

    /// How many databases there are.
    #[must_use]
    pub fn databases(&self) -> usize {
        self.databases
    }

    /// The counters of worker `index`, the same ones at every call.
    #[must_use]
    pub fn counters(&self, index: usize) -> Arc<Counters> {
        self.counters.get(index).map_or_else(Arc::default, Arc::clone)
    }

    /// The sum of all workers' counters.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for counters in &self.counters {
            totals.add(counters);
        }
        totals
    }

    /// Starts all counters again from zero.
    pub fn reset_counters(&self) {
        for counters in &self.counters {
            counters.reset();
        }
    }

    /// The time now, in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Hashes a key.
    #[must_use]
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        self.hasher.key(bytes)
    }

    /// Database `index` at the time `now_ms`, which a worker reads once per batch.
    #[must_use]
    pub fn database<'a>(
        &'a self,
        index: usize,
        counters: &'a Counters,
        now_ms: u64,
    ) -> Database<'a> {
        debug_assert!(index < self.databases, "SELECT refuses what is not there");
        Database { store: self, counters, index, now_ms }
    }

    /// Empties databases. Their tables are exchanged for empty ones under the latches; what they
    /// held is freed by a thread of its own, so that nobody waits for it.
    pub fn flush(&self, scope: Scope) {
        let mut held: Vec<_> = self.shards.iter().map(Latch::lock).collect();
        let mut detached: Vec<Table> = Vec::new();
        for shard in &mut held {
            match scope {
                Scope::All => detached.append(&mut shard.tables),
                Scope::Database(index) => detached.push(std::mem::take(shard.table(index))),
            }
        }
        drop(held);
        std::thread::spawn(move || drop(detached));
    }

    pub(crate) fn shard_of(&self, key: Key<'_>) -> usize {
        // The shard is given by the hash's leading bits, so that cursor order is hash order.
        ((u128::from(key.hash) * self.shards.len() as u128) >> 64) as usize
    }

    #[expect(clippy::indexing_slicing, reason = "shard_of answers below the number of shards")]
    pub(crate) fn latch_of(&self, key: Key<'_>) -> &Latch<Shard> {
        &self.shards[self.shard_of(key)]
    }
}
