//! Snapshots of the store: the cut, and the interface of the thread that writes one to a file.

use crate::claims::table::Wait;
use crate::index::table::Table;
use crate::keyspace::store::Store;
use crate::keyspace::walk::WAITING_BYTES;
use crate::snapshot::{Cause, DatabaseSize, FULL_BYTES, Images, Receivers, SnapshotMemory};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Why no snapshot was started.
#[derive(Debug)]
pub enum CutError {
    /// Another one is active.
    Busy,
    /// A key is claimed; the waker is called when another try is worthwhile.
    Claimed(Wait),
}

/// Why a snapshot failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// The saver cancelled it.
    Cancelled,
    /// The images of changed entries exceeded their memory limit.
    PreImageLimit,
    /// Writers waited too long for images to be taken.
    Stuck,
    /// Entries are missing or duplicated: a bug in nagi.
    Miscounted,
}

/// An active snapshot, for the one thread that takes its images. It always runs to its end, even if
/// it is aborted: dropping it waits for the walk.
#[derive(Debug)]
pub struct Snapshot<'a> {
    store: &'a Store,
    /// Present until the end.
    receivers: Option<Receivers>,
    detached_tables: Option<Receiver<Table>>,
    /// A detached table that is being walked here.
    detached: Option<Table>,
    cut_took: Duration,
}

impl Store {
    /// Takes a snapshot of the whole store at one moment during this call. The images of changed
    /// entries may take `pre_image_limit_bytes`; beyond that the snapshot is aborted.
    ///
    /// # Errors
    /// Another snapshot is active, or a key is claimed.
    pub fn cut(
        &self,
        pre_image_limit_bytes: usize,
        waker: &Waker,
    ) -> Result<Snapshot<'_>, CutError> {
        let receivers = self.outbox.open(pre_image_limit_bytes).ok_or(CutError::Busy)?;
        let detached_tables = self.detached_tables.open();
        let started = Instant::now();
        if let Some(wait) = self.unclaimed(waker, || self.word.cut()) {
            self.close(receivers, detached_tables);
            return Err(CutError::Claimed(wait));
        }
        let cut_took = started.elapsed();
        // Walkers begin only now, when every epoch they may read is the new one.
        self.walk.counting.begin(self.shards.len());
        self.walk.walking.begin(self.shards.len());
        let receivers = Some(receivers);
        Ok(Snapshot { store: self, receivers, detached_tables, detached: None, cut_took })
    }

    fn close(&self, receivers: Receivers, detached_tables: Option<Receiver<Table>>) {
        detached_tables.into_iter().for_each(|tables| self.detached_tables.close(tables));
        // Returned last: having the receivers implies having the tables as well.
        self.outbox.close(receivers);
    }

    /// Whether a snapshot is active.
    #[must_use]
    pub fn is_saving(&self) -> bool {
        self.word.read().is_saving()
    }

    /// Returns how much of the memory limit for images is used, in thousandths; 0 if there is no
    /// limit at the moment.
    #[must_use]
    pub fn snapshot_pressure(&self) -> usize {
        self.outbox.pressure()
    }

    /// Aborts the active snapshot, because writers have waited too long for its images to be taken.
    pub fn give_up_snapshot(&self) {
        self.outbox.abort(Cause::Stuck);
    }

    /// Returns the memory used by snapshots.
    #[must_use]
    pub fn snapshot_memory(&self) -> SnapshotMemory {
        self.outbox.held()
    }
}

