//! The store as a whole, its shards, and the location of keys in them.

pub(crate) mod ageing;
pub(crate) mod apply;
pub(crate) mod compaction;
pub(crate) mod database;
pub(crate) mod detached_tables;
pub(crate) mod eviction;
pub(crate) mod expiry;
pub(crate) mod held_shards;
pub(crate) mod hold;
pub(crate) mod prefetch;
pub(crate) mod shard;
pub(crate) mod slot;
pub(crate) mod snapshot;
pub(crate) mod store;
pub(crate) mod transfer;
pub(crate) mod walk;
