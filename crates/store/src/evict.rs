//! Eviction: which entries go when memory has run out.
//!
//! Victims are sampled, as in Redis: the worst of a few entries spread over a segment. An entry
//! keeps 24 bits about its use, which the policy decides how to read. Any worker takes victims of
//! any shard.
//!
//! ```text
//!  LRU  | used again:1 |  last used, in ticks of 128 ms:23     |
//!  LFU  |  last used, in minutes:16  |  logarithmic counter:8  |
//! ```
//!
//! Most keys of a cache are asked for once and never again. So both kinds let what was never used
//! since it was stored go first. With samples as large as ours such entries come to a tenth of the
//! memory or so, as in S3-FIFO's small queue (Yang et al., SOSP 2023), and the rest belongs to what
//! has proved itself. For LRU they merely age faster, so that a working set that changes is not
//! held up; for LFU, counters are lowered where a sample has only such as were used, so that they
//! follow the uses at whatever rate those come, and a minute without use lowers them as in Redis.
//! `cargo xtask bench --eviction` compares.

use crate::database::Database;
use crate::entry::Entry;
use crate::memory;
use crate::reclaim::Garbage;
use crate::store::Store;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
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
/// Longest time that one command spends on making room.
const BUDGET: Duration = Duration::from_micros(500);
/// The same while memory is far beyond the limit, which only commands that add much can bring
/// about, or a limit that was lowered.
const LONG_BUDGET: Duration = Duration::from_millis(10);

/// Free room on pages that is not counted, beside a share of all pages.
const UNCOUNTED_BYTES: usize = 4 << 20;

const LRU_TICK_MS: u64 = 128;
const TICKS_MASK: u32 = 0x7f_ffff;
const USED_AGAIN: u32 = 1 << 23;
/// Where the counter of a new entry begins, so that it is not the first to go.
const LFU_START: u32 = 5;
/// Up to here every use counts; Redis begins at once to leave some out, which cannot tell a key
/// used twice from one used twenty times.
const LFU_EXACT: u32 = 15;
/// How slowly the counter grows from there on: a million uses bring it near 255.
const LFU_SLOWNESS: u64 = 10;
/// The most that a counter keeps when it is lowered for lack of worse entries: a hot set that has
/// moved on is not remembered for long.
const LFU_KEPT: u32 = LFU_START + 5;

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
#[derive(Debug, Default)]
pub(crate) struct Limit {
    /// 0 for none.
    bytes: AtomicU64,
    policy: AtomicU8,
}

impl Limit {
    fn policy(&self) -> Policy {
        let number = usize::from(self.policy.load(Ordering::Relaxed));
        Policy::ALL.get(number).map_or(Policy::NoEviction, |row| row.0)
    }
}

/// How uses are noted, at the time of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessClock {
    now_ms: u64,
    counts_uses: bool,
    notes: Notes,
}

/// What a use of an entry leaves in it.
#[derive(Clone, Copy, Debug)]
enum Notes {
    Time,
    Count,
    Nothing,
}

impl AccessClock {
    fn new(now_ms: u64, policy: Policy) -> Self {
        let counts_uses = policy.counts_uses();
        let notes = if counts_uses { Notes::Count } else { Notes::Time };
        AccessClock { now_ms, counts_uses, notes }
    }

    /// The same, but uses leave nothing.
    pub(crate) fn untouching(self) -> Self {
        AccessClock { notes: Notes::Nothing, ..self }
    }

    /// What a new entry begins with.
    pub(crate) fn first(self) -> u32 {
        if self.counts_uses { self.minutes() << 8 | LFU_START } else { self.ticks() }
    }

    /// Notes a use of an entry. `random` is any number that differs between uses.
    #[inline]
    pub(crate) fn note(self, entry: Entry, random: u64) {
        match self.notes {
            Notes::Time => entry.set_access(self.ticks() | USED_AGAIN),
            Notes::Count => {
                entry.set_access(self.minutes() << 8 | self.grown(entry.access(), random));
            }
            Notes::Nothing => {}
        }
    }

    /// How long an entry has not been used, in milliseconds: as finely as its bits tell.
    pub(crate) fn idle_ms(self, access: u32) -> u64 {
        match self.counts_uses {
            true => u64::from(self.idle_minutes(access)) * 60_000,
            false => u64::from(self.idle_ticks(access)) * LRU_TICK_MS,
        }
    }

    /// The counter of uses, as it stands now.
    pub(crate) fn frequency(self, access: u32) -> u32 {
        (access & 0xff).saturating_sub(self.idle_minutes(access))
    }

