//! The servers of a Redis Cluster by slot, as far as they are known.

use super::server::Server;
use super::slots::{SLOTS, slot_of};

/// A map of slots to servers that is corrected by redirections. Initially every slot is mapped to
/// the first server, which replies `MOVED` if it does not own the slot.
///
/// ```
/// use nagi_client::ring::{Cluster, Server, slot_of};
/// let mut cluster = Cluster::new(vec![Server::new("kyoto", 7000)]);
/// assert_eq!(cluster.locate(b"key"), Some(0));
/// cluster.assign(slot_of(b"key"), Server::new("tokyo", 7000));
/// assert_eq!(cluster.locate(b"key"), Some(1));
/// ```
#[derive(Clone, Debug)]
pub struct Cluster {
    servers: Vec<Server>,
    /// The index of the server of each slot; 0 if unknown.
    slots: Vec<usize>,
}

impl Cluster {
    /// Creates the map of a cluster, given at least one of its servers.
    ///
    /// ```
    /// assert_eq!(nagi_client::ring::Cluster::new(Vec::new()).locate(b"key"), None);
    /// ```
    #[must_use]
    pub fn new(servers: Vec<Server>) -> Self {
        Cluster { servers, slots: vec![0; SLOTS.into()] }
    }

    /// Returns the servers known so far, in the order of [`Cluster::locate`].
    ///
    /// ```
    /// assert!(nagi_client::ring::Cluster::new(Vec::new()).servers().is_empty());
    /// ```
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the index of the server that owns the slot of `key`, as far as known; `None` without
    /// servers.
    ///
    /// ```
    /// use nagi_client::ring::{Cluster, Server};
    /// assert_eq!(Cluster::new(vec![Server::new("kyoto", 7000)]).locate(b"key"), Some(0));
    /// ```
    #[must_use]
    pub fn locate(&self, key: &[u8]) -> Option<usize> {
        let server = self.slots.get(usize::from(slot_of(key))).copied()?;
        (server < self.servers.len()).then_some(server)
    }

    /// Records that `server` owns `slot`. Returns the index of the server.
    ///
    /// ```
    /// use nagi_client::ring::{Cluster, Server};
    /// let mut cluster = Cluster::new(vec![Server::new("kyoto", 7000)]);
    /// assert_eq!(cluster.assign(0, Server::new("kyoto", 7000)), 0);
    /// assert_eq!(cluster.assign(0, Server::new("tokyo", 7000)), 1);
    /// ```
    pub fn assign(&mut self, slot: u16, server: Server) -> usize {
        let place = self.add(server);
        if let Some(of_slot) = self.slots.get_mut(usize::from(slot)) {
            *of_slot = place;
        }
        place
    }

    /// Maps a slot to the server after `failed`, which may have taken it over, or know its owner.
    /// Returns the index of that server; `None` without another one.
    pub(crate) fn replace(&mut self, slot: u16, failed: usize) -> Option<usize> {
        let place = (failed + 1) % self.servers.len().max(1);
        let of_slot = self.slots.get_mut(usize::from(slot))?;
        if place == failed {
            return None;
        }
        *of_slot = place;
        Some(place)
    }

    /// Returns the index of a server, which is added if it is not known.
    pub(crate) fn add(&mut self, server: Server) -> usize {
        let known = self.servers.iter().position(|one| *one == server);
        known.unwrap_or_else(|| {
            self.servers.push(server);
            self.servers.len() - 1
        })
    }
}
