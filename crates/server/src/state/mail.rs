//! Tasks that other threads leave for a worker, and which of them has to wake it.
//!
//! A worker is woken once for all that is left between two collections: a thread that finds
//! something there already knows that the wake-up is on its way.
//!
//! How it is woken stands elsewhere, so that loom's model of clients that wait
//! (`crates/commands/src/runtime/blocking/model.rs`) runs this file as well.

use bitflags::bitflags;
use nagi_store::primitives::Mutex;
use nagi_store::primitives::atomic::{AtomicU32, Ordering};

bitflags! {
    /// Work that is done once, however often it was asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Reminders: u32 {
        /// To look for expired keys, idle clients and the like.
        const HOUSEKEEPING = 1;
        /// To empty database 0.
        const FLUSH = 1 << 1;
        /// To close connections that are marked as killed or evicted.
        const KILL = 1 << 2;
        /// To send monitors what they are shown.
        const MONITORS = 1 << 3;
        /// The same for clients that `watch`.
        const WATCHERS = 1 << 4;
        /// To walk for a snapshot.
        const WALK = 1 << 5;
        /// To accept from other listeners than before.
        const LISTENERS = 1 << 6;
        /// To take tasks of connections.
        const CONNECTION_TASKS = 1 << 7;
        /// To send subscribers what has been published.
        const MESSAGES = 1 << 8;
        /// To hand connections over, since other workers than before are active.
        const ACTIVE = 1 << 9;
        /// To take over connections that other workers have handed over.
        const MOVED = 1 << 10;
        /// To look large values up again.
        const VALUES = 1 << 11;
        /// To look at pipes to the thread that serves HTTP.
        const PIPES = 1 << 12;
    }
}

/// What has been left for a worker: tasks of type `T`, and reminders.
pub(crate) struct Mail<T> {
    tasks: Mutex<Vec<T>>,
    reminders: AtomicU32,
}

impl<T> Mail<T> {
    /// Nothing.
    pub(crate) fn new() -> Self {
        Mail { tasks: Mutex::new(Vec::new()), reminders: AtomicU32::new(0) }
    }

    /// Leaves a task. Returns whether the worker is to be woken.
    #[must_use]
    pub(crate) fn post(&self, task: T) -> bool {
        self.tasks.lock().push(task);
        self.remind(Reminders::CONNECTION_TASKS)
    }

    /// Leaves reminders. Returns whether the worker is to be woken.
    #[must_use]
    pub(crate) fn remind(&self, reminders: Reminders) -> bool {
        // The worker's swap comes after this in either case: it sees what was left before.
        self.reminders.fetch_or(reminders.bits(), Ordering::AcqRel) == 0
    }

    /// Takes what has been left since this was called last.
    pub(crate) fn collect(&self) -> (Reminders, Vec<T>) {
        let reminders = Reminders::from_bits_truncate(self.reminders.swap(0, Ordering::AcqRel));
        let tasks = match reminders.contains(Reminders::CONNECTION_TASKS) {
            true => std::mem::take(&mut *self.tasks.lock()),
            false => Vec::new(),
        };
        (reminders.difference(Reminders::CONNECTION_TASKS), tasks)
    }
}
