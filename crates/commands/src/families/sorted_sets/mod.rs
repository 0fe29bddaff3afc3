//! Sorted sets.

pub(crate) mod blocking;
mod combination;
pub(crate) mod combine;
pub(crate) mod member;
pub(crate) mod range;
pub(crate) mod removal;
mod span;
pub(crate) mod walk;
