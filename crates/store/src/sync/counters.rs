//! Counters of each worker, on separate cache lines, summed up on request.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// One worker's counters. Only that worker writes; any thread may read.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            /// The worker's index.
            pub(crate) worker: usize,
            /// The last entry that it evicted.
            pub(crate) last_eviction: LastEviction,
            $($(#[doc = $doc])+ pub $name: Counter,)+
        }

        /// The sum over all workers.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Totals {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Totals {
            /// Adds one worker's counters.
            pub fn add(&mut self, counters: &Counters) {
                // The sum of draws may exceed 64 bits, because each worker starts at a different
                // number.
                $(self.$name = self.$name.wrapping_add(counters.$name.get());)+
            }
        }

        impl Counters {
            /// Resets the counters (CONFIG RESETSTAT), except those that are no statistics: their
            /// worker may be adding to them.
            pub fn reset(&self) {
                $(if !KEPT.contains(&stringify!($name)) {
                    self.$name.0.store(0, Ordering::Relaxed);
                })+
                self.last_eviction.note(0, 0);
            }
        }
    };
}

/// Counters that are not reset: unsaved changes are a difference of two values of the first, and
/// the second makes the random draws of workers differ.
const KEPT: [&str; 2] = ["changes", "draws"];

counters! {
    /// Lookups by reading commands that found their key.
    hits,
    /// Lookups by reading commands that did not find their key.
    misses,
    /// The number of those that found an expired entry.
    expired_misses,
    /// Expired keys that were removed.
    expired,
    /// The number of those that had never been read, and were not removed by a lookup.
    expired_unfetched,
    /// Expired fields of hashes that were removed.
    expired_fields,
    /// Evicted keys.
    evicted,
    /// Evicted keys that had an expiry.
    evicted_volatile,
    /// Evicted keys that had not been read since they were stored.
    evicted_unfetched,
    /// Changes that commands made to entries.
    changes,
    /// Random numbers drawn to choose victims.
    draws,
}

impl Counters {
    /// Creates the counters of worker `index`, which has its own sequence of random numbers.
    pub(crate) fn new(index: usize) -> Self {
        let counters = Counters { worker: index, ..Counters::default() };
        counters.draws.add((index as u64) << 48);
        counters
    }
}

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`. No atomic read-modify-write is needed, since only one thread writes.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Returns the current value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The last entry that a worker evicted; any thread may read.
#[derive(Debug, Default)]
pub(crate) struct LastEviction {
    at_ms: AtomicU64,
    idle_ms: AtomicU64,
}

impl LastEviction {
    /// Records the time of the eviction and the entry's idle time.
    pub(crate) fn note(&self, at_ms: u64, idle_ms: u64) {
        self.at_ms.store(at_ms, Ordering::Relaxed);
        self.idle_ms.store(idle_ms, Ordering::Relaxed);
    }

    /// Returns the time of the last eviction and the entry's idle time.
    pub(crate) fn get(&self) -> (u64, u64) {
        (self.at_ms.load(Ordering::Relaxed), self.idle_ms.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_statistics_are_reset() {
        let counters = Counters::new(3);
        let draws = counters.draws.get();
        counters.changes.add(5);
        counters.hits.add(5);
        counters.reset();
        assert_eq!((counters.hits.get(), counters.changes.get()), (0, 5));
        assert_eq!(counters.draws.get(), draws, "workers draw different numbers");
    }
}
