//! The barrier: every change of an entry goes through [`MutationBarrier::before_mutate`]. Only it
//! creates the guard that mutating functions require.
//!
//! A snapshot is cut by one atomic change of the store's word. Before any change of an entry, the
//! entry's epoch is compared with the operation's: an older entry belongs to the active snapshot,
//! and an image of it is saved before it changes ([`crate::snapshot`]).

use crate::entry::block::Entry;
use crate::entry::mutable::Mutable;
use crate::snapshot::progress::{SnapshotProgress, ValueOutcome};
use crate::sync::primitives::atomic::{AtomicU64, Ordering};
use crate::sync::steps::{self, Step};

/// The position of the epoch in the word; the bits below are
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

    /// The cut: begins the next epoch and a save of the entries of the last one. No save may be
    /// active.
    pub(crate) fn cut(&self) {
        steps::reach(Step::Cutting);
        self.0.fetch_add(1 << EPOCH_SHIFT | SAVE_ACTIVE, Ordering::AcqRel);
        steps::reach(Step::Cut);
    }

    /// Turns reports of changes on or off.
    pub(crate) fn listen(&self, is_listening: bool) {
        if is_listening {
            self.0.fetch_or(LISTENING, Ordering::AcqRel);
        } else {
            self.0.fetch_and(!LISTENING, Ordering::AcqRel);
        }
    }

    /// Adds effects that replicate the changes in another store to the reports.
    pub(crate) fn report_effects(&self) {
        self.0.fetch_or(EFFECTS, Ordering::AcqRel);
    }

    /// Ends the save. Every entry has the current epoch.
    pub(crate) fn end_save(&self) {
        steps::reach(Step::Ending);
        self.0.fetch_and(!SAVE_ACTIVE, Ordering::AcqRel);
    }
}

/// The state of the word that one operation has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MutationBarrier {
    word: u64,
}

impl MutationBarrier {
    /// Must be called, with the latch held, before any change of an entry of `progress`'s table.
    /// `outcome` tells whether the value stays in the store.
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
        // SAFETY: the holder of the table's progress holds the latch, and the image has been saved
        // if the snapshot needs one.
        unsafe { Mutable::new(entry) }
    }

    /// Sets the epoch of an entry that is about to be linked for the first time.
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

    /// Whether changes are reported with their effects.
    pub(crate) fn reports_effects(self) -> bool {
        self.word & EFFECTS != 0
    }

    /// Whether a snapshot is active.
    pub(crate) fn is_saving(self) -> bool {
        self.word & SAVE_ACTIVE != 0
    }
}

/// Records the entries that pass the barrier in this thread, for tests.
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

    /// Returns the entries that have passed the barrier in this thread since the last call. The
    /// first call starts recording.
    pub(crate) fn take() -> Vec<PassedEntry> {
        PASSAGES.replace(Some(Vec::new())).unwrap_or_default()
    }
}
