//! The locks and atomics of code that is tested with loom: under loom they are loom's own, so that
//! it can explore all interleavings.

#[cfg(not(loom))]
pub use parking_lot::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub use std::{sync::atomic, thread};

#[cfg(loom)]
pub use loom::sync::{MutexGuard, atomic};
#[cfg(loom)]
pub use loom::thread;
#[cfg(loom)]
pub use model::Mutex;

#[cfg(loom)]
mod model {
    use super::MutexGuard;
    use std::sync::PoisonError;

    /// Loom's lock with the interface of parking_lot's.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// Creates a free lock.
        pub fn new(value: T) -> Self {
            Mutex(loom::sync::Mutex::new(value))
        }

        /// Takes the lock, waiting if necessary.
        #[track_caller]
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