    fn grown(self, access: u32, random: u64) -> u32 {
        let counter = self.frequency(access);
        let odds = u64::from(counter.saturating_sub(LFU_EXACT)) * LFU_SLOWNESS + 1;
        let mixed = (random ^ random >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
        if counter < 255 && mixed.is_multiple_of(odds) { counter + 1 } else { counter }
    }

    fn idle_minutes(self, access: u32) -> u32 {
        passed(self.minutes(), access >> 8, 0xffff)
    }

    fn ticks(self) -> u32 {
        (self.now_ms / LRU_TICK_MS) as u32 & TICKS_MASK
    }

    fn idle_ticks(self, access: u32) -> u32 {
        passed(self.ticks(), access, TICKS_MASK)
    }

    fn minutes(self) -> u32 {
        (self.now_ms / 60_000) as u32 & 0xffff
    }
}

/// How much time lies between two readings of a clock that goes round. What seems to come next is
/// taken for now: other workers' batches began later than ours.
fn passed(now: u32, then: u32, mask: u32) -> u32 {
    let passed = now.wrapping_sub(then) & mask;
    if passed > mask - mask / 64 { 0 } else { passed }
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
        let is_used = |entry: &Entry| entry.access() & USED_AGAIN != 0;
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
        if frequency(&rarest) > LFU_START {
            for entry in sample {
                let lowered = frequency(&entry).saturating_sub(1).min(LFU_KEPT);
                entry.set_access(self.clock.minutes() << 8 | lowered);
            }
        }
        Some(rarest)
    }
}

impl Database<'_> {
    /// Removes entries, of any database, until memory is below the limit, or half a millisecond
    /// has passed (ten, if memory is far beyond the limit) and the rest is left to the next call.
    /// `false` if memory is above the limit and nothing can go: then commands that need memory are
    /// refused.
    #[must_use]
    pub fn make_room(&self) -> bool {
        // A command that adds much must make much room, or the limit would not hold.
        let budget = if self.store.is_far_over_limit() { LONG_BUDGET } else { BUDGET };
        self.evict_for(budget)
    }

    /// The same between commands, so that a limit that was lowered is met although none arrives;
    /// whether there is more to do and something that can go.
    #[must_use]
    pub fn shed(&self) -> bool {
        self.store.is_over_limit() && self.evict_for(BUDGET) && self.store.is_over_limit()
    }

    fn evict_for(&self, budget: Duration) -> bool {
        let policy = self.store.limit.policy();
        let clock = AccessClock::new(self.now_ms, policy);
        let judge = Judge { policy, clock };
        let mut started = None;
        while self.store.is_over_limit() {
            if policy == Policy::NoEviction || !self.evict(judge) {
                return false;
            }
            if started.get_or_insert_with(Instant::now).elapsed() >= budget {
                break;
            }
        }
        true
    }

    /// Removes one entry of some shard; `false` if none was found.
    fn evict(&self, judge: Judge) -> bool {
        let shards = self.store.shards.len();
        // Chosen as a key is, so that wider shards give more.
        let first = self.store.shard_of_hash(self.random());
        for attempt in 0..TRIES.max(shards) {
            let Some(latch) = self.store.shards.get((first + attempt) % shards) else { continue };
            let mut garbage = Garbage::default();
            let mut held = latch.lock();
            let door = self.store.word.read();
            let random = self.random();
            let tables = held.tables_mut();
            let offset = random as usize % tables.len().max(1);
            let (before, from) = tables.split_at_mut(offset);
            let mut tables = from.iter_mut().chain(before);
            let found = tables.any(|table| table.evict(door, judge, random, &mut garbage));
            drop(held);
            self.store.reclaimer.free(garbage);
            self.store.cool();
            if found {
                self.counters.evicted.add(1);
                return true;
            }
        }
        false
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
    }

    /// Bytes in use: what the process has allocated, and the store's pages. Free room on these is
    /// left out up to a sixteenth of them and 4 MiB: the next entries go there, and to count it
    /// would be to evict until pages are empty, which in a small store drives out a third.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        let pages = self.page_bytes();
        let idle = self.idle_bytes().min(pages / 16 + UNCOUNTED_BYTES);
        memory::allocated_bytes() + pages.saturating_sub(idle) as u64
    }

    /// Whether more is in use than the limit and a thirty-second part of it.
    fn is_far_over_limit(&self) -> bool {
        let limit = self.limit.bytes.load(Ordering::Relaxed);
        limit != 0 && self.used_bytes() > limit + limit / 32
    }

    /// Whether more is in use than the limit allows.
    #[must_use]
    #[inline]
    pub fn is_over_limit(&self) -> bool {
        let limit = self.limit.bytes.load(Ordering::Relaxed);
        if limit == 0 {
            return false;
        }
        memory::tell();
        self.used_bytes() > limit
    }

    pub(crate) fn access_clock(&self, now_ms: u64) -> AccessClock {
        AccessClock::new(now_ms, self.limit.policy())
    }
}