impl Snapshot<'_> {
    /// Returns the duration of the last cut.
    #[must_use]
    pub fn cut_took(&self) -> Duration {
        self.cut_took
    }

    /// Returns the next images; those of changed entries come first. Waits for at most `timeout`;
    /// `None` if there are none, which is final if [`Self::is_walked`].
    pub fn take(&mut self, timeout: Duration) -> Option<Images> {
        if self.is_counted()
            && let Some(images) = self.take_urgent()
        {
            return Some(images);
        }
        let receivers = self.receivers.as_ref()?;
        match receivers.walked.recv_timeout(timeout) {
            Ok(images) => {
                self.store.outbox.forget_walked(&images);
                Some(images)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Returns images whose memory is needed soon.
    fn take_urgent(&mut self) -> Option<Images> {
        loop {
            let receivers = self.receivers.as_ref()?;
            if let Ok(images) = receivers.pre_images.try_recv() {
                self.store.outbox.forget_pre_images(&images);
                return Some(images);
            }
            if self.detached.is_none() {
                self.detached = Some(self.detached_tables.as_ref()?.try_recv().ok()?);
            }
            if let Some(images) = self.walk_detached() {
                return Some(images);
            }
        }
    }

    /// Whether the sizes of databases at the cut are known. That is the case before the first
    /// images can be taken.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.store.walk.counting.is_over()
    }

    /// Returns the size of a database at the cut, once it has been counted.
    #[must_use]
    pub fn size_of(&self, database: usize) -> DatabaseSize {
        self.store.outbox.size_of(database)
    }

    /// Whether a stream may have had a consumer at the cut, once its sizes have been counted.
    #[must_use]
    pub fn may_have_consumers(&self) -> bool {
        self.store.has_had_consumers()
    }

    /// Whether every table in the store has been walked. Images sent before that may still have to
    /// be taken.
    #[must_use]
    pub fn is_walked(&self) -> bool {
        self.store.walk.walking.is_over()
    }

    /// Whether walkers that have paused should continue.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.store.outbox.held().waiting_bytes() < WAITING_BYTES / 2
    }

    /// Whether the snapshot has been aborted.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.store.outbox.is_aborted()
    }

    /// Cancels the snapshot. The walk continues to its end without creating images.
    pub fn cancel(&mut self) {
        self.store.outbox.abort(Cause::Cancelled);
    }

    /// Ends the save, once everything has been walked and taken.
    ///
    /// # Errors
    /// The snapshot was aborted, or is incomplete.
    pub fn finish(mut self) -> Result<(), SnapshotError> {
        self.drain();
        let outbox = &self.store.outbox;
        match outbox.cause() {
            Some(Cause::Cancelled) => return Err(SnapshotError::Cancelled),
            Some(Cause::PreImageLimit) => return Err(SnapshotError::PreImageLimit),
            Some(Cause::Stuck) => return Err(SnapshotError::Stuck),
            None => {}
        }
        if outbox.miscounts() > 0 {
            return Err(SnapshotError::Miscounted);
        }
        Ok(())
    }

    /// Takes and discards the remaining images, until every entry has the new epoch.
    fn drain(&mut self) {
        const POLL_INTERVAL: Duration = Duration::from_millis(5);
        loop {
            let is_walked = self.is_walked();
            if self.take(if is_walked { Duration::ZERO } else { POLL_INTERVAL }).is_some() {
                // A snapshot that was aborted before keeps its own cause.
                if !self.is_aborted() {
                    self.cancel();
                }
            } else if is_walked {
                break;
            }
        }
        if let Some(receivers) = self.receivers.take() {
            self.store.walk.walking.end();
            self.store.word.end_save();
            self.store.close(receivers, self.detached_tables.take());
        }
    }

    /// Continues with a detached table; `None` if it had no entries of the snapshot.
    fn walk_detached(&mut self) -> Option<Images> {
        let table = self.detached.as_mut()?;
        let mut images = Images::new(table.progress().database(), FULL_BYTES);
        if table.walk(self.store.word.read(), &mut images) {
            let tables: Vec<Table> = self.detached.take().into_iter().collect();
            self.store.reclaimer.free(tables);
        }
        (!images.is_empty()).then_some(images)
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // A thread that panics may be the one that performs the walk.
        if self.receivers.is_some() && !std::thread::panicking() {
            self.cancel();
            self.drain();
        }
    }
}
