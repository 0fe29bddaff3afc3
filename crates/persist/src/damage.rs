//! The error for a damaged value, with its position.

/// The bytes are not a valid value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage;
