//! Counts the tool's own writes. A comparison with memcached's counts shows whether another client
//! has stored items.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The tool's writes since the server was last emptied, counted by all of its threads.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Requests that store an item, counted when sent, whether answered or not.
    sets: AtomicU64,
    /// Requests among `sets` that the server refused.
    refused: AtomicU64,
    /// The number of small keys written.
    small_keys: AtomicU64,
    probe_keys: AtomicU64,
    has_value: AtomicBool,
}

impl Written {
    /// Counts `requests` writes of small keys, numbered below `end`, before they are sent.
    pub(crate) fn small_keys(&self, requests: u64, end: u64) {
        self.sets.fetch_add(requests, Relaxed);
        self.small_keys.fetch_max(end, Relaxed);
    }

    /// Counts a write of a probe key, numbered below `end`.
    pub(crate) fn probe_key(&self, end: u64) {
        self.sets.fetch_add(1, Relaxed);
        self.probe_keys.fetch_max(end, Relaxed);
    }

    /// Counts a write of the large value.
    pub(crate) fn value(&self) {
        self.sets.fetch_add(1, Relaxed);
        self.has_value.store(true, Relaxed);
    }

    pub(crate) fn refusal(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// The maximum number of items that the server can have stored for the tool.
    pub(crate) fn stored(&self) -> u64 {
        self.sets.load(Relaxed).saturating_sub(self.refused.load(Relaxed))
    }

    /// The maximum number of the tool's items that the server can hold.
    pub(crate) fn keys(&self) -> u64 {
        let value = u64::from(self.has_value.load(Relaxed));
        self.small_keys.load(Relaxed) + self.probe_keys.load(Relaxed) + value
    }

    pub(crate) fn clear(&self) {
        self.has_value.store(false, Relaxed);
        for count in [&self.sets, &self.refused, &self.small_keys, &self.probe_keys] {
            count.store(0, Relaxed);
        }
    }
}

/// memcached's counts when it held only flushed items. memcached counts a flushed item until a
/// request or the crawler finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Items {
    /// Items stored since the server started (`total_items`).
    pub(crate) total: u64,
    /// Items held, including flushed items that were not found yet (`curr_items`).
    pub(crate) held: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tool_wrote_is_counted_by_request_and_by_key() {
        let written = Written::default();
        written.small_keys(200, 200);
        written.small_keys(100, 100);
        written.probe_key(1);
        written.probe_key(1);
        written.value();
        written.refusal();
        assert_eq!((written.stored(), written.keys()), (302, 202));
        written.clear();
        assert_eq!((written.stored(), written.keys()), (0, 0));
    }
}
