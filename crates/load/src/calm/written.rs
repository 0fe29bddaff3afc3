//! What the tool has written to a server, and what memcached counts: together they show whether
//! another client has stored anything.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What the tool wrote since the server was last emptied, counted by all of its threads.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Requests that store an item; sent, whether answered or not.
    sets: AtomicU64,
    /// Those that the server refused.
    refused: AtomicU64,
    /// The number of different keys of each kind.
    small_keys: AtomicU64,
    probe_keys: AtomicU64,
    has_value: AtomicBool,
}

impl Written {
    /// Counts requests that are about to be sent, for small keys below `end`.
    pub(crate) fn small_keys(&self, requests: u64, end: u64) {
        self.sets.fetch_add(requests, Relaxed);
        self.small_keys.fetch_max(end, Relaxed);
    }

    /// Counts a request for a key of the probe below `end`.
    pub(crate) fn probe_key(&self, end: u64) {
        self.sets.fetch_add(1, Relaxed);
        self.probe_keys.fetch_max(end, Relaxed);
    }

    /// Counts a request for the large value.
    pub(crate) fn value(&self) {
        self.sets.fetch_add(1, Relaxed);
        self.has_value.store(true, Relaxed);
    }

    pub(crate) fn refusal(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// The most items that the server can have stored for the tool.
    pub(crate) fn stored(&self) -> u64 {
        self.sets.load(Relaxed).saturating_sub(self.refused.load(Relaxed))
    }

    /// The most items of the tool that the server can hold.
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

/// memcached's counts at a time when it held nothing but flushed items, which it counts until it
/// finds them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Items {
    /// Items stored since it started.
    pub(crate) total: u64,
    /// Items that it holds.
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
