//! An asymmetric fence: cheap for a frequent operation on one thread, expensive for a rare one on
//! another.
//!
//! Two threads that each write one word and then read the other's need a full fence in between, or
//! both may read the old value. With membarrier(2), the rare side interrupts the other threads and
//! so executes the fence for both; the frequent side only prevents compiler reordering. If the
//! kernel does not support it (before 4.14, or forbidden by a container's filter), both sides
//! execute a fence.

#[cfg(not(loom))]
use crate::sync::cache_line::Line;
#[cfg(loom)]
use loom::sync::atomic::{Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

/// Whether the rare side executes the fence for both.
#[cfg(not(loom))]
static ASYMMETRIC: Line<AtomicBool> = Line(AtomicBool::new(false));

/// Must be called before another thread relies on a fence; may be called again.
#[cfg(not(loom))]
pub(crate) fn prepare() {
    use rustix::thread::{MembarrierCommand, membarrier};
    // Miri does not support the call, and checks the symmetric variant.
    if !cfg!(miri) && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok() {
        ASYMMETRIC.store(true, Ordering::SeqCst);
    }
}

/// The frequent side. A thread that passes [`heavy`] afterwards sees earlier writes of this thread,
/// or reads after this call see earlier writes of that thread.
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
        // It cannot fail in a process that has registered.
        let _ = membarrier(MembarrierCommand::PrivateExpedited);
    }
    fence(Ordering::SeqCst);
}

/// A full fence. It orders two threads only if both execute it; no other thread is interrupted.
pub(crate) fn full() {
    fence(Ordering::SeqCst);
}
