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
    /// The sum of `loads`.
    connections: AtomicUsize,
    /// The number of workers, the first ones, that take connections.
    active: AtomicUsize,
}

impl Registry {
    pub(crate) fn new(workers: usize) -> Self {
        Registry {
            last_id: AtomicU64::new(0),
            clients: Mutex::default(),
            loads: Mutex::new(vec![0; workers].into()),
            connections: AtomicUsize::new(0),
            active: AtomicUsize::new(workers),
        }
    }

    /// The number of connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The number of workers, the first ones, that take connections.
    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Sets the number of workers that take connections, at least one.
    pub(crate) fn activate(&self, workers: usize) {
        let most = self.loads.lock().len();
        self.active.store(workers.clamp(1, most.max(1)), Ordering::Relaxed);
    }

    /// How many connections each worker has or has been assigned.
    pub(crate) fn loads(&self) -> Box<[usize]> {
        self.loads.lock().clone()
    }

    /// Assigns a connection to the active worker with the fewest connections; of several,
    /// preferably to the calling worker `own`. `None` if there are already `most` connections.
    pub(crate) fn assign(&self, own: usize, most: usize) -> Option<usize> {
        let mut loads = self.loads.lock();
        if self.connections() >= most {
            return None;
        }
        let active = self.active().min(loads.len());
        let least = (0..active).min_by_key(|&worker| (loads.get(worker), worker != own))?;
        *loads.get_mut(least)? += 1;
        self.connections.fetch_add(1, Ordering::Relaxed);
        Some(least)
    }

    /// Assigns a connection of worker `from` to `to`, or else to the active worker with the fewest
    /// connections. Returns that worker's number; `None` if there is no other worker.
    pub(crate) fn reassign(&self, from: usize, to: Option<usize>) -> Option<usize> {
        let mut loads = self.loads.lock();
        let active = self.active().min(loads.len());
        let least = || (0..active).filter(|it| *it != from).min_by_key(|it| loads.get(*it));
        let to = to.or_else(least).filter(|to| *to != from)?;
        *loads.get_mut(to)? += 1;
        if let Some(load) = loads.get_mut(from) {
            *load = load.saturating_sub(1);
        }
        Some(to)
    }

    /// How many connections an active worker has beyond its share.
    pub(crate) fn surplus(&self, worker: usize) -> usize {
        let loads = self.loads.lock();
        let active = self.active().min(loads.len());
        let sum: usize = loads.iter().sum();
        let own = loads.get(worker).filter(|_| worker < active).copied().unwrap_or(0);
        own.saturating_sub(sum.div_ceil(active.max(1)))
    }

    /// Adds a connection to `worker` that is not assigned by [`Self::assign`].
    pub(crate) fn add_connection(&self, worker: usize) {
        if let Some(load) = self.loads.lock().get_mut(worker) {
            *load += 1;
            self.connections.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes an assignment or a connection of `worker`.
    pub(crate) fn release(&self, worker: usize) {
        if let Some(load) = self.loads.lock().get_mut(worker) {
            *load = load.saturating_sub(1);
            self.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A unique connection ID.
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

    /// The connection with this number.
    pub(crate) fn client(&self, id: u64) -> Option<Arc<ClientInfo>> {
        self.clients.lock().get(&id).cloned()
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

    #[test]
    fn only_active_workers_are_assigned_connections() {
        let registry = Registry::new(3);
        registry.activate(0);
        assert_eq!(registry.active(), 1, "there is always one");
        registry.activate(2);
        let assigned: Vec<_> = (0..4).filter_map(|_| registry.assign(2, 10)).collect();
        assert_eq!(assigned, [0, 1, 0, 1]);
        assert_eq!(registry.reassign(2, Some(0)), Some(0));
        assert_eq!(registry.reassign(0, None), Some(1));
        assert_eq!(registry.reassign(0, Some(0)), None, "it is there already");
        assert_eq!(*registry.loads(), [2, 3, 0]);
        assert_eq!([registry.surplus(0), registry.surplus(1), registry.surplus(2)], [0, 0, 0]);
        assert_eq!(registry.connections(), 4);
        registry.activate(1);
        assert_eq!(registry.reassign(0, None), None, "there is no other");
        registry.activate(9);
        assert_eq!(registry.active(), 3);
        assert_eq!([registry.surplus(0), registry.surplus(1), registry.surplus(2)], [0, 1, 0]);
    }
}
