//! The reclaimer: a thread that frees what is large, so that no worker spends its time on it, nor
//! waits for long for a processor on which the reclaimer works ([`crate::sync::pace`]).

use crate::memory::accounting;
use crate::sync::pace;
use crate::sync::shared_thread::SharedThread;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// After so long without anything to free, memory that was not needed meanwhile goes back.
const PAUSE: Duration = Duration::from_millis(500);

/// How many objects have been handed to the threads, and how many these have freed.
static HANDED: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);
/// What `FREED` was when the counters were started again.
static FREED_BEFORE: AtomicU64 = AtomicU64::new(0);

/// Objects that have been removed and wait to be freed.
pub(crate) fn pending() -> u64 {
    let freed = FREED.load(Ordering::Acquire);
    HANDED.load(Ordering::Relaxed).saturating_sub(freed)
}

/// Objects that have been freed elsewhere since the counters were started.
pub(crate) fn freed() -> u64 {
    FREED.load(Ordering::Relaxed).saturating_sub(FREED_BEFORE.load(Ordering::Relaxed))
}

/// Starts counting again.
pub(crate) fn reset_freed() {
    FREED_BEFORE.store(FREED.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Where what is large is freed, whichever store it was in.
static FREER: SharedThread<Box<dyn Send>> = SharedThread::new("reclaimer", |removed| {
    drop(removed);
    FREED.fetch_add(1, Ordering::Release);
});

/// Frees something large on a thread of its own: a rope may be dropped anywhere, by a client that
/// breaks off in the middle of one as well.
pub fn free_elsewhere(removed: impl Send + 'static) {
    HANDED.fetch_add(1, Ordering::Relaxed);
    FREER.hand(Box::new(removed));
}

/// Ends the thread that does this, until the next rope.
pub(crate) fn end() {
    FREER.end();
}

/// What was removed under a latch, to be freed once that is released.
pub(crate) trait Removed: Send + 'static {
    /// Whether there is nothing, nor ever was.
    fn is_empty(&self) -> bool;

    /// How many objects the reclaimer has to free; 0 if what there is takes no time, or sees to
    /// itself.
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
        // Without a thread, garbage is freed where it is found. A model has none but its own.
        let builder = std::thread::Builder::new().name("reclaimer".into());
        let thread = if cfg!(loom) { None } else { builder.spawn(free_all).ok() };
        Reclaimer { queue: thread.is_some().then_some(queue), thread }
    }

    /// Frees `removed`, here if that takes no time.
    #[inline]
    pub(crate) fn free(&self, removed: impl Removed) {
        if removed.is_empty() {
            // It has never held anything, so there is nothing to give back either.
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
            // A reclaimer that is gone hands back what it was sent, and it is dropped here.
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
