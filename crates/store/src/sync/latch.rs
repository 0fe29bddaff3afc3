//! The lock of one shard: a word that is taken by compare-and-swap, with a futex for the rare case
//! that its holder is preempted.
//!
//! Latches are held for microseconds and without I/O, so a short spin nearly always suffices, and
//! the rare thread that sleeps may execute the expensive part. Releasing is therefore a plain store
//! and a plain load: a sleeper announces itself and passes the heavy side of a barrier before it
//! reads the word for the last time. Either it finds the latch free, or the holder sees that it
//! waits.

use crate::sync::barrier;
use crate::sync::cpu_time::Mark;
use crate::sync::futex::Word;
use crate::sync::holds;
use crate::sync::steps::{self, Step};
use crate::sync::ticks;
use std::cell::Cell;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[cfg(loom)]
use loom::sync::atomic::AtomicU32;
#[cfg(not(loom))]
use std::sync::atomic::AtomicU32;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// In the model, every iteration of the loop is another interleaving.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

/// The longest time that any latch was held, in ticks.
static LONGEST_HOLD: AtomicU64 = AtomicU64::new(0);
/// The longest CPU time of a hold, at most.
static LONGEST_HOLD_ON_CPU: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// When the holder of an untimed latch called [`slow`], in ticks; 0 if it did not.
    static SLOW_SINCE: Cell<u64> = const { Cell::new(0) };
    /// Whether a hold of this thread is timed.
    static IS_TIMED: Cell<bool> = const { Cell::new(false) };
    /// The reference point of its CPU time.
    static MARK: Cell<Mark> = const { Cell::new(Mark::NONE) };
}

/// Marks the beginning of a nested hold.
const NESTED: u64 = u64::MAX;

/// Returns the longest time that a latch was held since the process started, or since the last
/// reset, including the time that its holder was preempted. Lookups and writes of one key are timed
/// only from a call of [`slow`] on, because two readings of a clock would add a tenth to their
/// time.
pub(crate) fn longest_hold() -> Duration {
    ticks::duration(LONGEST_HOLD.load(Ordering::Relaxed))
}

/// Returns an upper bound of the longest CPU time of a hold.
pub(crate) fn longest_hold_on_cpu() -> Duration {
    ticks::duration(LONGEST_HOLD_ON_CPU.load(Ordering::Relaxed))
}

/// Resets the results of [`longest_hold`] and [`longest_hold_on_cpu`].
pub(crate) fn reset_longest_hold() {
    LONGEST_HOLD.store(0, Ordering::Relaxed);
    LONGEST_HOLD_ON_CPU.store(0, Ordering::Relaxed);
}

/// Starts the timing of a hold, at `now` in ticks. Nested holds are timed as part of the outer one.
#[inline]
fn begin_timing(now: u64) {
    if !IS_TIMED.replace(true) && MARK.get().is_old(now) {
        MARK.set(Mark::new(now));
    }
}

/// Starts the timing of an untimed hold, before work that may take longer than looking a key up.
#[inline]
pub(crate) fn time_from_here() {
    if SLOW_SINCE.get() == 0 {
        holds::begin();
        let now = ticks::now();
        begin_timing(now);
        SLOW_SINCE.set(now);
    }
}

/// Discards timing that started while no shard's latch was held: the same code builds and frees
/// collections inside and outside the keyspace.
#[cold]
fn discard_timing() {
    SLOW_SINCE.set(0);
    IS_TIMED.set(false);
    holds::forget();
}

#[cold]
fn note_hold(since: u64) {
    if since == NESTED {
        return;
    }
    let since = if since == 0 { SLOW_SINCE.get() } else { since };
    SLOW_SINCE.set(0);
    IS_TIMED.set(false);
    let now = ticks::now();
    let held = now.wrapping_sub(since);
    if held > LONGEST_HOLD.load(Ordering::Relaxed) {
        LONGEST_HOLD.fetch_max(held, Ordering::Relaxed);
    }
    if held > LONGEST_HOLD_ON_CPU.load(Ordering::Relaxed) {
        LONGEST_HOLD_ON_CPU.fetch_max(MARK.get().most_ticks(since, now), Ordering::Relaxed);
    }
    holds::end(held);
}

/// Guards `T`. Padded to pairs of cache lines, because processors fetch them in pairs and taking a
/// latch must not slow down the holder of an adjacent one. The first line, which
/// [`Latch::prefetch`] fetches, has the word and the beginning of the value.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Latch<T> {
    word: Word,
    /// The number of threads that sleep until the word is free, or are about to.
    sleepers: AtomicU32,
    value: UnsafeCell<T>,
}

