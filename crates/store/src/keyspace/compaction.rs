//! Compaction: moves entries out of arenas that are mostly empty, even if no operation frees
//! memory.
//!
//! A table moves a few entries whenever one of its blocks is freed. After the last value of a store
//! has been shortened, these moves may not suffice, and no other operation reaches the table. Large
//! stores do not need compaction, because the unused part of their arenas is small in comparison.

use crate::keyspace::store::Store;

/// Tables and ends of shards visited per run: with two workers and ten runs per second, each table
/// of a small store is visited about once a second.
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
    /// Creates the share of worker `worker` of `workers`.
    #[must_use]
    pub fn new(worker: usize, workers: usize) -> Self {
        Compactor { first: worker, stride: workers.max(1), shard: worker, database: 0 }
    }

    /// Moves a few entries in each of the next tables that need it, holding a latch once for each.
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
