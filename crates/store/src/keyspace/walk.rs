//! The walk: workers go through the shards, a few entries a hold, and leave images of what
//! belongs to the snapshot.

use crate::keyspace::store::Store;
use crate::snapshot::{FULL_BYTES, HOLD_BYTES, Images};

/// Bytes of images that may wait for the saver before the walk pauses.
pub(super) const WAITING_BYTES: usize = 8 << 20;

/// One worker's part in the walk.
#[derive(Debug, Default)]
pub struct Walker {
    /// The shard that it goes through, if it has taken one.
    shard: Option<usize>,
    images: Option<Images>,
}

/// How the walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkProgress {
    /// There is more to do now.
    More,
    /// The saver has as much as it can take for the moment.
    Full,
    /// There is nothing left to begin.
    Done,
}

impl Store {
    /// Goes on with the walk until `is_over` says that the slice is, the saver has enough, or
    /// nothing is left. To be called by workers that hold no latch.
    pub fn walk(&self, walker: &mut Walker, mut is_over: impl FnMut() -> bool) -> WalkProgress {
        while let Some(number) = self.walk.counting.take(self.shards.len()) {
            self.count_shard(number);
            if is_over() {
                return WalkProgress::More;
            }
        }
        if !self.walk.counting.is_over() {
            // Another worker is in the middle of the last shard.
            return WalkProgress::More;
        }
        loop {
            let aborted = self.outbox.is_aborted();
            if !aborted && self.outbox.held().walked_bytes > WAITING_BYTES {
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

    /// Makes every table of a shard begin its account, unless it was changed since the cut.
    fn count_shard(&self, number: usize) {
        if let Some(latch) = self.shards.get(number) {
            let mut held = latch.lock();
            let barrier = self.word.read();
            held.tables_mut().iter_mut().for_each(|table| table.begin(barrier));
        }
        self.walk.counting.note_done();
    }

    /// One hold of a shard's latch. Returns whether there is more to do in it.
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
        if !fits || images.copied_bytes() + HOLD_BYTES > FULL_BYTES {
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
