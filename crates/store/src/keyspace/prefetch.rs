//! Prefetching: requests the memory for the keys of a batch before its first request is executed.
//! This takes no latch (`directory.rs` explains why that is sound), and nothing relies on the
//! result.

use crate::entry::key::Key;
use crate::index::placement::fingerprint;
use crate::index::segment::Bucket;
use crate::keyspace::shard::Shard;
use crate::keyspace::store::Store;
use crate::sync::latch::Latch;

/// A key's bucket, which has been prefetched, and its latch, which has not: memory that will be
/// written is prefetched shortly before its use, because other workers could otherwise take the
/// line in between.
#[derive(Clone, Copy, Debug)]
pub struct Prefetch<'a> {
    bucket: Bucket,
    latch: &'a Latch<Shard>,
}

impl Store {
    /// Prefetches the bucket in which `key` will be looked up. Returns `None` for small databases,
    /// which need no prefetching.
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
    /// How many requests ahead of its own a key's entry should be prefetched: late enough for the
    /// bucket to have arrived, early enough for the entry, and within the number of outstanding
    /// misses that a processor supports.
    pub const REQUESTS: usize = 4;

    /// Prefetches the latch and the entry of the same `key`, once the bucket has arrived.
    #[inline]
    pub fn prefetch_entry(self, key: Key<'_>) {
        self.latch.prefetch();
        self.bucket.prefetch_entry(fingerprint(key.hash));
    }
}
