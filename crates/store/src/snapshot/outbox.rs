//! The queues from the store to the saver, which writes the snapshot.

use crate::snapshot::images::Images;
use crate::sync::steps::{self, Step};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Queues and counters between the workers and the saver. Sending never blocks: a worker that holds
/// a latch must not wait for a thread that may be preempted.
#[derive(Debug)]
pub(crate) struct Outbox {
    pre_images: Sender<Images>,
    walked: Sender<Images>,
    /// Moved to the saver for the duration of a save.
    receivers: Mutex<Option<Receivers>>,
    /// The reason why the snapshot was aborted, as one of [`Cause`]; 0 if it was not.
    cause: AtomicU8,
    /// How often a table counted more or fewer entries than it had.
    miscounts: AtomicU64,
    pre_image_limit_bytes: AtomicUsize,
    pre_image_bytes: AtomicUsize,
    uncounted_bytes: AtomicUsize,
    pre_image_peak_bytes: AtomicUsize,
    pre_images_total: AtomicU64,
    walked_bytes: AtomicUsize,
    walked_shared_bytes: AtomicUsize,
    /// The size of each database at the cut, as far as its tables have been counted.
    sizes: Box<[Sizes]>,
}

/// The atomic counters of a [`DatabaseSize`].
#[derive(Debug, Default)]
struct Sizes {
    keys: AtomicUsize,
    volatile: AtomicUsize,
    with_expiring_fields: AtomicUsize,
}

/// The size of a table, or a database, at the cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatabaseSize {
    /// The number of keys.
    pub keys: u64,
    /// The number of keys with an expiry.
    pub volatile: u64,
    /// The number of hashes with fields that expire.
    pub with_expiring_fields: u64,
}

/// Why a snapshot was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cause {
    Cancelled = 1,
    PreImageLimit,
    Stuck,
}

impl Cause {
    const ALL: [Cause; 3] = [Cause::Cancelled, Cause::PreImageLimit, Cause::Stuck];
}

/// The receivers of the saver.
#[derive(Debug)]
pub(crate) struct Receivers {
    pub(crate) pre_images: Receiver<Images>,
    pub(crate) walked: Receiver<Images>,
}

/// The memory used by a snapshot in addition to the data.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotMemory {
    /// Images of entries that were changed.
    pub pre_image_bytes: usize,
    /// Those of them that are not counted as data.
    pub(crate) uncounted_bytes: usize,
    /// The maximum of these bytes during the active or last save.
    pub pre_image_peak_bytes: usize,
    /// The number of these images during that save.
    pub pre_images: u64,
    /// Images of the walk that the saver has not written yet.
    pub walked_bytes: usize,
    /// The values that these share with the store.
    pub(crate) walked_shared_bytes: usize,
}

impl SnapshotMemory {
    /// The images of the walk that wait for the saver, with the values that they share.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.walked_bytes + self.walked_shared_bytes
    }
}

impl Outbox {
    pub(crate) fn new(databases: usize) -> Self {
        let (pre_images, from_writers) = channel();
        let (walked, from_walk) = channel();
        let receivers = Receivers { pre_images: from_writers, walked: from_walk };
        Outbox {
            pre_images,
            walked,
            receivers: Mutex::new(Some(receivers)),
            cause: AtomicU8::default(),
            miscounts: AtomicU64::default(),
            pre_image_limit_bytes: AtomicUsize::new(usize::MAX),
            pre_image_bytes: AtomicUsize::default(),
            uncounted_bytes: AtomicUsize::default(),
            pre_image_peak_bytes: AtomicUsize::default(),
            pre_images_total: AtomicU64::default(),
            walked_bytes: AtomicUsize::default(),
            walked_shared_bytes: AtomicUsize::default(),
            sizes: (0..databases).map(|_| Default::default()).collect(),
        }
    }

    /// Returns the receivers, unless a save has them, and resets all counters.
    pub(crate) fn open(&self, pre_image_limit_bytes: usize) -> Option<Receivers> {
        let receivers = self.receivers.lock().take()?;
        self.cause.store(0, Ordering::Relaxed);
        self.miscounts.store(0, Ordering::Relaxed);
        self.pre_image_limit_bytes.store(pre_image_limit_bytes, Ordering::Relaxed);
        self.pre_image_peak_bytes.store(0, Ordering::Relaxed);
        self.pre_images_total.store(0, Ordering::Relaxed);
        for Sizes { keys, volatile, with_expiring_fields } in &self.sizes {
            for count in [keys, volatile, with_expiring_fields] {
                count.store(0, Ordering::Relaxed);
            }
        }
        Some(receivers)
    }

