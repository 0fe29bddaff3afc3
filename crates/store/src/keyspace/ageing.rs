//! Ageing: what entries know of their last use is written in a coarser way before it goes round.
//!
//! The fine clock of [`crate::eviction::access`] goes round in three days. Workers walk through the
//! store, a few entries each time they have a moment, and find each long before.

use crate::index::sweep::BucketCursor;
use crate::keyspace::store::Store;

/// Buckets that a worker goes through at a time: with two workers and ten times a second, 200
/// million entries a day.
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
    /// The share of worker `worker` of `workers`.
    #[must_use]
    pub fn new(worker: usize, workers: usize) -> Self {
        let (database, position, within) = (0, 0, None);
        Ageing { first: worker, stride: workers.max(1), shard: worker, database, position, within }
    }

    /// Goes on with a few entries, at one hold of a latch.
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
