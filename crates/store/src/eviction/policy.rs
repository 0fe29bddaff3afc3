//! Eviction: which entries go when memory has run out.
//!
//! Victims are sampled, as in Redis: the worst of a few entries spread over a segment. Any worker
//! takes victims of any shard; of small shards the fullest of a few gives, or some would by chance
//! give up all they have while others grow.
//!
//! Most keys of a cache are asked for once and never again. So both kinds let what was never used
//! since it was stored go first. With samples as large as ours such entries come to a tenth of the
//! memory or so, as in S3-FIFO's small queue (Yang et al., SOSP 2023), and the rest belongs to what
//! has proved itself. For LRU they merely age faster, so that a working set that changes is not
//! held up; for LFU, counters are lowered where a sample has only such as were used, so that they
//! follow the uses at whatever rate those come, and a minute without use lowers them as in Redis.
//! `cargo xtask bench --eviction` compares.

use crate::entry::block::{Entry, EntryView};
use crate::entry::garbage::Garbage;
use crate::eviction::access::{AccessClock, START, Tuning};
use crate::eviction::observer::{Evicted, Hearing};
use crate::keyspace::database::Database;
use crate::keyspace::store::Store;
use crate::memory::accounting;
use crate::memory::reclaim;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Entries among which the worst is chosen.
pub(crate) const SAMPLES: usize = 16;
/// Those of them that may go for never having been used: fewer, or a loop over a little more than
/// fits would lose each key just before it is asked for.
const UNUSED_SAMPLES: usize = 8;
/// How much faster an entry ages that was never used since it was stored.
const UNUSED_AGEING: u32 = 6;
/// Shards tried for one victim before giving up.
const TRIES: usize = 512;
/// The same while the last search was in vain.
const FEW_TRIES: usize = 4;
/// Shards from which the fullest is chosen, while they are small.
const CHOICES: usize = 4;
/// A shard with so many entries is not small: that it has a few more or less than others makes no
/// difference.
const MANY_ENTRIES: usize = 1000;
/// Longest time that evicting goes on at a stretch.
const BUDGET: Duration = Duration::from_micros(500);

/// What is free on pages or taken by empty tables and not counted, beside a share of all pages.
const UNCOUNTED_BYTES: usize = 4 << 20;
/// What statistics of commands may take beside the limit: a few hundred kinds, on all workers.
const STATISTICS_BYTES: u64 = 16 << 20;

/// The most that a counter keeps when it is lowered for lack of worse entries: a hot set that has
/// moved on is not remembered for long.
const KEPT: u32 = START + 2;

/// What goes first. The names are those of `maxmemory-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Policy {
    /// Nothing: commands that need memory are refused.
    #[default]
    NoEviction,
    /// The least recently used.
    AllKeysLru,
    /// The least frequently used.
    AllKeysLfu,
    /// Any.
    AllKeysRandom,
    /// The least recently used of those that expire.
    VolatileLru,
    /// The least frequently used of those that expire.
    VolatileLfu,
    /// Any of those that expire.
    VolatileRandom,
    /// What expires soonest.
    VolatileTtl,
}

impl Policy {
    /// Every policy with its name.
    pub const ALL: [(Policy, &str); 8] = [
        (Policy::NoEviction, "noeviction"),
        (Policy::AllKeysLru, "allkeys-lru"),
        (Policy::AllKeysLfu, "allkeys-lfu"),
        (Policy::AllKeysRandom, "allkeys-random"),
        (Policy::VolatileLru, "volatile-lru"),
        (Policy::VolatileLfu, "volatile-lfu"),
        (Policy::VolatileRandom, "volatile-random"),
        (Policy::VolatileTtl, "volatile-ttl"),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Policy::ALL.iter().find(|(policy, _)| *policy == self).map_or("", |(_, name)| name)
    }

    /// The policy of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Policy> {
        Policy::ALL.iter().find(|row| row.1.eq_ignore_ascii_case(name)).map(|row| row.0)
    }

    /// Whether it spares entries that never expire.
    pub(crate) fn only_volatile(self) -> bool {
        use Policy::{VolatileLfu, VolatileLru, VolatileRandom, VolatileTtl};
        matches!(self, VolatileLru | VolatileLfu | VolatileRandom | VolatileTtl)
    }

    /// Whether it goes by when or how often entries were used.
    #[must_use]
    pub fn looks_at_uses(self) -> bool {
        self.counts_uses() || matches!(self, Policy::AllKeysLru | Policy::VolatileLru)
    }

    /// Whether it goes by how often entries were used.
    #[must_use]
    pub fn counts_uses(self) -> bool {
        matches!(self, Policy::AllKeysLfu | Policy::VolatileLfu)
    }
}

