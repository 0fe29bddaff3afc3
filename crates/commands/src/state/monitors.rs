//! Clients in MONITOR mode: each has a queue of lines, which its worker sends.
//!
//! No request ever waits for a monitor's socket, and a monitor that does not read is closed.

use crate::state::client::ClientInfo;
use nagi_store::accounting::{self, Charge};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// Maximum length of a monitor's queue, in bytes, beyond which it is closed.
pub(crate) const QUEUE_BYTES: usize = 64 << 20;

/// Clients that monitor the requests of all clients.
#[derive(Debug, Default)]
pub struct Monitors {
    /// Held while a command runs that monitors are shown.
    order: Mutex<()>,
    queues: Mutex<Vec<Queue>>,
}

#[derive(Debug)]
struct Queue {
    client: Arc<ClientInfo>,
    lines: Vec<u8>,
    /// Accounts for the memory of the lines, which is not data.
    charge: Charge,
}

/// The actions that are required after a line was queued.
#[derive(Default)]
pub(crate) struct Queued {
    /// Workers with monitors whose queues were empty: they must send.
    pub(crate) workers: Vec<usize>,
    /// Monitors whose queues had no room: they must be closed.
    pub(crate) full: Vec<Arc<ClientInfo>>,
}

impl Monitors {
    /// Locks the order of commands. A command holds the lock while it runs and is shown, so that
    /// lines are in the order of changes.
    pub(crate) fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock()
    }

    /// Adds a monitor, and calls `first` before another monitor can be added or removed.
    pub(crate) fn add(&self, client: &Arc<ClientInfo>, first: impl FnOnce()) {
        let mut queues = self.queues.lock();
        if !queues.iter().any(|queue| queue.client.id == client.id) {
            let (lines, charge) = (Vec::new(), Charge::default());
            queues.push(Queue { client: Arc::clone(client), lines, charge });
        }
        first();
    }

    /// Removes a monitor. If it was the last one, calls `last` before another monitor can be added.
    pub(crate) fn remove(&self, id: u64, last: impl FnOnce()) {
        let mut queues = self.queues.lock();
        queues.retain(|queue| queue.client.id != id);
        if queues.is_empty() {
            last();
        }
    }

    /// Queues a line for every monitor.
    pub(crate) fn push(&self, line: &str) -> Queued {
        let mut queued = Queued::default();
        for queue in self.queues.lock().iter_mut() {
            if queue.lines.len() + line.len() > QUEUE_BYTES {
                queued.full.push(Arc::clone(&queue.client));
                continue;
            }
            if queue.lines.is_empty() {
                queued.workers.push(queue.client.worker());
            }
            queue.lines.extend_from_slice(line.as_bytes());
            queue.charge.set(accounting::room_bytes::<u8>(queue.lines.capacity()));
        }
        queued.workers.sort_unstable();
        queued.workers.dedup();
        queued
    }

    /// Takes the lines for the monitors of a worker, by their connection slots.
    #[must_use]
    pub fn take(&self, worker: usize) -> Vec<(u64, Vec<u8>)> {
        let mut queues = self.queues.lock();
        let waiting = queues
            .iter_mut()
            .filter(|queue| queue.client.worker() == worker && !queue.lines.is_empty());
        let take = |queue: &mut Queue| {
            queue.charge.set(0);
            (queue.client.connection_token(), std::mem::take(&mut queue.lines))
        };
        waiting.map(take).collect()
    }
}
