//! The operations of a cache for async tasks. They correspond to those of `cache::Cache` for
//! threads.

use super::socket::Stream;
use crate::cache::{Engine, Failure, Item, Settings, Statistics, Stored};
use crate::ring::{Dalli, Ring, Server};
use crate::wire::{Mode, Value};

/// Seconds from now, or a Unix time above 30 days; 0 means never.
type Expiry = u32;

/// A client of several servers for a task of tokio, whose runtime must have I/O and time enabled.
/// Results and errors are those of [`cache::Cache`](crate::cache::Cache).
///
/// If the future of a request is dropped, the request may or may not have been executed. Its
/// connection is closed, so that its answer cannot be taken for the answer to another request.
///
/// ```
/// use nagi_client::asynchronous::Cache;
/// use nagi_client::cache::{Item, Settings};
/// use nagi_client::ring::{Configuration, Library, Server};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), String> {
/// let servers = vec!["127.0.0.1:1".parse::<Server>()?];
/// let ring = Configuration::from(Library::PhpKetama).ring(servers);
/// let mut cache = Cache::new(ring, Settings::default());
/// // No server listens there.
/// let failure = cache.set(b"user:1", &Item::new(b"Ume")).await.unwrap_err();
/// assert_eq!(failure.server, "127.0.0.1:1");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Cache {
    pub(super) engine: Engine<Stream>,
}

impl Cache {
    /// Creates a client. Connections are only opened when they are needed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use nagi_client::asynchronous::Cache;
    /// use nagi_client::cache::Settings;
    /// use nagi_client::ring::{Dalli, Ring};
    /// let ring = Ring::Dalli(Dalli::new(Vec::new()));
    /// assert!(Cache::new(ring, Settings::default()).get(b"key").await.is_err());
    /// # }
    /// ```
    #[must_use]
    pub fn new(ring: Ring, settings: Settings) -> Self {
        Cache { engine: Engine::new(ring, settings) }
    }

    /// Creates a client without servers, as a placeholder for a client that is returned to its
    /// pool.
    pub(super) fn without_servers() -> Self {
        Cache::new(Ring::Dalli(Dalli::new(Vec::new())), Settings::default())
    }

    /// Returns the current ring, without ejected servers.
    ///
    /// ```
    /// use nagi_client::asynchronous::Cache;
    /// use nagi_client::cache::Settings;
    /// use nagi_client::ring::{Dalli, Ring, Server};
    /// let ring = Ring::Dalli(Dalli::new(vec![Server::new("kyoto", 0)]));
    /// assert_eq!(Cache::new(ring, Settings::default()).ring().servers().len(), 1);
    /// ```
    #[must_use]
    pub fn ring(&self) -> &Ring {
        self.engine.ring()
    }

    /// Returns the currently ejected servers, if [`OnFailure::Eject`] is set.
    ///
    /// ```
    /// use nagi_client::asynchronous::Cache;
    /// use nagi_client::cache::Settings;
    /// use nagi_client::ring::{Dalli, Ring, Server};
    /// let ring = Ring::Dalli(Dalli::new(vec![Server::new("kyoto", 0)]));
    /// assert!(Cache::new(ring, Settings::default()).ejected().is_empty());
    /// ```
    ///
    /// [`OnFailure::Eject`]: crate::cache::OnFailure::Eject
    #[must_use]
    pub fn ejected(&self) -> Vec<&Server> {
        self.engine.ejected()
    }

    /// Returns the failures of copies since the last call, if [`OnFailure::Replicate`] is set. A
    /// request itself only fails if its first server does. Only the first 100 failures are kept.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, OnFailure, Replicas, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// let servers = ["127.0.0.1:1", "127.0.0.1:2"].map(|server| server.parse::<Server>());
    /// let ring = Ring::Dalli(Dalli::new(servers.into_iter().flatten().collect()));
    /// let on_failure = OnFailure::Replicate(Replicas { count: 1, random_reads: false });
    /// let mut cache = Cache::new(ring, Settings { on_failure, ..Settings::default() });
    /// assert!(cache.set(b"key", &Item::new(b"value")).await.is_err());
    /// assert_eq!(cache.take_replica_failures().len(), 1);
    /// # }
    /// ```
    ///
    /// [`OnFailure::Replicate`]: crate::cache::OnFailure::Replicate
    pub fn take_replica_failures(&mut self) -> Vec<Failure> {
        self.engine.take_replica_failures()
    }

