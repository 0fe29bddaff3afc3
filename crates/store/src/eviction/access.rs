//! The access clock of an entry: 24 bits with the time or the number of its accesses, depending on
//! the policy.
//!
//! ```text
//!   23   22          21   20                     0
//!  | 0 | used again | 0 |  last used, in ticks of 125 ms:21 |   by time
//!  | 0 | used again | 1 |  last used, in units of 8 s:21    |   by time, long ago
//!  | 1 |  last used, in minutes:15  | logarithmic counter:8 |   by count
//! ```
//!
//! The clock in units of eight seconds wraps around after 194 days, like Redis' clock. The clock in
//! ticks wraps around after three days; [`crate::keyspace::ageing`] converts ticks older than a day
//! and a half to units long before that.
//!
//! The first bit distinguishes both kinds, so that entries written under another policy are still
//! interpreted correctly: one that was used again counts as used once, and its age is kept.

use crate::entry::block::Entry;

const BY_COUNT: u32 = 1 << 23;
const USED_AGAIN: u32 = 1 << 22;
const COARSE: u32 = 1 << 21;
const TICK_MS: u64 = 125;
const TICKS_MASK: u32 = COARSE - 1;
/// The age in ticks from which idle time is stored in units.
const AGED_TICKS: u32 = TICKS_MASK / 2;
const TICKS_PER_UNIT: u32 = 64;
const UNIT_MS: u64 = TICK_MS * TICKS_PER_UNIT as u64;
const TICKS_PER_MINUTE: u32 = (60_000 / TICK_MS) as u32;
const MINUTES_SHIFT: u32 = 8;
const MINUTES_MASK: u32 = 0x7fff;

/// The initial value of a counter, so that a new entry is not the first victim.
pub(crate) const START: u32 = 5;
/// Below this, every access counts. Redis counts only some from the beginning, which cannot
/// distinguish a key used twice from one used twenty times.
const EXACT: u32 = 15;

/// The parameters of access counters, named as in Redis' settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// How slowly counters grow: with 10, a million accesses raise one to about 255.
    pub lfu_log_factor: u32,
    /// The minutes without access after which a counter is decremented; 0 for never.
    pub lfu_decay_time: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning { lfu_log_factor: 10, lfu_decay_time: 1 }
    }
}

/// Records accesses at the time of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessClock {
    now_ms: u64,
    by_count: bool,
    leaves_traces: bool,
    tuning: Tuning,
}

impl AccessClock {
    pub(crate) fn new(now_ms: u64, by_count: bool, tuning: Tuning) -> Self {
        AccessClock { now_ms, by_count, leaves_traces: true, tuning }
    }

    /// Returns a clock that does not record accesses.
    pub(crate) fn untouching(self) -> Self {
        AccessClock { leaves_traces: false, ..self }
    }

    /// Returns a clock that records accesses.
    pub(crate) fn touching(self) -> Self {
        AccessClock { leaves_traces: true, ..self }
    }

    /// Whether accesses are recorded.
    pub(crate) fn leaves_traces(self) -> bool {
        self.leaves_traces
    }

    /// Returns the initial bits of a new entry.
    pub(crate) fn first(self) -> u32 {
        if self.by_count { self.counted(START) } else { self.ticks() }
    }

    /// Records an access of an entry. `random` is a number that differs between accesses.
    #[inline]
    pub(crate) fn note(self, entry: Entry, random: u64) {
        if !self.leaves_traces {
            return;
        }
        let noted = if self.by_count {
            self.counted(self.grown(entry.access(), random))
        } else {
            self.ticks() | USED_AGAIN
        };
        entry.set_access(noted);
    }

