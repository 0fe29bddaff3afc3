//! Evicting: entries of any shard go until memory is below the limit.

use crate::effects::event::Event;
use crate::entry::garbage::Garbage;
use crate::entry::view::EntryView;
use crate::eviction::access::Tuning;
use crate::eviction::observer::{Evicted, EvictionObserver};
use crate::eviction::policy::{Policy, VictimSelection};
use crate::index::table::ServerRemovals;
use crate::keyspace::database::Database;
use crate::keyspace::store::Store;
use crate::memory::accounting;
use crate::memory::reclaim;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Shards tried for one victim before giving up.
const TRIES: usize = 512;
/// The same while the last search was in vain.
const FEW_TRIES: usize = 4;
/// Shards from which the fullest is chosen, while they are small.
const CHOICES: usize = 4;
/// A shard with so many entries is not small: a few more or less than in other shards make no
/// difference.
const MANY_ENTRIES: usize = 1000;
/// Longest time that evicting goes on at a stretch, and the least where that is not enough.
const BUDGET: Duration = Duration::from_micros(500);
const MIN_BUDGET: Duration = Duration::from_micros(10);
/// Such a part of the limit beyond it, and evicting goes on for the longest time.
const FAR_PART: u64 = 32;

/// What is free on pages or taken by empty tables and not counted, beside a share of all pages.
const UNCOUNTED_BYTES: usize = 4 << 20;

