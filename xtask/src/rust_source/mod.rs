//! Rust source as text: its tokens, and the imports between its files. This is enough for rules and
//! counts that need no types, and far faster than a compiler.

pub(crate) mod imports;
pub(crate) mod tokens;
