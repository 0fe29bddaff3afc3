//! The lock of one shard: a word that is taken by compare-and-swap, with a futex for the rare
//! time that its holder has been put to sleep by the kernel.
//!
//! Holders keep it for microseconds and do no I/O, so a short spin nearly always suffices. The
//! three states are those of Drepper's "Futexes Are Tricky" (2011), third mutex.

use crate::ticks;
use rustix::thread::futex;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;
const SPINS: u32 = 100;

/// The longest time that any latch was held, in ticks.
static LONGEST_HOLD: AtomicU64 = AtomicU64::new(0);

/// The longest time that a latch was held since the process began, or since the last reset, the
/// time included for which the kernel put the holder to sleep. Lookups of one key are not timed:
/// two readings of a clock would be a tenth of what they do.
pub(crate) fn longest_hold() -> Duration {
    ticks::duration(LONGEST_HOLD.load(Ordering::Relaxed))
}

/// Starts again from zero.
pub(crate) fn reset_longest_hold() {
    LONGEST_HOLD.store(0, Ordering::Relaxed);
}

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

    /// Takes the latch, waiting for it if need be, and takes the time until it is let go of.
    #[inline]
    pub(crate) fn lock(&self) -> Held<'_, T> {
        let mut held = self.lock_untimed();
        held.since = ticks::now();
        held
    }

    /// Takes the latch for what is known to be short.
    #[inline]
    pub(crate) fn lock_untimed(&self) -> Held<'_, T> {
        if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_contended();
        }
        Held { latch: self, since: 0 }
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
    /// When it was taken, in ticks; 0 if nobody wants to know.
    since: u64,
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
        if self.since != 0 {
            let held = ticks::now().wrapping_sub(self.since);
            if held > LONGEST_HOLD.load(Ordering::Relaxed) {
                LONGEST_HOLD.fetch_max(held, Ordering::Relaxed);
            }
        }
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
