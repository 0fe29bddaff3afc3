//! A fence with a cheap side and a dear one, for what happens all the time on one thread and is of
//! interest to another only now and then.
//!
//! Two threads that each write one word and then read the other's need a full fence between, or
//! both may read what was there before. With membarrier(2) the rare side interrupts the other
//! threads and so pays for both: the frequent side only keeps the compiler from reordering. Where
//! the kernel has no such call (before 4.14, or forbidden by a container's filter) both sides pay.

#[cfg(not(loom))]
use crate::sync::cache_line::Line;
#[cfg(loom)]
use loom::sync::atomic::{Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

/// Whether the rare side pays for both.
#[cfg(not(loom))]
static ASYMMETRIC: Line<AtomicBool> = Line(AtomicBool::new(false));

/// Must be called before another thread relies on a fence; may be called again.
#[cfg(not(loom))]
pub(crate) fn prepare() {
    use rustix::thread::{MembarrierCommand, membarrier};
    // Miri has no such call, and finds out what both sides do when they pay.
    if !cfg!(miri) && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok() {
        ASYMMETRIC.store(true, Ordering::SeqCst);
    }
}

/// The frequent side: what was written before is seen by a thread that passes [`heavy`] afterwards,
/// or what that thread wrote before is seen by what is read from here on.
#[inline]
pub(crate) fn light() {
    #[cfg(not(loom))]
    if ASYMMETRIC.load(Ordering::Relaxed) {
        return compiler_fence(Ordering::SeqCst);
    }
    fence(Ordering::SeqCst);
}

/// The rare side.
pub(crate) fn heavy() {
    #[cfg(not(loom))]
    if ASYMMETRIC.load(Ordering::Relaxed) {
        use rustix::thread::{MembarrierCommand, membarrier};
        // It cannot fail for a process that has registered.
        let _ = membarrier(MembarrierCommand::PrivateExpedited);
    }
    fence(Ordering::SeqCst);
}
