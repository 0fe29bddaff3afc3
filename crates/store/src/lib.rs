//! The keyspace: all databases, keys and values, and the only operations that change them.
//!
//! The store is independent of wire formats and sockets. Workers use it, each with its own
//! [`Counters`], through a [`Database`] handle. `types/` has one file of operations per type of
//! value; each operation takes the latches that it needs, passes the mutation barrier (`Slot`) for
//! every change, and releases the latches before it returns.
//!
//! A module uses only those below it, and so does each file within one:
//!
//! ```text
//!  types         operations on values, by type
//!  keyspace      Store, Shard, Slot, Database; operations on all shards: eviction, expiry, ageing,
//!                compaction, the walk of a snapshot
//!  effects       changes by operations, reported to a listener
//!  claims        keys that a command reserves for longer than a latch is held
//!  index         the hash table: tables, directories, segments, buckets
//!  snapshot      images of entries that are about to change
//!  eviction      access clocks of entries, and the choice of victims
//!  entry         one key with its value and attributes
//!  collections   hashes, lists, sets, sorted sets and streams
//!  packed, tree  the two forms of collections: small and large
//!  value         strings and ropes
//!  memory        pages, arenas and chunks; accounting; the reclaimer
//!  sync          latches, fences, clocks, counters
//! ```

/// Makes this crate available as `nagi_store` to tests that are shared with other crates.
#[cfg(test)]
extern crate self as nagi_store;

mod claims;
mod collections;
mod effects;
mod entry;
mod eviction;
mod index;
mod keyspace;
mod memory;
#[cfg(all(test, loom))]
mod models;
mod packed;
mod siphash;
mod snapshot;
mod sync;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
pub mod types;
mod value;

pub use claims::announcement::Announcement;
pub use claims::claiming::{Claim, ClaimProgress, Claiming, Growing, Growth};
pub use claims::stripe::Intent;
pub use claims::table::Wait;
pub use collections::hash::{Field, FieldExpiry, HashLimits, HashRef};
pub use collections::list::{ListLimit, ListRef};
pub use collections::set::{SetLimits, SetRef};
pub use collections::sorted_range::{MemberBound, ScoreBound};
pub use collections::sorted_set::{Member, SortedSetLimits, SortedSetRef, SortedSetScan};
pub use collections::stream::node::{Fields, NewEntry, StreamEntry, StreamLimits};
pub use collections::stream::{
    AddRefusal, Id as StreamId, Keep, NewId, Selection, Stream, StreamBuilder, StreamPart, Trim,
};
pub use effects::change::{Effect, EntryEffect, KeyChange, KeyEffect, StoreChange};
pub use effects::event::Event;
pub use effects::hook::{ChangeListener, MissInterest};
pub use entry::attributes::{Attributes, Marks};
pub use entry::identity_hasher::IdentityHasher;
pub use entry::interning::Interning;
pub use entry::key::Key;
pub use entry::value::{Kind, SharedValue, Value, WrongType};
pub use entry::view::EntryView;
pub use eviction::access::Tuning;
pub use eviction::observer::{Evicted, EvictionObserver};
pub use eviction::policy::Policy;
pub use keyspace::ageing::Ageing;
pub use keyspace::compaction::Compactor;
pub use keyspace::database::Database;
pub use keyspace::expiry::Expirer;
pub use keyspace::prefetch::Prefetch;
pub use keyspace::snapshot::{CutError, Snapshot, SnapshotError};
pub use keyspace::store::{Scope, Store, StoreOptions};
pub use keyspace::walk::{WalkProgress, Walker};
pub use memory::accounting;
pub use memory::reclaim::free_elsewhere;
pub use nagi_chunk::CHUNK_BYTES;
pub use snapshot::{DatabaseSize, Images, SnapshotMemory};
pub use sync::clock::{Clock, since_1970};
pub use sync::counters::{Counter, Counters, Totals};
pub use sync::quiescence::Batch;
pub use sync::{cpu_time, holds, pace, primitives, ticks};
pub use tree::root::Side;
pub use value::item::{OwnedText, Text};
pub use value::number::{parse_i64, parse_u64};
pub use value::rope::Rope;
pub use value::string::{StringInput, StringValue};
