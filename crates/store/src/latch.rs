//! The lock of one shard: a word that is taken by compare-and-swap, with a futex for the rare
//! time that its holder has been put to sleep by the kernel.
//!
//! Holders keep it for microseconds and do no I/O, so a short spin nearly always suffices. The
//! three states are those of Drepper's "Futexes Are Tricky" (2011), third mutex.

use rustix::thread::futex;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;
const SPINS: u32 = 100;

/// Guards `T`.
#[derive(Debug, Default)]
pub(crate) struct Latch<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the word lets one thread at a time reach the value.
unsafe impl<T: Send> Sync for Latch<T> {}

impl<T> Latch<T> {
    pub(crate) fn new(value: T) -> Self {
        Latch { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Takes the latch, waiting for it if need be.
    #[inline]
    pub(crate) fn lock(&self) -> Held<'_, T> {
        if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_contended();
        }
        Held { latch: self }
    }

    #[cold]
    fn lock_contended(&self) {
        for _ in 0..SPINS {
            if self.word.load(Ordering::Relaxed) == FREE
                && self
                    .word
                    .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
            std::hint::spin_loop();
        }
        while self.word.swap(AWAITED, Ordering::Acquire) != FREE {
            // A wake-up without cause, or none because the word changed first, is met by the loop.
            let _ = futex::wait(&self.word, futex::Flags::PRIVATE, AWAITED, None);
        }
    }
}

/// The latch is held for as long as this lives.
#[derive(Debug)]
pub(crate) struct Held<'a, T> {
    latch: &'a Latch<T>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: whoever has a `Held` holds the latch.
        unsafe { &*self.latch.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: whoever has a `Held` holds the latch, and `self` is borrowed exclusively.
        unsafe { &mut *self.latch.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.latch.word.swap(FREE, Ordering::Release) == AWAITED {
            let _ = futex::wake(&self.latch.word, futex::Flags::PRIVATE, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn two_threads_never_hold_it_together() {
        let latch = Arc::new(Latch::new(0_u64));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let latch = Arc::clone(&latch);
                std::thread::spawn(move || {
                    for _ in 0..100_000 {
                        *latch.lock() += 1;
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*latch.lock(), 400_000);
    }
}
