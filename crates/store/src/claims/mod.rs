//! Claims: reservations of the keys of a command that runs for longer than one slice, and the
//! queues of requests that need the same keys meanwhile.
//!
//! A claim holds no latch. It is an entry of a table that every request checks before it runs, if
//! there are any claims. A request that finds its key claimed waits in the queue of the key, and
//! its session is woken when its turn comes.
//!
//! ```text
//!  a long command                         all other requests, at the start of a batch
//!  active + 1                             enters the batch (`quiescence`)
//!  acquires its names, all or none        active = 0: nothing to check
//!  waits for the batches in progress      otherwise: is a name claimed? waits, and is woken
//!  works, slice by slice
//!  releases its names, active - 1
//! ```
//!
//! A claimer holds no claim while it waits, so no two claimers wait for each other. A queue is
//! served in order: a claimer waits for the waiters ahead of it. A claimer that has failed several
//! times takes the ticket, which holds new claimers back until it has acquired all its names. A
//! command on the whole keyspace waits until nothing is claimed, and holds new claimers back as
//! well.
//!
//! Names are hashes of keys, without their database. Two keys with the same hash therefore exclude
//! each other needlessly, which is harmless.

pub(crate) mod announcement;
pub(crate) mod claiming;
#[cfg(all(test, loom))]
pub(crate) mod model;
mod queue;
pub(crate) mod stripe;
pub(crate) mod table;
#[cfg(all(test, not(loom)))]
mod tests;
