//! Wakes a worker that waits for events.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An eventfd. It is watched edge-triggered, so that it never has to be read.
#[derive(Debug)]
pub(crate) struct Waker {
    descriptor: OwnedFd,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker { descriptor })
    }

    /// Makes the worker's current or next wait return.
    pub(crate) fn wake(&self) {
        // The write fails only if the counter would overflow, and then the worker is awake.
        let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
