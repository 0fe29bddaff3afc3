//! Hashes.

pub(crate) mod expiry;
pub(crate) mod hash;
pub(crate) mod setex;
pub(crate) mod walk;
