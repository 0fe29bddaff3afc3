//! The reclaimer: a thread that frees what is large, so that no worker spends its time on it.

use crate::entry::Owned;
use crate::memory;
use crate::table::Table;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// After so long without anything to free, memory that nobody has needed meanwhile goes back.
const PAUSE: Duration = Duration::from_millis(500);

/// What a rope consists of.
type Chunks = Vec<Arc<[u8]>>;

/// Frees the chunks of a long rope on a thread of its own: a rope may be dropped anywhere, by a
/// client that breaks off in the middle of one as well.
pub(crate) fn free_elsewhere(chunks: Chunks) {
    static QUEUE: LazyLock<Option<Sender<Chunks>>> = LazyLock::new(|| {
        let (queue, garbage) = channel::<Chunks>();
        let free_all = move || garbage.into_iter().for_each(drop);
        let thread = std::thread::Builder::new().name("reclaimer".into()).spawn(free_all);
        thread.is_ok().then_some(queue)
    });
    if let Some(queue) = &*QUEUE {
        // A thread that is gone hands the chunks back, and they are dropped here.
        drop(queue.send(chunks));
    }
}

/// What an operation removed, to be freed once its latch is released.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    pub(crate) owned: Vec<Owned>,
    pub(crate) tables: Vec<Table>,
}

impl Garbage {
    pub(crate) fn add(&mut self, owned: Owned) {
        if owned.rope.is_some() || owned.key.is_some() {
            self.owned.push(owned);
        }
    }

    fn is_large(&self) -> bool {
        // Ropes and long keys see to themselves.
        !self.tables.is_empty()
    }
}

/// The thread, which ends with the store.
#[derive(Debug)]
pub(crate) struct Reclaimer {
    queue: Option<Sender<Garbage>>,
    thread: Option<JoinHandle<()>>,
}

impl Reclaimer {
    pub(crate) fn start() -> Self {
        let (queue, garbage) = channel::<Garbage>();
        let free_all = move || {
            loop {
                match garbage.recv_timeout(PAUSE) {
                    Ok(garbage) => drop(garbage),
                    Err(RecvTimeoutError::Timeout) => memory::cool(),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        };
        // Without a thread, garbage is freed where it is found.
        let thread = std::thread::Builder::new().name("reclaimer".into()).spawn(free_all).ok();
        Reclaimer { queue: thread.is_some().then_some(queue), thread }
    }

    /// Frees `garbage`, here if it is small.
    #[inline]
    pub(crate) fn free(&self, garbage: Garbage) {
        if garbage.owned.is_empty() && garbage.tables.is_empty() {
            // Neither has ever held anything, so there is nothing to give back either.
            return std::mem::forget(garbage);
        }
        self.free_some(garbage);
    }

    #[cold]
    fn free_some(&self, garbage: Garbage) {
        if garbage.is_large()
            && let Some(queue) = &self.queue
        {
            // A reclaimer that is gone hands the garbage back, and it is dropped here.
            drop(queue.send(garbage));
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
