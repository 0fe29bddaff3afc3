//! The walk: workers go through the shards, a few entries a hold, and leave images of what
//! belongs to the snapshot.

use super::images::{FULL_BYTES, Images};
use crate::store::Store;
use std::sync::atomic::Ordering;

/// Bytes that are copied at one hold of a latch, but for the last entry.
pub(crate) const HOLD_BYTES: usize = 16 * 1024;
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
pub enum Pace {
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
    pub fn walk(&self, walker: &mut Walker, mut is_over: impl FnMut() -> bool) -> Pace {
        loop {
            let aborted = self.outbox.is_aborted();
            if !aborted && self.outbox.held().walked_bytes > WAITING_BYTES {
                return Pace::Full;
            }
            let Some(number) = walker.shard.or_else(|| self.take_shard()) else {
                return Pace::Done;
            };
            walker.shard = self.walk_shard(number, walker).then_some(number);
            if walker.shard.is_none() {
                self.send(walker);
                self.walk.shards_left.fetch_sub(1, Ordering::AcqRel);
            }
            if is_over() {
                return Pace::More;
            }
        }
    }

    fn take_shard(&self) -> Option<usize> {
        let next = |taken: usize| (taken < self.shards.len()).then(|| taken + 1);
        self.walk.next_shard.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok()
    }

    /// One hold of a shard's latch; whether there is more to do in it.
    fn walk_shard(&self, number: usize, walker: &mut Walker) -> bool {
        let Some(latch) = self.shards.get(number) else { return false };
        let images = walker.images.get_or_insert_with(|| Images::new(0));
        let mut held = latch.lock();
        let door = self.word.read();
        let Some(table) = held.unwalked_table(door) else { return false };
        if images.is_empty() {
            images.set_database(table.ledger().database());
        }
        let fits = images.database() == table.ledger().database();
        if fits {
            table.walk(door, images);
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
