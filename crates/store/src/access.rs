//! What an entry knows of its use: 24 bits, which go by time or by count as the policy asks.
//!
//! ```text
//!   23   22          21                        0
//!  | 0 | used again |  last used, in ticks of 128 ms:22    |   by time
//!  | 1 |  last used, in minutes:15 | logarithmic counter:8 |   by count
//! ```
//!
//! The first bit tells them apart, so that entries written under another policy are still read as
//! they were meant: one that was used again counts as used once, and its age is its age.

use crate::entry::Entry;

const BY_COUNT: u32 = 1 << 23;
const USED_AGAIN: u32 = 1 << 22;
const TICK_MS: u64 = 128;
const TICKS_MASK: u32 = USED_AGAIN - 1;
const TICKS_A_MINUTE: u32 = (60_000 / TICK_MS) as u32;
const MINUTES_SHIFT: u32 = 8;
const MINUTES_MASK: u32 = 0x7fff;

/// Where the counter of a new entry begins, so that it is not the first to go.
pub(crate) const START: u32 = 5;
/// Up to here every use counts; Redis begins at once to leave some out, which cannot tell a key
/// used twice from one used twenty times.
const EXACT: u32 = 15;

/// How uses are counted; the names are those of Redis' settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// How slowly counters grow: with 10, a million uses bring one near 255.
    pub lfu_log_factor: u32,
    /// After how many minutes without use a counter is lowered by one; 0 for never.
    pub lfu_decay_time: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning { lfu_log_factor: 10, lfu_decay_time: 1 }
    }
}

/// How uses are noted, at the time of a batch.
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

    /// The same, but uses leave nothing.
    pub(crate) fn untouching(self) -> Self {
        AccessClock { leaves_traces: false, ..self }
    }

    /// Whether uses leave something.
    pub(crate) fn leaves_traces(self) -> bool {
        self.leaves_traces
    }

    /// What a new entry begins with.
    pub(crate) fn first(self) -> u32 {
        if self.by_count { self.counted(START) } else { self.ticks() }
    }

    /// Notes a use of an entry. `random` is any number that differs between uses.
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

    /// What an entry is to have that has not been used for so long, under a policy that goes by
    /// time.
    pub(crate) fn idle_for(self, idle_ms: u64) -> Option<u32> {
        // Rounded up, so that what is asked in whole seconds is answered in the same.
        let idle_ms = idle_ms.saturating_add(TICK_MS);
        let then = AccessClock { now_ms: self.now_ms.saturating_sub(idle_ms), ..self };
        (!self.by_count).then(|| then.ticks())
    }

    /// What an entry is to have whose counter is `counter`, under a policy that goes by it.
    pub(crate) fn used_often(self, counter: u8) -> Option<u32> {
        self.by_count.then(|| self.counted(counter.into()))
    }

    /// What an entry is to have whose counter is `counter` now.
    pub(crate) fn counted(self, counter: u32) -> u32 {
        BY_COUNT | self.minutes() << MINUTES_SHIFT | counter
    }

    /// The counter of uses, as it stands now.
    pub(crate) fn frequency(self, access: u32) -> u32 {
        let (counter, idle_minutes) = if access & BY_COUNT != 0 {
            let then = access >> MINUTES_SHIFT & MINUTES_MASK;
            (access & 0xff, passed(self.minutes(), then, MINUTES_MASK))
        } else {
            (START + u32::from(self.is_used(access)), self.idle_ticks(access) / TICKS_A_MINUTE)
        };
        let decay = idle_minutes.checked_div(self.tuning.lfu_decay_time).unwrap_or(0);
        counter.saturating_sub(decay)
    }

    /// Whether an entry was ever used since it was stored.
    pub(crate) fn is_used(self, access: u32) -> bool {
        if access & BY_COUNT != 0 { access & 0xff > START } else { access & USED_AGAIN != 0 }
    }

    /// For how long an entry has not been used, in milliseconds.
    pub(crate) fn idle_ms(self, access: u32) -> u64 {
        u64::from(self.idle_ticks(access)) * TICK_MS
    }

    /// The same in ticks.
    pub(crate) fn idle_ticks(self, access: u32) -> u32 {
        if access & BY_COUNT != 0 {
            let then = access >> MINUTES_SHIFT & MINUTES_MASK;
            return passed(self.minutes(), then, MINUTES_MASK) * TICKS_A_MINUTE;
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

    fn minutes(self) -> u32 {
        (self.now_ms / 60_000) as u32 & MINUTES_MASK
    }
}

/// How much time lies between two readings of a clock that goes round. What seems to come next is
/// taken for now: other workers' batches began later than ours.
fn passed(now: u32, then: u32, mask: u32) -> u32 {
    let passed = now.wrapping_sub(then) & mask;
    if passed > mask - mask / 64 { 0 } else { passed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(now_ms: u64, by_count: bool) -> AccessClock {
        AccessClock::new(now_ms, by_count, Tuning::default())
    }

    #[test]
    fn what_one_kind_has_noted_the_other_reads_as_it_was_meant() {
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
    fn counters_fall_as_the_settings_say() {
        let hour_ms = 3_600_000;
        for (lfu_decay_time, left) in [(0, 100), (1, 40), (2, 70), (7, 92)] {
            let tuning = Tuning { lfu_decay_time, ..Tuning::default() };
            let noted = AccessClock::new(hour_ms, true, tuning).counted(100);
            assert_eq!(AccessClock::new(2 * hour_ms, true, tuning).frequency(noted), left);
        }
    }

    #[test]
    fn counters_grow_as_the_settings_say() {
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
