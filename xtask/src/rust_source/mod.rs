//! Rust source as text: its tokens, and what its files import from each other. Enough for rules
//! and counts that need no types, and far faster than a compiler.

pub(crate) mod imports;
pub(crate) mod tokens;
