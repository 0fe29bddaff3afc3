//! What is found instead of a value, by whatever reads one.

/// Bytes that do not make a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage;
