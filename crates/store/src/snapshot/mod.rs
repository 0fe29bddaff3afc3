//! A snapshot of the whole keyspace as of one moment, taken while all workers go on.
//!
//! ```text
//!  the cut      one atomic addition to the store's word: epoch + 1, a save is active
//!
//!  writers      ..old epoch..|..new epoch: what is about to change an older entry leaves an image
//!                            |  of it first (`SnapshotProgress::hand_over`), and stamps it..
//!  walkers                   |..table by table: an image of every older entry, and a stamp..
//!                            |
//!  saver                     |..takes images, writes them down..| every entry is stamped:
//!                                                               | the save ends
//! ```
//!
//! What an operation does belongs to the snapshot if it read the word before the cut, which it
//! does with all its latches held. An operation in several steps holds claims meanwhile, and the
//! cut waits for a moment when nothing is claimed.
//!
//! A table counts what it still owes the snapshot. If the count of any is not zero when the walk
//! has come through it, the snapshot is worthless, and says so.
//!
//! Only workers walk. The saver takes no latch, so that it may be preempted at any time.

mod images;
pub(crate) mod mutation_barrier;
mod outbox;
mod passes;
mod progress;

pub use images::Images;
pub(crate) use images::{FULL_BYTES, HOLD_BYTES};
pub(crate) use outbox::{Cause, Outbox, Receivers};
pub use outbox::{DatabaseSize, SnapshotMemory};
pub(crate) use passes::Walk;
pub(crate) use progress::{SnapshotProgress, ValueOutcome};
