//! Eviction: which entries go when memory has run out.
//!
//! Victims are sampled, as in Redis: the worst of a few entries spread over a segment. Any worker
//! takes victims of any shard; of small shards the fullest of a few gives, or some would by chance
//! give up all they have while other shards grow.
//!
//! Most keys of a cache are asked for once and never again. So both kinds let what was never used
//! since it was stored go first. With samples as large as ours such entries come to a tenth of the
//! memory or so, as in S3-FIFO's small queue (Yang et al., SOSP 2023), and the rest belongs to what
//! has proved itself. For LRU they merely age faster, so that a working set that changes is not
//! held up; for LFU, counters are lowered where a sample has only such as were used, so that they
//! follow the uses at whatever rate those come, and a minute without use lowers them as in Redis.
//! `cargo xtask bench --eviction` compares.

use crate::entry::block::Entry;
use crate::eviction::access::{AccessClock, START, Tuning};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Entries among which the worst is chosen.
pub(crate) const SAMPLES: usize = 16;
/// Those of them that may go for never having been used: fewer, or a loop over a little more than
/// fits would lose each key just before it is asked for.
const UNUSED_SAMPLES: usize = 8;
/// How much faster an entry ages that was never used since it was stored.
const UNUSED_AGEING: u32 = 6;
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
    pub(crate) bytes: AtomicU64,
    pub(crate) policy: AtomicU8,
    pub(crate) lfu_log_factor: AtomicU32,
    pub(crate) lfu_decay_time: AtomicU32,
    /// Whether the last search found nothing that can go, and nothing has come since that may.
    pub(crate) found_nothing: AtomicBool,
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
            longest_eviction_us: AtomicU64::default(),
        }
    }
}

impl Limit {
    /// Something may be able to go that was not there, or could not, when it was searched for last.
    pub(crate) fn search_again(&self) {
        // Nearly always it is false, and then its line stays in the caches of all readers.
        if self.found_nothing.load(Ordering::Relaxed) {
            self.found_nothing.store(false, Ordering::Relaxed);
        }
    }

    pub(crate) fn reset_longest_eviction(&self) {
        self.longest_eviction_us.store(0, Ordering::Relaxed);
    }

    /// How uses are noted at a time.
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

/// Chooses the worst of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VictimSelection {
    pub(crate) policy: Policy,
    pub(crate) clock: AccessClock,
}

impl VictimSelection {
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
