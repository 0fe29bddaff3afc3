//! Batched writes of related items to the server of a master key.

use super::cache::Cache;
use crate::cache::{Failure, Item, Stored};

impl Cache {
    /// Like [`Cache::set_many`], on the server of the key `master`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let items = [(&b"a"[..], Item::new(b"1")), (b"b", Item::new(b"2"))];
    /// let stored = cache.set_many_by_key(b"user:1", &items).await;
    /// assert_eq!(stored.len(), 2);
    /// # }
    /// ```
    pub async fn set_many_by_key(
        &mut self,
        master: &[u8],
        items: &[(&[u8], Item<'_>)],
    ) -> Vec<Result<Stored, Failure>> {
        self.engine.set_many(Some(master), items).await
    }

    /// Like [`Cache::set_many_quietly`], on the server of the key `master`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::{Item, Settings}};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let items = [(&b"a"[..], Item::new(b"1")), (b"b", Item::new(b"2"))];
    /// let failures = cache.set_many_quietly_by_key(b"user:1", &items).await;
    /// # assert_eq!(failures.len(), 1);
    /// # }
    /// ```
    pub async fn set_many_quietly_by_key(
        &mut self,
        master: &[u8],
        items: &[(&[u8], Item<'_>)],
    ) -> Vec<Failure> {
        self.engine.set_many_quietly(Some(master), items).await
    }

    /// Like [`Cache::delete_many_quietly`], on the server of the key `master`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use nagi_client::{asynchronous::Cache, cache::Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let failures = cache.delete_many_quietly_by_key(b"user:1", &[b"a", b"b"]).await;
    /// # assert_eq!(failures.len(), 1);
    /// # }
    /// ```
    pub async fn delete_many_quietly_by_key(
        &mut self,
        master: &[u8],
        keys: &[&[u8]],
    ) -> Vec<Failure> {
        self.engine.delete_many_quietly(Some(master), keys).await
    }
}
