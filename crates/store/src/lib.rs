//! The keyspace: every database, key and value, and the only ways to change them.
//!
//! The store knows no wire format and no socket. Callers are the workers, each with its own
//! [`Counters`], working through a [`Database`] handle; `types/` holds one file of operations per
//! type of value, each of which takes the latches that it needs, passes the door (`Slot`) for
//! every change, and lets go before it returns.

mod access;
mod ageing;
mod ahead;
mod arenas;
mod barrier;
mod chunks;
mod claims;
mod clock;
mod compaction;
mod counters;
mod database;
mod directory;
mod door;
mod entry;
mod evict;
mod evicted;
mod expire;
mod futex;
pub mod holds;
mod idle;
mod key;
mod lanes;
mod latch;
mod line;
mod long_key;
mod mapped;
pub mod memory;
mod number;
mod overflow;
mod pages;
mod placement;
mod preparer;
mod quiescence;
mod reclaim;
mod region;
mod rope;
mod segment;
mod shard;
mod shared_thread;
mod siphash;
mod slab;
mod slot;
pub mod snapshot;
mod steps;
mod store;
mod table;
#[cfg(test)]
mod tests;
pub mod ticks;
pub mod types;
mod value;

pub use access::Tuning;
pub use ageing::Ageing;
pub use ahead::Ahead;
pub use claims::{Claim, Claiming, Intent, Step, Wait};
pub use clock::Clock;
pub use compaction::Compactor;
pub use counters::{Counter, Counters, Totals};
pub use database::Database;
pub use entry::EntryView;
pub use evict::Policy;
pub use evicted::{Evicted, Hearing};
pub use expire::Expirer;
pub use key::Key;
pub use long_key::Interning;
pub use number::{parse_i64, parse_u64};
pub use quiescence::Batch;
pub use rope::{CHUNK_BYTES, Rope, blank_chunk, warm_chunks};
pub use store::{Options, Scope, Store};
pub use value::{Given, Kind, Marks, Value};
