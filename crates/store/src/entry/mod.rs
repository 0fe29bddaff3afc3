//! One key with its value and attributes, and its layout in memory.

pub(crate) mod attributes;
pub(crate) mod block;
pub(crate) mod collection;
pub(crate) mod encoding;
pub(crate) mod garbage;
pub(crate) mod identity_hasher;
pub(crate) mod interning;
pub(crate) mod key;
pub(crate) mod long_key;
pub(crate) mod mutable;
pub(crate) mod root;
pub(crate) mod value;
pub(crate) mod view;
