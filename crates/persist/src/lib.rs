//! Persistent encodings of values: Redis' RDB format, in payloads of DUMP and RESTORE, and in files
//! of all keys.
//!
//! The format is documented in Redis' `rdb.h`, which defines the numbers of types, lengths and
//! versions. Long operations work in steps of at most a chunk, so that the caller can interleave
//! other work.

mod checksum;
mod damage;
mod encoding;
pub mod inspect;
mod length;
pub mod lzf;
pub mod payload;
pub mod rdb;
pub mod save;

pub use checksum::Checksum;
pub use damage::Damage;
