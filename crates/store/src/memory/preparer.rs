//! The preparer: a thread that makes the kernel provide memory before a worker needs it, and
//! returns unused memory.

use crate::memory::pages::PagePool;
use crate::sync::pace;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// The thread, which ends with the store. If it cannot be started, memory is provided on first use.
#[derive(Debug)]
pub(crate) struct Preparer {
    thread: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Preparer {
    pub(crate) fn start(pool: &Arc<PagePool>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (pages, end) = (Arc::clone(pool), Arc::clone(&is_over));
        let work = move || {
            pace::begin();
            while !end.load(Ordering::Acquire) {
                pages.provide();
                thread::park();
            }
        };
        let builder = thread::Builder::new().name("preparer".into());
        // Loom supports only its own threads.
        let thread = if cfg!(loom) { None } else { builder.spawn(work).ok() };
        if let Some(thread) = &thread {
            pool.set_preparer(thread.thread().clone());
        }
        Preparer { thread, is_over }
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            drop(thread.join());
        }
    }
}
