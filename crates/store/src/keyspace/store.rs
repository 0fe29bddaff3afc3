//! The store: its shards, and operations on all of them.

use crate::claims::announcement::Announcement;
use crate::claims::claiming::Claiming;
use crate::claims::stripe::Intent;
use crate::claims::table::{Claims, Wait};
use crate::effects::change::Effect;
use crate::effects::hook::{ChangeHook, ChangeListener, MissInterest};
use crate::entry::interning::{self, Interning};
use crate::entry::key::{Hasher, Key};
use crate::entry::long_key::{INTERNED_BYTES, LongKeys};
use crate::eviction::observer::EvictionNotifier;
use crate::eviction::policy::Limit;
use crate::index::directory::Directories;
use crate::index::placement::Placement;
use crate::index::table::Locator;
use crate::keyspace::detached_tables::DetachedTables;
use crate::keyspace::shard::Shard;
use crate::memory::accounting;
use crate::memory::pages::PagePool;
use crate::memory::preparer::Preparer;
use crate::memory::reclaim::{self, Reclaimer};
use crate::snapshot::mutation_barrier;
use crate::snapshot::{Outbox, Walk};
use crate::sync::clock::Clock;
use crate::sync::counters::{Counters, Totals};
use crate::sync::latch;
use crate::sync::latch::Latch;
use crate::sync::quiescence::{Batch, Quiescence};
use crate::sync::shared_thread::Lease;
use crate::sync::ticks;
use crate::tree::blocks::Blocks;
use nagi_chunk::Chunk;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

/// The options of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Number of databases.
    pub databases: usize,
    /// Number of shards, a power of two.
    pub shards: usize,
    /// The seed of the hash function; random in service, fixed in tests.
    pub seed: u128,
    /// The clock.
    pub clock: Clock,
    /// Number of workers, each with its [`Counters`].
    pub workers: usize,
    /// The number after which CAS numbers begin, at least 1: tests of memcached clients subtract
    /// one from a number to get one that no version has, and 0 means any version in memcached's
    /// binary protocol.
    pub last_cas: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            databases: 16,
            shards: 256,
            seed: 0,
            clock: Clock::System,
            workers: 1,
            last_cas: 1,
        }
    }
}

/// The scope of an operation on whole databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One of them.
    Database(usize),
    /// All of them.
    All,
}

impl Scope {
    fn contains(self, database: usize) -> bool {
        self == Scope::All || self == Scope::Database(database)
    }
}

/// The whole keyspace.
#[derive(Debug)]
pub struct Store {
    pub(crate) shards: Box<[Latch<Shard>]>,
    pub(crate) word: mutation_barrier::Word,
    pub(crate) hook: ChangeHook,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) detached_tables: DetachedTables,
    pub(crate) walk: Walk,
    pub(crate) limit: Limit,
    pub(crate) notifier: EvictionNotifier,
    pub(crate) reclaimer: Reclaimer,
    _preparer: Preparer,
    pub(crate) quiescence: Quiescence,
    claims: Arc<Claims>,
    pub(crate) long_keys: Arc<LongKeys>,
    clock: Clock,
    hasher: Hasher,
    pub(crate) placement: Placement,
    pool: Arc<PagePool>,
    pub(crate) directories: Arc<Directories>,
    /// Allocates the nodes of collections.
    pub(crate) blocks: Arc<Blocks>,
    databases: usize,
    /// Whether any stream has had a consumer since the start.
    has_had_consumers: AtomicBool,
    counters: Vec<Arc<Counters>>,
    /// Dropped last, after the rest of the store.
    _lease: Lease,
}

impl Store {
    /// Creates an empty store.
    #[must_use]
    pub fn new(options: &StoreOptions) -> Self {
        Store::with_hasher(options, Hasher::new(options.seed))
    }

