//! The barrier: every change of an entry goes through [`MutationBarrier::before_mutate`], which
//! alone makes the guard that changing functions ask for.
//!
//! A snapshot is cut by one atomic change of the store's word. Whatever is about to change an
//! entry compares the entry's epoch with its own: an older entry belongs to the snapshot that is
//! under way, and an image of it is handed over before it changes ([`crate::snapshot`]).

use crate::entry::block::Entry;
use crate::entry::mutable::Mutable;
use crate::snapshot::progress::{SnapshotProgress, ValueOutcome};
use crate::sync::steps::{self, Step};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the epoch begins in the word; below it stand
/// `save-active:1 | listening:1 | effects:1`.
const EPOCH_SHIFT: u32 = 56;
const SAVE_ACTIVE: u64 = 1 << 55;
const LISTENING: u64 = 1 << 54;
const EFFECTS: u64 = 1 << 53;

/// The store's word.
#[derive(Debug, Default)]
pub(crate) struct Word(AtomicU64);

impl Word {
    /// Reads the word for one operation: after its last latch was taken, before its first change.
    #[inline]
    pub(crate) fn read(&self) -> MutationBarrier {
        let barrier = MutationBarrier { word: self.0.load(Ordering::Acquire) };
        steps::reach(Step::WordRead);
        barrier
    }

    /// Begins the next epoch and a save of what belongs to the last one: the cut. No save may be
    /// active.
    pub(crate) fn cut(&self) {
        steps::reach(Step::Cutting);
        self.0.fetch_add(1 << EPOCH_SHIFT | SAVE_ACTIVE, Ordering::AcqRel);
        steps::reach(Step::Cut);
    }

    /// From now on changes are reported, or not.
    pub(crate) fn listen(&self, is_listening: bool) {
        if is_listening {
            self.0.fetch_or(LISTENING, Ordering::AcqRel);
        } else {
            self.0.fetch_and(!LISTENING, Ordering::AcqRel);
        }
    }

    /// From now on they are reported with effects that make the same of another store.
    pub(crate) fn report_effects(&self) {
        self.0.fetch_or(EFFECTS, Ordering::AcqRel);
    }

    /// Ends the save. Every entry carries the present epoch.
    pub(crate) fn end_save(&self) {
        steps::reach(Step::Ending);
        self.0.fetch_and(!SAVE_ACTIVE, Ordering::AcqRel);
    }
}

/// What one operation read from the word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MutationBarrier {
    word: u64,
}

impl MutationBarrier {
    /// Must be passed, with the latch held, before anything about an entry of `progress`'s table
    /// changes. `outcome` says whether the value stays in the store.
    #[inline]
    pub(crate) fn before_mutate(
        self,
        progress: &mut SnapshotProgress,
        entry: Entry,
        outcome: ValueOutcome,
    ) -> Mutable {
        #[cfg(test)]
        observer::saw(entry, self.epoch());
        steps::reach(Step::AtBarrier);
        if self.is_older(entry) {
            progress.hand_over(entry, outcome);
            steps::reach(Step::HandedOver);
            entry.set_epoch(self.epoch());
        }
        steps::reach(Step::Passed);
        // SAFETY: the holder of the table's progress holds the latch, and the progress has just
        // been given the image if there is to be one.
        unsafe { Mutable::new(entry) }
    }

    /// Stamps an entry that is about to be linked for the first time.
    #[inline]
    pub(crate) fn admit(self, entry: Entry) {
        entry.set_epoch(self.epoch());
    }

    /// Whether an entry was last changed before this operation's epoch.
    #[inline]
    pub(crate) fn is_older(self, entry: Entry) -> bool {
        entry.epoch() != self.epoch() & 0b11
    }

    pub(crate) fn epoch(self) -> u8 {
        (self.word >> EPOCH_SHIFT) as u8
    }

    /// Whether changes are reported.
    #[inline]
    pub(crate) fn is_listening(self) -> bool {
        self.word & LISTENING != 0
    }

    /// Whether they are reported with their effects.
    pub(crate) fn reports_effects(self) -> bool {
        self.word & EFFECTS != 0
    }

    /// Whether a snapshot is under way.
    pub(crate) fn is_saving(self) -> bool {
        self.word & SAVE_ACTIVE != 0
    }
}

/// What passed the barrier in this thread, for tests.
#[cfg(test)]
pub(crate) mod observer {
    use super::Entry;
    use crate::entry::view::EntryView;
    use std::cell::RefCell;

    /// An entry as it was when it passed the barrier.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct PassedEntry {
        pub(crate) key: Vec<u8>,
        pub(crate) value: Vec<u8>,
        pub(crate) expire_at_ms: Option<u64>,
        pub(crate) epoch: u8,
    }

    thread_local! {
        static PASSAGES: RefCell<Option<Vec<PassedEntry>>> = const { RefCell::new(None) };
    }

    pub(super) fn saw(entry: Entry, epoch: u8) {
        if PASSAGES.with_borrow(Option::is_none) {
            return;
        }
        // SAFETY: the barrier is passed with the latch held; the view ends here.
        let view = unsafe { EntryView::new(entry) };
        let key = view.long_key().map_or_else(|| view.key().to_vec(), |key| key.to_vec());
        let passage = PassedEntry {
            key,
            value: view.string().map_or_else(|_| Vec::new(), |it| it.with_bytes(<[u8]>::to_vec)),
            expire_at_ms: view.expire_at_ms(),
            epoch,
        };
        PASSAGES.with_borrow_mut(|passages| passages.get_or_insert_default().push(passage));
    }

    /// What this thread has let pass since the last call; the first one makes it note that.
    pub(crate) fn take() -> Vec<PassedEntry> {
        PASSAGES.replace(Some(Vec::new())).unwrap_or_default()
    }
}
