//! The reclaimer: a thread that frees what is large, so that no worker spends its time on it.

use crate::rope::Rope;
use crate::table::Table;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Ropes whose chunks number fewer than this are freed where they are found.
const LARGE_ROPE_BYTES: usize = 1024 * 1024;

/// What an operation removed, to be freed once its latch is released.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    pub(crate) ropes: Vec<Rope>,
    pub(crate) tables: Vec<Table>,
}

impl Garbage {
    pub(crate) fn add(&mut self, rope: Option<Box<Rope>>) {
        self.ropes.extend(rope.map(|rope| *rope));
    }

    fn is_large(&self) -> bool {
        !self.tables.is_empty() || self.ropes.iter().any(|rope| rope.len() > LARGE_ROPE_BYTES)
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
        let free_all = move || garbage.into_iter().for_each(drop);
        // Without a thread, garbage is freed where it is found.
        let thread = std::thread::Builder::new().name("reclaimer".into()).spawn(free_all).ok();
        Reclaimer { queue: thread.is_some().then_some(queue), thread }
    }

    /// Frees `garbage`, here if it is small.
    #[inline]
    pub(crate) fn free(&self, garbage: Garbage) {
        if garbage.ropes.is_empty() && garbage.tables.is_empty() {
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
