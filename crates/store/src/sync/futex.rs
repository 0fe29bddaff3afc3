//! The word of a latch, with the kernel's futex for waiting, or loom's model of both.
//!
//! The model has the guarantees of futex(2): a waiter sleeps only if the word still has the
//! expected value, and a wake-up that follows a change of the word is never lost.

#[cfg(not(loom))]
pub(crate) use real::Word;

#[cfg(loom)]
pub(crate) use model::Word;

#[cfg(not(loom))]
mod real {
    use rustix::thread::futex;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// An atomic word that a thread can wait on.
    #[derive(Debug, Default)]
    pub(crate) struct Word(AtomicU32);

    impl Word {
        pub(crate) fn new(value: u32) -> Self {
            Word(AtomicU32::new(value))
        }

        #[inline]
        pub(crate) fn load(&self) -> u32 {
            self.0.load(Ordering::Relaxed)
        }

        /// Acquires on success.
        #[inline]
        pub(crate) fn compare_exchange(&self, old: u32, new: u32) -> bool {
            self.0.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
        }

        /// Stores with release ordering.
        #[inline]
        pub(crate) fn release(&self, value: u32) {
            self.0.store(value, Ordering::Release);
        }

        /// Sleeps while the word is `expected`; may return spuriously.
        pub(crate) fn wait(&self, expected: u32) {
            // The caller's loop handles a signal, or a word that has already changed.
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, expected, None);
        }

        /// Wakes one sleeping thread.
        pub(crate) fn wake_one(&self) {
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }
    }
}

#[cfg(loom)]
mod model {
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    /// The same interface; a condition variable replaces the kernel's queue.
    #[derive(Debug)]
    pub(crate) struct Word {
        value: AtomicU32,
        queue: Mutex<()>,
        sleepers: Condvar,
    }

    impl Word {
        pub(crate) fn new(value: u32) -> Self {
            let value = AtomicU32::new(value);
            Word { value, queue: Mutex::new(()), sleepers: Condvar::new() }
        }

        pub(crate) fn load(&self) -> u32 {
            self.value.load(Ordering::Relaxed)
        }

        pub(crate) fn compare_exchange(&self, old: u32, new: u32) -> bool {
            self.value.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
        }

        pub(crate) fn release(&self, value: u32) {
            self.value.store(value, Ordering::Release);
        }

        pub(crate) fn wait(&self, expected: u32) {
            let queue = self.queue.lock().unwrap();
            if self.value.load(Ordering::SeqCst) == expected {
                drop(self.sleepers.wait(queue).unwrap());
            }
        }

        pub(crate) fn wake_one(&self) {
            let _queue = self.queue.lock().unwrap();
            self.sleepers.notify_one();
        }
    }
}
