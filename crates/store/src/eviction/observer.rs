//! What eviction removes, told to one who wants to know.

use crate::entry::view::EntryView;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// An entry that has been evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its key; of one of more than 2 KiB nothing.
    pub key: Box<[u8]>,
    /// How long its value was.
    pub value_bytes: usize,
    /// Whether it had been read since it was stored.
    pub fetched: bool,
    /// When it would have expired, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// How long it had not been used, in milliseconds.
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

/// Is told of each entry that is evicted, with no latch held.
pub type Hearing = Box<dyn Fn(&Evicted) + Send + Sync>;

/// Who is told, and whether it listens.
#[derive(Default)]
pub(crate) struct EvictionNotifier {
    listens: AtomicBool,
    hearing: OnceLock<Hearing>,
}

impl EvictionNotifier {
    #[inline]
    pub(crate) fn listens(&self) -> bool {
        self.listens.load(Ordering::Relaxed)
    }

    pub(crate) fn tell(&self, evicted: &Evicted) {
        if let Some(hearing) = self.hearing.get() {
            hearing(evicted);
        }
    }

    /// The first one stays.
    pub(crate) fn hear(&self, hearing: Hearing) {
        let _ = self.hearing.set(hearing);
    }

    pub(crate) fn listen(&self, listens: bool) {
        self.listens.store(listens, Ordering::Relaxed);
    }
}

impl fmt::Debug for EvictionNotifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvictionNotifier").field("listens", &self.listens).finish_non_exhaustive()
    }
}
