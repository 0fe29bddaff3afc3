//! Compaction: entries leave arenas that are mostly empty even where nothing is freed any more.
//!
//! A table moves a few entries whenever one of its blocks is freed. When the last value of a store
//! has become short that may not have been enough, and no other work reaches the table. A large
//! store has no need of this: what is idle in its arenas is a small part of it.

use crate::keyspace::store::Store;

/// Tables looked at each time, and ends of shards: with two workers and ten times a second, each
/// of a small store's about once a second.
const STEPS: usize = 32;

/// One worker's share of the work: every `workers`-th shard.
#[derive(Debug)]
pub struct Compactor {
    first: usize,
    stride: usize,
    shard: usize,
    database: usize,
}

impl Compactor {
    /// The share of worker `worker` of `workers`.
    #[must_use]
    pub fn new(worker: usize, workers: usize) -> Self {
        Compactor { first: worker, stride: workers.max(1), shard: worker, database: 0 }
    }

    /// Moves a few entries in each of the next tables that need it, at one hold of a latch each.
    pub fn run(&mut self, store: &Store) {
        if !store.is_small() {
            return;
        }
        for _ in 0..STEPS {
            let Some(latch) = store.shards.get(self.shard) else {
                self.shard = self.first;
                return;
            };
            match latch.lock().tables_mut().get_mut(self.database) {
                Some(table) => {
                    table.compact();
                    self.database += 1;
                }
                None => (self.shard, self.database) = (self.shard + self.stride, 0),
            }
        }
        store.notify_preparer();
    }
}
