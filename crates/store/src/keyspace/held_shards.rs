//! What an operation sees of latches that are held: [`Database`](crate::Database) finds a shard
//! here, and [`Hold`](crate::keyspace::hold::Hold), which is made of databases, provides it.

use crate::effects::record::Recorded;
use crate::entry::garbage::Garbage;
use crate::entry::key::Key;
use crate::keyspace::shard::Shard;
use crate::snapshot::mutation_barrier::MutationBarrier;
use std::fmt;

/// Shards that are held, for operations that do not know for how long.
pub(crate) trait HeldShards: fmt::Debug {
    /// Calls `work` with the shard of a key, which must be among those that are held, and the key
    /// as it is kept there. No operation may begin within `work`.
    fn with_shard(&self, key: Key<'_>, work: &mut ShardWork<'_>);
}

/// What is done with a shard that is held.
pub(crate) type ShardWork<'w> = dyn FnMut(&mut Shard, Key<'_>, MutationBarrier, &mut Gathered) + 'w;

/// What operations leave behind until the latches are released.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) garbage: Garbage,
    /// What they did, in order, if changes are reported.
    pub(crate) records: Vec<Recorded>,
}