impl Database<'_> {
    /// Removes entries, of any database, until memory is below the limit, or for a time, and the
    /// rest is left to the next call. That is half a millisecond where memory is far beyond the
    /// limit, and less in proportion: what is freed among other entries does not count at once, and
    /// each of many requests would go on for so long, though the next ones use what has been freed.
    /// `false` if memory is above the limit and nothing can go: then commands that need memory are
    /// refused.
    #[must_use]
    pub fn make_room(&self) -> bool {
        if self.is_latched() {
            // Latches of other shards cannot be taken now; room was made before this one was.
            return true;
        }
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

    /// The same after a command that has added much, to be called until it answers `false`:
    /// whether memory is still far beyond the limit and something can go. Such a command waits
    /// until there is room, or the limit would not hold; other commands do not wait.
    #[must_use]
    pub fn evict_for_large_write(&self) -> bool {
        let is_far = || self.store.is_far_over_limit();
        is_far() && self.make_room() && is_far()
    }

    /// The same between commands, so that a limit that was lowered is met although none arrives;
    /// whether there is more to do and something that can go.
    #[must_use]
    pub fn evict_between_commands(&self) -> bool {
        if !self.store.is_over_limit() {
            self.store.limit.search_again();
            return false;
        }
        // A claimer waits for the end of this batch, or its claim is seen here.
        let _batch = self.store.batch(self.counters);
        self.make_room() && self.store.is_over_limit()
    }

    fn evict_since(&self, started: Instant) -> bool {
        let policy = self.store.limit.policy();
        let clock = self.store.limit.clock(self.now_ms);
        let selection = VictimSelection { policy, clock };
        let budget = self.store.eviction_budget();
        while self.store.is_over_limit() {
            if policy == Policy::NoEviction || !self.evict(selection) {
                return false;
            }
            if started.elapsed() >= budget {
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

    /// Removes an entry. Returns whether there was one.
    #[cfg(test)]
    pub(crate) fn evict_one(&self) -> bool {
        let clock = self.store.limit.clock(self.now_ms);
        self.evict(VictimSelection { policy: Policy::AllKeysRandom, clock })
    }

    /// Removes one entry of some shard that is not claimed; `false` if none was found. After a
    /// search of all shards that found none, only a few are searched until there may be some again:
    /// other requests wait meanwhile, and it is done for each command that is refused.
    fn evict(&self, selection: VictimSelection) -> bool {
        let shards = self.store.shards.len();
        let first = self.full_shard();
        let found_nothing = self.store.limit.found_nothing.load(Ordering::Relaxed);
        let tries = if found_nothing { FEW_TRIES } else { TRIES.max(shards) };
        let spared = self.store.spared();
        let spares = spared.as_ref().map(|spared| spared as &dyn Fn(u64) -> bool);
        for attempt in 0..tries {
            let Some(latch) = self.store.shards.get((first + attempt) % shards) else { continue };
            let mut held = latch.lock();
            if !held.has_any(selection.policy.only_volatile()) {
                continue;
            }
            let mut garbage = Garbage::default();
            let barrier = self.store.word.read();
            let random = self.random();
            let tables = held.tables_mut();
            let offset = random as usize % tables.len().max(1);
            let (before, from) = tables.split_at_mut(offset);
            let mut tables = from.iter_mut().chain(before);
            let (notifier, mut evicted) = (&self.store.notifier, None);
            let mut show = |database, entry: EntryView<'_>| {
                if barrier.is_listening() {
                    let hook = &self.store.hook;
                    hook.report_removed(barrier.epoch(), database, &entry, Event::Evicted);
                }
                if notifier.is_enabled() {
                    evicted = Some(Evicted::of(&entry, selection.clock.idle_ms(entry.access())));
                }
            };
            let mut unasked = ServerRemovals { spares, show: &mut show, garbage: &mut garbage };
            let found = tables.any(|table| table.evict(barrier, selection, random, &mut unasked));
            drop(held);
            self.store.reclaimer.free(garbage);
            self.store.notify_preparer();
            if let Some(evicted) = evicted {
                notifier.report(&evicted);
            }
            if found {
                self.counters.evicted.add(1);
                self.store.limit.search_again();
                return true;
            }
        }
        self.store.limit.found_nothing.store(true, Ordering::Relaxed);
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
    #[must_use]
    pub fn random(&self) -> u64 {
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

    /// Sets what is called for each entry that is evicted, while
    /// [`Store::set_evictions_observed`] says so. The first one stays.
    pub fn observe_evictions(&self, observer: EvictionObserver) {
        self.notifier.observe(observer);
    }

    /// Whether the observer is called.
    pub fn set_evictions_observed(&self, is_observed: bool) {
        self.notifier.enable(is_observed);
    }

    /// Sets how the policies that count uses do it.
    pub fn set_tuning(&self, tuning: Tuning) {
        self.limit.lfu_log_factor.store(tuning.lfu_log_factor, Ordering::Relaxed);
        self.limit.lfu_decay_time.store(tuning.lfu_decay_time, Ordering::Relaxed);
    }

    /// Bytes in use: those of the data, and those of the clients. What is there without either is
    /// not among them ([`Store::startup_bytes`], [`Store::added_overhead_bytes`]).
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        accounting::publish();
        self.data_bytes() + self.client_bytes()
    }

    /// All bytes in use, with all free room on pages that are.
    #[must_use]
    pub fn active_bytes(&self) -> u64 {
        let memory = accounting::now();
        let beside_pages = memory.data + memory.startup + memory.added + memory.clients;
        beside_pages + self.page_bytes() as u64
    }

    /// Bytes that the limit is about: what has been allocated for the data, and the store's pages.
    /// Free room on these is left out up to a sixteenth of them and 4 MiB, and so is what empty
    /// tables take: the next entries go there, and to count it would be to evict until pages are
    /// empty, which in a small store drives out a third, or to look in vain for entries that would
    /// make room.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        let pages = self.page_bytes();
        let idle = self.idle_bytes().min(pages / 16 + UNCOUNTED_BYTES);
        (accounting::now().data + pages as u64).saturating_sub(idle as u64)
    }

    /// Bytes that the process and its workers took when they started.
    #[must_use]
    pub fn startup_bytes(&self) -> u64 {
        accounting::now().startup
    }

    /// Bytes of overhead that came later: of connections without their buffers, and of statistics,
    /// which come with the first command of each kind.
    #[must_use]
    pub fn added_overhead_bytes(&self) -> u64 {
        accounting::now().added
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

    /// Whether more is in use than the limit and a thirty-second part of it.
    #[must_use]
    #[inline]
    pub fn is_far_over_limit(&self) -> bool {
        let limit = self.limit.bytes.load(Ordering::Relaxed);
        limit != 0 && self.data_bytes() > limit + limit / FAR_PART
    }

    /// How long evicting may go on.
    pub(crate) fn eviction_budget(&self) -> Duration {
        let limit = self.limit.bytes.load(Ordering::Relaxed);
        let excess = self.lasting_bytes().saturating_sub(limit);
        let share = excess as f64 / (limit / FAR_PART).max(1) as f64;
        BUDGET.mul_f64(share.min(1.0)).max(MIN_BUDGET)
    }

    /// Whether more is in use than the limit allows.
    #[must_use]
    #[inline]
    pub fn is_over_limit(&self) -> bool {
        let limit = self.limit.bytes.load(Ordering::Relaxed);
        limit != 0 && self.lasting_bytes() > limit
    }

    /// Whether more is in use than the limit allows and nothing can go, as far as the last search
    /// for an entry tells; workers look again ten times a second. Takes no latch.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let stays = self.limit.policy() == Policy::NoEviction
            || self.limit.found_nothing.load(Ordering::Relaxed);
        stays && self.is_over_limit()
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
        accounting::publish();
        let held = self.snapshot_memory();
        let kept = held.pre_image_bytes + held.walked_bytes;
        self.data_bytes().saturating_sub(kept as u64)
    }
}
