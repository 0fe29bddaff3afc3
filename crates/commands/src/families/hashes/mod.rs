//! The commands of hashes: on fields, on fields that expire, and on hashes as a whole.

pub(crate) mod expiry;
pub(crate) mod hash;
pub(crate) mod setex;
pub(crate) mod walk;
