//! Ageing: converts the access times of entries to a coarser unit before the fine clock wraps
//! around.
//!
//! The fine clock of [`crate::eviction::access`] wraps around after three days. Workers iterate
//! over the store, a few entries at a time when they are idle, and reach each entry long before
//! that.

use crate::index::sweep::BucketCursor;
use crate::keyspace::store::Store;

/// Buckets that a worker visits at a time: with two workers and ten runs per second, 200 million
/// entries a day.
const BUCKETS: usize = 16;

/// One worker's share of the work: every `workers`-th shard.
#[derive(Debug)]
pub struct Ageing {
    first: usize,
    stride: usize,
    shard: usize,
    database: usize,
    position: u64,
    within: Option<BucketCursor>,
}

impl Ageing {
    /// Creates the share of worker `worker` of `workers`.
    #[must_use]
    pub fn new(worker: usize, workers: usize) -> Self {
        let (database, position, within) = (0, 0, None);
        Ageing { first: worker, stride: workers.max(1), shard: worker, database, position, within }
    }

    /// Visits a few more entries, holding a latch once.
    pub fn run(&mut self, store: &Store, now_ms: u64) {
        let Some(latch) = store.shards.get(self.shard) else {
            self.shard = self.first;
            return;
        };
        let clock = store.limit.clock(now_ms);
        let held = latch.lock();
        for _ in 0..BUCKETS {
            let Some(table) = held.table(self.database) else {
                (self.shard, self.database) = (self.shard + self.stride, 0);
                break;
            };
            let next = table.visit_bucket(self.position, &mut self.within, |entry| {
                clock.age(entry);
            });
            self.position = next.unwrap_or(0);
            self.database += usize::from(next.is_none());
        }
    }
}
