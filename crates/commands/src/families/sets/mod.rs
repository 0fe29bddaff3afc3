//! The commands of sets: on members, on sets as a whole, and on combinations of sets.

pub(crate) mod combination;
pub(crate) mod combine;
pub(crate) mod set;
pub(crate) mod walk;
