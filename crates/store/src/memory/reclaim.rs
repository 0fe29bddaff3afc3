//! The reclaimer: a thread that frees large values, so that workers do not spend time on it.
//! Workers do not wait long for a processor on which it runs ([`crate::sync::pace`]).

use crate::memory::accounting;
use crate::sync::cache_line::Line;
use crate::sync::pace;
use crate::sync::shared_thread::SharedThread;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// After this long without anything to free, unused memory is returned to the kernel.
const PAUSE: Duration = Duration::from_millis(500);

/// The number of objects handed to the threads, and the number that these have freed.
static HANDED: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);
/// The value of `FREED` when the counters were last reset.
static FREED_BEFORE: AtomicU64 = AtomicU64::new(0);

/// The bytes of data that have been removed from the keyspace and not freed yet.
static UNFREED_BYTES: Line<AtomicU64> = Line(AtomicU64::new(0));

/// Returns the bytes of data that will be freed soon and still count. Call this before reading the
/// bytes in use: those that are freed in between are then subtracted twice, otherwise not at all.
pub(crate) fn unfreed_bytes() -> u64 {
    #[cfg(test)]
    if accounting::tests::sees_pages_alone() {
        return 0;
    }
    UNFREED_BYTES.load(Ordering::Acquire)
}

/// Accounts for removed data until it is freed: drop this after the data.
#[derive(Debug, Default)]
pub(crate) struct Unfreed(u64);

impl Unfreed {
    pub(crate) fn new(bytes: u64) -> Self {
        if bytes > 0 {
            UNFREED_BYTES.fetch_add(bytes, Ordering::Relaxed);
        }
        Unfreed(bytes)
    }
}

impl Drop for Unfreed {
    fn drop(&mut self) {
        if self.0 > 0 {
            accounting::publish();
            UNFREED_BYTES.fetch_sub(self.0, Ordering::Release);
        }
    }
}

/// Returns the number of removed objects that have not been freed yet.
pub(crate) fn pending() -> u64 {
    let freed = FREED.load(Ordering::Acquire);
    HANDED.load(Ordering::Relaxed).saturating_sub(freed)
}

/// Returns the number of objects freed by the threads since the counters were reset.
pub(crate) fn freed() -> u64 {
    FREED.load(Ordering::Relaxed).saturating_sub(FREED_BEFORE.load(Ordering::Relaxed))
}

/// Resets the number of objects that [`freed`] returns.
pub(crate) fn reset_freed() {
    FREED_BEFORE.store(FREED.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Frees large values of any store.
static FREER: SharedThread<Box<dyn Send>> = SharedThread::new("reclaimer", |removed| {
    drop(removed);
    FREED.fetch_add(1, Ordering::Release);
});

/// Frees a large value on a separate thread. Ropes may be dropped anywhere, also when a client
/// disconnects in the middle of one.
pub fn free_elsewhere(removed: impl Send + 'static) {
    HANDED.fetch_add(1, Ordering::Relaxed);
    FREER.hand(Box::new(removed));
}

/// Like [`free_elsewhere`], for this many bytes of data, which count until they are freed:
/// meanwhile no write is refused and nothing is evicted because of them.
pub(crate) fn free_data(removed: impl Send + 'static, bytes: u64) {
    // The parts of a tuple are dropped in order.
    free_elsewhere((removed, Unfreed::new(bytes)));
}

/// Ends the thread; the next large value starts it again.
pub(crate) fn end() {
    FREER.end();
}

/// Objects removed under a latch, to be freed after it is released.
pub(crate) trait Removed: Send + 'static {
    /// Whether the value is empty and has never held anything.
    fn is_empty(&self) -> bool;

    /// Returns the number of objects that the reclaimer has to free; 0 if freeing takes no time, or
    /// is handed to another thread.
    fn objects(&self) -> u64;
}

/// The thread, which ends with the store.
#[derive(Debug)]
pub(crate) struct Reclaimer {
    queue: Option<Sender<Box<dyn Removed>>>,
    thread: Option<JoinHandle<()>>,
}

impl Reclaimer {
    pub(crate) fn start() -> Self {
        let (queue, garbage) = channel::<Box<dyn Removed>>();
        let free_all = move || {
            pace::begin();
            loop {
                match garbage.recv_timeout(PAUSE) {
                    Ok(garbage) => {
                        let objects = garbage.objects();
                        drop(garbage);
                        accounting::publish();
                        FREED.fetch_add(objects, Ordering::Release);
                    }
                    Err(RecvTimeoutError::Timeout) => accounting::cool(),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        };
        // Without the thread, garbage is freed by its owner. Loom supports only its own threads.
        let builder = std::thread::Builder::new().name("reclaimer".into());
        let thread = if cfg!(loom) { None } else { builder.spawn(free_all).ok() };
        Reclaimer { queue: thread.is_some().then_some(queue), thread }
    }

    /// Frees `removed`, on this thread if that takes no time.
    #[inline]
    pub(crate) fn free(&self, removed: impl Removed) {
        if removed.is_empty() {
            // The value has never held anything, so it owns no memory either.
            return std::mem::forget(removed);
        }
        self.free_some(removed);
    }

    #[cold]
    fn free_some(&self, removed: impl Removed) {
        let objects = removed.objects();
        if objects > 0
            && let Some(queue) = &self.queue
        {
            HANDED.fetch_add(objects, Ordering::Relaxed);
            // If the reclaimer has ended, `send` returns the value, which is dropped here.
            if queue.send(Box::new(removed)).is_err() {
                FREED.fetch_add(objects, Ordering::Release);
            }
        }
    }
}

impl Drop for Reclaimer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
