//! One database as a worker's command sees it: the keys' latches are taken here and nowhere else.

use crate::claims::claiming::{Claiming, Step};
use crate::entry::garbage::Garbage;
use crate::entry::key::Key;
use crate::entry::long_key::LongKey;
use crate::entry::view::EntryView;
use crate::eviction::access::AccessClock;
use crate::keyspace::shard::Shard;
use crate::keyspace::slot::{Moment, Slot};
use crate::keyspace::store::{Scope, Store};
use crate::snapshot::mutation_barrier::Door;
use crate::sync::counters::Counters;
use crate::sync::latch::{self, Held};
use std::task::Waker;

/// A database, at the time of the batch that is being executed.
#[derive(Clone, Copy, Debug)]
pub struct Database<'a> {
    pub(crate) store: &'a Store,
    pub(crate) counters: &'a Counters,
    pub(crate) index: usize,
    pub(crate) now_ms: u64,
    pub(crate) access: AccessClock,
}

impl<'a> Database<'a> {
    /// Hashes a key.
    #[must_use]
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.store.key(bytes)
    }

    /// Another database of the same store, at the same time.
    #[must_use]
    pub fn sibling(&self, index: usize) -> Self {
        Database { index, ..*self }
    }

    /// The same database for looking at keys without this counting as a use of them.
    #[must_use]
    pub fn untouched(&self) -> Self {
        Database { access: self.access.untouching(), ..*self }
    }

    /// Whether looking at keys counts as a use of them.
    pub(crate) fn leaves_traces(&self) -> bool {
        self.access.leaves_traces()
    }

    /// Its number.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The time of the batch, in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The store that it is part of.
    #[must_use]
    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// Empties databases as [`Store::flush`] does, and counts what was removed as changes.
    pub fn flush(&self, scope: Scope) {
        self.counters.changes.add(self.store.flush(scope));
    }

    /// Exchanges two databases as [`Store::swap`] does, which counts as a change.
    pub fn swap(&self, first: usize, second: usize) {
        self.store.swap(first, second);
        self.counters.changes.add(1);
    }

    /// Goes on claiming until everything is claimed, something must be waited for, or `is_over`
    /// says that the slice is. `waker` is called when it is worth another try.
    pub fn take_claims(
        &self,
        claiming: &mut Claiming,
        waker: &Waker,
        is_over: impl FnMut() -> bool,
    ) -> Step {
        claiming.step(&self.store.quiescence, self.counters.worker, waker, is_over)
    }

    /// Runs `work` on a key's place, its latch held.
    pub(crate) fn write<R>(&self, key: Key<'_>, work: impl FnOnce(&mut Slot<'_>) -> R) -> R {
        self.write_briefly(key, |slot| {
            latch::slow();
            work(slot)
        })
    }

    /// The same for `work` that puts no more than one value in place of another.
    #[inline]
    pub(crate) fn write_briefly<R>(
        &self,
        key: Key<'_>,
        work: impl FnOnce(&mut Slot<'_>) -> R,
    ) -> R {
        let mut garbage = Garbage::default();
        let long = self.store.long_keys.made(key);
        let key = key.kept_as(long.as_ref());
        let mut held = self.store.latch_of(key).lock_untimed();
        let door = self.store.word.read();
        let (mut slot, expired) = Slot::open(&mut held, door, self.moment(), key, &mut garbage);
        self.counters.expired.add(u64::from(expired));
        let result = work(&mut slot);
        self.counters.changes.add(slot.changes());
        drop(held);
        self.store.reclaimer.free(garbage);
        result
    }

    /// Shows `look` what stands under a key, its latch held; counts a hit or a miss.
    pub(crate) fn read<R>(&self, key: Key<'_>, look: impl FnOnce(Option<EntryView<'_>>) -> R) -> R {
        let long = self.store.long_keys.found(key);
        let key = key.kept_as(long.as_ref());
        let held = self.store.latch_of(key).lock_untimed();
        let entry = held
            .table(self.index)
            .and_then(|table| table.entry(table.find(key)?))
            .filter(|entry| entry.expire_at_ms().is_none_or(|at_ms| at_ms > self.now_ms));
        self.count_lookup(entry.is_some());
        // SAFETY: the latch is held while `look` runs.
        let result = look(entry.map(|entry| unsafe { EntryView::new(entry) }));
        // Noted afterwards: `look` may want to know of the last use before this one.
        if let Some(entry) = entry {
            self.access.note(entry, key.hash ^ self.counters.hits.get());
            entry.mark_fetched();
        }
        result
    }

    /// Runs `work` with the latches of all `keys` held, taken in ascending order; it may open the
    /// slot of one key at a time.
    pub(crate) fn write_all<R>(
        &self,
        keys: &[Key<'_>],
        work: impl FnOnce(&mut Slots<'_>) -> R,
    ) -> R {
        let long = |key: &Key<'_>| Some((&raw const *key.bytes, self.store.long_keys.made(*key)?));
        let long = keys.iter().filter_map(long).collect();
        let mut shards: Vec<usize> = keys.iter().map(|key| self.store.shard_of(*key)).collect();
        shards.sort_unstable();
        shards.dedup();
        let held: Vec<_> = shards
            .iter()
            .filter_map(|shard| Some((*shard, self.store.shards.get(*shard)?.lock())))
            .collect();
        let door = self.store.word.read();
        let garbage = Garbage::default();
        let mut slots = Slots { database: *self, held, door, long, garbage };
        let result = work(&mut slots);
        let Slots { held, garbage, long, .. } = slots;
        drop(held);
        drop(long);
        self.store.reclaimer.free(garbage);
        result
    }

    fn moment(&self) -> Moment {
        let random = self.counters.hits.get();
        Moment { database: self.index, now_ms: self.now_ms, access: self.access, random }
    }

    pub(crate) fn count_lookup(&self, found: bool) {
        if found { self.counters.hits.add(1) } else { self.counters.misses.add(1) }
    }
}

/// Several keys' places, all latches held.
pub(crate) struct Slots<'a> {
    database: Database<'a>,
    held: Vec<(usize, Held<'a, Shard>)>,
    door: Door,
    /// Those of the keys that are long, looked up, by where their bytes are.
    long: Vec<(*const [u8], LongKey)>,
    garbage: Garbage,
}

impl Slots<'_> {
    /// Runs `work` on the place of `key`, which must be among those that were asked for.
    pub(crate) fn with<R>(&mut self, key: Key<'_>, work: impl FnOnce(&mut Slot<'_>) -> R) -> R {
        self.with_in(self.database.index, key, work)
    }

    /// The same in another database.
    pub(crate) fn with_in<R>(
        &mut self,
        index: usize,
        key: Key<'_>,
        work: impl FnOnce(&mut Slot<'_>) -> R,
    ) -> R {
        let database = self.database.sibling(index);
        let shard = database.store.shard_of(key);
        let place = self.held.binary_search_by_key(&shard, |(index, _)| *index);
        #[expect(clippy::expect_used, reason = "a key that was not locked is a bug of the caller")]
        let (_, held) = place.ok().and_then(|at| self.held.get_mut(at)).expect("a locked shard");
        let looked_up = self.long.iter().find(|(bytes, _)| std::ptr::eq(*bytes, key.bytes));
        let key = key.kept_as(looked_up.map(|(_, long)| long));
        let moment = database.moment();
        let (mut slot, expired) = Slot::open(held, self.door, moment, key, &mut self.garbage);
        database.counters.expired.add(u64::from(expired));
        let result = work(&mut slot);
        database.counters.changes.add(slot.changes());
        result
    }
}

impl Store {
    /// Database `index` at the time `now_ms`, which a worker reads once per batch.
    #[must_use]
    pub fn database<'a>(
        &'a self,
        index: usize,
        counters: &'a Counters,
        now_ms: u64,
    ) -> Database<'a> {
        debug_assert!(index < self.databases(), "SELECT refuses what is not there");
        Database { store: self, counters, index, now_ms, access: self.limit.clock(now_ms) }
    }
}