    /// Returns the bits of an entry with this idle time; `None` if the policy counts accesses.
    pub(crate) fn idle_for(self, idle_ms: u64) -> Option<u32> {
        let idle_ms = idle_ms.min(u64::from(furthest(TICKS_MASK)) * UNIT_MS);
        let then = AccessClock { now_ms: self.now_ms.saturating_sub(idle_ms), ..self };
        let is_aged = idle_ms / TICK_MS >= AGED_TICKS.into();
        (!self.by_count).then(|| if is_aged { COARSE | then.units() } else { then.ticks() })
    }

    /// Converts an entry's last access to units if it is long ago.
    pub(crate) fn age(self, entry: Entry) {
        let access = entry.access();
        let idle_ticks = self.idle_ticks(access);
        if access & (BY_COUNT | COARSE) == 0 && idle_ticks >= AGED_TICKS {
            let idle_ms = u64::from(idle_ticks) * TICK_MS;
            let then = AccessClock { now_ms: self.now_ms.saturating_sub(idle_ms), ..self };
            entry.set_access(access & USED_AGAIN | COARSE | then.units());
        }
    }

    /// Returns the bits of an entry with this counter; `None` if the policy does not count
    /// accesses.
    pub(crate) fn used_often(self, counter: u8) -> Option<u32> {
        self.by_count.then(|| self.counted(counter.into()))
    }

    /// Returns the bits of an entry with this counter at the present time.
    pub(crate) fn counted(self, counter: u32) -> u32 {
        BY_COUNT | self.minutes() << MINUTES_SHIFT | counter
    }

    /// Returns the present value of the access counter.
    pub(crate) fn frequency(self, access: u32) -> u32 {
        let (counter, idle_minutes) = if access & BY_COUNT != 0 {
            let then = access >> MINUTES_SHIFT & MINUTES_MASK;
            (access & 0xff, passed(self.minutes(), then, MINUTES_MASK))
        } else {
            (START + u32::from(self.is_used(access)), self.idle_ticks(access) / TICKS_PER_MINUTE)
        };
        let decay = idle_minutes.checked_div(self.tuning.lfu_decay_time).unwrap_or(0);
        counter.saturating_sub(decay)
    }

    /// Whether an entry was accessed since it was stored.
    pub(crate) fn is_used(self, access: u32) -> bool {
        if access & BY_COUNT != 0 { access & 0xff > START } else { access & USED_AGAIN != 0 }
    }

    /// Returns the idle time of an entry, in milliseconds.
    pub(crate) fn idle_ms(self, access: u32) -> u64 {
        u64::from(self.idle_ticks(access)) * TICK_MS
    }

    /// Returns the idle time of an entry, in ticks.
    pub(crate) fn idle_ticks(self, access: u32) -> u32 {
        if access & BY_COUNT != 0 {
            let then = access >> MINUTES_SHIFT & MINUTES_MASK;
            return passed(self.minutes(), then, MINUTES_MASK) * TICKS_PER_MINUTE;
        }
        if access & COARSE != 0 {
            return passed(self.units(), access & TICKS_MASK, TICKS_MASK) * TICKS_PER_UNIT;
        }
        passed(self.ticks(), access & TICKS_MASK, TICKS_MASK)
    }

    fn grown(self, access: u32, random: u64) -> u32 {
        let counter = self.frequency(access);
        let factor = u64::from(self.tuning.lfu_log_factor);
        let odds = u64::from(counter.saturating_sub(EXACT)) * factor + 1;
        let mixed = (random ^ random >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
        if counter < 255 && mixed.is_multiple_of(odds) { counter + 1 } else { counter }
    }

    fn ticks(self) -> u32 {
        (self.now_ms / TICK_MS) as u32 & TICKS_MASK
    }

    fn units(self) -> u32 {
        (self.now_ms / UNIT_MS) as u32 & TICKS_MASK
    }

    fn minutes(self) -> u32 {
        (self.now_ms / 60_000) as u32 & MINUTES_MASK
    }
}

/// The access time or frequency of a saved value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// The idle time, in milliseconds.
    IdleMs(u64),
    /// The logarithmic access counter.
    Frequency(u8),
}

