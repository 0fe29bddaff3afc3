//! The interface through which operations access shards whose latches are held:
//! [`Database`](crate::Database) uses it, and [`Hold`](crate::keyspace::hold::Hold), which is built
//! on databases, implements it.

use crate::effects::record::Recorded;
use crate::entry::garbage::Garbage;
use crate::entry::key::Key;
use crate::keyspace::shard::Shard;
use crate::snapshot::mutation_barrier::MutationBarrier;
use std::fmt;

/// Shards whose latches are held, independent of how long.
pub(crate) trait HeldShards: fmt::Debug {
    /// Calls `work` with the shard of a key, which must be among those that are held, and with the
    /// key in its stored form. `work` must not begin another operation.
    fn with_shard(&self, key: Key<'_>, work: &mut ShardWork<'_>);
}

/// Work on a shard whose latch is held.
pub(crate) type ShardWork<'w> = dyn FnMut(&mut Shard, Key<'_>, MutationBarrier, &mut Gathered) + 'w;

/// Data that operations leave until the latches are released.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) garbage: Garbage,
    /// Their records, in order, if changes are reported.
    pub(crate) records: Vec<Recorded>,
}
