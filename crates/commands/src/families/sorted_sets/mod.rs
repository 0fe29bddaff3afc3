//! The commands of sorted sets: on members, on ranges of them, and on combinations of sorted sets.

pub(crate) mod blocking;
mod combination;
pub(crate) mod combine;
pub(crate) mod member;
pub(crate) mod range;
pub(crate) mod removal;
mod span;
pub(crate) mod walk;