/// The limit and what happens at it; changed at run time, read by every writing command.
#[derive(Debug)]
pub(crate) struct Limit {
    /// 0 for none.
    bytes: AtomicU64,
    policy: AtomicU8,
    lfu_log_factor: AtomicU32,
    lfu_decay_time: AtomicU32,
    /// Whether the last search found nothing that can go, and nothing has come since that may.
    barren: AtomicBool,
    longest_eviction_us: AtomicU64,
}

impl Default for Limit {
    fn default() -> Self {
        let Tuning { lfu_log_factor, lfu_decay_time } = Tuning::default();
        Limit {
            bytes: AtomicU64::default(),
            policy: AtomicU8::default(),
            lfu_log_factor: lfu_log_factor.into(),
            lfu_decay_time: lfu_decay_time.into(),
            barren: AtomicBool::default(),
            longest_eviction_us: AtomicU64::default(),
        }
    }
}

impl Limit {
    /// Something may be able to go that was not there, or could not, when it was searched for last.
    pub(crate) fn search_again(&self) {
        // Nearly always it is false, and then its line stays with everybody who reads it.
        if self.barren.load(Ordering::Relaxed) {
            self.barren.store(false, Ordering::Relaxed);
        }
    }

    fn clock(&self, now_ms: u64) -> AccessClock {
        let tuning = Tuning {
            lfu_log_factor: self.lfu_log_factor.load(Ordering::Relaxed),
            lfu_decay_time: self.lfu_decay_time.load(Ordering::Relaxed),
        };
        AccessClock::new(now_ms, self.policy().counts_uses(), tuning)
    }

    fn policy(&self) -> Policy {
        let number = usize::from(self.policy.load(Ordering::Relaxed));
        Policy::ALL.get(number).map_or(Policy::NoEviction, |row| row.0)
    }
}

/// Chooses the worst of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    pub(crate) policy: Policy,
    clock: AccessClock,
}

impl Judge {
    /// The one that goes, of entries in no particular order.
    pub(crate) fn choose(self, sample: impl Iterator<Item = Entry> + Clone) -> Option<Entry> {
        match self.policy {
            Policy::NoEviction | Policy::AllKeysRandom | Policy::VolatileRandom => {
                { sample }.next()
            }
            Policy::AllKeysLru | Policy::VolatileLru => self.least_recent(sample),
            Policy::AllKeysLfu | Policy::VolatileLfu => self.least_frequent(sample),
            Policy::VolatileTtl => {
                sample.min_by_key(|entry| entry.expire_at_ms().unwrap_or(u64::MAX))
            }
        }
    }

    fn least_recent(self, sample: impl Iterator<Item = Entry> + Clone) -> Option<Entry> {
        let idle = |entry: &Entry| self.clock.idle_ticks(entry.access());
        let is_used = |entry: &Entry| self.clock.is_used(entry.access());
        let few = sample.clone().take(UNUSED_SAMPLES);
        let unused = few.filter(|entry| !is_used(entry)).max_by_key(idle);
        let used = sample.filter(is_used).max_by_key(idle);
        let Some((unused, used)) = unused.zip(used) else { return unused.or(used) };
        let is_staler = idle(&used) > UNUSED_AGEING.saturating_mul(idle(&unused) + 1);
        Some(if is_staler { used } else { unused })
    }

    fn least_frequent(self, sample: impl Iterator<Item = Entry> + Clone) -> Option<Entry> {
        let frequency = |entry: &Entry| self.clock.frequency(entry.access());
        let rarest = sample.clone().min_by_key(frequency)?;
        if frequency(&rarest) > START {
            for entry in sample {
                let lowered = frequency(&entry).saturating_sub(1).min(KEPT);
                entry.set_access(self.clock.counted(lowered));
            }
        }
        Some(rarest)
    }
}

