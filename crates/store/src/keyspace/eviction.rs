//! Eviction: removes entries of any shard until memory is below the limit.

use crate::effects::event::Event;
use crate::entry::garbage::Garbage;
use crate::entry::view::EntryView;
use crate::eviction::access::Tuning;
use crate::eviction::observer::{Evicted, EvictionObserver};
use crate::eviction::policy::{Policy, SAMPLES, VictimSelection};
use crate::index::table::{ServerRemovals, Spares};
use crate::keyspace::database::Database;
use crate::keyspace::store::Store;
use crate::memory::accounting;
use crate::memory::reclaim;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The number of shards searched for one victim.
const TRIES: usize = 512;
/// The number of shards searched for one victim after a search of all shards has failed.
const FEW_TRIES: usize = 4;
/// The number of shards that are compared to choose the fullest, while they are small.
const CHOICES: usize = 4;
/// With fewer entries in the fullest of these shards, victims of several shards are compared.
const FEW_ENTRIES: usize = 4;
/// A shard with this many entries is not small: differences between shards have little effect.
const MANY_ENTRIES: usize = 1000;
/// The longest time that eviction continues without a pause, and the shortest if that is too short.
const BUDGET: Duration = Duration::from_micros(500);
const MIN_BUDGET: Duration = Duration::from_micros(10);
/// With this fraction of the limit in excess, eviction continues for the longest time.
const FAR_PART: u64 = 32;

/// Removed memory that has not been freed yet does not count up to this many bytes, or a quarter of
/// the limit if that is more. Beyond that it counts, so that memory is bounded.
const MAX_UNFREED_BYTES: u64 = 64 << 20;

/// The memory of a value in addition to its bytes: this fraction of them, for the list of its
/// chunks, and a constant, for its key, its place in a table and the rounding of its last chunk.
const ADDED_PART: usize = 1024;
const ADDED_BYTES: usize = 8 << 10;

/// Free bytes on pages and in empty tables that do not count, in addition to a fraction of all
/// pages.
const UNCOUNTED_BYTES: usize = 4 << 20;

