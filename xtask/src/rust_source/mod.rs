//! Rust source as text: its tokens, and the imports between its files. They suffice for rules and
//! counts that need no types, and are far faster than a compiler.

pub(crate) mod imports;
pub(crate) mod tokens;
