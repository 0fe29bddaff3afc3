//! Connections that move between workers: those about to leave, and those in transit.

use crate::net::driver::Token;
use crate::net::link::Link;
use crate::protocols::session_state::SessionState;
use crate::session::conversation::Session;
use nagi_store::accounting::Overhead;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Instant;

/// Connections in transit, by the workers that will serve them.
pub(crate) struct Handovers(Box<[Mutex<Vec<MovedConnection>>]>);

impl Handovers {
    /// Handovers for this many workers.
    pub(crate) fn new(workers: usize) -> Self {
        Handovers((0..workers).map(|_| Mutex::default()).collect())
    }

    pub(super) fn put(&self, worker: usize, connection: MovedConnection) {
        if let Some(queue) = self.0.get(worker) {
            queue.lock().push(connection);
        }
    }

    /// Takes all connections for a worker.
    pub(super) fn take(&self, worker: usize) -> Vec<MovedConnection> {
        self.0.get(worker).map_or_else(Vec::new, |queue| std::mem::take(&mut *queue.lock()))
    }
}

/// A connection in transit: its session at rest, and the link that the former worker's driver has
/// released.
pub(super) struct MovedConnection {
    pub(super) link: Link,
    pub(super) session: Session,
    /// What the session waits for: bytes, or its next slice.
    pub(super) state: SessionState,
    /// Accounts for the memory of the idle session.
    pub(super) overhead: Overhead,
}

/// A connection that is about to leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) token: Token,
    /// The worker to serve it; `None` for the one with the fewest connections.
    pub(super) to: Option<usize>,
    /// When it was asked to leave.
    pub(super) since: Instant,
}

impl Leaving {
    /// A connection that is asked to leave now.
    pub(super) fn now(token: Token, to: Option<usize>) -> Self {
        Leaving { token, to, since: Instant::now() }
    }
}

/// The number of requests that each connection had sent at some time.
#[derive(Debug, Default)]
pub(super) struct AskedBefore {
    pub(super) at: Option<Instant>,
    pub(super) requests: HashMap<u64, u64>,
}
