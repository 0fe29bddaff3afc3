//! Active expiry: removes expired entries that no request accesses.
//!
//! There is no index of expiry times. Each table and each segment stores a lower bound of its
//! expiry times, and each entry's word in the table has a bit for whether it has an expiry. A few
//! volatile keys among many are therefore found by reading little more than their segments, and
//! keys without an expiry cost nothing.

use crate::effects::event::Event;
use crate::entry::garbage::Garbage;
use crate::entry::view::EntryView;
use crate::index::table::{ServerRemovals, Table};
use crate::keyspace::store::Store;
use crate::sync::counters::Counters;
use std::time::{Duration, Instant};

/// One worker's share of the work: every `workers`-th shard.
#[derive(Debug)]
pub struct Expirer {
    first: usize,
    stride: usize,
    next: usize,
}

impl Expirer {
    /// Creates the share of worker `worker` of `workers`.
    #[must_use]
    pub fn new(worker: usize, workers: usize) -> Self {
        Expirer { first: worker, stride: workers.max(1), next: worker }
    }

    /// Removes entries that have expired by `now_ms`, for about `budget` at most. Returns whether
    /// more entries are due, so that the caller should continue soon. A latch is held for one
    /// segment at a time.
    pub fn run(
        &mut self,
        store: &Store,
        counters: &Counters,
        now_ms: u64,
        budget: Duration,
    ) -> bool {
        let started = Instant::now();
        for _ in (self.first..store.shards.len()).step_by(self.stride) {
            while store.expire_in(self.next, counters, now_ms) {
                if started.elapsed() >= budget {
                    return true;
                }
            }
            self.next += self.stride;
            if self.next >= store.shards.len() {
                self.next = self.first;
            }
            if started.elapsed() >= budget {
                return true;
            }
        }
        false
    }
}

impl Store {
    /// Executes one step in one shard, outside any batch of its worker. Returns whether there is
    /// more to do now. Claimed entries stay.
    pub(crate) fn expire_in(&self, shard: usize, counters: &Counters, now_ms: u64) -> bool {
        let Some(latch) = self.shards.get(shard) else { return false };
        // Either a claimer waits for the end of this batch, or its claim is visible here.
        let _batch = self.batch(counters);
        let spared = self.spared();
        let spares = spared.as_ref().map(|spared| spared as &dyn Fn(u64) -> bool);
        let mut garbage = Garbage::default();
        let mut held = latch.lock();
        let barrier = self.word.read();
        let mut show = |database, entry: EntryView<'_>| {
            counters.expired_unfetched.add(u64::from(!entry.marks().fetched));
            if barrier.is_listening() || self.hook.reports_removals() {
                self.hook.report_removed(barrier.epoch(), database, &entry, Event::Expired);
            }
        };
        // One step in one table per hold.
        let more = held.tables_mut().iter_mut().any(|table| {
            let mut removals = ServerRemovals { spares, show: &mut show, garbage: &mut garbage };
            let (removed, unfinished) = table.expire(barrier, now_ms, &mut removals);
            counters.expired.add(removed as u64);
            removed > 0 || unfinished
        });
        let tables = held.tables_mut().iter();
        let has_expired = |table: &Table| table.with_expired_fields(now_ms, spares);
        let hash = tables.filter_map(|table| Some((table.database(), has_expired(table)?))).next();
        // SAFETY: the latch is held; the key is copied.
        let hash =
            hash.map(|(database, entry)| (database, unsafe { EntryView::new(entry) }.kept_key()));
        drop(held);
        self.reclaimer.free(garbage);
        self.notify_preparer();
        if let Some((database, key)) = &hash {
            // A claim that has begun meanwhile waits for the end of the batch.
            let db = self.database(*database, counters, now_ms).untouched();
            db.remove_expired_fields(db.key(key));
        }
        more || hash.is_some()
    }
}
