//! A cache for several threads: each thread borrows a separate client for as long as it needs one.

use parking_lot::{Mutex, MutexGuard};

use super::{Cache, Settings};
use crate::ring::Ring;

/// A pool of clients that reuses their connections.
///
/// ```
/// use nagi_client::cache::{Pool, Settings};
/// use nagi_client::ring::{Dalli, Ring, Server};
/// let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
/// let pool = Pool::new(ring, Settings::default(), 8);
/// std::thread::scope(|scope| {
///     scope.spawn(|| assert!(pool.with(|cache| cache.get(b"key")).is_err()));
/// });
/// assert_eq!(pool.idle_clients(), 1);
/// ```
#[derive(Debug)]
pub struct Pool {
    ring: Ring,
    settings: Settings,
    kept: usize,
    idle: Mutex<Vec<Cache>>,
}

impl Pool {
    /// Creates a pool that keeps up to `kept` idle clients. If no client is idle, the pool creates
    /// one.
    ///
    /// ```
    /// use nagi_client::cache::{Pool, Settings};
    /// use nagi_client::ring::{Dalli, Ring};
    /// Pool::new(Ring::Dalli(Dalli::new(Vec::new())), Settings::default(), 4);
    /// ```
    #[must_use]
    pub fn new(ring: Ring, settings: Settings, kept: usize) -> Self {
        Pool { ring, settings, kept, idle: Mutex::default() }
    }

    /// Lends a client to `work`, and takes the client back with its connections.
    ///
    /// ```
    /// use nagi_client::cache::{Pool, Settings};
    /// use nagi_client::ring::{Dalli, Ring};
    /// let pool = Pool::new(Ring::Dalli(Dalli::new(Vec::new())), Settings::default(), 4);
    /// assert!(pool.with(|cache| cache.ring().servers().is_empty()));
    /// ```
    pub fn with<T>(&self, work: impl FnOnce(&mut Cache) -> T) -> T {
        let idle = self.idle().pop();
        let mut cache =
            idle.unwrap_or_else(|| Cache::new(self.ring.clone(), self.settings.clone()));
        let result = work(&mut cache);
        let mut idle = self.idle();
        if idle.len() < self.kept {
            idle.push(cache);
        }
        result
    }

    /// Returns the number of idle clients.
    ///
    /// ```
    /// use nagi_client::cache::{Pool, Settings};
    /// use nagi_client::ring::{Dalli, Ring};
    /// let pool = Pool::new(Ring::Dalli(Dalli::new(Vec::new())), Settings::default(), 4);
    /// assert_eq!(pool.idle_clients(), 0);
    /// ```
    #[must_use]
    pub fn idle_clients(&self) -> usize {
        self.idle().len()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Cache>> {
        self.idle.lock()
    }
}
