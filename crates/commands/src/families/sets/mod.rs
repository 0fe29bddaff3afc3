//! Sets.

pub(crate) mod combination;
pub(crate) mod combine;
pub(crate) mod set;
pub(crate) mod walk;
