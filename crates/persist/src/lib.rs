//! Values as bytes that outlive the process: Redis' RDB format, in its payloads for DUMP and
//! RESTORE, and in files of all keys.
//!
//! The format is the one that Redis writes and documents in `rdb.h`; numbers of types, lengths and
//! versions are its. Long operations work in steps of at most a chunk, so that a caller can do
//! something else in between.

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
