//! The hash table: directories, segments and buckets.

pub(crate) mod bucket_search;
pub(crate) mod directory;
pub(crate) mod expiring_hashes;
pub(crate) mod overflow;
pub(crate) mod placement;
pub(crate) mod segment;
pub(crate) mod sweep;
pub(crate) mod table;
pub(crate) mod word;
