//! The keyspace: every database, key and value, and the only ways to change them.
//!
//! The store knows no wire format and no socket. Callers are the workers, each with its own
//! [`Counters`], working through a [`Database`] handle; `types/` holds one file of operations per
//! type of value, each of which takes the latches that it needs, passes the door (`Slot`) for
//! every change, and lets go before it returns.

mod claims;
mod entry;
mod eviction;
mod expiry;
mod index;
mod keyspace;
mod memory;
pub mod snapshot;
mod sync;
#[cfg(test)]
pub(crate) mod tests;
pub mod types;
mod value;

pub use claims::claiming::{Claim, Claiming, Step};
pub use claims::table::{Intent, Wait};
pub use entry::block::EntryView;
pub use entry::interning::Interning;
pub use entry::key::Key;
pub use eviction::access::Tuning;
pub use eviction::ageing::Ageing;
pub use eviction::observer::{Evicted, Hearing};
pub use eviction::policy::Policy;
pub use expiry::active::Expirer;
pub use index::prefetch::Ahead;
pub use keyspace::compaction::Compactor;
pub use keyspace::database::Database;
pub use keyspace::store::{Options, Scope, Store};
pub use memory::accounting;
pub use sync::clock::Clock;
pub use sync::counters::{Counter, Counters, Totals};
pub use sync::quiescence::Batch;
pub use sync::{holds, ticks};
pub use value::number::{parse_i64, parse_u64};
pub use value::rope::{CHUNK_BYTES, Rope, blank_chunk, warm_chunks};
pub use value::string::{Given, Kind, Marks, Value};
