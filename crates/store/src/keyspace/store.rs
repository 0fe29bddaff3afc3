//! The shards, and what concerns all of them at once.

use crate::claims::claiming::Claiming;
use crate::claims::table::{Claims, Intent, Wait};
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
use std::task::Waker;
use std::time::Duration;

/// How a store is made.
#[derive(Clone, Debug)]
pub struct StoreOptions {
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

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions { databases: 16, shards: 256, seed: 0, clock: Clock::System, workers: 1 }
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
    /// Memory for the nodes of collections.
    pub(crate) blocks: Arc<Blocks>,
    databases: usize,
    counters: Vec<Arc<Counters>>,
    /// Given back when nothing else of the store is left.
    _lease: Lease,
}

impl Store {
    /// An empty store.
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
            Latch::new(Shard::new(number, locator, pool, directories, outbox, blocks))
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
            counters: (0..options.workers).map(|index| Arc::new(Counters::new(index))).collect(),
            _lease: Lease::new(end_shared_threads),
        }
    }

    /// Reports changes with their effects, of operations that begin from now on. The first
    /// listener stays; whether this one is it.
    pub fn report_changes_to(&self, listener: Box<dyn ChangeListener>) -> bool {
        let is_first = self.hook.attach(listener, true);
        self.word.report_effects();
        self.word.listen(true);
        is_first
    }

    /// Reports the events of changes, while [`Store::listen`] says so. The first listener stays;
    /// whether this one is it.
    pub fn report_events_to(&self, listener: Box<dyn ChangeListener>) -> bool {
        self.hook.attach(listener, false)
    }

    /// Turns reports of changes on or off, for operations that take their key's latch from now on.
    pub fn listen(&self, is_listening: bool) {
        self.word.listen(is_listening || self.hook.has_effects_listener());
    }

    /// Says what is wanted of lookups that find nothing, while changes are reported.
    pub fn listen_for_misses(&self, interest: MissInterest) {
        self.hook.set_miss_interest(interest);
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

    /// Begins a batch of requests on the worker that counts with `counters`, which is in the
    /// middle of none. It remembers nothing of the store from one batch to the next.
    #[inline]
    pub fn batch(&self, counters: &Counters) -> Batch<'_> {
        self.pool.maintain();
        self.quiescence.enter(counters.worker)
    }

    /// Provides memory, so that no operation waits for the kernel under a latch: to be called
    /// before much is stored outside a batch.
    #[inline]
    pub fn maintain(&self) {
        self.pool.maintain();
    }

    /// Says that about so many bytes are going to be stored in bulk, so that the kernel can provide
    /// memory for many of them at once; 0 when they are.
    pub fn expect(&self, bytes: u64) {
        self.pool.expect(bytes);
    }

    /// Whether any key is claimed: to be asked within a batch, before each request.
    #[inline]
    #[must_use]
    pub fn has_claims(&self) -> bool {
        self.claims.any()
    }

    /// Says of a key's hash whether the key is claimed and has to stay, if any key is claimed: to
    /// be asked within a batch.
    pub(crate) fn spared(&self) -> Option<impl Fn(u64) -> bool + '_> {
        self.claims.any().then_some(|hash| self.claims.holds(hash))
    }

    /// Whether a request must wait before it does something with one of `keys`. If so, `waker`
    /// is called once it is worth another try, and the answer is dropped after that try.
    pub fn meets_claim<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        intent: Intent,
        waker: &Waker,
    ) -> Option<Wait> {
        keys.into_iter().find_map(|key| self.claims.meet(self.key(key).hash, intent, waker))
    }

    /// The same for a request on whole databases.
    pub fn meets_any_claim(&self, waker: &Waker) -> Option<Wait> {
        self.claims.meet_any(waker)
    }

    /// Does `work` at a moment when nothing is claimed; see [`Claims::unclaimed`].
    pub(crate) fn unclaimed(&self, waker: &Waker, work: impl FnOnce()) -> Option<Wait> {
        self.claims.unclaimed(waker, work)
    }

    /// Begins to claim keys.
    #[must_use]
    pub fn claiming(&self) -> Claiming {
        Claiming::new(&self.claims)
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

    /// The longest time that a latch was held, and so the longest wait for a key.
    #[must_use]
    pub fn longest_latch_hold(&self) -> Duration {
        latch::longest_hold()
    }

    /// The longest time for which the holder of a latch had a processor meanwhile, at most: what
    /// [`Store::longest_latch_hold`] would be on a machine that takes no processor away.
    #[must_use]
    pub fn longest_latch_hold_on_cpu(&self) -> Duration {
        latch::longest_hold_on_cpu()
    }

    /// How many large values and entries of emptied databases have been removed and are still to be
    /// freed by threads of their own, and how many these have freed.
    #[must_use]
    pub fn reclaimed(&self) -> (u64, u64) {
        (reclaim::pending(), reclaim::freed())
    }

    /// Starts all counters again from zero.
    pub fn reset_counters(&self) {
        latch::reset_longest_hold();
        self.limit.reset_longest_eviction();
        reclaim::reset_freed();
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

    /// Makes a thread join, hash and look up a key that consists of these chunks, and call `waker`
    /// then. The bytes that it finds serve as a key without hashing.
    #[must_use]
    pub fn intern(&self, chunks: Vec<Chunk>, waker: &Waker) -> Interning {
        Interning::begin(&self.long_keys, self.hasher, chunks, waker.clone())
    }

    /// Empties databases. Their tables are exchanged for empty ones with all latches held; the
    /// reclaimer frees what they held, after a snapshot under way has seen it. Returns how many
    /// entries that were.
    pub fn flush(&self, scope: Scope) -> u64 {
        let (mut tables, mut removed) = (Vec::new(), 0);
        let mut held: Vec<_> = self.shards.iter().map(Latch::lock).collect();
        let barrier = self.word.read();
        for shard in &mut held {
            for (index, table) in shard.tables_mut().iter_mut().enumerate() {
                let meant = scope == Scope::All || scope == Scope::Database(index);
                if meant && table.len() > 0 {
                    removed += table.len() as u64;
                    let old = table.take(barrier);
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

    /// Exchanges two databases: every client of the one sees the other from now on. Their tables
    /// are exchanged with all latches held.
    pub fn swap(&self, first: usize, second: usize) {
        let mut held: Vec<_> = self.shards.iter().map(Latch::lock).collect();
        let barrier = self.word.read();
        for shard in &mut held {
            shard.swap(barrier, first, second);
        }
        if barrier.is_listening() {
            self.hook.report(barrier.epoch(), Vec::new(), vec![Effect::Swap(first, second)]);
        }
    }

    /// Bytes of the pages that segments and small entries live in.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.pool.used_bytes()
    }

    /// Publishes what this thread has allocated, and gives unused memory back to the kernel, for
    /// some 20 microseconds: all that there is, a slice at each call, if none was asked for during
    /// the last second. To be called now and then by an idle thread.
    pub fn rest(&self) {
        accounting::publish();
        self.pool.rest();
    }

    /// What the preparer does, for a test in which it is in time.
    #[cfg(all(test, not(miri)))]
    pub(crate) fn provide(&self) {
        self.pool.provide();
    }

    /// Gives a slice of the memory that is in no use back to the kernel, even if it will be asked
    /// for again; how many bytes.
    pub fn purge(&self) -> usize {
        self.pool.purge()
    }

    /// Bytes that are in no use and were not given back to the kernel.
    #[must_use]
    pub fn warm_bytes(&self) -> usize {
        self.pool.warm_bytes()
    }

    /// Returns memory that was freed recently, if it is much, and provides what is needed next; no
    /// latch may be held.
    pub(crate) fn notify_preparer(&self) {
        self.pool.notify_preparer();
    }

    /// Whether there is so little data that memory must not lie idle in tables' arenas.
    pub(crate) fn is_small(&self) -> bool {
        self.pool.is_small()
    }

    /// Bytes of these pages that hold nothing now and wait for the next entry of their size.
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
    #[expect(clippy::indexing_slicing, reason = "shard_of answers below the number of shards")]
    pub(crate) fn latch_of(&self, key: Key<'_>) -> &Latch<Shard> {
        &self.shards[self.shard_of(key)]
    }
}

/// Ends the threads that all stores share, until there is work for them again.
fn end_shared_threads() {
    // In this order: what looks long keys up lets go of some.
    interning::end();
    reclaim::end();
}
