//! Tracks which workers are in a batch, so that rare operations can wait until every worker has
//! been quiescent, without locks or references into the store.
//!
//! ```text
//! a worker                          a waiting thread
//! slot <- odd                       publishes what batches must respect
//! light barrier                     heavy barrier
//! reads what was published          records the slots that are odd
//! executes the batch                is done once each of them has changed
//! slot <- even
//! ```
//!
//! Either the worker's batch sees what was published, or the other thread sees that batch and waits
//! for its end. This is quiescent-state-based reclamation (McKenney and Slingwine, "Read-Copy
//! Update", 1998) with batches as critical sections. A worker that waits for its sockets is between
//! batches, and delays no thread.

use crate::sync::barrier;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// A slot for each worker.
#[derive(Debug)]
pub(crate) struct Quiescence {
    slots: Box<[Slot]>,
}

/// The number of one worker's batches, times two, plus one during a batch. Only that worker writes.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(AtomicU64);

/// A worker's batch, which lasts until this is dropped.
#[derive(Debug)]
pub struct Batch<'a> {
    slot: Option<&'a Slot>,
}

/// The batches to wait for.
#[derive(Debug)]
pub(crate) struct GracePeriod {
    /// Workers and the previous values of their slots.
    pending: Vec<(usize, u64)>,
}

impl Quiescence {
    pub(crate) fn new(workers: usize) -> Self {
        #[cfg(not(loom))]
        barrier::prepare();
        Quiescence { slots: (0..workers).map(|_| Slot(AtomicU64::new(0))).collect() }
    }

    /// Begins a batch of `worker`, which must not be in one. Reads in the batch see everything
    /// published before any [`Quiescence::grace`] that does not wait for this batch.
    #[inline]
    pub(crate) fn enter(&self, worker: usize) -> Batch<'_> {
        let slot = self.slots.get(worker);
        if let Some(Slot(count)) = slot {
            let before = count.load(Ordering::Relaxed);
            debug_assert!(before % 2 == 0, "a worker is in one batch at a time");
            // Released, since a thread that waits for the previous batch may see only the beginning
            // of this one.
            count.store(before + 1, Ordering::Release);
            barrier::light();
        }
        Batch { slot }
    }

    /// Returns the current batches that may not have seen what the caller has published, except
    /// that of worker `own`, the caller's.
    pub(crate) fn grace(&self, own: Option<usize>) -> GracePeriod {
        barrier::heavy();
        self.current(own)
    }

    /// Like [`Quiescence::grace`], if every current batch has passed a full fence before it reads
    /// what the caller has published. No other thread is interrupted.
    pub(crate) fn grace_of_fenced(&self, own: Option<usize>) -> GracePeriod {
        barrier::full();
        self.current(own)
    }

    fn current(&self, own: Option<usize>) -> GracePeriod {
        let counts = self.slots.iter().enumerate();
        let pending = counts
            .filter(|(worker, _)| Some(*worker) != own)
            .map(|(worker, Slot(count))| (worker, count.load(Ordering::Acquire)))
            .filter(|(_, count)| count % 2 == 1)
            .collect();
        GracePeriod { pending }
    }

    /// Whether all batches that `grace` waits for have ended.
    pub(crate) fn is_over(&self, grace: &mut GracePeriod) -> bool {
        grace.pending.retain(|(worker, before)| {
            let slot = self.slots.get(*worker);
            slot.is_some_and(|Slot(count)| count.load(Ordering::Acquire) == *before)
        });
        grace.pending.is_empty()
    }
}

impl Drop for Batch<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(Slot(count)) = self.slot {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
    }
}

/// Tests all interleavings with loom: `cargo xtask loom`.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    /// A batch that has not seen the flag ends before the thread that set it continues.
    #[test]
    fn grace_period_ends_after_every_batch_that_missed_the_flag() {
        loom::model(|| {
            let shared = Arc::new((Quiescence::new(2), AtomicBool::new(false)));
            let inside = Arc::new(loom::cell::UnsafeCell::new(0));
            let worker = {
                let (shared, inside) = (Arc::clone(&shared), Arc::clone(&inside));
                thread::spawn(move || {
                    for _ in 0..2 {
                        let batch = shared.0.enter(1);
                        if !shared.1.load(Ordering::Relaxed) {
                            // SAFETY: the model verifies that the accesses do not overlap.
                            inside.with_mut(|value| unsafe { *value += 1 });
                        }
                        drop(batch);
                    }
                })
            };
            shared.1.store(true, Ordering::Relaxed);
            let mut grace = shared.0.grace(Some(0));
            while !shared.0.is_over(&mut grace) {
                thread::yield_now();
            }
            // SAFETY: as above.
            inside.with_mut(|value| unsafe { *value += 1 });
            worker.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn grace_period_waits_only_for_current_batches() {
        let quiescence = Quiescence::new(3);
        assert!(quiescence.is_over(&mut quiescence.grace(None)));
        let own = quiescence.enter(0);
        assert!(quiescence.is_over(&mut quiescence.grace(Some(0))), "not for oneself");
        let other = quiescence.enter(2);
        let mut grace = quiescence.grace(Some(0));
        assert!(!quiescence.is_over(&mut grace));
        drop(other);
        let later = quiescence.enter(2);
        assert!(quiescence.is_over(&mut grace), "a later batch has seen what was published");
        drop((own, later));
    }
}
