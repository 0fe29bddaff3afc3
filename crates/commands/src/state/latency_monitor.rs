//! The latency monitor: events that took longer than `latency-monitor-threshold`, by kind.

use nagi_store::since_1970;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Maximum samples of a kind of event.
pub(crate) const SAMPLES: usize = 160;

/// The long events since the start or LATENCY RESET.
#[derive(Debug, Default)]
pub struct Latency {
    /// Minimum duration of an event in milliseconds; 0 disables the monitor.
    threshold_ms: AtomicU64,
    events: Mutex<BTreeMap<&'static str, Series>>,
}

/// The latest events of a kind, the oldest first; of the events in a second, only the longest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub(crate) samples: VecDeque<Sample>,
    pub(crate) longest_ms: u64,
}

/// The kind of event of evictions.
pub(crate) const EVICTION: &str = "eviction-cycle";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The time in seconds since 1970.
    pub(crate) at_s: u64,
    /// The longest event of that second.
    pub(crate) took_ms: u64,
}

impl Latency {
    /// Records an event if it took long. Redis' names for kinds of events are `command`,
    /// `fast-command`, `expire-cycle`, `eviction-cycle`...
    pub fn add(&self, event: &'static str, took: Duration) {
        let now_s = since_1970().as_secs();
        self.add_at(event, took, now_s);
    }

    /// Runs `work`, and records its duration as an event if it took long.
    pub fn time<T>(&self, event: &'static str, work: impl FnOnce() -> T) -> T {
        if self.threshold_ms.load(Relaxed) == 0 {
            return work();
        }
        let started = Instant::now();
        let done = work();
        self.add(event, started.elapsed());
        done
    }

    pub(crate) fn add_at(&self, event: &'static str, took: Duration, at_s: u64) {
        let threshold_ms = self.threshold_ms.load(Relaxed);
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        if threshold_ms == 0 || took_ms < threshold_ms {
            return;
        }
        let mut events = self.events();
        let series = events.entry(event).or_default();
        series.longest_ms = series.longest_ms.max(took_ms);
        match series.samples.back_mut() {
            Some(last) if last.at_s == at_s => last.took_ms = last.took_ms.max(took_ms),
            _ => {
                if series.samples.len() == SAMPLES {
                    series.samples.pop_front();
                }
                series.samples.push_back(Sample { at_s, took_ms });
            }
        }
    }

    /// Sets the minimum duration of an event, in milliseconds.
    pub(crate) fn set_threshold_ms(&self, threshold_ms: u64) {
        self.threshold_ms.store(threshold_ms, Relaxed);
    }

    pub(crate) fn events(&self) -> MutexGuard<'_, BTreeMap<&'static str, Series>> {
        self.events.lock()
    }

    pub(crate) fn of(&self, event: &[u8]) -> Option<(&'static str, Series)> {
        let events = self.events();
        let (name, series) = events.iter().find(|(name, _)| name.as_bytes() == event)?;
        Some((name, series.clone()))
    }
}

impl Series {
    pub(crate) fn range_ms(&self) -> (u64, u64) {
        let times = self.samples.iter().map(|sample| sample.took_ms);
        (times.clone().min().unwrap_or(0), times.max().unwrap_or(0))
    }
}
