//! Keys of any type.

pub(crate) mod key;
pub(crate) mod keyspace;
pub(crate) mod migrate;
pub(crate) mod object;
pub(crate) mod relocation;
pub(crate) mod serialization;
pub(crate) mod sorting;