impl Database<'_> {
    /// Evicts entries of any database until memory is below the limit, or until its time is used
    /// up; then the next call continues. The time is half a millisecond if memory is far above the
    /// limit, and proportionally less otherwise: freed memory between other entries does not count
    /// at once, so each of many requests would evict for that long, although later requests use the
    /// freed memory. Returns `false` if memory is above the limit and nothing can be evicted; then
    /// commands that need memory are refused.
    #[must_use]
    pub fn make_room(&self) -> bool {
        self.make_room_sparing(&[])
    }

    /// Like [`Database::make_room`], without evicting keys with these hashes.
    fn make_room_sparing(&self, kept: &[u64]) -> bool {
        if self.is_latched() {
            // Latches of other shards cannot be taken now; eviction ran before this one was taken.
            return true;
        }
        let Some(started) = self.store.is_over_limit().then(Instant::now) else { return true };
        let done = self.evict_since(started, kept);
        let took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        // Written only if necessary, because every command reads the adjacent fields.
        let longest_us = &self.store.limit.longest_eviction_us;
        if took_us > longest_us.load(Ordering::Relaxed) {
            longest_us.fetch_max(took_us, Ordering::Relaxed);
        }
        done
    }

    /// Evicts entries until a value of this many bytes fits below the limit, or until its time is
    /// used up. Spares the keys with the hashes `kept`: those of the request that will store the
    /// value. If room were made afterwards, the victim might be the value itself. Returns whether
    /// there is more to do and something can be evicted.
    pub fn make_room_for(&self, bytes: usize, kept: &[u64]) -> bool {
        let (limit, policy) = self.store.limit();
        let wanted = (bytes + bytes / ADDED_PART + ADDED_BYTES) as u64;
        let fits = || self.store.counted_bytes(limit).saturating_add(wanted) <= limit;
        if limit == 0 || policy == Policy::NoEviction || self.is_latched() || fits() {
            return false;
        }
        let (started, selection) = (Instant::now(), self.selection(policy));
        while started.elapsed() < BUDGET {
            if !self.evict(selection, kept) || fits() {
                return false;
            }
        }
        true
    }

    /// Like [`Database::make_room`], after a command that has added much data. Call it until it
    /// returns `false`; `true` means that memory is still above the limit and something can be
    /// evicted other than the keys with the hashes `written`. Such a command waits until there is
    /// room, because memory could otherwise grow without bound; other commands do not wait.
    #[must_use]
    pub fn evict_for_large_write(&self, written: &[u64]) -> bool {
        let is_over = || self.store.is_over_limit();
        is_over() && self.make_room_sparing(written) && is_over()
    }

    /// Like [`Database::make_room`], between commands, so that a lowered limit takes effect even
    /// without commands. Returns whether there is more to do and something can be evicted.
    #[must_use]
    pub fn evict_between_commands(&self) -> bool {
        if !self.store.is_over_limit() {
            self.store.limit.search_again();
            return false;
        }
        // Either a claimer waits for the end of this batch, or its claim is visible here.
        let _batch = self.store.batch(self.counters);
        self.make_room() && self.store.is_over_limit()
    }

    pub(crate) fn selection(&self, policy: Policy) -> VictimSelection {
        VictimSelection { policy, clock: self.store.limit.clock(self.now_ms) }
    }

    fn evict_since(&self, started: Instant, kept: &[u64]) -> bool {
        let policy = self.store.limit.policy();
        let selection = self.selection(policy);
        let budget = self.store.eviction_budget();
        while self.store.is_over_limit() {
            if policy == Policy::NoEviction || !self.evict(selection, kept) {
                return false;
            }
            if started.elapsed() >= budget {
                break;
            }
        }
        true
    }

    /// Evicts all entries, as if there were no memory left.
    #[cfg(test)]
    pub(crate) fn evict_all(&self) {
        while self.evict_one() {}
    }

    /// Evicts an entry. Returns whether there was one.
    #[cfg(test)]
    pub(crate) fn evict_one(&self) -> bool {
        self.evict(self.selection(Policy::AllKeysRandom), &[])
    }

    /// Evicts one entry, of any shard, that is neither claimed nor `kept`; `false` if none was
    /// found. After a search of all shards has failed, only a few are searched until something may
    /// be evictable again: a full search for each refused command would delay other requests.
    pub(crate) fn evict(&self, selection: VictimSelection, kept: &[u64]) -> bool {
        let shards = self.store.shards.len();
        let limit = &self.store.limit;
        let is_anything_claimed = self.store.is_anything_claimed();
        if !is_anything_claimed && limit.found_claims.load(Ordering::Relaxed) {
            limit.found_claims.store(false, Ordering::Relaxed);
            limit.search_again();
        }
        let found_nothing = limit.found_nothing.load(Ordering::Relaxed);
        // Only keys that gain an expiry allow another full search; a new key may go as well if the
        // policy is for all keys, unless a script or a long command may have claimed them all.
        let is_pointless =
            found_nothing && (selection.policy.only_volatile() || is_anything_claimed);
        let tries = if is_pointless { FEW_TRIES } else { TRIES.max(shards) };
        let claimed = self.store.spared();
        let is_spared =
            |hash| kept.contains(&hash) || claimed.as_ref().is_some_and(|claimed| claimed(hash));
        let spares = (!kept.is_empty() || claimed.is_some()).then_some(&is_spared as Spares<'_>);
        let (shard, entries) = self.full_shard();
        let has_few = entries < FEW_ENTRIES && !is_pointless && selection.policy.compares();
        let first = if has_few { self.urgent_shard(shard, selection, spares) } else { shard };
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
                let idle_ms = selection.clock.idle_ms(entry.access());
                self.counters.last_eviction.note(self.now_ms, idle_ms);
                self.counters.evicted_volatile.add(u64::from(entry.expire_at_ms().is_some()));
                self.counters.evicted_unfetched.add(u64::from(!entry.marks().fetched));
                let hook = &self.store.hook;
                if barrier.is_listening() || hook.reports_removals() {
                    hook.report_removed(barrier.epoch(), database, &entry, Event::Evicted);
                }
                if notifier.is_enabled() {
                    evicted = Some(Evicted::of(&entry, idle_ms));
                }
            };
            let mut removals = ServerRemovals { spares, show: &mut show, garbage: &mut garbage };
            let found = tables.any(|table| table.evict(barrier, selection, random, &mut removals));
            drop(held);
            self.store.reclaimer.free(garbage);
            self.store.notify_preparer();
            if let Some(evicted) = evicted {
                notifier.report(&evicted);
            }
            if found {
                self.counters.evicted.add(1);
                limit.search_again();
                return true;
            }
        }
        if kept.is_empty() && !is_pointless {
            limit.found_nothing.store(true, Ordering::Relaxed);
            limit.found_claims.store(claimed.is_some(), Ordering::Relaxed);
        }
        false
    }

    /// Returns a shard to evict from: chosen as a key is, so that shards with wider ranges are
    /// chosen more often, and among small ones the fullest of a few (Mitzenmacher, "The power of
    /// two choices", 2001); also returns the number of its entries.
    fn full_shard(&self) -> (usize, usize) {
        let mut chosen = (0, 0, 0);
        for _ in 0..CHOICES {
            let shard = self.store.shard_of_hash(self.random());
            let Some(latch) = self.store.shards.get(shard) else { continue };
            let (entries, fullness) = latch.lock_untimed().fullness();
            chosen = chosen.max((fullness + 1, entries, shard));
            if entries >= MANY_ENTRIES {
                break;
            }
        }
        let (_, entries, shard) = chosen;
        (shard, entries)
    }

    /// Returns the shard with the most urgent victim, of those from `first` on that together have
    /// as many entries as a sample. If even the fullest shard has few entries, its victim alone
    /// would be no choice.
    #[cold]
    fn urgent_shard(
        &self,
        first: usize,
        selection: VictimSelection,
        spares: Option<Spares<'_>>,
    ) -> usize {
        let random = self.random();
        let (mut best, mut seen) = ((0, first), 0);
        let shards = self.store.shards.iter().enumerate();
        let (before, from) = (shards.clone().take(first), shards.skip(first));
        for (shard, latch) in from.chain(before) {
            let mut held = latch.lock();
            let barrier = self.store.word.read();
            for table in held.tables_mut() {
                seen += table.len();
                let urgency = table.urgency(barrier, selection, random, spares);
                best = best.max((urgency.map_or(0, |it| it.saturating_add(1)), shard));
            }
            if seen >= SAMPLES {
                break;
            }
        }
        best.1
    }

    /// Returns a pseudorandom number of this worker: SplitMix64 (Steele, Lea and Flood, OOPSLA
    /// 2014).
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
    /// Returns the memory limit in bytes (0 for none) and the eviction policy.
    #[must_use]
    pub fn limit(&self) -> (u64, Policy) {
        (self.limit.bytes.load(Ordering::Relaxed), self.limit.policy())
    }

    /// Whether there is a memory limit.
    #[must_use]
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.limit.bytes.load(Ordering::Relaxed) != 0
    }

    /// Sets the memory limit in bytes (0 for none) and the eviction policy.
    pub fn set_limit(&self, bytes: u64, policy: Policy) {
        let number = Policy::ALL.iter().position(|row| row.0 == policy).unwrap_or(0);
        self.limit.bytes.store(bytes, Ordering::Relaxed);
        self.limit.policy.store(number as u8, Ordering::Relaxed);
        self.limit.search_again();
    }

    /// Sets a callback for each evicted entry, which is called while
    /// [`Store::set_evictions_observed`] is on. Only the first callback is kept.
    pub fn observe_evictions(&self, observer: EvictionObserver) {
        self.notifier.observe(observer);
    }

    /// Sets whether that callback is called.
    pub fn set_evictions_observed(&self, is_observed: bool) {
        self.notifier.enable(is_observed);
    }

    /// Sets the parameters of the policies that count accesses.
    pub fn set_tuning(&self, tuning: Tuning) {
        self.limit.lfu_log_factor.store(tuning.lfu_log_factor, Ordering::Relaxed);
        self.limit.lfu_decay_time.store(tuning.lfu_decay_time, Ordering::Relaxed);
    }

    /// Returns the bytes used by data and clients, without the memory of an empty process
    /// ([`Store::startup_bytes`], [`Store::added_overhead_bytes`]).
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        accounting::publish();
        self.data_bytes() + self.client_bytes()
    }

    /// Returns all bytes in use, including all free space on the store's pages.
    #[must_use]
    pub fn active_bytes(&self) -> u64 {
        let memory = accounting::now();
        let beside_pages = memory.data + memory.startup + memory.added + memory.clients;
        beside_pages + self.page_bytes() as u64
    }

    /// Returns the bytes that are compared with the limit: memory allocated for data, and the
    /// store's pages. Free space on pages does not count up to a sixteenth of the pages plus 4 MiB,
    /// and neither does the memory of empty tables. The next entries are stored there. If this
    /// memory counted, eviction would continue until pages are empty, which costs a small store a
    /// third of its entries, or would search in vain for entries whose eviction makes room.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        let pages = self.page_bytes();
        let idle = self.idle_bytes().min(pages / 16 + UNCOUNTED_BYTES);
        (accounting::now().data + pages as u64).saturating_sub(idle as u64)
    }

    /// Returns the bytes of [`Store::data_bytes`], but with all free space on the store's pages.
    #[must_use]
    pub fn allocated_data_bytes(&self) -> u64 {
        accounting::now().data + self.page_bytes() as u64
    }

    /// Returns the bytes that the process and its workers allocated at the start.
    #[must_use]
    pub fn startup_bytes(&self) -> u64 {
        accounting::now().startup
    }

    /// Returns the overhead in bytes that was added later: connections without their buffers, and
    /// statistics, which are allocated with the first command of each kind.
    #[must_use]
    pub fn added_overhead_bytes(&self) -> u64 {
        accounting::now().added
    }

    /// Returns the bytes of requests and replies: buffers, and chunks outside the keyspace.
    #[must_use]
    pub fn client_bytes(&self) -> u64 {
        accounting::now().clients
    }

    /// Returns the longest time that eviction has continued without a pause.
    #[must_use]
    pub fn longest_eviction(&self) -> Duration {
        Duration::from_micros(self.limit.longest_eviction_us.load(Ordering::Relaxed))
    }

    /// Whether memory exceeds the limit by more than a thirty-second of it.
    #[must_use]
    #[inline]
    pub fn is_far_over_limit(&self) -> bool {
        let limit = self.limit.bytes.load(Ordering::Relaxed);
        let far = limit + limit / FAR_PART;
        limit != 0 && self.data_bytes() > far && {
            // As in `counted_bytes`.
            let unfreed = unfreed_bytes(limit);
            self.data_bytes().saturating_sub(unfreed) > far
        }
    }

    /// Returns how long eviction may continue.
    pub(crate) fn eviction_budget(&self) -> Duration {
        let limit = self.limit.bytes.load(Ordering::Relaxed);
        let excess = self.counted_bytes(limit).saturating_sub(limit);
        let share = excess as f64 / (limit / FAR_PART).max(1) as f64;
        BUDGET.mul_f64(share.min(1.0)).max(MIN_BUDGET)
    }

    /// Whether memory exceeds the limit, without removed data that has not been freed yet.
    #[must_use]
    #[inline]
    pub fn is_over_limit(&self) -> bool {
        let limit = self.limit.bytes.load(Ordering::Relaxed);
        limit != 0 && self.lasting_bytes() > limit && self.counted_bytes(limit) > limit
    }

    /// Whether memory exceeds the limit and nothing can be evicted, according to the last search
    /// for a victim; workers search again ten times a second. Takes no latch.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let stays = self.limit.policy() == Policy::NoEviction
            || self.limit.found_nothing.load(Ordering::Relaxed);
        stays && self.is_over_limit()
    }

    /// Whether this many more bytes fit below the limit: in addition to the bytes in use if nothing
    /// is ever evicted, otherwise with everything else evicted.
    #[must_use]
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let (limit, policy) = self.limit();
        let stays = if policy == Policy::NoEviction { self.counted_bytes(limit) } else { 0 };
        limit == 0 || stays.saturating_add(bytes as u64) <= limit
    }

    /// Returns the bytes of data without removed data that has not been freed yet.
    pub(crate) fn settled_data_bytes(&self) -> u64 {
        let unfreed = reclaim::unfreed_bytes();
        accounting::publish();
        self.data_bytes().saturating_sub(unfreed)
    }

    /// Returns the bytes that count towards a limit.
    #[cold]
    fn counted_bytes(&self, limit: u64) -> u64 {
        let unfreed = unfreed_bytes(limit);
        self.lasting_bytes().saturating_sub(unfreed)
    }

    /// Returns the bytes of data without the images kept for a snapshot. These are freed once they
    /// have been written, and evicting entries would only add to them.
    #[inline]
    fn lasting_bytes(&self) -> u64 {
        accounting::publish();
        let held = self.snapshot_memory();
        let kept = held.pre_image_bytes.saturating_sub(held.uncounted_bytes) + held.walked_bytes;
        self.data_bytes().saturating_sub(kept as u64)
    }
}

/// Returns the bytes that have not been freed yet and do not count towards a limit.
fn unfreed_bytes(limit: u64) -> u64 {
    reclaim::unfreed_bytes().min(MAX_UNFREED_BYTES.max(limit / 4))
}