impl Usage {
    /// Returns the bits of an entry with this usage, if the policy uses it.
    pub(crate) fn access(self, clock: AccessClock) -> Option<u32> {
        match self {
            Usage::IdleMs(idle_ms) => clock.idle_for(idle_ms),
            Usage::Frequency(counter) => clock.used_often(counter),
        }
    }
}

/// Returns the time between two readings of a clock that wraps around. A reading that appears to be
/// in the future counts as the present: other workers' batches may have begun later.
fn passed(now: u32, then: u32, mask: u32) -> u32 {
    let passed = now.wrapping_sub(then) & mask;
    if passed > furthest(mask) { 0 } else { passed }
}

/// Returns the longest time that a clock with this mask can represent. Longer differences between
/// two readings are treated as readings from the future.
fn furthest(mask: u32) -> u32 {
    mask - mask / 64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(now_ms: u64, by_count: bool) -> AccessClock {
        AccessClock::new(now_ms, by_count, Tuning::default())
    }

    #[test]
    fn access_bits_by_time_and_by_count_are_read_under_either_policy() {
        let hour_ms = 3_600_000;
        for now_ms in [hour_ms, 40 * 24 * hour_ms, 1_795_000_000_000] {
            let (time, count) = (clock(now_ms, false), clock(now_ms, true));
            let later = |by_count| clock(now_ms + 3 * 60_000, by_count);
            assert_eq!(count.frequency(time.first()), START);
            assert_eq!(count.frequency(time.ticks() | USED_AGAIN), START + 1);
            assert_eq!(later(true).frequency(time.first()), START - 3);
            assert!(!time.is_used(count.first()) && time.is_used(count.counted(START + 1)));
            let idle_ms = later(false).idle_ms(count.counted(200));
            assert!((2 * 60_000..=3 * 60_000).contains(&idle_ms), "{idle_ms}");
            assert!(later(true).idle_ms(time.first()).abs_diff(180_000) < TICK_MS);
        }
    }

    #[test]
    fn idle_time_round_trips() {
        let clock = clock(1_795_329_000_000, false);
        let read_s = |idle_s: u64| clock.idle_ms(clock.idle_for(idle_s * 1000).unwrap()) / 1000;
        for idle_s in [0, 1, 1000, 100_000, 1_000_000, 16_000_000] {
            assert_eq!(read_s(idle_s), idle_s);
        }
        assert!(read_s(1_000_003).abs_diff(1_000_003) <= 8);
        let most_s = 191 * 24 * 3600;
        assert!((most_s..most_s + 24 * 3600).contains(&read_s(u64::MAX / 1000)));
    }

    #[test]
    fn counters_decay_according_to_the_settings() {
        let hour_ms = 3_600_000;
        for (lfu_decay_time, left) in [(0, 100), (1, 40), (2, 70), (7, 92)] {
            let tuning = Tuning { lfu_decay_time, ..Tuning::default() };
            let noted = AccessClock::new(hour_ms, true, tuning).counted(100);
            assert_eq!(AccessClock::new(2 * hour_ms, true, tuning).frequency(noted), left);
        }
    }

    #[test]
    fn counters_grow_according_to_the_settings() {
        let after = |lfu_log_factor, uses: u64| {
            let tuning = Tuning { lfu_log_factor, ..Tuning::default() };
            let clock = AccessClock::new(1_000_000, true, tuning);
            let used = |access, number: u64| {
                clock.counted(clock.grown(access, number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            };
            clock.frequency((0..uses).fold(clock.first(), used))
        };
        assert_eq!(after(10, 10), START + 10);
        assert_eq!((after(0, 249), after(0, 300)), (254, 255));
        let (factor_10, factor_100) = (after(10, 100_000), after(100, 100_000));
        assert!((110..200).contains(&factor_10), "{factor_10}");
        assert!((35..80).contains(&factor_100), "{factor_100}");
    }
}
