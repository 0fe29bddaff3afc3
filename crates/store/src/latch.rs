//! The lock of one shard: a word that is taken by compare-and-swap, with a futex for the rare
//! time that its holder has been put to sleep by the kernel.
//!
//! Holders keep it for microseconds and do no I/O, so a short spin nearly always suffices. The
//! three states are those of Drepper's "Futexes Are Tricky" (2011), third mutex.

use crate::futex::Word;
use crate::ticks;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;
/// In the model every turn of the loop is another story to tell.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

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
#[derive(Debug)]
pub(crate) struct Latch<T> {
    word: Word,
    value: UnsafeCell<T>,
}

// SAFETY: the word lets one thread at a time reach the value.
unsafe impl<T: Send> Sync for Latch<T> {}

impl<T> Latch<T> {
    pub(crate) fn new(value: T) -> Self {
        Latch { word: Word::new(FREE), value: UnsafeCell::new(value) }
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
        if !self.word.compare_exchange(FREE, HELD) {
            self.lock_contended();
        }
        Held { latch: self, since: 0 }
    }

    #[cold]
    fn lock_contended(&self) {
        for _ in 0..SPINS {
            if self.word.load() == FREE && self.word.compare_exchange(FREE, HELD) {
                return;
            }
            std::hint::spin_loop();
        }
        while self.word.swap(AWAITED, Ordering::Acquire) != FREE {
            self.word.wait(AWAITED);
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
            self.latch.word.wake_one();
        }
    }
}

impl<T: Default> Default for Latch<T> {
    fn default() -> Self {
        Latch::new(T::default())
    }
}

/// Every interleaving, by loom: run with `cargo xtask loom`.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn nobody_holds_it_together_and_nobody_sleeps_forever() {
        let mut model = loom::model::Builder::new();
        // Enough for any two of the three to meet a third between any two of its steps.
        model.preemption_bound = Some(3);
        model.check(|| {
            let latch = Arc::new(Latch::new(0_u32));
            let others = [(); 2].map(|()| {
                let latch = Arc::clone(&latch);
                thread::spawn(move || *latch.lock_untimed() += 1)
            });
            *latch.lock_untimed() += 1;
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(*latch.lock_untimed(), 3);
        });
    }
}

#[cfg(all(test, not(loom)))]
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
