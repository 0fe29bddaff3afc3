//! The claimed names and their owners, and the queue of waiters for each name.
//!
//! A request needs the lock of a stripe only if the stripe has names. Otherwise it reads one word,
//! which stays in the caches of all processors while nothing in the stripe is claimed.

use crate::claims::queue::Queue;
use crate::entry::identity_hasher::IdentityHasher;
use crate::sync::primitives::atomic::{AtomicUsize, Ordering};
use crate::sync::primitives::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::{Deref, DerefMut};

/// The number of names for which an empty stripe keeps its memory.
const KEPT_NAMES: usize = 16;

/// How a claim or a request accesses a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Reading; shared with other readers.
    Read,
    /// Writing; exclusive.
    Write,
}

type Names = HashMap<u64, Name, BuildHasherDefault<IdentityHasher>>;

/// A part of the names, with its own lock and cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Stripe {
    /// The number of names; written under the lock.
    len: AtomicUsize,
    names: Mutex<Names>,
}

/// The names of a stripe while its lock is held. Dropping this publishes how many there are.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    names: MutexGuard<'a, Names>,
    len: &'a AtomicUsize,
}

/// A name that is claimed, or that has waiters.
#[derive(Debug, Default)]
pub(super) struct Name {
    pub(super) hold: Hold,
    pub(super) queue: Queue,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Hold {
    #[default]
    Free,
    Readers(u32),
    Writer(u64),
}

impl Stripe {
    /// Whether no name is claimed or waited for. The answer may be late, but a claimer does not
    /// proceed before the end of the batch that received a late one.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        // Acquired: the writes of a claim that has ended are visible.
        self.len.load(Ordering::Acquire) == 0
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        Locked { names: self.names.lock(), len: &self.len }
    }
}

impl Locked<'_> {
    /// Wakes the next waiter for a name that has been released, or removes a name that is neither
    /// held nor waited for.
    pub(super) fn tidy(&mut self, name: u64) {
        let Some(found) = self.names.get_mut(&name) else { return };
        if found.hold != Hold::Free {
            return;
        }
        if found.queue.is_empty() {
            self.names.remove(&name);
            if self.names.is_empty() {
                self.names.shrink_to(KEPT_NAMES);
            }
        } else {
            found.queue.wake_next();
        }
    }
}

impl Deref for Locked<'_> {
    type Target = Names;

    fn deref(&self) -> &Names {
        &self.names
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Names {
        &mut self.names
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.len.store(self.names.len(), Ordering::Release);
    }
}

impl Hold {
    /// Returns the state with one more holder, which must be compatible.
    pub(super) fn with(self, intent: Intent, owner: u64) -> Self {
        match (intent, self) {
            (Intent::Write, _) => Hold::Writer(owner),
            (Intent::Read, Hold::Readers(readers)) => Hold::Readers(readers + 1),
            (Intent::Read, _) => Hold::Readers(1),
        }
    }

    pub(super) fn admits(self, intent: Intent) -> bool {
        match self {
            Hold::Free => true,
            Hold::Readers(_) => intent == Intent::Read,
            Hold::Writer(_) => false,
        }
    }
}
