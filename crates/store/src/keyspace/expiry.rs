//! Active expiry: expired entries are removed even if no request meets them.
//!
//! There is no index of expiry times. A table knows a time before which nothing in it expires, a
//! segment likewise, and a word whether its entry can expire at all; so a few volatile keys among
//! many are found by reading little more than their segments, and a key without expiry costs
//! nothing.

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
    /// The share of worker `worker` of `workers`.
    #[must_use]
    pub fn new(worker: usize, workers: usize) -> Self {
        Expirer { first: worker, stride: workers.max(1), next: worker }
    }

    /// Removes what has expired by `now_ms`, for at most about `budget`. Returns whether more is
    /// due, so that the caller comes back soon. A latch is held for one segment at a time.
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
    /// One step in one shard, whose worker is in the middle of no batch. Returns whether it has
    /// more to look at now. What is claimed stays.
    pub(crate) fn expire_in(&self, shard: usize, counters: &Counters, now_ms: u64) -> bool {
        let Some(latch) = self.shards.get(shard) else { return false };
        // A claimer waits for the end of this batch, or its claim is seen here.
        let _batch = self.batch(counters);
        let spared = self.spared();
        let spares = spared.as_ref().map(|spared| spared as &dyn Fn(u64) -> bool);
        let mut garbage = Garbage::default();
        let mut held = latch.lock();
        let barrier = self.word.read();
        let mut show = |database, entry: EntryView<'_>| {
            counters.expired_unfetched.add(u64::from(!entry.marks().fetched));
            if barrier.is_listening() {
                self.hook.report_removed(barrier.epoch(), database, &entry, Event::Expired);
            }
        };
        // One table's step at a hold.
        let more = held.tables_mut().iter_mut().any(|table| {
            let mut unasked = ServerRemovals { spares, show: &mut show, garbage: &mut garbage };
            let (removed, unfinished) = table.expire(barrier, now_ms, &mut unasked);
            counters.expired.add(removed as u64);
            removed > 0 || unfinished
        });
        let tables = held.tables_mut().iter();
        let has_expired = |table: &Table| table.with_expired_fields(now_ms, spares);
        let hash = tables.filter_map(|table| Some((table.database(), has_expired(table)?))).next();
        // SAFETY: the latch is held; what is taken of the entry is its own.
        let hash =
            hash.map(|(database, entry)| (database, unsafe { EntryView::new(entry) }.kept_key()));
        drop(held);
        self.reclaimer.free(garbage);
        self.notify_preparer();
        if let Some((database, key)) = &hash {
            // No claim has begun meanwhile that would not wait for the end of the batch.
            let db = self.database(*database, counters, now_ms).untouched();
            db.remove_expired_fields(db.key(key));
        }
        more || hash.is_some()
    }
}