    pub(crate) fn with_hasher(options: &StoreOptions, hasher: Hasher) -> Self {
        ticks::start();
        let placement = Placement::new(options.shards);
        let pool = Arc::new(PagePool::default());
        pool.prepare();
        let directories = Arc::new(Directories::new(options.databases, options.shards));
        let outbox = Arc::new(Outbox::new(options.databases));
        let blocks = Blocks::new(Arc::clone(&pool));
        let shard = |(number, range): (usize, &_)| {
            let locator = Locator { hasher, range: *range };
            let (pool, directories) = (Arc::clone(&pool), Arc::clone(&directories));
            let (outbox, blocks) = (Arc::clone(&outbox), Arc::clone(&blocks));
            let last_cas = options.last_cas;
            Latch::new(Shard::new(number, locator, pool, directories, outbox, blocks, last_cas))
        };
        Store {
            shards: placement.ranges().iter().enumerate().map(shard).collect(),
            word: mutation_barrier::Word::default(),
            hook: ChangeHook::default(),
            outbox: Arc::clone(&outbox),
            detached_tables: DetachedTables::default(),
            walk: Walk::default(),
            limit: Limit::default(),
            notifier: EvictionNotifier::default(),
            _preparer: Preparer::start(&pool),
            reclaimer: Reclaimer::start(),
            quiescence: Quiescence::new(options.workers),
            claims: Claims::new(),
            long_keys: LongKeys::new(),
            clock: options.clock.clone(),
            hasher,
            placement,
            pool,
            directories,
            blocks: Arc::clone(&blocks),
            databases: options.databases,
            has_had_consumers: AtomicBool::new(false),
            counters: (0..options.workers).map(|index| Arc::new(Counters::new(index))).collect(),
            _lease: Lease::new(end_shared_threads),
        }
    }

    /// Records that a stream is about to have a consumer. Call it before the change.
    pub(crate) fn note_consumer(&self) {
        if !self.has_had_consumers.load(Ordering::Relaxed) {
            self.has_had_consumers.store(true, Ordering::Relaxed);
        }
    }

    /// Whether any stream has had a consumer since the start.
    pub(crate) fn has_had_consumers(&self) -> bool {
        self.has_had_consumers.load(Ordering::Relaxed)
    }

    /// Registers a listener for changes with their effects, by operations that begin from now on.
    /// Only the first listener is kept; returns whether this is it.
    pub fn report_changes_to(&self, listener: Box<dyn ChangeListener>) -> bool {
        let is_first = self.hook.attach(listener, true);
        self.word.report_effects();
        self.word.listen(true);
        is_first
    }

    /// Registers a listener for events of changes, while [`Store::listen`] is on. Only the first
    /// listener is kept; returns whether this is it.
    pub fn report_events_to(&self, listener: Box<dyn ChangeListener>) -> bool {
        self.hook.attach(listener, false)
    }

    /// Turns reports of changes on or off, for operations that take their key's latch from now on.
    pub fn listen(&self, is_listening: bool) {
        self.word.listen(is_listening || self.hook.has_effects_listener());
    }

    /// Sets whether removals by expiry and eviction are reported also while [`Store::listen`] is
    /// off.
    pub fn report_removals(&self, reports: bool) {
        self.hook.report_removals(reports);
    }

    /// Sets whether misses are reported, while changes are reported.
    pub fn listen_for_misses(&self, interest: MissInterest) {
        self.hook.set_miss_interest(interest);
    }

    /// Returns the number of databases.
    #[must_use]
    pub fn databases(&self) -> usize {
        self.databases
    }

    /// Returns the counters of worker `index`, the same ones on every call.
    #[must_use]
    pub fn counters(&self, index: usize) -> Arc<Counters> {
        self.counters.get(index).map_or_else(Arc::default, Arc::clone)
    }

