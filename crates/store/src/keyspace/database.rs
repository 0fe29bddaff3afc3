//! A worker's handle to one database. Only this module takes the latches of keys.

use crate::claims::claiming::{Claim, ClaimProgress, Claiming, Growing, Growth};
use crate::claims::stripe::Intent;
use crate::effects::event::Event;
use crate::effects::record::Recorded;
use crate::entry::block::Entry;
use crate::entry::garbage::Garbage;
use crate::entry::key::Key;
use crate::entry::view::EntryView;
use crate::eviction::access::AccessClock;
use crate::keyspace::held_shards::HeldShards;
use crate::keyspace::shard::Shard;
use crate::keyspace::slot::{Moment, Slot, kept_key};
use crate::keyspace::store::{Scope, Store};
use crate::snapshot::mutation_barrier::MutationBarrier;
use crate::sync::counters::Counters;
use crate::sync::latch;
use std::marker::PhantomData;
use std::task::Waker;

/// How an operation is isolated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperationScope<'a> {
    /// The operation takes the latches that it needs, while it runs.
    Alone,
    /// The latches are held already, and all operations of this scope are atomic together.
    Latched(&'a (dyn HeldShards + 'a)),
    /// As `Alone`, but the operation's keys are claimed for it, so it need not wait for that claim.
    Claimed(PhantomData<&'a Claim>),
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookupResult {
    Live,
    Nothing,
    /// An expired entry.
    Expired,
}

/// A database, at the time of the current batch.
#[derive(Clone, Copy, Debug)]
pub struct Database<'a> {
    pub(crate) store: &'a Store,
    pub(crate) counters: &'a Counters,
    pub(crate) index: usize,
    pub(crate) now_ms: u64,
    pub(crate) access: AccessClock,
    pub(crate) scope: OperationScope<'a>,
    /// Whether misses are reported to a listener for misses.
    pub(crate) reports_misses: bool,
    /// Whether a lookup removes an expired entry.
    pub(crate) removes_expired: bool,
}

