//! The walk: workers iterate over the shards, a few entries per hold, and copy the entries that
//! belong to the snapshot.

use crate::keyspace::store::Store;
use crate::snapshot::{FULL_BYTES, FULL_SHARED_BYTES, HOLD_BYTES, Images};

/// The bytes of images waiting for the saver at which the walk pauses, with the values that they
/// share: these are not freed when they are evicted or removed, so there must not be many.
pub(super) const WAITING_BYTES: usize = 8 << 20;

/// One worker's part in the walk.
#[derive(Debug, Default)]
pub struct Walker {
    /// The worker's current shard, if any.
    shard: Option<usize>,
    images: Option<Images>,
}

/// The state of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkProgress {
    /// There is more to do now.
    More,
    /// The saver cannot take more images at the moment.
    Full,
    /// No shard is left to begin with.
    Done,
}

impl Store {
    /// Continues the walk until `is_over` reports the end of the slice, enough images are waiting,
    /// or nothing is left. Called by workers that hold no latch.
    pub fn walk(&self, walker: &mut Walker, mut is_over: impl FnMut() -> bool) -> WalkProgress {
        while let Some(number) = self.walk.counting.take(self.shards.len()) {
            self.count_shard(number);
            if is_over() {
                return WalkProgress::More;
            }
        }
        if !self.walk.counting.is_over() {
            // Another worker is still counting the last shard.
            return WalkProgress::More;
        }
        loop {
            let aborted = self.outbox.is_aborted();
            if !aborted && self.outbox.held().waiting_bytes() > WAITING_BYTES {
                return WalkProgress::Full;
            }
            let taken = walker.shard.or_else(|| self.walk.walking.take(self.shards.len()));
            let Some(number) = taken else {
                return WalkProgress::Done;
            };
            walker.shard = self.walk_shard(number, walker).then_some(number);
            if walker.shard.is_none() {
                self.send(walker);
                self.walk.walking.note_done();
            }
            if is_over() {
                return WalkProgress::More;
            }
        }
    }

    /// Counts the entries of every table of a shard, unless it has been changed since the cut and
    /// counted then.
    fn count_shard(&self, number: usize) {
        if let Some(latch) = self.shards.get(number) {
            let mut held = latch.lock();
            let barrier = self.word.read();
            held.tables_mut().iter_mut().for_each(|table| table.begin(barrier));
        }
        self.walk.counting.note_done();
    }

    /// Walks a shard for one hold of its latch. Returns whether there is more to do in it.
    fn walk_shard(&self, number: usize, walker: &mut Walker) -> bool {
        let Some(latch) = self.shards.get(number) else { return false };
        let images = walker.images.get_or_insert_with(|| Images::new(0, FULL_BYTES));
        let mut held = latch.lock();
        let barrier = self.word.read();
        let Some(table) = held.unwalked_table(barrier) else { return false };
        if images.is_empty() {
            images.set_database(table.progress().database());
        }
        let fits = images.database() == table.progress().database();
        if fits {
            table.walk(barrier, images);
        }
        drop(held);
        let is_full = images.copied_bytes() + HOLD_BYTES > FULL_BYTES
            || images.shared_bytes() >= FULL_SHARED_BYTES;
        if !fits || is_full {
            self.send(walker);
        }
        true
    }

    fn send(&self, walker: &mut Walker) {
        if let Some(images) = walker.images.take_if(|images| !images.is_empty()) {
            self.outbox.send_walked(images);
        }
    }
}
