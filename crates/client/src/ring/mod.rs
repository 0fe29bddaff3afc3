//! Selects the server of a key. The distributions are those of common cache libraries, bit for bit,
//! so that programs in several languages find each other's values.

mod cluster;
mod comparison;
mod hash;
mod libmemcached;
mod other;
mod preset;
mod server;
mod slots;

pub use cluster::Cluster;
pub use comparison::{ClientConfiguration, place_differently};
pub use hash::Hash;
pub use libmemcached::{Behavior, Distribution, Libmemcached};
pub use other::{Dalli, Rendezvous};
pub use preset::{Configuration, Library};
pub use server::Server;
pub use slots::{SLOTS, slot_of};

/// Servers and the rule that selects the server of a key.
///
/// ```
/// use nagi_client::ring::{Configuration, Server};
/// let configuration: Configuration = "php-ketama".parse()?;
/// let ring = configuration.ring(vec![Server::new("kyoto", 0), Server::new("tokyo", 0)]);
/// let server = ring.server_of(b"user:1");
/// assert!(server.is_some());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub enum Ring {
    /// libmemcached's distributions, which pylibmc, PHP and twemproxy use as well.
    Libmemcached(Libmemcached),
    /// dalli's ring.
    Dalli(Dalli),
    /// pymemcache's rendezvous hashing.
    Rendezvous(Rendezvous),
    /// Redis Cluster's slots.
    Cluster(Cluster),
}

impl Ring {
    /// Returns the servers, in the order of [`Ring::locate`].
    ///
    /// ```
    /// use nagi_client::ring::{Dalli, Ring};
    /// assert!(Ring::Dalli(Dalli::new(Vec::new())).servers().is_empty());
    /// ```
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        match self {
            Ring::Libmemcached(ring) => ring.servers(),
            Ring::Dalli(ring) => ring.servers(),
            Ring::Rendezvous(ring) => ring.servers(),
            Ring::Cluster(ring) => ring.servers(),
        }
    }

    /// Returns the index of the server of `key`; `None` without servers.
    ///
    /// ```
    /// use nagi_client::ring::{Dalli, Ring, Server};
    /// assert_eq!(Ring::Dalli(Dalli::new(vec![Server::new("kyoto", 0)])).locate(b"key"), Some(0));
    /// ```
    #[must_use]
    pub fn locate(&self, key: &[u8]) -> Option<usize> {
        match self {
            Ring::Libmemcached(ring) => ring.locate(key),
            Ring::Dalli(ring) => ring.locate(key),
            Ring::Rendezvous(ring) => ring.locate(key),
            Ring::Cluster(ring) => ring.locate(key),
        }
    }

    /// Returns the server of `key`; `None` without servers.
    ///
    /// ```
    /// use nagi_client::ring::{Dalli, Ring, Server};
    /// let ring = Ring::Dalli(Dalli::new(vec![Server::new("kyoto", 0)]));
    /// assert_eq!(ring.server_of(b"key").map(|server| server.port), Some(11211));
    /// ```
    #[must_use]
    pub fn server_of(&self, key: &[u8]) -> Option<&Server> {
        self.servers().get(self.locate(key)?)
    }

    /// Whether [`Ring::eject`] has an effect, which is the case for libmemcached's rings that have
    /// points.
    ///
    /// ```
    /// use nagi_client::ring::{Configuration, Library};
    /// let has_points = |library| Configuration::from(library).ring(Vec::new()).is_ejecting();
    /// assert!(has_points(Library::PhpKetama));
    /// assert!(!has_points(Library::Libmemcached), "modula has none");
    /// ```
    #[must_use]
    pub fn is_ejecting(&self) -> bool {
        matches!(self, Ring::Libmemcached(ring) if ring.has_points())
    }

    /// Ejects the servers whose entry in `out` is true and readmits all others, like libmemcached
    /// with `AUTO_EJECT_HOSTS`; see [`Libmemcached::eject`].
    ///
    /// ```
    /// use nagi_client::ring::{Configuration, Library, Server};
    /// let servers = ["kyoto", "tokyo"].map(|host| Server::new(host, 0)).to_vec();
    /// let mut ring = Configuration::from(Library::PhpKetama).ring(servers);
    /// ring.eject(&[true, false]);
    /// assert!((0..100_u32).all(|key| ring.locate(&key.to_be_bytes()) == Some(1)));
    /// ```
    pub fn eject(&mut self, out: &[bool]) {
        if let Ring::Libmemcached(ring) = self {
            ring.eject(out);
        }
    }
}