    /// Begins a batch of requests on the worker of `counters`, which must not be in a batch. The
    /// worker keeps no references into the store from one batch to the next.
    #[inline]
    pub fn batch(&self, counters: &Counters) -> Batch<'_> {
        self.pool.maintain();
        let batch = self.quiescence.enter(counters.worker);
        self.claims.begin_batch();
        batch
    }

    /// Maps memory in advance, so that no operation waits for the kernel under a latch; call this
    /// before storing much outside a batch.
    #[inline]
    pub fn maintain(&self) {
        self.pool.maintain();
    }

    /// Announces that about `bytes` bytes will be stored in bulk, so that memory can be mapped in
    /// larger steps. Call it with 0 once they are stored.
    pub fn expect(&self, bytes: u64) {
        self.pool.expect(bytes);
    }

    /// Whether requests must look up their keys among the claimed names; call this within a batch,
    /// before each request.
    #[inline]
    #[must_use]
    pub fn has_claims(&self) -> bool {
        self.claims.any()
    }

    /// Whether any key is claimed.
    pub(crate) fn is_anything_claimed(&self) -> bool {
        self.claims.is_anything_claimed()
    }

    /// Returns a predicate on hashes of keys that tells whether the key is claimed and must stay;
    /// `None` if no key is claimed. Call this within a batch.
    pub(crate) fn spared(&self) -> Option<impl Fn(u64) -> bool + '_> {
        self.claims.any().then_some(|hash| self.claims.holds(hash))
    }

    /// Returns a place in a queue if a request must wait before it uses one of `keys`. The place
    /// must be kept until the next try; `waker` is called when that is worthwhile.
    pub fn meets_claim<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        intent: Intent,
        waker: &Waker,
    ) -> Option<Wait> {
        keys.into_iter().find_map(|key| self.claims.meet(self.key(key).hash, intent, waker))
    }

    /// Like [`Store::meets_claim`], for a request on whole databases.
    pub fn meets_any_claim(&self, waker: &Waker) -> Option<Wait> {
        self.claims.meet_any(waker)
    }

    /// Runs `work` while nothing is claimed; see [`Claims::unclaimed`]. If something is claimed,
    /// returns a place in a queue, and `work` does not run.
    pub fn unclaimed(&self, waker: &Waker, work: impl FnOnce()) -> Option<Wait> {
        self.claims.unclaimed(waker, work)
    }

    /// Announces that claims will be taken one after the other, each of which is cheaper while the
    /// result lives. Waits until all batches in progress have ended.
    #[must_use]
    pub fn announce_claims(&self) -> Announcement {
        Announcement::new(&self.claims, &self.quiescence)
    }

    /// Begins to claim keys.
    #[must_use]
    pub fn claiming(&self) -> Claiming {
        Claiming::new(&self.claims)
    }

    /// Returns the sum of all workers' counters.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for counters in &self.counters {
            totals.add(counters);
        }
        totals
    }

    /// Returns the longest time that a latch was held, and so the longest wait for a key.
    #[must_use]
    pub fn longest_latch_hold(&self) -> Duration {
        latch::longest_hold()
    }

    /// Returns an upper bound of the longest CPU time of a latch hold:
    /// [`Store::longest_latch_hold`] without preemption.
    #[must_use]
    pub fn longest_latch_hold_on_cpu(&self) -> Duration {
        latch::longest_hold_on_cpu()
    }

    /// Returns the number of large values and entries of flushed databases that background threads
    /// have yet to free, and the number that they have freed.
    #[must_use]
    pub fn reclaimed(&self) -> (u64, u64) {
        (reclaim::pending(), reclaim::freed())
    }

    /// Returns how long the entry that was evicted last had not been accessed, in milliseconds; 0
    /// if none was.
    #[must_use]
    pub fn last_eviction_idle_ms(&self) -> u64 {
        let last = self.counters.iter().map(|counters| counters.last_eviction.get()).max();
        last.map_or(0, |(_, idle_ms)| idle_ms)
    }

    /// Resets all counters.
    pub fn reset_counters(&self) {
        latch::reset_longest_hold();
        self.limit.reset_longest_eviction();
        reclaim::reset_freed();
        for counters in &self.counters {
            counters.reset();
        }
    }

    /// Returns the current time, in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Hashes a key.
    #[must_use]
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        if bytes.len() >= INTERNED_BYTES {
            return self.interned(bytes);
        }
        self.hasher.key(bytes)
    }

    #[cold]
    fn interned<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        let hash = self.long_keys.at(bytes).map(|long| long.hash());
        hash.map_or_else(|| self.hasher.key(bytes), |hash| Key { bytes, hash, long: None })
    }

    /// Starts a thread that joins, hashes and looks up a key that consists of these chunks, and
    /// then calls `waker`. The result serves as a key without hashing.
    #[must_use]
    pub fn intern(&self, chunks: Vec<Chunk>, waker: &Waker) -> Interning {
        Interning::begin(&self.long_keys, self.hasher, chunks, waker.clone())
    }

    /// Empties databases. Their tables are replaced by empty ones under all latches; the reclaimer
    /// frees the old ones, after an active snapshot has read them. Returns the number of entries
    /// removed.
    pub fn flush(&self, scope: Scope) -> u64 {
        // Counted shard by shard, which also brings the tables into the processor's cache: all
        // latches are then held for less time.
        let (mut entries, mut count) = (0, 0);
        for latch in &self.shards {
            let shard = latch.lock();
            entries += shard.fullness().0;
            count += shard.count_filled(|index| scope.contains(index));
        }
        // The memory of a table is not counted; its share of all entries serves as an estimate.
        let data = self.settled_data_bytes();
        let mut left = data;
        let mut share = |len: usize| {
            let bytes = u128::from(data) * len as u128 / (entries as u128).max(1);
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).min(left);
            left -= bytes;
            bytes
        };
        let (mut tables, mut removed) = (Vec::with_capacity(count), 0);
        let mut held: Vec<_> = self.shards.iter().map(Latch::lock).collect();
        let barrier = self.word.read();
        for shard in &mut held {
            for (index, table) in shard.tables_mut().iter_mut().enumerate() {
                if scope.contains(index) && table.len() > 0 {
                    removed += table.len() as u64;
                    let old = table.take(barrier, share(table.len()));
                    if old.progress().is_wanted() {
                        self.detached_tables.send(old);
                    } else {
                        tables.push(old);
                    }
                }
            }
        }
        if barrier.is_listening() {
            let database = match scope {
                Scope::Database(index) => Some(index),
                Scope::All => None,
            };
            self.hook.report(barrier.epoch(), Vec::new(), vec![Effect::Flush(database)]);
        }
        drop(held);
        self.reclaimer.free(tables);
        removed
    }

    /// Exchanges two databases. All clients see the exchange. Their tables are exchanged with all
    /// latches held. Exchanging a database with itself has no effect, not even on watched keys.
    pub fn swap(&self, first: usize, second: usize) {
        if first == second {
            return;
        }
        let mut held: Vec<_> = self.shards.iter().map(Latch::lock).collect();
        let barrier = self.word.read();
        for shard in &mut held {
            shard.swap(barrier, first, second);
        }
        if barrier.is_listening() {
            self.hook.report(barrier.epoch(), Vec::new(), vec![Effect::Swap(first, second)]);
        }
    }

    /// Returns the bytes of the pages that contain segments and small entries.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.pool.used_bytes()
    }

    /// Publishes this thread's allocation counts, and returns unused memory to the kernel for about
    /// 20 microseconds: all of it, a slice per call, if none was requested during the last second.
    /// Call this now and then on an idle thread.
    pub fn rest(&self) {
        accounting::publish();
        self.pool.rest();
    }

    /// Does the preparer's work, for tests that rely on its timing.
    #[cfg(all(test, not(miri)))]
    pub(crate) fn provide(&self) {
        self.pool.provide();
    }

    /// Returns a slice of unused memory to the kernel, even if it will be needed again. The result
    /// is the number of bytes.
    pub fn purge(&self) -> usize {
        self.pool.purge()
    }

    /// Returns the unused bytes that have not been returned to the kernel.
    #[must_use]
    pub fn warm_bytes(&self) -> usize {
        self.pool.warm_bytes()
    }

    /// Wakes the preparer, which returns recently freed memory if there is much of it, and maps the
    /// memory needed next. No latch may be held.
    pub(crate) fn notify_preparer(&self) {
        self.pool.notify_preparer();
    }

    /// Whether there is so little data that the arenas of tables should not keep idle memory.
    pub(crate) fn is_small(&self) -> bool {
        self.pool.is_small()
    }

    /// Returns the free bytes of the store's pages, available for entries of their size class.
    pub(crate) fn idle_bytes(&self) -> usize {
        self.pool.idle_bytes()
    }

    #[inline]
    pub(crate) fn shard_of(&self, key: Key<'_>) -> usize {
        self.shard_of_hash(key.hash)
    }

    #[inline]
    pub(crate) fn shard_of_hash(&self, hash: u64) -> usize {
        self.placement.shard(hash)
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "shard_of returns less than the number of shards")]
    pub(crate) fn latch_of(&self, key: Key<'_>) -> &Latch<Shard> {
        &self.shards[self.shard_of(key)]
    }
}

/// Stops the threads that all stores share; they start again when there is work.
fn end_shared_threads() {
    // In this order: looking up long keys releases some.
    interning::end();
    reclaim::end();
}
