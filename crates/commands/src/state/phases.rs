//! The time of requests by phase: receive, queue, execute, send.

use crate::state::histogram::{Distribution, Histogram};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The phases of a request, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// From its first byte to its last.
    pub receive_ns: u64,
    /// From its last byte to its execution, and between slices of the execution.
    pub queue_ns: u64,
    /// Its execution.
    pub execute_ns: u64,
    /// From the end of its execution until the kernel has accepted the last byte of its reply.
    pub send_ns: u64,
}

impl Phases {
    /// The index of the execution time.
    pub(crate) const EXECUTE: usize = 2;

    /// The names of the phases, in order.
    pub(crate) const NAMES: [&str; 4] = ["receive", "queue", "execute", "send"];

    /// The phases in order.
    fn all(self) -> [u64; 4] {
        [self.receive_ns, self.queue_ns, self.execute_ns, self.send_ns]
    }

    /// From the first byte of the request to the last one of its reply.
    #[must_use]
    pub fn total_ns(self) -> u64 {
        self.all().iter().sum()
    }
}

/// The phases of a worker's requests, by families of commands: of a sample of requests, each
/// counted with its weight, and of all slow requests.
#[derive(Debug, Default)]
pub struct PhaseTally(Mutex<Families>);

/// Shared, so that a reader only holds the lock while it clones the references.
type Families = BTreeMap<&'static str, Arc<[Histogram; 4]>>;

/// The distributions of each phase of a family's requests.
pub(crate) type PhaseTotals = BTreeMap<&'static str, [Distribution; 4]>;

impl PhaseTally {
    /// Counts a request of a family as seen `count` times.
    pub fn add(&self, family: &'static str, phases: Phases, count: u64) {
        let mut families = self.lock();
        let histograms = families.entry(family).or_default();
        for (histogram, ns) in histograms.iter().zip(phases.all()) {
            histogram.add(ns, count);
        }
    }

    /// Adds the counts of this worker to `totals`.
    pub(crate) fn add_to(&self, totals: &mut PhaseTotals) {
        let families = self.lock().clone();
        for (family, histograms) in families {
            let sums = totals.entry(family).or_default();
            for (sum, histogram) in sums.iter_mut().zip(histograms.iter()) {
                sum.add(histogram);
            }
        }
    }

    /// Resets all counts.
    pub(crate) fn reset(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Families> {
        self.0.lock()
    }
}
