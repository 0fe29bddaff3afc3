//! Memory management: pages, arenas and chunks from the kernel, and accounting.

pub mod accounting;
pub(crate) mod arenas;
pub(crate) mod idle;
pub(crate) mod mapped;
pub(crate) mod pages;
pub(crate) mod preparer;
pub(crate) mod reclaim;
pub(crate) mod region;
pub(crate) mod slab;