    /// Returns the value of a key; `None` for a miss.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.get(b"key").await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn get(&mut self, key: &[u8]) -> Result<Option<Value>, Failure> {
        self.engine.get(key, key).await
    }

    /// Like [`Cache::get`], on the server of the key `master`.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.get_by_key(b"user:1", b"key").await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn get_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
    ) -> Result<Option<Value>, Failure> {
        self.engine.get(master, key).await
    }

    /// Returns the value of a key, and sets a new expiry for the key.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.get_and_touch(b"key", 60).await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn get_and_touch(
        &mut self,
        key: &[u8],
        expiry: Expiry,
    ) -> Result<Option<Value>, Failure> {
        self.engine.get_and_touch(key, key, expiry).await
    }

    /// Like [`Cache::get_and_touch`], on the server of the key `master`.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.get_and_touch_by_key(b"user:1", b"key", 60).await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn get_and_touch_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        expiry: Expiry,
    ) -> Result<Option<Value>, Failure> {
        self.engine.get_and_touch(master, key, expiry).await
    }

    /// Stores a value, replacing an existing one.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.set(b"key", &Item::new(b"value").expiring(60)).await;
    /// # assert!(stored.is_err());
    /// # }
    /// ```
    pub async fn set(&mut self, key: &[u8], item: &Item<'_>) -> Result<Stored, Failure> {
        self.engine.store(key, key, Mode::Set, item).await
    }

    /// Like [`Cache::set`], on the server of the key `master`.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.set_by_key(b"user:1", b"key", &Item::new(b"value")).await;
    /// # assert!(stored.is_err());
    /// # }
    /// ```
    pub async fn set_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.engine.store(master, key, Mode::Set, item).await
    }

    /// Stores a value only if the key does not exist.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.add(b"key", &Item::new(b"value").expiring(60)).await;
    /// # assert!(stored.is_err());
    /// # }
    /// ```
    pub async fn add(&mut self, key: &[u8], item: &Item<'_>) -> Result<Stored, Failure> {
        self.engine.store(key, key, Mode::Add, item).await
    }

    /// Like [`Cache::add`], on the server of the key `master`.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.add_by_key(b"user:1", b"key", &Item::new(b"value")).await;
    /// # assert!(stored.is_err());
    /// # }
    /// ```
    pub async fn add_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.engine.store(master, key, Mode::Add, item).await
    }

    /// Stores a value only if the key exists.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.replace(b"key", &Item::new(b"value").expiring(60)).await;
    /// # assert!(stored.is_err());
    /// # }
    /// ```
    pub async fn replace(&mut self, key: &[u8], item: &Item<'_>) -> Result<Stored, Failure> {
        self.engine.store(key, key, Mode::Replace, item).await
    }

    /// Like [`Cache::replace`], on the server of the key `master`.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.replace_by_key(b"user:1", b"key", &Item::new(b"value")).await;
    /// # assert!(stored.is_err());
    /// # }
    /// ```
    pub async fn replace_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.engine.store(master, key, Mode::Replace, item).await
    }

    /// Appends to the value of a key. Flags and expiry do not change.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.append(b"key", &Item::new(b"value").expiring(60)).await;
    /// # assert!(stored.is_err());
    /// # }
    /// ```
    pub async fn append(&mut self, key: &[u8], item: &Item<'_>) -> Result<Stored, Failure> {
        self.engine.store(key, key, Mode::Append, item).await
    }

    /// Like [`Cache::append`], on the server of the key `master`.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.append_by_key(b"user:1", b"key", &Item::new(b"value")).await;
    /// # assert!(stored.is_err());
    /// # }
    /// ```
    pub async fn append_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.engine.store(master, key, Mode::Append, item).await
    }

    /// Prepends to the value of a key. Flags and expiry do not change. Not available with Redis.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.prepend(b"key", &Item::new(b"value").expiring(60)).await;
    /// # assert!(stored.is_err());
    /// # }
    /// ```
    pub async fn prepend(&mut self, key: &[u8], item: &Item<'_>) -> Result<Stored, Failure> {
        self.engine.store(key, key, Mode::Prepend, item).await
    }

    /// Like [`Cache::prepend`], on the server of the key `master`.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.prepend_by_key(b"user:1", b"key", &Item::new(b"value")).await;
    /// # assert!(stored.is_err());
    /// # }
    /// ```
    pub async fn prepend_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.engine.store(master, key, Mode::Prepend, item).await
    }

    /// Stores a value if the item's CAS number is still the one that a get returned.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let item = nagi_client::cache::Item::new(b"value");
    /// let result = cache.compare_and_store(b"key", 7, &item).await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn compare_and_store(
        &mut self,
        key: &[u8],
        cas: u64,
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.engine.store(key, key, Mode::Cas(cas), item).await
    }

    /// Like [`Cache::compare_and_store`], on the server of the key `master`.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let item = nagi_client::cache::Item::new(b"value");
    /// let result = cache.compare_and_store_by_key(b"user:1", b"key", 7, &item).await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn compare_and_store_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        cas: u64,
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.engine.store(master, key, Mode::Cas(cas), item).await
    }

    /// Removes a key. Returns whether it existed.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.delete(b"key").await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn delete(&mut self, key: &[u8]) -> Result<bool, Failure> {
        self.engine.delete(key, key).await
    }

    /// Like [`Cache::delete`], on the server of the key `master`.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.delete_by_key(b"user:1", b"key").await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn delete_by_key(&mut self, master: &[u8], key: &[u8]) -> Result<bool, Failure> {
        self.engine.delete(master, key).await
    }

    /// Sets a new expiry for a key. Returns whether the key exists.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.touch(b"key", 60).await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn touch(&mut self, key: &[u8], expiry: Expiry) -> Result<bool, Failure> {
        self.engine.touch(key, key, expiry).await
    }

    /// Like [`Cache::touch`], on the server of the key `master`.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.touch_by_key(b"user:1", b"key", 60).await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn touch_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        expiry: Expiry,
    ) -> Result<bool, Failure> {
        self.engine.touch(master, key, expiry).await
    }

    /// Increments a number. Returns the sum. Returns `None` if the key does not exist, except with
    /// Redis, which starts at 0.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.increment(b"key", 1).await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn increment(&mut self, key: &[u8], by: u64) -> Result<Option<u64>, Failure> {
        self.engine.count(key, key, by, false).await
    }

    /// Like [`Cache::increment`], on the server of the key `master`.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.increment_by_key(b"user:1", b"key", 1).await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn increment_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        by: u64,
    ) -> Result<Option<u64>, Failure> {
        self.engine.count(master, key, by, false).await
    }

    /// Decrements a number. Returns the difference, which is never below 0 in memcached.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.decrement(b"key", 1).await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn decrement(&mut self, key: &[u8], by: u64) -> Result<Option<u64>, Failure> {
        self.engine.count(key, key, by, true).await
    }

    /// Like [`Cache::decrement`], on the server of the key `master`.
    ///
    /// # Errors
    /// The server does not answer, or refuses the request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.decrement_by_key(b"user:1", b"key", 1).await;
    /// # assert!(result.is_err());
    /// # }
    /// ```
    pub async fn decrement_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        by: u64,
    ) -> Result<Option<u64>, Failure> {
        self.engine.count(master, key, by, true).await
    }

    /// Returns the values of keys, requested from all servers at once. A server that fails affects
    /// only its own keys.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let values = cache.get_many(&[b"a", b"b"]).await;
    /// assert_eq!(values.len(), 2);
    /// # }
    /// ```
    pub async fn get_many(&mut self, keys: &[&[u8]]) -> Vec<Result<Option<Value>, Failure>> {
        self.engine.get_many(keys).await
    }

    /// Returns the values of keys, with one request per key, spread over the connections of each
    /// server.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let values = cache.get_each(&[b"a", b"b"]).await;
    /// assert_eq!(values.len(), 2);
    /// # }
    /// ```
    pub async fn get_each(&mut self, keys: &[&[u8]]) -> Vec<Result<Option<Value>, Failure>> {
        self.engine.get_each(keys).await
    }

    /// Returns the values of related keys, with one request to the server of the key `master`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let values = cache.get_many_by_key(b"user:1", &[b"a", b"b"]).await;
    /// assert_eq!(values.len(), 2);
    /// # }
    /// ```
    pub async fn get_many_by_key(
        &mut self,
        master: &[u8],
        keys: &[&[u8]],
    ) -> Vec<Result<Option<Value>, Failure>> {
        self.engine.get_many_by_key(master, keys).await
    }

    /// Stores many values. The requests are buffered and sent to all servers at once. Returns one
    /// result for each value.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.set_many(&[(b"a", Item::new(b"1")), (b"b", Item::new(b"2"))]).await;
    /// assert_eq!(stored.len(), 2);
    /// # }
    /// ```
    pub async fn set_many(&mut self, items: &[(&[u8], Item<'_>)]) -> Vec<Result<Stored, Failure>> {
        self.engine.set_many(None, items).await
    }

    /// Stores many values on servers that answer only errors. Returns the failures by server. If
    /// the end of a batch of 100 requests is not confirmed, the failure is `Unknown`. Redis answers
    /// each request.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let items = [(&b"a"[..], Item::new(b"1")), (b"b", Item::new(b"2"))];
    /// let failures = cache.set_many_quietly(&items).await;
    /// # assert_eq!(failures.len(), 1);
    /// # }
    /// ```
    pub async fn set_many_quietly(&mut self, items: &[(&[u8], Item<'_>)]) -> Vec<Failure> {
        self.engine.set_many_quietly(None, items).await
    }

    /// Removes many keys on servers that answer only errors, like [`Cache::set_many_quietly`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let failures = cache.delete_many_quietly(&[b"a", b"b"]).await;
    /// # assert_eq!(failures.len(), 1);
    /// # }
    /// ```
    pub async fn delete_many_quietly(&mut self, keys: &[&[u8]]) -> Vec<Failure> {
        self.engine.delete_many_quietly(None, keys).await
    }

    /// Returns the statistics of every server, with the server's name; of a Redis Cluster, those of
    /// [`Cache::flush`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let statistics = cache.stats().await;
    /// assert_eq!(statistics.len(), 1);
    /// # }
    /// ```
    pub async fn stats(&mut self) -> Vec<Result<Statistics, Failure>> {
        self.engine.stats("").await
    }

    /// Removes all keys of all servers. Returns a result for each server. Of a Redis Cluster, only
    /// the given servers and those that requests have led to so far are known.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// assert!(cache.flush().await[0].is_err());
    /// # }
    /// ```
    pub async fn flush(&mut self) -> Vec<Result<(), Failure>> {
        self.engine.flush().await
    }
}