impl<'a> Database<'a> {
    /// Hashes a key.
    #[must_use]
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.store.key(bytes)
    }

    /// Returns another database of the same store, at the same time.
    #[must_use]
    pub fn sibling(&self, index: usize) -> Self {
        Database { index, ..*self }
    }

    /// Returns the same database at another time, in milliseconds since 1970, so that related
    /// operations share one time regardless of their duration.
    #[must_use]
    pub fn at(&self, now_ms: u64) -> Self {
        Database { now_ms, ..*self }
    }

    /// Returns the same database for lookups that do not count as accesses.
    #[must_use]
    pub fn untouched(&self) -> Self {
        Database { access: self.access.untouching(), ..*self }
    }

    /// Returns the same database for lookups that count as accesses.
    #[must_use]
    pub fn touching(&self) -> Self {
        Database { access: self.access.touching(), ..*self }
    }

    /// Returns the same database for lookups whose misses are not reported.
    #[must_use]
    pub fn unnoticed(&self) -> Self {
        Database { reports_misses: false, ..*self }
    }

    /// Returns the same database for lookups that leave expired entries in place, as while writes
    /// are paused.
    #[must_use]
    pub fn keeping_expired(&self) -> Self {
        Database { removes_expired: false, ..*self }
    }

    /// Returns its index.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the time of the batch, in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns the store of the database.
    #[must_use]
    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// Returns the same database for operations on keys that are claimed.
    #[must_use]
    pub fn claimed_by(&self, _: &'a Claim) -> Self {
        Database { scope: OperationScope::Claimed(PhantomData), ..*self }
    }

    /// Whether the latches that operations need are held already.
    pub(crate) fn is_latched(&self) -> bool {
        matches!(self.scope, OperationScope::Latched(_))
    }

    /// Whether the keys of operations are claimed for them.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        matches!(self.scope, OperationScope::Claimed(_))
    }

    /// Whether a request must check claims before it runs. Call this within a batch. Operations
    /// under latches or under a claim need not: those with latches have checked all claims already.
    #[inline]
    #[must_use]
    pub fn looks_for_claims(&self) -> bool {
        self.store.has_claims() && matches!(self.scope, OperationScope::Alone)
    }

    /// Whether a key is claimed. Under its latch, this tells whether a request is in the middle of
    /// changes of the key.
    #[must_use]
    pub fn is_key_claimed(&self, key: Key<'_>) -> bool {
        self.store.spared().is_some_and(|holds| holds(key.hash))
    }

    /// Empties databases as [`Store::flush`] does, and counts the removed entries as changes.
    pub fn flush(&self, scope: Scope) {
        debug_assert!(!self.is_latched(), "every latch is taken");
        self.counters.changes.add(self.store.flush(scope));
    }

    /// Counts a change of something that is saved with the keys.
    pub fn note_change(&self) {
        self.counters.changes.add(1);
    }

    /// Exchanges two databases as [`Store::swap`] does, which counts as a change.
    pub fn swap(&self, first: usize, second: usize) {
        debug_assert!(!self.is_latched(), "every latch is taken");
        self.store.swap(first, second);
        self.counters.changes.add(1);
    }

    /// Continues claiming until everything is claimed, a claim has to wait, or `is_over` says that
    /// the slice has ended. `waker` is called when another try is worthwhile.
    pub fn take_claims(
        &self,
        claiming: &mut Claiming,
        waker: &Waker,
        is_over: impl FnMut() -> bool,
    ) -> ClaimProgress {
        claiming.step(&self.store.quiescence, self.counters.worker, waker, is_over)
    }

    /// Continues adding one key to a held claim, or everything if there is no key, until it is held
    /// or has to wait; see [`Claim::joint`] and [`Growing`]. Only one claim of the process may grow
    /// at a time; it goes ahead of all waiters.
    pub fn grow_claim(
        &self,
        claim: &mut Claim,
        key: Option<(Key<'_>, Intent)>,
        growing: &mut Growing,
        waker: &Waker,
    ) -> Growth {
        let name = key.map(|(key, intent)| (key.hash, intent));
        let place = (&self.store.quiescence, self.counters.worker);
        claim.grow(name, growing, place, waker)
    }

    /// Runs `work` on a key's slot under its latch.
    pub(crate) fn write<R>(&self, key: Key<'_>, work: impl FnOnce(&mut Slot<'_>) -> R) -> R {
        self.write_briefly(key, |slot| {
            latch::time_from_here();
            work(slot)
        })
    }

    /// Like [`Database::write`], for `work` that only replaces a value, which takes little time.
    #[inline]
    pub(crate) fn write_briefly<R>(
        &self,
        key: Key<'_>,
        work: impl FnOnce(&mut Slot<'_>) -> R,
    ) -> R {
        if let OperationScope::Latched(shards) = self.scope {
            return self.write_latched(shards, key, work);
        }
        let mut garbage = Garbage::default();
        let long = self.store.long_keys.made(key);
        let key = key.kept_as(long.as_ref());
        let mut held = self.store.latch_of(key).lock_untimed();
        let barrier = self.store.word.read();
        let (result, recorded) = self.write_in(&mut held, barrier, key, &mut garbage, work);
        if let Some(recorded) = recorded {
            self.store.hook.report_one(barrier.epoch(), *recorded);
        }
        drop(held);
        self.store.reclaimer.free(garbage);
        result
    }

    /// Runs `work` on the slot of a key whose latch is held already.
    #[inline(never)]
    #[expect(clippy::expect_used, reason = "with_shard always calls the closure")]
    fn write_latched<R>(
        &self,
        shards: &dyn HeldShards,
        key: Key<'_>,
        work: impl FnOnce(&mut Slot<'_>) -> R,
    ) -> R {
        let (mut work, mut result) = (Some(work), None);
        shards.with_shard(key, &mut |shard, key, barrier, gathered| {
            let Some(work) = work.take() else { return };
            let garbage = &mut gathered.garbage;
            let (done, recorded) = self.write_in(shard, barrier, key, garbage, work);
            gathered.records.extend(recorded.map(|recorded| *recorded));
            result = Some(done);
        });
        result.expect("the work was done")
    }

    // Always inlined: it has two callers, and a call would cost every request.
    #[inline(always)]
    fn write_in<R>(
        &self,
        shard: &mut Shard,
        barrier: MutationBarrier,
        key: Key<'_>,
        garbage: &mut Garbage,
        work: impl FnOnce(&mut Slot<'_>) -> R,
    ) -> (R, Option<Box<Recorded>>) {
        let mut slot = Slot::open(shard, barrier, self.moment(), key, garbage);
        let was_expired = slot.was_expired();
        self.counters.expired.add(u64::from(was_expired));
        if was_expired && (barrier.is_listening() || self.store.hook.reports_removals()) {
            let gone = (self.index, kept_key(key));
            self.store.hook.report_gone(barrier.epoch(), gone, Event::Expired);
        }
        let result = work(&mut slot);
        self.counters.changes.add(slot.changes());
        if slot.gained_expiry() {
            self.store.limit.search_again();
        }
        (result, slot.take_record())
    }

    /// Passes the entry of a key to `look` under its latch, and counts a hit or a miss.
    #[inline]
    pub(crate) fn read<R>(&self, key: Key<'_>, look: impl FnOnce(Option<EntryView<'_>>) -> R) -> R {
        // Each branch has its own copy of the lookup, so that it is inlined into the common one.
        let (result, found) = if let OperationScope::Latched(shards) = self.scope {
            self.read_latched(shards, key, |shard, key| self.read_in(shard, key, look))
        } else {
            let long = self.store.long_keys.found(key);
            let key = key.kept_as(long.as_ref());
            let held = self.store.latch_of(key).lock_untimed();
            self.read_in(&held, key, look)
        };
        if found == LookupResult::Expired
            || found == LookupResult::Nothing && self.store.hook.listens_for_misses()
        {
            self.missed(key, found);
        }
        result
    }

    /// Handles a lookup that has found an expired entry, or nothing while misses are reported.
    #[cold]
    fn missed(&self, key: Key<'_>, found: LookupResult) {
        if self.store.hook.listens_for_misses() {
            self.report_miss(key);
        }
        if found == LookupResult::Expired {
            self.remove_expired(key);
        }
    }

    /// Removes an expired entry after a lookup, as Redis does, unless the key is claimed: the
    /// request that holds it may have begun before the expiry.
    #[cold]
    pub(crate) fn remove_expired(&self, key: Key<'_>) {
        let spares = self.store.spared().is_some_and(|spares| spares(key.hash));
        if self.removes_expired && matches!(self.scope, OperationScope::Alone) && !spares {
            self.write(key, |_| ());
        }
    }

    /// Whether a lookup that may change the entry finds nothing, and must leave an expired entry in
    /// place, as while writes are paused.
    pub(crate) fn leaves_missing(&self, key: Key<'_>) -> bool {
        !self.removes_expired && self.inspect(key, |found| found.is_none())
    }

    /// Reports a miss. An expired entry is removed at once, since listeners expect that event as
    /// well, unless it may be claimed.
    #[cold]
    fn report_miss(&self, key: Key<'_>) {
        let reports_misses = self.reports_misses && self.store.hook.reports_misses();
        if self.removes_expired && !self.looks_for_claims() {
            return self.write(key, |slot| {
                if reports_misses {
                    slot.note(Event::KeyMiss);
                }
            });
        }
        if reports_misses {
            self.store
                .hook
                .report_miss(self.store.word.read().epoch(), (self.index, kept_key(key)));
        }
    }

    /// Passes the shard of a key, whose latch is held already, to `look`.
    #[inline(never)]
    #[expect(clippy::expect_used, reason = "with_shard always calls the closure")]
    pub(crate) fn read_latched<R>(
        &self,
        shards: &dyn HeldShards,
        key: Key<'_>,
        look: impl FnOnce(&Shard, Key<'_>) -> R,
    ) -> R {
        let (mut look, mut result) = (Some(look), None);
        shards.with_shard(key, &mut |shard, key, _, _| {
            result = look.take().map(|look| look(shard, key));
        });
        result.expect("the work was done")
    }

    // Always inlined, like `write_in`.
    #[inline(always)]
    fn read_in<R>(
        &self,
        shard: &Shard,
        key: Key<'_>,
        look: impl FnOnce(Option<EntryView<'_>>) -> R,
    ) -> (R, LookupResult) {
        let mut found = LookupResult::Nothing;
        let entry = self.entry(shard, key).filter(|entry| {
            found = if self.is_live(entry) { LookupResult::Live } else { LookupResult::Expired };
            if found == LookupResult::Expired {
                self.counters.expired_misses.add(1);
            }
            found == LookupResult::Live
        });
        self.count_lookup(entry.is_some());
        // SAFETY: the latch is held while `look` runs.
        let result = look(entry.map(|entry| unsafe { EntryView::new(entry) }));
        // Recorded afterwards: `look` may read the previous access.
        if let Some(entry) = entry {
            self.access.note(entry, key.hash ^ self.counters.hits.get());
            entry.mark_fetched();
        }
        (result, found)
    }

    /// Whether a key has an expired entry.
    #[cold]
    pub(crate) fn has_expired(&self, key: Key<'_>) -> bool {
        let long = self.store.long_keys.found(key);
        let key = key.kept_as(long.as_ref());
        let held = self.store.latch_of(key).lock_untimed();
        self.entry(&held, key).is_some_and(|entry| !self.is_live(&entry))
    }

    /// Returns the entry of a key, unless it has expired.
    #[inline]
    fn live_entry(&self, shard: &Shard, key: Key<'_>) -> Option<Entry> {
        self.entry(shard, key).filter(|entry| self.is_live(entry))
    }

    #[inline]
    fn entry(&self, shard: &Shard, key: Key<'_>) -> Option<Entry> {
        shard.table(self.index).and_then(|table| table.entry(table.find(key)?))
    }

    #[inline]
    fn is_live(&self, entry: &Entry) -> bool {
        entry.expire_at_ms().is_none_or(|at_ms| at_ms > self.now_ms)
    }

    /// Passes the entry and its idle time in milliseconds to `look`, without counting an access.
    pub fn inspect<R>(
        &self,
        key: Key<'_>,
        look: impl FnOnce(Option<(EntryView<'_>, u64)>) -> R,
    ) -> R {
        let inspect = |shard: &Shard, key: Key<'_>| {
            let entry = self.live_entry(shard, key);
            // SAFETY: the latch is held while `look` runs.
            let view = entry.map(|entry| unsafe { EntryView::new(entry) });
            look(view.map(|view| (view, self.access.idle_ms(view.access()))))
        };
        if let OperationScope::Latched(shards) = self.scope {
            return self.read_latched(shards, key, inspect);
        }
        let long = self.store.long_keys.found(key);
        let key = key.kept_as(long.as_ref());
        inspect(&self.store.latch_of(key).lock_untimed(), key)
    }

    fn moment(&self) -> Moment {
        let random = self.counters.hits.get();
        Moment { database: self.index, now_ms: self.now_ms, access: self.access, random }
    }

    pub(crate) fn count_lookup(&self, found: bool) {
        if found { self.counters.hits.add(1) } else { self.counters.misses.add(1) }
    }

    /// Counts a lookup of a slot's entry as a hit or a miss, and records an event if misses are
    /// reported.
    pub(crate) fn count_lookup_in(&self, slot: &mut Slot<'_>) {
        let is_found = slot.entry().is_some();
        self.count_lookup(is_found);
        self.counters.expired_misses.add(u64::from(slot.was_expired()));
        self.note_miss_in(slot);
    }

    /// Records a miss event, if the lookup found nothing and misses are reported.
    pub(crate) fn note_miss_in(&self, slot: &mut Slot<'_>) {
        if self.reports_misses && self.store.hook.reports_misses() && slot.entry().is_none() {
            slot.note(Event::KeyMiss);
        }
    }
}

impl Store {
    /// Returns database `index` at the time `now_ms`, which a worker reads once per batch.
    #[must_use]
    pub fn database<'a>(
        &'a self,
        index: usize,
        counters: &'a Counters,
        now_ms: u64,
    ) -> Database<'a> {
        debug_assert!(index < self.databases(), "SELECT refuses what is not there");
        let (access, scope) = (self.limit.clock(now_ms), OperationScope::Alone);
        Database {
            store: self,
            counters,
            index,
            now_ms,
            access,
            scope,
            reports_misses: true,
            removes_expired: true,
        }
    }
}
