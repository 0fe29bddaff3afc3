//! Snapshots of the store: the cut, and what the thread that writes one down takes out of it.

use crate::claims::table::Wait;
use crate::index::table::Table;
use crate::keyspace::store::Store;
use crate::keyspace::walk::WAITING_BYTES;
use crate::snapshot::{Cause, DatabaseSize, FULL_BYTES, Images, Receivers, SnapshotMemory};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Why there is no snapshot.
#[derive(Debug)]
pub enum CutError {
    /// Another one is under way.
    Busy,
    /// Something is claimed; the waker is called when it is worth another try.
    Claimed(Wait),
}

/// Why a snapshot is worthless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// The saver has given it up.
    Cancelled,
    /// Writers would have filled the memory with images of what they changed.
    PreImageLimit,
    /// Writers had waited too long for images to be taken.
    Stuck,
    /// Entries are missing in it, or in it twice: a fault of nagi.
    Miscounted,
}

/// A snapshot under way, for the one thread that takes its images out. It must come to its end,
/// even if it is aborted: dropping it waits for the walk.
#[derive(Debug)]
pub struct Snapshot<'a> {
    store: &'a Store,
    /// There until the end.
    receivers: Option<Receivers>,
    detached_tables: Option<Receiver<Table>>,
    /// A table that was taken out of the store and is being walked here.
    detached: Option<Table>,
    cut_took: Duration,
}

impl Store {
    /// Takes a snapshot of everything as it is at one moment of this call. Images that writers
    /// leave may take `pre_image_limit_bytes`; beyond that the snapshot is given up.
    ///
    /// # Errors
    /// When one is under way, or something is claimed.
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
        // Walkers begin only now that whatever epoch they read is the new one.
        self.walk.counting.begin(self.shards.len());
        self.walk.walking.begin(self.shards.len());
        let receivers = Some(receivers);
        Ok(Snapshot { store: self, receivers, detached_tables, detached: None, cut_took })
    }

    fn close(&self, receivers: Receivers, detached_tables: Option<Receiver<Table>>) {
        detached_tables.into_iter().for_each(|tables| self.detached_tables.close(tables));
        // The last: having these means having the tables as well.
        self.outbox.close(receivers);
    }

    /// Whether a snapshot is under way.
    #[must_use]
    pub fn is_saving(&self) -> bool {
        self.word.read().is_saving()
    }

    /// How much of what images may take is taken, in thousandths; 0 while there is nothing to
    /// keep within a limit.
    #[must_use]
    pub fn snapshot_pressure(&self) -> usize {
        self.outbox.pressure()
    }

    /// Aborts the snapshot under way, whose images hold memory for nothing.
    pub fn give_up_snapshot(&self) {
        self.outbox.abort(Cause::Stuck);
    }

    /// What snapshots hold in memory.
    #[must_use]
    pub fn snapshot_memory(&self) -> SnapshotMemory {
        self.outbox.held()
    }
}

impl Snapshot<'_> {
    /// How long the cut took.
    #[must_use]
    pub fn cut_took(&self) -> Duration {
        self.cut_took
    }

    /// The next images; those that writers had to leave come first. Waits for `timeout` at
    /// most; `None` if nothing has come, which means nothing more will come if [`Self::is_walked`].
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

    /// Images whose memory is needed elsewhere.
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

    /// Whether it is known how large databases were at the cut, as it is before anything can be
    /// taken.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.store.walk.counting.is_over()
    }

    /// How much a database held at the cut, once that is counted.
    #[must_use]
    pub fn size_of(&self, database: usize) -> DatabaseSize {
        self.store.outbox.size_of(database)
    }

    /// Whether every table in the store has been walked. What has been sent until then may still
    /// have to be taken.
    #[must_use]
    pub fn is_walked(&self) -> bool {
        self.store.walk.walking.is_over()
    }

    /// Whether walkers had better go on if they have paused.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.store.outbox.held().walked_bytes < WAITING_BYTES / 2
    }

    /// Whether images have grown beyond the limit, so that the snapshot is given up.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.store.outbox.is_aborted()
    }

    /// Gives the snapshot up. The walk goes on to its end, and makes no images.
    pub fn cancel(&mut self) {
        self.store.outbox.abort(Cause::Cancelled);
    }

    /// Ends the save, once everything is walked and taken.
    ///
    /// # Errors
    /// When what was taken is not the snapshot.
    pub fn finish(mut self) -> Result<(), SnapshotError> {
        self.settle();
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

    /// Takes what is left, to no use, until every entry is stamped.
    fn settle(&mut self) {
        const POLL_INTERVAL: Duration = Duration::from_millis(5);
        loop {
            let is_walked = self.is_walked();
            if self.take(if is_walked { Duration::ZERO } else { POLL_INTERVAL }).is_some() {
                // One that was given up already keeps its own reason.
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

    /// Goes on with a detached table; `None` if there was nothing in it.
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
        // A thread that panics may be the one that was to walk.
        if self.receivers.is_some() && !std::thread::panicking() {
            self.cancel();
            self.settle();
        }
    }
}
