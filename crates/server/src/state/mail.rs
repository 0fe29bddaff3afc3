//! Tasks that other threads post for a worker, and the decision which thread wakes it.
//!
//! A worker is woken once for everything posted between two collections: if a thread finds earlier
//! entries, the wake-up is already under way.
//!
//! The wake-up itself is implemented elsewhere, so that the loom model of blocked clients
//! (`crates/commands/src/runtime/blocking/model.rs`) runs this file as well.

use bitflags::bitflags;
use nagi_store::primitives::Mutex;
use nagi_store::primitives::atomic::{AtomicU32, Ordering};

bitflags! {
    /// Work that is done once, however often it was requested.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Reminders: u32 {
        /// Handle expired keys, idle clients and other periodic work.
        const HOUSEKEEPING = 1;
        /// Empty database 0.
        const FLUSH = 1 << 1;
        /// Send monitors their lines.
        const MONITORS = 1 << 2;
        /// Send memcached's watchers their lines.
        const WATCHERS = 1 << 3;
        /// Walk for a snapshot.
        const WALK = 1 << 4;
        /// Switch to the current listeners.
        const LISTENERS = 1 << 5;
        /// Take tasks of connections.
        const CONNECTION_TASKS = 1 << 6;
        /// Send subscribers their messages.
        const MESSAGES = 1 << 7;
        /// Hand over connections, since the set of active workers has changed.
        const ACTIVE = 1 << 8;
        /// Take over connections from other workers.
        const MOVED = 1 << 9;
        /// Look up large values again.
        const VALUES = 1 << 10;
        /// Check pipes to the thread that serves HTTP.
        const PIPES = 1 << 11;
    }
}

/// Mail for a worker: tasks of type `T`, and reminders.
pub(crate) struct Mail<T> {
    tasks: Mutex<Vec<T>>,
    reminders: AtomicU32,
}

impl<T> Mail<T> {
    /// Empty mail.
    pub(crate) fn new() -> Self {
        Mail { tasks: Mutex::new(Vec::new()), reminders: AtomicU32::new(0) }
    }

    /// Posts a task. Returns whether the worker is to be woken.
    #[must_use]
    pub(crate) fn post(&self, task: T) -> bool {
        self.tasks.lock().push(task);
        self.remind(Reminders::CONNECTION_TASKS)
    }

    /// Posts reminders. Returns whether the worker is to be woken.
    #[must_use]
    pub(crate) fn remind(&self, reminders: Reminders) -> bool {
        // The worker's swap comes after this in either case, and sees everything posted before.
        self.reminders.fetch_or(reminders.bits(), Ordering::AcqRel) == 0
    }

    /// Takes everything posted since the last call.
    pub(crate) fn collect(&self) -> (Reminders, Vec<T>) {
        let reminders = Reminders::from_bits_truncate(self.reminders.swap(0, Ordering::AcqRel));
        let tasks = match reminders.contains(Reminders::CONNECTION_TASKS) {
            true => std::mem::take(&mut *self.tasks.lock()),
            false => Vec::new(),
        };
        (reminders.difference(Reminders::CONNECTION_TASKS), tasks)
    }
}
