//! All connections, across workers.

use nagi_commands::ClientInfo;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Every connection of the process.
#[derive(Debug)]
pub(crate) struct Registry {
    last_id: AtomicU64,
    clients: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    /// How many connections each worker has or has been assigned.
    loads: Mutex<Box<[usize]>>,
    /// Their sum.
    connections: AtomicUsize,
}

impl Registry {
    pub(crate) fn new(workers: usize) -> Self {
        Registry {
            last_id: AtomicU64::new(0),
            clients: Mutex::default(),
            loads: Mutex::new(vec![0; workers].into()),
            connections: AtomicUsize::new(0),
        }
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// How many connections each worker has or has been assigned.
    pub(crate) fn loads(&self) -> Box<[usize]> {
        self.loads.lock().clone()
    }

    /// Assigns a connection to the worker with the fewest: to `own`, which asks, if it is one of
    /// them. `None` if there are `most` already.
    pub(crate) fn assign(&self, own: usize, most: usize) -> Option<usize> {
        let mut loads = self.loads.lock();
        if self.connections() >= most {
            return None;
        }
        let least = (0..loads.len()).min_by_key(|&worker| (loads.get(worker), worker != own))?;
        *loads.get_mut(least)? += 1;
        self.connections.fetch_add(1, Ordering::Relaxed);
        Some(least)
    }

    /// Takes an assignment or a connection of `worker` back.
    pub(crate) fn release(&self, worker: usize) {
        if let Some(load) = self.loads.lock().get_mut(worker) {
            *load = load.saturating_sub(1);
            self.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A number that no other connection has.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Makes a connection visible.
    pub(crate) fn add(&self, info: &Arc<ClientInfo>) {
        self.clients.lock().insert(info.id, Arc::clone(info));
    }

    /// Makes a connection invisible again.
    pub(crate) fn remove(&self, id: u64) {
        self.clients.lock().remove(&id);
    }

    /// All connections, the oldest first.
    pub(crate) fn clients(&self) -> Vec<Arc<ClientInfo>> {
        self.clients.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_spread_evenly() {
        let registry = Registry::new(3);
        let mut loads = [0; 3];
        for _ in 0..30 {
            loads[registry.assign(1, 31).unwrap()] += 1;
        }
        assert_eq!(loads, [10, 10, 10]);
        assert_eq!(registry.assign(2, 31), Some(2), "the one that asks is preferred");
        assert_eq!(registry.assign(2, 31), None, "there is a bound");
        registry.release(0);
        assert_eq!(registry.assign(2, 31), Some(0));
        assert_eq!(registry.connections(), 31);
    }
}