impl Database<'_> {
    /// Removes entries, of any database, until memory is below the limit, or half a millisecond
    /// has passed and the rest is left to the next call. `false` if memory is above the limit and
    /// nothing can go: then commands that need memory are refused.
    #[must_use]
    pub fn make_room(&self) -> bool {
        let Some(started) = self.store.is_over_limit().then(Instant::now) else { return true };
        let done = self.evict_since(started);
        let took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        // Every command reads what lies beside it.
        let longest_us = &self.store.limit.longest_eviction_us;
        if took_us > longest_us.load(Ordering::Relaxed) {
            longest_us.fetch_max(took_us, Ordering::Relaxed);
        }
        done
    }

    /// The same for who has added much, to be called until it answers `false`: whether memory is
    /// still far beyond the limit and something can go. Who adds much waits until there is room
    /// for it, or the limit would not hold; and nobody else does.
    #[must_use]
    pub fn make_up(&self) -> bool {
        let is_far = || self.store.is_far_over_limit();
        is_far() && self.make_room() && is_far()
    }

    /// The same between commands, so that a limit that was lowered is met although none arrives;
    /// whether there is more to do and something that can go.
    #[must_use]
    pub fn shed(&self) -> bool {
        if !self.store.is_over_limit() {
            self.store.limit.search_again();
            return false;
        }
        self.make_room() && self.store.is_over_limit()
    }

    fn evict_since(&self, started: Instant) -> bool {
        let policy = self.store.limit.policy();
        let clock = self.store.limit.clock(self.now_ms);
        let judge = Judge { policy, clock };
        while self.store.is_over_limit() {
            if policy == Policy::NoEviction || !self.evict(judge) {
                return false;
            }
            if started.elapsed() >= BUDGET {
                break;
            }
        }
        true
    }

    /// Removes every entry as if memory had run out.
    #[cfg(test)]
    pub(crate) fn evict_all(&self) {
        while self.evict_one() {}
    }

    /// Removes an entry; whether there was one.
    #[cfg(test)]
    pub(crate) fn evict_one(&self) -> bool {
        let clock = self.store.limit.clock(self.now_ms);
        self.evict(Judge { policy: Policy::AllKeysRandom, clock })
    }

    /// Removes one entry of some shard; `false` if none was found. Who finds none in any shard
    /// tries few of them until there may be some again: others wait for what it does, and it is
    /// done for each command that is refused.
    fn evict(&self, judge: Judge) -> bool {
        let shards = self.store.shards.len();
        let first = self.full_shard();
        let is_barren = self.store.limit.barren.load(Ordering::Relaxed);
        let tries = if is_barren { FEW_TRIES } else { TRIES.max(shards) };
        for attempt in 0..tries {
            let Some(latch) = self.store.shards.get((first + attempt) % shards) else { continue };
            let mut held = latch.lock();
            if !held.has_any(judge.policy.only_volatile()) {
                continue;
            }
            let mut garbage = Garbage::default();
            let door = self.store.word.read();
            let random = self.random();
            let tables = held.tables_mut();
            let offset = random as usize % tables.len().max(1);
            let (before, from) = tables.split_at_mut(offset);
            let mut tables = from.iter_mut().chain(before);
            let (audience, mut evicted) = (&self.store.audience, None);
            let mut show = |entry: EntryView<'_>| {
                if audience.listens() {
                    evicted = Some(Evicted::of(&entry, judge.clock.idle_ms(entry.access())));
                }
            };
            let found =
                tables.any(|table| table.evict(door, judge, random, &mut garbage, &mut show));
            drop(held);
            self.store.reclaimer.free(garbage);
            self.store.tell_preparer();
            if let Some(evicted) = evicted {
                audience.tell(&evicted);
            }
            if found {
                self.counters.evicted.add(1);
                self.store.limit.search_again();
                return true;
            }
        }
        self.store.limit.barren.store(true, Ordering::Relaxed);
        false
    }

    /// A shard to take a victim of: chosen as a key is, so that wider ones give more, and of small
    /// ones the fullest of a few (Mitzenmacher, "The power of two choices", 2001).
    fn full_shard(&self) -> usize {
        let mut chosen = (0, 0);
        for _ in 0..CHOICES {
            let shard = self.store.shard_of_hash(self.random());
            let Some(latch) = self.store.shards.get(shard) else { continue };
            let (entries, fullness) = latch.lock_untimed().fullness();
            chosen = chosen.max((fullness + 1, shard));
            if entries >= MANY_ENTRIES {
                break;
            }
        }
        chosen.1
    }

    /// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) over this worker's draws.
    pub(crate) fn random(&self) -> u64 {
        self.counters.draws.add(1);
        let mixed = self.counters.draws.get().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

impl Store {
    /// The memory limit in bytes, 0 for none, and what goes when it is reached.
    #[must_use]
    pub fn limit(&self) -> (u64, Policy) {
        (self.limit.bytes.load(Ordering::Relaxed), self.limit.policy())
    }

    /// Sets the memory limit in bytes, 0 for none, and what goes when it is reached.
    pub fn set_limit(&self, bytes: u64, policy: Policy) {
        let number = Policy::ALL.iter().position(|row| row.0 == policy).unwrap_or(0);
        self.limit.bytes.store(bytes, Ordering::Relaxed);
        self.limit.policy.store(number as u8, Ordering::Relaxed);
        self.limit.search_again();
    }

    /// Has `hearing` be told of entries that are evicted, while [`Store::tell_of_evictions`] says
    /// so. Whoever comes first stays.
    pub fn hear_of_evictions(&self, hearing: Hearing) {
        self.audience.hear(hearing);
    }

    /// Whether somebody wants to be told.
    pub fn tell_of_evictions(&self, tells: bool) {
        self.audience.listen(tells);
    }

    /// Sets how the policies that count uses do it.
    pub fn set_tuning(&self, tuning: Tuning) {
        self.limit.lfu_log_factor.store(tuning.lfu_log_factor, Ordering::Relaxed);
        self.limit.lfu_decay_time.store(tuning.lfu_decay_time, Ordering::Relaxed);
    }

    /// Bytes in use: those of the data, and those of the clients.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        accounting::tell();
        self.data_bytes() + self.client_bytes()
    }

    /// The same, and all statistics and all free room on pages that are in use.
    #[must_use]
    pub fn active_bytes(&self) -> u64 {
        let memory = accounting::now();
        memory.data + memory.statistics + memory.clients + self.page_bytes() as u64
    }

    /// Bytes that the limit is about: what the process has allocated but for the clients' buffers
    /// and up to 16 MiB of statistics, and the store's pages. Free room on these is left out up to
    /// a sixteenth of them and 4 MiB, and so is what empty tables take: the next entries go there,
    /// and to count it would be to evict until pages are empty, which in a small store drives out
    /// a third, or to look in vain for entries that would make room.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        let pages = self.page_bytes();
        let idle = self.idle_bytes().min(pages / 16 + UNCOUNTED_BYTES);
        let memory = accounting::now();
        let statistics = memory.statistics.saturating_sub(STATISTICS_BYTES);
        (memory.data + statistics + pages as u64).saturating_sub(idle as u64)
    }

    /// Bytes of requests and replies: buffers, and chunks that do not stand in the keyspace.
    #[must_use]
    pub fn client_bytes(&self) -> u64 {
        accounting::now().clients
    }

    /// The longest time for which evicting went on at a stretch.
    #[must_use]
    pub fn longest_eviction(&self) -> Duration {
        Duration::from_micros(self.limit.longest_eviction_us.load(Ordering::Relaxed))
    }

    pub(crate) fn reset_longest_eviction(&self) {
        self.limit.longest_eviction_us.store(0, Ordering::Relaxed);
    }

    /// Whether more is in use than the limit and a thirty-second part of it.
    #[must_use]
    #[inline]
    pub fn is_far_over_limit(&self) -> bool {
        let limit = self.limit.bytes.load(Ordering::Relaxed);
        limit != 0 && self.data_bytes() > limit + limit / 32
    }

    /// Whether more is in use than the limit allows.
    #[must_use]
    #[inline]
    pub fn is_over_limit(&self) -> bool {
        let limit = self.limit.bytes.load(Ordering::Relaxed);
        limit != 0 && self.lasting_bytes() > limit
    }

    /// Whether so many bytes more can fit below the limit: beside what is in use if nothing is ever
    /// evicted, else at all. While something is being freed it is not counted what.
    #[must_use]
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let (limit, policy) = self.limit();
        let stays = policy == Policy::NoEviction && reclaim::pending() == 0;
        let lasting = if stays { self.lasting_bytes() } else { 0 };
        limit == 0 || lasting.saturating_add(bytes as u64) <= limit
    }

    /// Bytes of data without what is kept for a snapshot, which goes by itself: to evict for that
    /// would only add to it.
    #[inline]
    fn lasting_bytes(&self) -> u64 {
        accounting::tell();
        let held = self.snapshot_memory();
        let kept = held.pre_image_bytes + held.walked_bytes;
        self.data_bytes().saturating_sub(kept as u64)
    }

    pub(crate) fn access_clock(&self, now_ms: u64) -> AccessClock {
        self.limit.clock(now_ms)
    }
}
