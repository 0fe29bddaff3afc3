//! A table's progress in the snapshot: which of its entries still belong to it, and how many.

use crate::entry::block::Entry;
use crate::snapshot::images::{FULL_PRE_IMAGES_BYTES, Images};
use crate::snapshot::outbox::{DatabaseSize, Outbox};
use nagi_chunk::CHUNK_BYTES;
use std::sync::Arc;

/// What happens to the value of an entry that passes the barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueOutcome {
    /// The value stays in the store, perhaps partly changed.
    Stays,
    /// The value is removed and freed, unless a snapshot needs it.
    Goes,
}

/// One table's progress in the snapshot. It moves with the table when databases are exchanged.
#[derive(Debug)]
pub(crate) struct SnapshotProgress {
    /// The epoch that the other fields refer to.
    epoch: u8,
    /// The index of the table's database at the cut.
    database: usize,
    /// Entries of an older epoch that were not handed over yet.
    unsaved: usize,
    /// The position at which the walk continues, until it is complete.
    walked_to: Option<u64>,
    /// Images of entries that were about to change.
    pre_images: Option<Images>,
    outbox: Arc<Outbox>,
}

impl SnapshotProgress {
    pub(crate) fn new(outbox: Arc<Outbox>) -> Self {
        let (epoch, database) = (0, 0);
        SnapshotProgress { epoch, database, unsaved: 0, walked_to: None, pre_images: None, outbox }
    }

    /// Creates the progress of an empty table of the same store.
    pub(crate) fn restarted(&self) -> Self {
        SnapshotProgress::new(Arc::clone(&self.outbox))
    }

    /// Must be called with the operation's epoch before any change to a table of this size, which
    /// now belongs to database `database`.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        epoch: u8,
        size: impl FnOnce() -> DatabaseSize,
        database: usize,
    ) {
        if self.epoch != epoch {
            self.begin_epoch(epoch, size(), database);
        }
    }

    #[cold]
    fn begin_epoch(&mut self, epoch: u8, size: DatabaseSize, database: usize) {
        (self.epoch, self.database, self.unsaved) = (epoch, database, size.keys as usize);
        self.outbox.add_size(database, size);
        self.walked_to = (size.keys > 0).then_some(0);
    }

    /// Returns the epoch that this progress refers to.
    pub(crate) fn epoch(&self) -> u8 {
        self.epoch
    }

    /// Returns the number of entries that the snapshot still lacks.
    #[cfg(test)]
    pub(crate) fn unsaved(&self) -> usize {
        self.unsaved
    }

    /// Returns where the walk continues, if it is not complete.
    pub(crate) fn walked_to(&self) -> Option<u64> {
        self.walked_to
    }

    /// Returns the index that the database had at the cut.
    pub(crate) fn database(&self) -> usize {
        self.database
    }

    /// Saves the image of an entry that belongs to the snapshot and is about to change. The caller
    /// updates the entry's epoch.
    #[cold]
    pub(crate) fn hand_over(&mut self, entry: Entry, outcome: ValueOutcome) {
        self.note_saved(1);
        if self.outbox.is_aborted() {
            return;
        }
        if self.pre_images.as_ref().is_some_and(|images| !images.has_room_for(entry)) {
            self.send_pre_images();
        }
        let begin = || Images::new(self.database, FULL_PRE_IMAGES_BYTES);
        let images = self.pre_images.get_or_insert_with(begin);
        let (before, uncounted) = (images.bytes(), images.uncounted_bytes());
        images.push(entry);
        // SAFETY: the barrier is passed with the latch held.
        let (bytes, chunk_bytes) = unsafe { (entry.bytes_out_of_line(), entry.chunk_bytes()) };
        let kept = if outcome == ValueOutcome::Goes { bytes } else { bytes.min(CHUNK_BYTES) };
        images.keep(kept, chunk_bytes);
        let uncounted = images.uncounted_bytes() - uncounted;
        self.outbox.add_pre_image(images.bytes() - before, uncounted);
        // Memory that an image keeps, or will keep if its value is removed as well, is not left
        // waiting for others.
        if images.bytes().max(bytes) >= FULL_PRE_IMAGES_BYTES {
            self.send_pre_images();
        }
    }

    /// Whether the snapshot still lacks some of the table's entries.
    pub(crate) fn is_wanted(&self) -> bool {
        self.walked_to.is_some() && !self.outbox.is_aborted()
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.outbox.is_aborted()
    }

    /// Records that this many entries were saved in an image and have the new epoch, and where the
    /// walk continues.
    pub(crate) fn walk_on(&mut self, saved: usize, to: Option<u64>) {
        self.note_saved(saved);
        self.walked_to = to;
        if to.is_none() {
            self.send_pre_images();
            if self.unsaved != 0 {
                self.outbox.note_miscount();
                self.unsaved = 0;
            }
        }
    }

    /// Sends the pending images to the saver. Required before the table is removed.
    pub(crate) fn send_pre_images(&mut self) {
        if let Some(images) = self.pre_images.take() {
            self.outbox.send_pre_images(images);
        }
    }

    fn note_saved(&mut self, entries: usize) {
        match self.unsaved.checked_sub(entries) {
            Some(left) => self.unsaved = left,
            None => self.outbox.note_miscount(),
        }
    }
}
