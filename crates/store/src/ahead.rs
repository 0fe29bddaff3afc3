//! Looking ahead: the memory that a batch's keys will need is asked for before its first request
//! waits for any. Nothing here takes a latch (`directory.rs` says why that is sound), and nothing
//! that is found here is relied on.

use crate::key::Key;
use crate::placement::fingerprint;
use crate::segment::Bucket;
use crate::store::Store;
use std::marker::PhantomData;

/// A key's bucket, which has been asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ahead<'a> {
    bucket: Bucket,
    /// The bucket's memory is a bucket's while the store lives.
    store: PhantomData<&'a Store>,
}

impl Store {
    /// Asks the processor for the bucket in which `key` will be looked for. Of a small database
    /// there is nothing to ask for.
    #[must_use]
    #[inline]
    pub fn prefetch(&self, database: usize, key: Key<'_>) -> Option<Ahead<'_>> {
        let shard = self.shard_of(key);
        self.shards.get(shard)?.prefetch();
        let position = self.placement.ranges().get(shard)?.position(key.hash);
        let bucket = self.directories.peek(database, shard, position)?.bucket(position)?;
        bucket.prefetch();
        Some(Ahead { bucket, store: PhantomData })
    }
}

impl Ahead<'_> {
    /// So many requests before a key's own its entry is to be asked for: late enough for its bucket
    /// to have arrived, early enough for the entry, and never more at once than a processor can
    /// wait for.
    pub const REQUESTS: usize = 8;

    /// Asks the processor for the entry of the same `key`, now that the bucket has arrived.
    #[inline]
    pub fn prefetch_entry(self, key: Key<'_>) {
        self.bucket.prefetch_entry(fingerprint(key.hash));
    }
}
