//! The rings of libraries that are not based on libmemcached: dalli's and pymemcache's.

use sha1::{Digest, Sha1};

use super::hash::{crc32, murmur3};
use super::server::Server;

/// Number of points of a server of average weight on dalli's ring.
const POINTS: u64 = 160;

/// dalli's ring. Its points are hashed by SHA-1 and its keys by CRC-32. The point before the key
/// selects the server, not the point after it.
///
/// ```
/// use nagi_client::ring::{Dalli, Server};
/// let ring = Dalli::new(vec![Server::new("kyoto", 0), Server::new("tokyo", 0)]);
/// assert!(ring.locate(b"user:1").is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Dalli {
    servers: Vec<Server>,
    points: Vec<(u32, usize)>,
}

impl Dalli {
    /// Creates a ring of these servers.
    ///
    /// ```
    /// assert_eq!(nagi_client::ring::Dalli::new(Vec::new()).locate(b"key"), None);
    /// ```
    #[must_use]
    pub fn new(servers: Vec<Server>) -> Self {
        let total: u64 = servers.iter().map(|server| u64::from(server.weight)).sum();
        let mut points = Vec::new();
        for (index, server) in servers.iter().enumerate() {
            // dalli divides in double precision, which is exact for these numbers.
            let count = servers.len() as u64 * POINTS * u64::from(server.weight) / total.max(1);
            points.extend((0..count).map(|number| {
                let digest = Sha1::digest(format!("{}:{number}", server.address()));
                let value = digest.first_chunk().copied().map_or(0, u32::from_be_bytes);
                (value, index)
            }));
        }
        points.sort_by_key(|(value, _)| *value);
        Dalli { servers, points }
    }

    /// Returns the servers, in the order of [`Dalli::locate`].
    ///
    /// ```
    /// assert!(nagi_client::ring::Dalli::new(Vec::new()).servers().is_empty());
    /// ```
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the index of the server of `key`; `None` without servers.
    ///
    /// ```
    /// use nagi_client::ring::{Dalli, Server};
    /// assert_eq!(Dalli::new(vec![Server::new("kyoto", 0)]).locate(b"key"), Some(0));
    /// ```
    #[must_use]
    pub fn locate(&self, key: &[u8]) -> Option<usize> {
        let hash = crc32(key);
        let before = self.points.partition_point(|(value, _)| *value <= hash).checked_sub(1);
        let point = before.map_or_else(|| self.points.last(), |before| self.points.get(before));
        point.map(|(_, server)| *server)
    }
}

/// pymemcache's rendezvous hashing: a key belongs to the server for which MurmurHash3 of the
/// server's name and the key is highest.
///
/// ```
/// use nagi_client::ring::{Rendezvous, Server};
/// let ring = Rendezvous::new(vec![Server::new("kyoto", 0), Server::new("tokyo", 0)]);
/// assert!(ring.locate(b"user:1").is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Rendezvous {
    servers: Vec<Server>,
    names: Vec<String>,
}

impl Rendezvous {
    /// Creates a ring of these servers. Weights are ignored, since pymemcache has none.
    ///
    /// ```
    /// assert_eq!(nagi_client::ring::Rendezvous::new(Vec::new()).locate(b"key"), None);
    /// ```
    #[must_use]
    pub fn new(servers: Vec<Server>) -> Self {
        let names = servers.iter().map(Server::address).collect();
        Rendezvous { servers, names }
    }

    /// Returns the servers, in the order of [`Rendezvous::locate`].
    ///
    /// ```
    /// assert!(nagi_client::ring::Rendezvous::new(Vec::new()).servers().is_empty());
    /// ```
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the index of the server of `key`; `None` without servers. pymemcache hashes one byte
    /// per character, so a key beyond ASCII may be placed differently.
    ///
    /// ```
    /// use nagi_client::ring::{Rendezvous, Server};
    /// assert_eq!(Rendezvous::new(vec![Server::new("kyoto", 0)]).locate(b"key"), Some(0));
    /// ```
    #[must_use]
    pub fn locate(&self, key: &[u8]) -> Option<usize> {
        let characters = |bytes: &[u8]| -> Vec<u8> {
            match std::str::from_utf8(bytes) {
                Ok(text) => text.chars().map(|character| u32::from(character) as u8).collect(),
                Err(_) => bytes.to_vec(),
            }
        };
        let scores = self.names.iter().enumerate().map(|(index, name)| {
            let text = [characters(name.as_bytes()), b"-".to_vec(), characters(key)].concat();
            (murmur3(&text, 0), name, index)
        });
        scores.max().map(|(_, _, index)| index)
    }
}
