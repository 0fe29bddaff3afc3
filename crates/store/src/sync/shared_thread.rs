//! A thread for tasks of all stores: freeing long values, and looking up long keys. It starts with
//! its first task and ends with the last store, so that leak checkers find nothing at the end of a
//! process.

use crate::sync::pace;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

/// The number of stores.
static STORES: AtomicUsize = AtomicUsize::new(0);

/// A thread that executes tasks in order. Without it, the caller executes them.
#[derive(Debug)]
pub(crate) struct SharedThread<T: 'static> {
    name: &'static str,
    work: fn(T),
    running: Mutex<Option<Running<T>>>,
}

#[derive(Debug)]
struct Running<T> {
    queue: Sender<T>,
    thread: JoinHandle<()>,
}

impl<T: Send + 'static> SharedThread<T> {
    /// Creates a thread with this name, which executes each task with `work`.
    pub(crate) const fn new(name: &'static str, work: fn(T)) -> Self {
        SharedThread { name, work, running: Mutex::new(None) }
    }

    /// Sends a task to the thread.
    pub(crate) fn hand(&self, task: T) {
        let mut running = self.running();
        // Read under the lock, so that the thread is ended when the last store is dropped.
        if running.is_none() && STORES.load(Ordering::Relaxed) > 0 {
            *running = self.start();
        }
        let left = match &*running {
            // If the thread has ended, `send` returns the task.
            Some(running) => running.queue.send(task).err().map(|back| back.0),
            None => Some(task),
        };
        drop(running);
        left.into_iter().for_each(self.work);
    }

    fn start(&self) -> Option<Running<T>> {
        let (queue, tasks) = channel::<T>();
        let work = self.work;
        let work_on = move || {
            pace::begin();
            tasks.into_iter().for_each(work);
        };
        let thread = thread::Builder::new().name(self.name.into()).spawn(work_on).ok()?;
        Some(Running { queue, thread })
    }

    /// Waits until all tasks have been executed and the thread has ended.
    pub(crate) fn end(&self) {
        let ended = self.running().take();
        if let Some(Running { queue, thread }) = ended {
            drop(queue);
            drop(thread.join());
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running<T>>> {
        self.running.lock()
    }
}

/// Held by each store; dropping the last one ends the threads.
#[derive(Debug)]
pub(crate) struct Lease {
    end_threads: fn(),
}

impl Lease {
    /// `end_threads` ends each shared thread that is running.
    pub(crate) fn new(end_threads: fn()) -> Self {
        STORES.fetch_add(1, Ordering::Relaxed);
        Lease { end_threads }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if STORES.fetch_sub(1, Ordering::AcqRel) == 1 {
            (self.end_threads)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::ThreadId;

    type Task = Box<dyn FnOnce() + Send>;

    /// Returns the thread that executes the next task.
    fn worker(thread: &SharedThread<Task>) -> ThreadId {
        let (tell, told) = channel();
        thread.hand(Box::new(move || tell.send(thread::current().id()).unwrap()));
        told.recv().unwrap()
    }

    #[test]
    fn all_tasks_are_executed_in_order_before_the_thread_ends() {
        static THREAD: SharedThread<Task> = SharedThread::new("test", |task: Task| task());
        let _lease = Lease::new(|| THREAD.end());
        let (tell, told) = channel();
        for number in 0..100 {
            let tell = tell.clone();
            THREAD.hand(Box::new(move || tell.send(number).unwrap()));
        }
        drop(tell);
        let first = worker(&THREAD);
        assert_ne!(first, thread::current().id());
        THREAD.end();
        assert!(told.try_iter().eq(0..100));
        assert_ne!(worker(&THREAD), first, "another begins with the next task");
        THREAD.end();
    }
}
