//! Reports each evicted entry to an observer, while one is enabled.

use crate::entry::view::EntryView;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// An evicted entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The key; empty if it is longer than 2 KiB.
    pub key: Box<[u8]>,
    /// The length of the value in bytes.
    pub value_bytes: usize,
    /// Whether the value had been read since it was stored.
    pub fetched: bool,
    /// The expiry, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// The idle time, in milliseconds.
    pub idle_ms: u64,
}

impl Evicted {
    pub(crate) fn of(entry: &EntryView<'_>, idle_ms: u64) -> Self {
        let key = if entry.long_key().is_some() { &[] } else { entry.key() };
        Evicted {
            key: key.into(),
            value_bytes: entry.value_bytes(),
            fetched: entry.marks().fetched,
            expire_at_ms: entry.expire_at_ms(),
            idle_ms,
        }
    }
}

/// Called for each evicted entry, with no latch held.
pub type EvictionObserver = Box<dyn Fn(&Evicted) + Send + Sync>;

/// The observer, and whether it is enabled.
#[derive(Default)]
pub(crate) struct EvictionNotifier {
    is_enabled: AtomicBool,
    observer: OnceLock<EvictionObserver>,
}

impl EvictionNotifier {
    #[inline]
    pub(crate) fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Relaxed)
    }

    pub(crate) fn report(&self, evicted: &Evicted) {
        if let Some(observer) = self.observer.get() {
            observer(evicted);
        }
    }

    /// Only the first observer is kept.
    pub(crate) fn observe(&self, observer: EvictionObserver) {
        let _ = self.observer.set(observer);
    }

    pub(crate) fn enable(&self, is_enabled: bool) {
        self.is_enabled.store(is_enabled, Ordering::Relaxed);
    }
}

impl fmt::Debug for EvictionNotifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let enabled = &self.is_enabled;
        f.debug_struct("EvictionNotifier").field("is_enabled", enabled).finish_non_exhaustive()
    }
}
