//! Eviction policies: which entries are evicted when memory has run out.
//!
//! Victims are sampled, as in Redis: the worst of a few entries spread over a segment. Any worker
//! evicts entries of any shard. Of small shards, the fullest of a few is chosen; otherwise some
//! could by chance lose all their entries while others grow.
//!
//! Most keys of a cache are requested once and never again. LRU and LFU therefore evict entries
//! first that were never accessed after they were stored. With samples of this size, such entries
//! take about a tenth of the memory, as in S3-FIFO's small queue (Yang et al., SOSP 2023); the rest
//! is available to entries that were accessed again. Under LRU, such entries only age faster, so
//! that a working set that changes is not blocked. Under LFU, the counters of a sample are lowered
//! if all of its entries were accessed, so that they adapt to any rate of accesses, and a minute
//! without access lowers them as in Redis. `cargo xtask bench --eviction` compares the policies.

use crate::entry::block::Entry;
use crate::eviction::access::{AccessClock, START, Tuning};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The number of entries in a sample.
pub(crate) const SAMPLES: usize = 16;
/// How many entries of a sample may be evicted for never having been accessed. With more, a loop
/// over slightly more keys than fit would lose each key just before it is requested.
const UNUSED_SAMPLES: usize = 8;
/// How much faster an entry ages that was never accessed after it was stored.
const UNUSED_AGEING: u32 = 6;
/// The maximum of a counter that is lowered because its sample has no unused entry, so that the
/// counters of a former hot set do not last long.
const KEPT: u32 = START + 2;

/// Which entries are evicted first. The names are those of `maxmemory-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Policy {
    /// None: commands that need memory are refused.
    #[default]
    NoEviction,
    /// The least recently used.
    AllKeysLru,
    /// The least frequently used.
    AllKeysLfu,
    /// Any entry.
    AllKeysRandom,
    /// The least recently used of those with an expiry.
    VolatileLru,
    /// The least frequently used of those with an expiry.
    VolatileLfu,
    /// Any entry with an expiry.
    VolatileRandom,
    /// The entries that expire soonest.
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

    /// Returns the policy's name in `maxmemory-policy`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Policy::ALL.iter().find(|(policy, _)| *policy == self).map_or("", |(_, name)| name)
    }

    /// Returns the policy with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Policy> {
        Policy::ALL.iter().find(|row| row.1.eq_ignore_ascii_case(name)).map(|row| row.0)
    }

    /// Whether the policy spares entries without an expiry.
    pub(crate) fn only_volatile(self) -> bool {
        use Policy::{VolatileLfu, VolatileLru, VolatileRandom, VolatileTtl};
        matches!(self, VolatileLru | VolatileLfu | VolatileRandom | VolatileTtl)
    }

    /// Whether the policy compares entries.
    pub(crate) fn compares(self) -> bool {
        !matches!(self, Policy::NoEviction | Policy::AllKeysRandom | Policy::VolatileRandom)
    }

    /// Whether the policy depends on the time or the number of accesses.
    #[must_use]
    pub fn looks_at_uses(self) -> bool {
        self.counts_uses() || matches!(self, Policy::AllKeysLru | Policy::VolatileLru)
    }

    /// Whether the policy depends on the number of accesses.
    #[must_use]
    pub fn counts_uses(self) -> bool {
        matches!(self, Policy::AllKeysLfu | Policy::VolatileLfu)
    }
}

/// The memory limit and the policy. They change at run time, and every writing command reads them.
#[derive(Debug)]
pub(crate) struct Limit {
    /// 0 for none.
    pub(crate) bytes: AtomicU64,
    pub(crate) policy: AtomicU8,
    pub(crate) lfu_log_factor: AtomicU32,
    pub(crate) lfu_decay_time: AtomicU32,
    /// Whether the last search found nothing to evict, and no entry that could be evicted has been
    /// added since.
    pub(crate) found_nothing: AtomicBool,
    /// Whether keys were claimed during that search, which may be evictable later.
    pub(crate) found_claims: AtomicBool,
    pub(crate) longest_eviction_us: AtomicU64,
}

impl Default for Limit {
    fn default() -> Self {
        let Tuning { lfu_log_factor, lfu_decay_time } = Tuning::default();
        Limit {
            bytes: AtomicU64::default(),
            policy: AtomicU8::default(),
            lfu_log_factor: lfu_log_factor.into(),
            lfu_decay_time: lfu_decay_time.into(),
            found_nothing: AtomicBool::default(),
            found_claims: AtomicBool::default(),
            longest_eviction_us: AtomicU64::default(),
        }
    }
}

impl Limit {
    /// Allows a full search for victims again, because entries may have become evictable.
    pub(crate) fn search_again(&self) {
        // The flag is nearly always false; without a write, its cache line stays shared.
        if self.found_nothing.load(Ordering::Relaxed) {
            self.found_nothing.store(false, Ordering::Relaxed);
        }
    }

    pub(crate) fn reset_longest_eviction(&self) {
        self.longest_eviction_us.store(0, Ordering::Relaxed);
    }

    /// Returns the clock that records accesses at this time.
    pub(crate) fn clock(&self, now_ms: u64) -> AccessClock {
        let tuning = Tuning {
            lfu_log_factor: self.lfu_log_factor.load(Ordering::Relaxed),
            lfu_decay_time: self.lfu_decay_time.load(Ordering::Relaxed),
        };
        AccessClock::new(now_ms, self.policy().counts_uses(), tuning)
    }

    pub(crate) fn policy(&self) -> Policy {
        let number = usize::from(self.policy.load(Ordering::Relaxed));
        Policy::ALL.get(number).map_or(Policy::NoEviction, |row| row.0)
    }
}

/// Selects the worst entry of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VictimSelection {
    pub(crate) policy: Policy,
    pub(crate) clock: AccessClock,
}

impl VictimSelection {
    /// Returns the victim among entries in arbitrary order.
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

    /// Returns how early an entry is to be evicted, to compare the victims of several samples: the
    /// higher the number, the earlier.
    pub(crate) fn urgency(self, entry: Entry) -> u64 {
        match self.policy {
            Policy::NoEviction | Policy::AllKeysRandom | Policy::VolatileRandom => 0,
            Policy::AllKeysLru | Policy::VolatileLru => {
                let idle = u64::from(self.clock.idle_ticks(entry.access()));
                let is_used = self.clock.is_used(entry.access());
                if is_used { idle } else { u64::from(UNUSED_AGEING) * (idle + 1) }
            }
            Policy::AllKeysLfu | Policy::VolatileLfu => {
                u64::MAX - u64::from(self.clock.frequency(entry.access()))
            }
            Policy::VolatileTtl => u64::MAX - entry.expire_at_ms().unwrap_or(u64::MAX),
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
