//! What goes when memory has run out, and what entries know of their use.

pub(crate) mod access;
pub(crate) mod observer;
pub(crate) mod policy;