const _: () = assert!(std::mem::offset_of!(Latch<u64>, word) == 0);

// SAFETY: the word ensures that only one thread at a time accesses the value.
unsafe impl<T: Send> Sync for Latch<T> {}

impl<T> Latch<T> {
    pub(crate) fn new(value: T) -> Self {
        Latch { word: Word::new(FREE), sleepers: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Prefetches the latch's line for writing: another worker may have had it last.
    #[inline]
    pub(crate) fn prefetch(&self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch reads nothing and cannot fault; processors without this instruction
        // ignore it.
        unsafe {
            std::arch::asm!(
                "prefetchw [{line}]",
                line = in(reg) self,
                options(nostack, preserves_flags, readonly),
            );
        }
    }

    /// Takes the latch, waiting if necessary, and times the hold.
    #[inline]
    pub(crate) fn lock(&self) -> Held<'_, T> {
        let mut held = self.lock_untimed();
        holds::begin();
        held.since = ticks::now();
        begin_timing(held.since);
        held
    }

    /// Takes the latch within the hold of another one, which is timed instead.
    #[inline]
    pub(crate) fn lock_nested(&self) -> Held<'_, T> {
        let mut held = self.take();
        held.since = NESTED;
        held
    }

    /// Takes the latch for a short operation, which is timed only if it calls [`slow`].
    #[inline]
    pub(crate) fn lock_untimed(&self) -> Held<'_, T> {
        if SLOW_SINCE.get() != 0 {
            discard_timing();
        }
        self.take()
    }

    #[inline]
    fn take(&self) -> Held<'_, T> {
        steps::reach(Step::Locking);
        if !self.word.compare_exchange(FREE, HELD) {
            self.lock_contended();
        }
        steps::reach(Step::Locked);
        Held { latch: self, since: 0, not_send: PhantomData }
    }

    #[cold]
    fn lock_contended(&self) {
        steps::reach(Step::Blocked);
        for _ in 0..SPINS {
            if self.word.load() == FREE && self.word.compare_exchange(FREE, HELD) {
                return;
            }
            std::hint::spin_loop();
        }
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        barrier::heavy();
        while !self.word.compare_exchange(FREE, HELD) {
            self.word.wait(HELD);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Holds the latch until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a, T> {
    latch: &'a Latch<T>,
    /// When it was taken, in ticks; 0 if it is untimed.
    since: u64,
    /// The guard stays on the thread that took the latch, which times the hold; no other thread
    /// obtains a reference to a value that may not be shared.
    not_send: PhantomData<*const ()>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the latch is held as long as this guard lives.
        unsafe { &*self.latch.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the latch is held as long as this guard lives, and it is borrowed exclusively.
        unsafe { &mut *self.latch.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        steps::reach(Step::Unlocking);
        if self.since | SLOW_SINCE.get() != 0 {
            note_hold(self.since);
        }
        self.latch.word.release(FREE);
        barrier::light();
        if self.latch.sleepers.load(Ordering::Relaxed) != 0 {
            self.latch.word.wake_one();
        }
    }
}

impl<T: Default> Default for Latch<T> {
    fn default() -> Self {
        Latch::new(T::default())
    }
}

/// Tests all interleavings with loom: `cargo xtask loom`.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn latch_is_exclusive_and_every_sleeper_is_woken() {
        let mut model = loom::model::Builder::new();
        // Enough for a third thread to run between any two steps of two others.
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
    fn slow_work_under_an_untimed_latch_is_timed() {
        ticks::start();
        let (outer, inner) = (Latch::new(0), Latch::new(0));
        let wait = Duration::from_millis(30);
        let held = outer.lock_untimed();
        time_from_here();
        drop(inner.lock_nested());
        std::thread::sleep(wait);
        drop(held);
        assert!(longest_hold() >= wait / 2, "{:?}", longest_hold());
        assert_eq!(SLOW_SINCE.get(), 0, "the next hold is another");
    }

    #[test]
    fn slow_work_outside_a_latch_is_not_timed() {
        let latch = Latch::new(0);
        time_from_here();
        drop(latch.lock_nested());
        let held = latch.lock_untimed();
        assert_eq!(SLOW_SINCE.get(), 0, "the hold begins here");
        drop(held);
    }

    #[test]
    fn latch_is_exclusive_between_threads() {
        barrier::prepare();
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
