//! A snapshot of the whole keyspace at one moment, taken while all workers continue.
//!
//! ```text
//!  the cut      one atomic addition to the store's word: epoch + 1, a save is active
//!
//!  writers      ..old epoch..|..new epoch: before an older entry changes, an image of it is saved
//!                            |  (`SnapshotProgress::hand_over`) and its epoch is updated..
//!  walkers                   |..table by table: the same for all remaining older entries..
//!                            |
//!  saver                     |..takes images and writes them..| every entry has the new epoch:
//!                                                             | the save ends
//! ```
//!
//! The snapshot contains an operation if it read the word before the cut, which it does with all
//! its latches held. An operation in several steps holds claims meanwhile, and the cut waits for a
//! moment when nothing is claimed.
//!
//! A table counts the entries that the snapshot still lacks. If any count is not zero when the walk
//! has finished the table, the snapshot fails and reports the error.
//!
//! Only workers walk. The saver takes no latch, so it may be preempted at any time.

mod images;
pub(crate) mod mutation_barrier;
mod outbox;
mod passes;
mod progress;

pub use images::Images;
pub(crate) use images::{FULL_BYTES, FULL_SHARED_BYTES, HOLD_BYTES};
pub(crate) use outbox::{Cause, Outbox, Receivers};
pub use outbox::{DatabaseSize, SnapshotMemory};
pub(crate) use passes::Walk;
pub(crate) use progress::{SnapshotProgress, ValueOutcome};
