//! RDB files: read and written in one pass and in bounded memory.
//!
//! ```text
//! "REDIS" version:4 digits | "VALKEY" version:3 digits
//! AUX name value ...                                        metadata of the file
//! SELECTDB number  RESIZEDB keys expiring                   for each database
//!   [EXPIRETIME_MS at:8] [IDLE seconds | FREQ counter:1] type:1 key value ...
//! EOF [checksum:8]                                          from version 5 on
//! ```
//!
//! Numbers are lengths ([`crate::length`]) unless a width is given, and then little-endian. The
//! numbers of opcodes and types are those of Redis' and Valkey's `rdb.h`.

mod block;
mod collection;
mod fault;
mod input;
mod kind;
mod loader;
mod note;
mod reader;
mod skip;
mod text;
mod version;
mod writer;

pub use block::{Block, CollectionEntry, Entry, LongEntry};
pub(crate) use collection::{Build, ElementSink, walk_elements};
pub use collection::{
    Builder, Builders, CollectionForm, CollectionHead, CollectionType, Element, ElementText,
    NoCollections, Rejected, StoreBuilder, StoreBuilders,
};
pub use fault::{Fault, Found};
pub(crate) use input::Input;
pub use kind::ValueType;
pub use loader::{
    Batch, LoadOptions, Loaded, LoadedValue, Loading, Progress, Sink, load, load_with_threads,
};
pub use note::Memcached;
pub use reader::{Header, Item, Reader, Record, Text};
pub use skip::Measure;
pub use text::unpack;
pub use version::Version;
pub use writer::{Preamble, Writer, WriterOptions};

/// Precedes a function library, in files and payloads.
pub(crate) const FUNCTION: u8 = 245;

/// Precede items that are not values.
mod opcode {
    pub(super) const SLOT_IMPORT: u8 = 243;
    pub(super) const SLOT_INFO: u8 = 244;
    pub(in crate::rdb) const FUNCTION: u8 = super::FUNCTION;
    pub(super) const FUNCTION_OF_A_PRERELEASE: u8 = 246;
    pub(super) const MODULE_AUX: u8 = 247;
    pub(super) const IDLE: u8 = 248;
    pub(super) const FREQUENCY: u8 = 249;
    pub(super) const AUX: u8 = 250;
    pub(super) const SIZES: u8 = 251;
    pub(super) const EXPIRY_MS: u8 = 252;
    pub(super) const EXPIRY_SECONDS: u8 = 253;
    pub(super) const DATABASE: u8 = 254;
    pub(super) const END: u8 = 255;
}