    pub(crate) fn close(&self, receivers: Receivers) {
        *self.receivers.lock() = Some(receivers);
    }

    /// Aborts the snapshot. Only the first cause is recorded.
    pub(crate) fn abort(&self, cause: Cause) {
        let (none, cause) = (0, cause as u8);
        // A later cause is ignored.
        let _ = self.cause.compare_exchange(none, cause, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn is_aborted(&self) -> bool {
        self.cause.load(Ordering::Relaxed) != 0
    }

    /// Returns why the snapshot was aborted, if it was.
    pub(crate) fn cause(&self) -> Option<Cause> {
        let cause = self.cause.load(Ordering::Relaxed);
        Cause::ALL.into_iter().find(|known| *known as u8 == cause)
    }

    /// Returns how much of the memory limit images use, in thousandths.
    pub(crate) fn pressure(&self) -> usize {
        if self.is_aborted() {
            return 0;
        }
        let limit = self.pre_image_limit_bytes.load(Ordering::Relaxed);
        self.pre_image_bytes.load(Ordering::Relaxed) / (limit / 1000).max(1)
    }

    /// Adds the size of a table at the cut.
    pub(crate) fn add_size(&self, database: usize, size: DatabaseSize) {
        if let Some(sizes) = self.sizes.get(database) {
            let add = |count: &AtomicUsize, more: u64| {
                count.fetch_add(more as usize, Ordering::Relaxed);
            };
            add(&sizes.keys, size.keys);
            add(&sizes.volatile, size.volatile);
            add(&sizes.with_expiring_fields, size.with_expiring_fields);
        }
    }

    pub(crate) fn size_of(&self, database: usize) -> DatabaseSize {
        let Some(sizes) = self.sizes.get(database) else { return DatabaseSize::default() };
        let read = |number: &AtomicUsize| number.load(Ordering::Relaxed) as u64;
        DatabaseSize {
            keys: read(&sizes.keys),
            volatile: read(&sizes.volatile),
            with_expiring_fields: read(&sizes.with_expiring_fields),
        }
    }

    pub(crate) fn note_miscount(&self) {
        self.miscounts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn miscounts(&self) -> u64 {
        self.miscounts.load(Ordering::Relaxed)
    }

    /// Counts an image of a changed entry, `uncounted` bytes of which are not counted as data.
    /// Beyond the limit, the save is aborted.
    pub(crate) fn add_pre_image(&self, bytes: usize, uncounted: usize) {
        self.uncounted_bytes.fetch_add(uncounted, Ordering::Relaxed);
        let now = self.pre_image_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.pre_image_peak_bytes.fetch_max(now, Ordering::Relaxed);
        self.pre_images_total.fetch_add(1, Ordering::Relaxed);
        if now > self.pre_image_limit_bytes.load(Ordering::Relaxed) {
            self.abort(Cause::PreImageLimit);
        }
    }

    /// Either `self` or the saver has the receiver, so all images that are sent are received.
    pub(crate) fn send_pre_images(&self, images: Images) {
        drop(self.pre_images.send(images));
        steps::reach(Step::Sent);
    }

    pub(crate) fn forget_pre_images(&self, images: &Images) {
        self.pre_image_bytes.fetch_sub(images.bytes(), Ordering::Relaxed);
        self.uncounted_bytes.fetch_sub(images.uncounted_bytes(), Ordering::Relaxed);
    }

    pub(crate) fn send_walked(&self, images: Images) {
        self.walked_bytes.fetch_add(images.bytes(), Ordering::Relaxed);
        self.walked_shared_bytes.fetch_add(images.shared_bytes(), Ordering::Relaxed);
        drop(self.walked.send(images));
        steps::reach(Step::Sent);
    }

    pub(crate) fn forget_walked(&self, images: &Images) {
        self.walked_bytes.fetch_sub(images.bytes(), Ordering::Relaxed);
        self.walked_shared_bytes.fetch_sub(images.shared_bytes(), Ordering::Relaxed);
    }

    pub(crate) fn held(&self) -> SnapshotMemory {
        SnapshotMemory {
            pre_image_bytes: self.pre_image_bytes.load(Ordering::Relaxed),
            uncounted_bytes: self.uncounted_bytes.load(Ordering::Relaxed),
            pre_image_peak_bytes: self.pre_image_peak_bytes.load(Ordering::Relaxed),
            pre_images: self.pre_images_total.load(Ordering::Relaxed),
            walked_bytes: self.walked_bytes.load(Ordering::Relaxed),
            walked_shared_bytes: self.walked_shared_bytes.load(Ordering::Relaxed),
        }
    }
}
