//! Connections between workers: those that are to leave, and those on their way.

use crate::net::driver::Token;
use crate::net::link::Link;
use crate::protocols::session_state::SessionState;
use crate::session::conversation::Session;
use nagi_store::accounting::Overhead;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Instant;

/// Connections on their way, by the workers that are to serve them.
pub(crate) struct Handovers(Box<[Mutex<Vec<MovedConnection>>]>);

impl Handovers {
    /// For so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        Handovers((0..workers).map(|_| Mutex::default()).collect())
    }

    pub(super) fn put(&self, worker: usize, connection: MovedConnection) {
        if let Some(queue) = self.0.get(worker) {
            queue.lock().push(connection);
        }
    }

    /// All that are to be served by a worker from now on.
    pub(super) fn take(&self, worker: usize) -> Vec<MovedConnection> {
        self.0.get(worker).map_or_else(Vec::new, |queue| std::mem::take(&mut *queue.lock()))
    }
}

/// A connection on its way: its session at rest, and the link, of which the former worker's
/// driver wants nothing more.
pub(super) struct MovedConnection {
    pub(super) link: Link,
    pub(super) session: Session,
    /// What the session waits for: bytes, or its next slice.
    pub(super) state: SessionState,
    /// For what the session takes while the client asks for nothing.
    pub(super) overhead: Overhead,
}

/// A connection that is to leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) token: Token,
    /// The worker that is to serve it; none for the one with the fewest connections.
    pub(super) to: Option<usize>,
    /// In how many ticks it could not.
    pub(super) ticks: u32,
}

/// How many requests each connection had sent at a time.
#[derive(Debug, Default)]
pub(super) struct AskedBefore {
    pub(super) at: Option<Instant>,
    pub(super) requests: HashMap<u64, u64>,
}
