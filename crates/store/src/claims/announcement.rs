//! Announced claims. While many claims follow each other, as with scripts, every request always
//! looks up its keys among the claimed names, so that a claim needs no heavy barrier.
//!
//! ```text
//! the announcing thread          a claimer                          a request
//! active + ANNOUNCED                                                enters a batch
//! heavy barrier, grace period                                       active = 0: runs
//! active + SEEN
//!                                active + 1, finds SEEN             enters a batch
//!                                takes its names                    active > 0: fence
//!                                fence                              looks for its names
//!                                waits out the batches under way
//! ```
//!
//! `active` is above 0 from the announcement to the end of the claim, so every batch that begins
//! after the grace period passes the fence. Of the two fences one comes first: either the request
//! sees the names, or the claimer sees the batch and waits for it. Claims on the whole keyspace are
//! rare, and pass the heavy barrier.

use crate::claims::table::{ANNOUNCED, Claims, SEEN};
use crate::sync::primitives::atomic::Ordering;
use crate::sync::primitives::thread;
use crate::sync::quiescence::Quiescence;
use std::sync::Arc;

/// Claims are announced while this value lives.
#[derive(Debug)]
pub struct Announcement(Arc<Claims>);

impl Announcement {
    /// Announces claims, and waits for the end of every batch that may not have seen the
    /// announcement. There may be only one announcement at a time, and the caller must not be in a
    /// batch.
    pub(crate) fn new(claims: &Arc<Claims>, quiescence: &Quiescence) -> Self {
        claims.active.fetch_or(ANNOUNCED, Ordering::SeqCst);
        let announcement = Announcement(Arc::clone(claims));
        let mut grace = quiescence.grace(None);
        while !quiescence.is_over(&mut grace) {
            thread::yield_now();
        }
        claims.active.fetch_or(SEEN, Ordering::SeqCst);
        announcement
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        self.0.active.fetch_and(!(ANNOUNCED | SEEN), Ordering::SeqCst);
    }
}
