//! A cache for several tasks: each task borrows a separate client for as long as it needs one.

use std::ops::{Deref, DerefMut};

use parking_lot::{Mutex, MutexGuard};

use super::cache::Cache;
use crate::cache::Settings;
use crate::ring::Ring;

/// A pool of clients that reuses their connections.
///
/// ```
/// use std::sync::Arc;
/// use nagi_client::asynchronous::Pool;
/// use nagi_client::cache::Settings;
/// use nagi_client::ring::{Dalli, Ring, Server};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tokio::task::JoinError> {
/// let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
/// let pool = Arc::new(Pool::new(ring, Settings::default(), 8));
/// let of_task = Arc::clone(&pool);
/// let task = tokio::spawn(async move { of_task.client().get(b"key").await });
/// assert!(task.await?.is_err());
/// assert_eq!(pool.idle_clients(), 1);
/// # Ok(())
/// # }
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
    /// use nagi_client::asynchronous::Pool;
    /// use nagi_client::cache::Settings;
    /// use nagi_client::ring::{Dalli, Ring};
    /// Pool::new(Ring::Dalli(Dalli::new(Vec::new())), Settings::default(), 4);
    /// ```
    #[must_use]
    pub fn new(ring: Ring, settings: Settings, kept: usize) -> Self {
        Pool { ring, settings, kept, idle: Mutex::default() }
    }

    /// Lends a client. Dropping the client returns it to the pool with its connections.
    ///
    /// ```
    /// use nagi_client::asynchronous::Pool;
    /// use nagi_client::cache::Settings;
    /// use nagi_client::ring::{Dalli, Ring};
    /// let pool = Pool::new(Ring::Dalli(Dalli::new(Vec::new())), Settings::default(), 4);
    /// assert!(pool.client().ring().servers().is_empty());
    /// ```
    #[must_use]
    pub fn client(&self) -> Lent<'_> {
        let idle = self.idle().pop();
        let cache = idle.unwrap_or_else(|| Cache::new(self.ring.clone(), self.settings.clone()));
        Lent { pool: self, cache }
    }

    /// Returns the number of idle clients.
    ///
    /// ```
    /// use nagi_client::asynchronous::Pool;
    /// use nagi_client::cache::Settings;
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

/// A client borrowed from a [`Pool`].
///
/// ```
/// use nagi_client::asynchronous::{Lent, Pool};
/// use nagi_client::cache::Settings;
/// use nagi_client::ring::{Dalli, Ring};
/// let pool = Pool::new(Ring::Dalli(Dalli::new(Vec::new())), Settings::default(), 4);
/// let lent: Lent<'_> = pool.client();
/// drop(lent);
/// assert_eq!(pool.idle_clients(), 1);
/// ```
#[derive(Debug)]
pub struct Lent<'a> {
    pool: &'a Pool,
    cache: Cache,
}

impl Deref for Lent<'_> {
    type Target = Cache;

    fn deref(&self) -> &Cache {
        &self.cache
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Cache {
        &mut self.cache
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut idle = self.pool.idle();
        if idle.len() < self.pool.kept {
            idle.push(std::mem::replace(&mut self.cache, Cache::without_servers()));
        }
    }
}
