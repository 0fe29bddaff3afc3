//! The error for a damaged value, with its position.

/// Bytes that do not make a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage;
