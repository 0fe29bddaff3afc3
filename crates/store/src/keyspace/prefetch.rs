//! Prefetching: the memory that a batch's keys will need is requested before its first request
//! waits for any. Nothing here takes a latch (`directory.rs` says why that is sound), and nothing
//! that is found here is relied on.

use crate::entry::key::Key;
use crate::index::placement::fingerprint;
use crate::index::segment::Bucket;
use crate::keyspace::shard::Shard;
use crate::keyspace::store::Store;
use crate::sync::latch::Latch;

/// A key's bucket, which has been asked for, and its latch, which has not: what is to be written is
/// asked for shortly before, or other workers have it again when its turn comes.
#[derive(Clone, Copy, Debug)]
pub struct Prefetch<'a> {
    bucket: Bucket,
    latch: &'a Latch<Shard>,
}

impl Store {
    /// Asks the processor for the bucket in which `key` will be looked for. Of a small database
    /// there is nothing to ask for.
    #[must_use]
    #[inline]
    pub fn prefetch(&self, database: usize, key: Key<'_>) -> Option<Prefetch<'_>> {
        let shard = self.shard_of(key);
        let latch = self.shards.get(shard)?;
        let position = self.placement.ranges().get(shard)?.position(key.hash);
        let bucket = self.directories.peek(database, shard, position)?.bucket(position)?;
        bucket.prefetch();
        Some(Prefetch { bucket, latch })
    }
}

impl Prefetch<'_> {
    /// So many requests before a key's own its entry is to be asked for: late enough for its bucket
    /// to have arrived, early enough for the entry, and never more at once than a processor can
    /// wait for.
    pub const REQUESTS: usize = 4;

    /// Asks the processor for the latch and the entry of the same `key`, now that the bucket has
    /// arrived.
    #[inline]
    pub fn prefetch_entry(self, key: Key<'_>) {
        self.latch.prefetch();
        self.bucket.prefetch_entry(fingerprint(key.hash));
    }
}
