//! Eviction policies, and the access clocks of entries.

pub(crate) mod access;
pub(crate) mod observer;
pub(crate) mod policy;
