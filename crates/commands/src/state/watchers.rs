//! Clients of memcached's `watch`. Each has a buffer for lines, which is filled by the watched
//! requests and emptied by the watcher's worker. A line that does not fit is dropped and counted,
//! so that a watcher that does not read has no effect on other clients.

use crate::state::client::ClientInfo;
use nagi_store::accounting::{self, Charge};
use nagi_store::since_1970;
use parking_lot::{Mutex, MutexGuard};
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Space in the buffer that is reserved for the number of dropped lines.
const SKIPPED_BYTES: usize = 128;
/// Maximum watchers, as in memcached.
const MOST: usize = 20;

bitflags::bitflags! {
    /// The streams of events.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Streams: u8 {
        /// Keys that are looked up.
        const FETCHERS = 1 << 0;
        /// Values that are stored, or are not.
        const MUTATIONS = 1 << 1;
        /// Keys that are evicted because memory is exhausted.
        const EVICTIONS = 1 << 2;
        /// Connections that open and close.
        const CONNECTIONS = 1 << 3;
        /// Keys that are deleted.
        const DELETIONS = 1 << 4;
    }
}

impl Streams {
    /// The stream with this name. Other streams of memcached have no events here.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"fetchers" => Streams::FETCHERS,
            b"mutations" => Streams::MUTATIONS,
            b"evictions" => Streams::EVICTIONS,
            b"connevents" => Streams::CONNECTIONS,
            b"deletions" => Streams::DELETIONS,
            _ => return None,
        })
    }
}

/// Clients that `watch`.
#[derive(Debug, Default)]
pub struct Watchers {
    /// The watched streams, as bits of [`Streams`].
    streams: AtomicU8,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    watchers: Vec<Watcher>,
    totals: Totals,
}

#[derive(Debug)]
struct Watcher {
    client: Arc<ClientInfo>,
    streams: Streams,
    lines: String,
    charge: Charge,
    /// Lines dropped since the last written one.
    skipped: u64,
}

/// The counts of lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// The number of watchers.
    pub(crate) watchers: usize,
    /// Lines that were written; the last one has this number.
    pub(crate) lines: u64,
    /// Lines that were written, counted once for each watcher that got the line.
    pub(crate) sent: u64,
    /// Lines that were dropped, counted once for each watcher that missed the line.
    pub(crate) skipped: u64,
}

impl Watchers {
    /// The size of a watcher's buffer, in bytes: memcached's `watcher_logbuf_size`.
    pub(crate) const ROOM_BYTES: usize = 256 << 10;

    /// Whether a stream is watched.
    #[inline]
    pub(crate) fn watches(&self, stream: Streams) -> bool {
        self.streams.load(Ordering::Relaxed) & stream.bits() != 0
    }

    /// Adds a watcher unless there are too many, and returns whether it was added. `changed` is
    /// called with all watched streams before another watcher can be added or removed.
    pub(crate) fn add(
        &self,
        client: &Arc<ClientInfo>,
        streams: Streams,
        changed: impl FnOnce(Streams),
    ) -> bool {
        let mut list = self.list();
        if list.watchers.len() >= MOST {
            return false;
        }
        let client = Arc::clone(client);
        let (lines, charge) = (String::new(), Charge::default());
        list.watchers.push(Watcher { client, streams, lines, charge, skipped: 0 });
        changed(self.note(&list));
        true
    }

    /// Removes a watcher; `changed` is called with all streams that are still watched.
    pub(crate) fn remove(&self, id: u64, changed: impl FnOnce(Streams)) {
        let mut list = self.list();
        list.watchers.retain(|watcher| watcher.client.id != id);
        changed(self.note(&list));
    }

    /// Updates the watched streams.
    fn note(&self, list: &List) -> Streams {
        let streams = list.watchers.iter().map(|watcher| watcher.streams);
        let all = streams.fold(Streams::empty(), Streams::union);
        self.streams.store(all.bits(), Ordering::Relaxed);
        all
    }

    /// Writes a line for all watchers of `stream`, after the time and its number.
    #[cold]
    /// Returns the workers that must send lines, because their watchers had none before.
    pub(crate) fn push(&self, stream: Streams, event: fmt::Arguments<'_>) -> Vec<usize> {
        let now = since_1970();
        let mut list = self.list();
        let List { watchers, totals } = &mut *list;
        totals.lines += 1;
        let (seconds, micros, number) = (now.as_secs(), now.subsec_micros(), totals.lines);
        // The microseconds have no leading zeros, as in memcached.
        let line = format!("ts={seconds}.{micros} gid={number} {event}\n");
        let mut workers = Vec::new();
        for watcher in watchers.iter_mut().filter(|watcher| watcher.streams.contains(stream)) {
            let is_first = watcher.lines.is_empty();
            let fits = watcher.push(&line);
            *(if fits { &mut totals.sent } else { &mut totals.skipped }) += 1;
            if fits && is_first {
                workers.push(watcher.client.worker());
            }
        }
        drop(list);
        workers.sort_unstable();
        workers.dedup();
        workers
    }

    /// Takes the lines for those watchers of a worker that have read their earlier lines, with the
    /// connection slot of each.
    pub fn take(
        &self,
        worker: usize,
        mut has_taken: impl FnMut(u64) -> bool,
    ) -> Vec<(u64, String)> {
        let mut list = self.list();
        let waiting = list.watchers.iter_mut().filter(|watcher| {
            watcher.client.worker() == worker
                && !watcher.lines.is_empty()
                && has_taken(watcher.client.connection_token())
        });
        let take = |watcher: &mut Watcher| {
            watcher.charge.set(0);
            (watcher.client.connection_token(), std::mem::take(&mut watcher.lines))
        };
        waiting.map(take).collect()
    }

    pub(crate) fn totals(&self) -> Totals {
        let list = self.list();
        Totals { watchers: list.watchers.len(), ..list.totals }
    }

    /// Locks the list, which no operation under the lock can leave inconsistent.
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock()
    }
}

impl Watcher {
    /// Adds a line if there is room for it. Returns whether there was.
    fn push(&mut self, line: &str) -> bool {
        if self.lines.len() + line.len() + SKIPPED_BYTES > Watchers::ROOM_BYTES {
            self.skipped += 1;
            return false;
        }
        if self.skipped > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(self.lines, "skipped={}", self.skipped);
            self.skipped = 0;
        }
        self.lines.push_str(line);
        self.charge.set(accounting::room_bytes::<u8>(self.lines.capacity()));
        true
    }
}
