//! What each worker counts, on cache lines of its own, summed up on request.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// One worker's counters. Only that worker adds; any thread may read.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            /// The worker's number.
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
                $(self.$name += counters.$name.get();)+
            }
        }

        impl Counters {
            /// Starts again from zero (CONFIG RESETSTAT), but for the changes, which are no
            /// statistic.
            pub fn reset(&self) {
                let changes = self.changes.get();
                $(self.$name.0.store(0, Ordering::Relaxed);)+
                self.changes.add(changes);
                self.last_eviction.note(0, 0);
            }
        }
    };
}

counters! {
    /// Lookups by a reading command that found their key.
    hits,
    /// Lookups by a reading command that did not.
    misses,
    /// Those of them that found what had expired.
    expired_misses,
    /// Expired keys that were removed.
    expired,
    /// Those of them that nothing had read, and whose removal no lookup caused.
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
    /// Random numbers drawn to choose them.
    draws,
}

impl Counters {
    /// Those of worker `index`, which draws random numbers of its own.
    pub(crate) fn new(index: usize) -> Self {
        let counters = Counters { worker: index, ..Counters::default() };
        counters.draws.add((index as u64) << 48);
        counters
    }
}

/// A number with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`; without an atomic read-modify-write, since only one thread adds.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// The number now.
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
    /// Notes when it went, and for how long it had not been used.
    pub(crate) fn note(&self, at_ms: u64, idle_ms: u64) {
        self.at_ms.store(at_ms, Ordering::Relaxed);
        self.idle_ms.store(idle_ms, Ordering::Relaxed);
    }

    /// The same two.
    pub(crate) fn get(&self) -> (u64, u64) {
        (self.at_ms.load(Ordering::Relaxed), self.idle_ms.load(Ordering::Relaxed))
    }
}
