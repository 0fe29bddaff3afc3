//! Clients that MONITOR: each has a queue of lines, which its worker sends.
//!
//! No request ever waits for a monitor's socket, and a monitor that does not read is closed.

use crate::state::client::ClientInfo;
use nagi_store::accounting::{self, Charge};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// Lines that wait for a monitor to read them, in bytes, before it is closed.
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
    /// For the memory of these, which is not data.
    charge: Charge,
}

/// What is to be done about a line that was queued.
#[derive(Default)]
pub(crate) struct Queued {
    /// Workers that own monitors whose queues were empty: they are to send.
    pub(crate) workers: Vec<usize>,
    /// Monitors whose queues had no room: they are to be closed.
    pub(crate) full: Vec<Arc<ClientInfo>>,
}

impl Monitors {
    /// What a command is to hold while it runs and is shown, so that lines come in the order of
    /// changes.
    pub(crate) fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock()
    }

    /// Adds a monitor, and calls `first` before another comes or goes.
    pub(crate) fn add(&self, client: &Arc<ClientInfo>, first: impl FnOnce()) {
        let mut queues = self.queues.lock();
        if !queues.iter().any(|queue| queue.client.id == client.id) {
            let (lines, charge) = (Vec::new(), Charge::default());
            queues.push(Queue { client: Arc::clone(client), lines, charge });
        }
        first();
    }

    /// Forgets a monitor, and calls `last` before another comes or goes if it was the last.
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

    /// What the monitors of a worker are to be sent, by their connection slots.
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
