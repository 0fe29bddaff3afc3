//! The store as a whole, its shards, and a key's place in one of them.

pub(crate) mod compaction;
pub(crate) mod database;
pub(crate) mod shard;
pub(crate) mod slot;
pub(crate) mod store;
