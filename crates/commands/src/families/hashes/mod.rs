//! Hashes.

pub(crate) mod hash;
pub(crate) mod walk;
