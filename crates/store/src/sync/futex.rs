//! The word of a latch and the kernel's way of waiting for it, or loom's model of both.
//!
//! The model keeps what futex(2) promises: a waiter sleeps only if the word still has the value
//! that it expects, and a wake-up that follows a change of the word is never lost.

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

        /// Acquires if it succeeds.
        #[inline]
        pub(crate) fn compare_exchange(&self, old: u32, new: u32) -> bool {
            self.0.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
        }

        /// Stores, and releases what was written before.
        #[inline]
        pub(crate) fn release(&self, value: u32) {
            self.0.store(value, Ordering::Release);
        }

        /// Sleeps while the word is `expected`; may return for no reason.
        pub(crate) fn wait(&self, expected: u32) {
            // A signal, or a word that has changed already, is met by the caller's loop.
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, expected, None);
        }

        /// Wakes one thread that sleeps.
        pub(crate) fn wake_one(&self) {
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }
    }
}

#[cfg(loom)]
mod model {
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};

    /// As the real one, with the kernel's queue played by a condition variable.
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
