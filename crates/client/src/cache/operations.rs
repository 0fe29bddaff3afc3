//! What can be asked of a cache, each also with a master key that decides the server, so that
//! related items are on one and come with one request.

use super::item::{Item, Stored};
use super::{Cache, Failure, Reason};
use crate::ring::Ring;
use crate::wire::{Answer, Mode, Request, Value};

/// Seconds from now, or a Unix time above 30 days; 0 means never.
type Expiry = u32;

impl Cache {
    /// The value of a key, or nothing.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.get(b"key");
    /// # assert!(result.is_err());
    /// ```
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Value>, Failure> {
        self.get_by_key(key, key)
    }

    /// [`Cache::get`] on the server that `master` decides.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.get_by_key(b"user:1", b"key");
    /// # assert!(result.is_err());
    /// ```
    pub fn get_by_key(&mut self, master: &[u8], key: &[u8]) -> Result<Option<Value>, Failure> {
        let answer = self.ask(master, key, |key| Request::Get { keys: vec![key] })?;
        self.value(master, answer)
    }

    /// The value of a key, whose expiry is set anew.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.get_and_touch(b"key", 60);
    /// # assert!(result.is_err());
    /// ```
    pub fn get_and_touch(&mut self, key: &[u8], expiry: Expiry) -> Result<Option<Value>, Failure> {
        self.get_and_touch_by_key(key, key, expiry)
    }

    /// [`Cache::get_and_touch`] on the server that `master` decides.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.get_and_touch_by_key(b"user:1", b"key", 60);
    /// # assert!(result.is_err());
    /// ```
    pub fn get_and_touch_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        expiry: Expiry,
    ) -> Result<Option<Value>, Failure> {
        let answer = self.ask(master, key, |key| Request::GetAndTouch { key, expiry })?;
        self.value(master, answer)
    }

    /// Stores a value, whatever was there.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Item, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.set(b"key", &Item::new(b"value").expiring(60));
    /// # assert!(stored.is_err());
    /// ```
    pub fn set(&mut self, key: &[u8], item: &Item<'_>) -> Result<Stored, Failure> {
        self.store(key, key, Mode::Set, item)
    }

    /// [`Cache::set`] on the server that `master` decides.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Item, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.set_by_key(b"user:1", b"key", &Item::new(b"value"));
    /// # assert!(stored.is_err());
    /// ```
    pub fn set_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.store(master, key, Mode::Set, item)
    }

    /// Stores a value only where nothing is.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Item, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.add(b"key", &Item::new(b"value").expiring(60));
    /// # assert!(stored.is_err());
    /// ```
    pub fn add(&mut self, key: &[u8], item: &Item<'_>) -> Result<Stored, Failure> {
        self.store(key, key, Mode::Add, item)
    }

    /// [`Cache::add`] on the server that `master` decides.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Item, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.add_by_key(b"user:1", b"key", &Item::new(b"value"));
    /// # assert!(stored.is_err());
    /// ```
    pub fn add_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.store(master, key, Mode::Add, item)
    }

    /// Stores a value only where something is.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Item, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.replace(b"key", &Item::new(b"value").expiring(60));
    /// # assert!(stored.is_err());
    /// ```
    pub fn replace(&mut self, key: &[u8], item: &Item<'_>) -> Result<Stored, Failure> {
        self.store(key, key, Mode::Replace, item)
    }

    /// [`Cache::replace`] on the server that `master` decides.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Item, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.replace_by_key(b"user:1", b"key", &Item::new(b"value"));
    /// # assert!(stored.is_err());
    /// ```
    pub fn replace_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.store(master, key, Mode::Replace, item)
    }

    /// Adds behind the value; flags and expiry stay.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Item, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.append(b"key", &Item::new(b"value").expiring(60));
    /// # assert!(stored.is_err());
    /// ```
    pub fn append(&mut self, key: &[u8], item: &Item<'_>) -> Result<Stored, Failure> {
        self.store(key, key, Mode::Append, item)
    }

    /// [`Cache::append`] on the server that `master` decides.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Item, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.append_by_key(b"user:1", b"key", &Item::new(b"value"));
    /// # assert!(stored.is_err());
    /// ```
    pub fn append_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.store(master, key, Mode::Append, item)
    }

    /// Adds before the value; flags and expiry stay. Redis has no such command.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Item, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.prepend(b"key", &Item::new(b"value").expiring(60));
    /// # assert!(stored.is_err());
    /// ```
    pub fn prepend(&mut self, key: &[u8], item: &Item<'_>) -> Result<Stored, Failure> {
        self.store(key, key, Mode::Prepend, item)
    }

    /// [`Cache::prepend`] on the server that `master` decides.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Item, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.prepend_by_key(b"user:1", b"key", &Item::new(b"value"));
    /// # assert!(stored.is_err());
    /// ```
    pub fn prepend_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.store(master, key, Mode::Prepend, item)
    }

    /// Stores a value if it still has the unique number that a get brought.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let item = nagi_client::cache::Item::new(b"value");
    /// let result = cache.compare_and_store(b"key", 7, &item);
    /// # assert!(result.is_err());
    /// ```
    pub fn compare_and_store(
        &mut self,
        key: &[u8],
        cas: u64,
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.compare_and_store_by_key(key, key, cas, item)
    }

    /// [`Cache::compare_and_store`] on the server that `master` decides.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let item = nagi_client::cache::Item::new(b"value");
    /// let result = cache.compare_and_store_by_key(b"user:1", b"key", 7, &item);
    /// # assert!(result.is_err());
    /// ```
    pub fn compare_and_store_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        cas: u64,
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        self.store(master, key, Mode::Cas(cas), item)
    }

    /// Removes a key; whether it was there.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.delete(b"key");
    /// # assert!(result.is_err());
    /// ```
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Failure> {
        self.delete_by_key(key, key)
    }

    /// [`Cache::delete`] on the server that `master` decides.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.delete_by_key(b"user:1", b"key");
    /// # assert!(result.is_err());
    /// ```
    pub fn delete_by_key(&mut self, master: &[u8], key: &[u8]) -> Result<bool, Failure> {
        let answer = self.ask(master, key, |key| Request::Delete { key })?;
        self.was_there(master, answer)
    }

    /// Sets an expiry anew; whether the key is there.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.touch(b"key", 60);
    /// # assert!(result.is_err());
    /// ```
    pub fn touch(&mut self, key: &[u8], expiry: Expiry) -> Result<bool, Failure> {
        self.touch_by_key(key, key, expiry)
    }

    /// [`Cache::touch`] on the server that `master` decides.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.touch_by_key(b"user:1", b"key", 60);
    /// # assert!(result.is_err());
    /// ```
    pub fn touch_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        expiry: Expiry,
    ) -> Result<bool, Failure> {
        let answer = self.ask(master, key, |key| Request::Touch { key, expiry })?;
        self.was_there(master, answer)
    }

    /// Adds to a number: the sum, or nothing where the key is not there. Redis begins at 0.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.increment(b"key", 1);
    /// # assert!(result.is_err());
    /// ```
    pub fn increment(&mut self, key: &[u8], by: u64) -> Result<Option<u64>, Failure> {
        self.increment_by_key(key, key, by)
    }

    /// [`Cache::increment`] on the server that `master` decides.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.increment_by_key(b"user:1", b"key", 1);
    /// # assert!(result.is_err());
    /// ```
    pub fn increment_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        by: u64,
    ) -> Result<Option<u64>, Failure> {
        let answer = self.ask(master, key, |key| Request::Count { key, by, down: false })?;
        self.number(master, answer)
    }

    /// Subtracts from a number: the difference, in memcached not below 0.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.decrement(b"key", 1);
    /// # assert!(result.is_err());
    /// ```
    pub fn decrement(&mut self, key: &[u8], by: u64) -> Result<Option<u64>, Failure> {
        self.decrement_by_key(key, key, by)
    }

    /// [`Cache::decrement`] on the server that `master` decides.
    ///
    /// # Errors
    /// There is no answer, or the server refuses.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let result = cache.decrement_by_key(b"user:1", b"key", 1);
    /// # assert!(result.is_err());
    /// ```
    pub fn decrement_by_key(
        &mut self,
        master: &[u8],
        key: &[u8],
        by: u64,
    ) -> Result<Option<u64>, Failure> {
        let answer = self.ask(master, key, |key| Request::Count { key, by, down: true })?;
        self.number(master, answer)
    }

    /// The values of many keys, from all servers at once; one server's failure is the failure of
    /// its keys alone.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let values = cache.get_many(&[b"a", b"b"]);
    /// assert_eq!(values.len(), 2);
    /// ```
    pub fn get_many(&mut self, keys: &[&[u8]]) -> Vec<Result<Option<Value>, Failure>> {
        if matches!(self.ring, Ring::Cluster(_)) {
            // A cluster refuses one request for keys of several slots.
            return self.get_each(keys);
        }
        let servers = keys.iter().map(|key| self.locate(key)).collect();
        self.get_from(keys, servers)
    }

    /// The values of keys with a request for each, spread over the connections of each server.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let values = cache.get_each(&[b"a", b"b"]);
    /// assert_eq!(values.len(), 2);
    /// ```
    pub fn get_each(&mut self, keys: &[&[u8]]) -> Vec<Result<Option<Value>, Failure>> {
        let whole: Vec<Vec<u8>> = keys.iter().map(|key| self.prefixed(key)).collect();
        let requests: Vec<_> = keys
            .iter()
            .zip(&whole)
            .map(|(key, whole)| (self.locate(key), Request::Get { keys: vec![whole] }))
            .collect();
        let answers = self.exchange(&requests).into_iter().zip(keys);
        answers.map(|(answer, key)| self.value(key, answer?)).collect()
    }

    /// The values of related keys, with one request to the server that `master` decides.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let values = cache.get_many_by_key(b"user:1", &[b"a", b"b"]);
    /// assert_eq!(values.len(), 2);
    /// ```
    pub fn get_many_by_key(
        &mut self,
        master: &[u8],
        keys: &[&[u8]],
    ) -> Vec<Result<Option<Value>, Failure>> {
        let server = self.locate(master);
        self.get_from(keys, vec![server; keys.len()])
    }

    /// Stores many values: requests are buffered and go to all servers at once, and each has its
    /// result.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Item, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let stored = cache.set_many(&[(b"a", Item::new(b"1")), (b"b", Item::new(b"2"))]);
    /// assert_eq!(stored.len(), 2);
    /// ```
    pub fn set_many(&mut self, items: &[(&[u8], Item<'_>)]) -> Vec<Result<Stored, Failure>> {
        let keys: Vec<Vec<u8>> = items.iter().map(|(key, _)| self.prefixed(key)).collect();
        let requests: Vec<_> = items
            .iter()
            .zip(&keys)
            .map(|((key, item), whole)| (self.locate(key), store(whole, Mode::Set, item)))
            .collect();
        let answers = self.exchange(&requests).into_iter().zip(&requests);
        answers.map(|(answer, (server, _))| self.stored(*server, answer?)).collect()
    }

    /// The statistics of every server, each under its name.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// let statistics = cache.stats();
    /// assert_eq!(statistics.len(), 1);
    /// ```
    pub fn stats(&mut self) -> Vec<Result<Statistics, Failure>> {
        let requests: Vec<_> = (0..self.ring.servers().len())
            .map(|server| (server, Request::Stats { section: "" }))
            .collect();
        let answers = self.exchange(&requests).into_iter().enumerate();
        answers
            .map(|(server, answer)| match answer? {
                Answer::Pairs(pairs) => Ok((self.name(server), pairs)),
                answer => Err(self.unexpected(server, &answer)),
            })
            .collect()
    }

    /// Removes every key of every server; a result for each.
    ///
    /// ```
    /// # use nagi_client::cache::{Cache, Settings};
    /// # use nagi_client::ring::{Dalli, Ring, Server};
    /// # let ring = Ring::Dalli(Dalli::new(vec![Server::new("127.0.0.1", 1)]));
    /// # let mut cache = Cache::new(ring, Settings::default());
    /// assert!(cache.flush()[0].is_err());
    /// ```
    pub fn flush(&mut self) -> Vec<Result<(), Failure>> {
        let requests: Vec<_> =
            (0..self.ring.servers().len()).map(|server| (server, Request::Flush)).collect();
        self.exchange(&requests).into_iter().map(|answer| answer.map(drop)).collect()
    }

    fn locate(&self, key: &[u8]) -> usize {
        self.ring.locate(key).unwrap_or(usize::MAX)
    }

    fn prefixed(&self, key: &[u8]) -> Vec<u8> {
        [&self.settings.prefix, key].concat()
    }

    fn name(&self, server: usize) -> String {
        self.ring.servers().get(server).map(ToString::to_string).unwrap_or_default()
    }

    /// Asks the server that `master` decides about `key`.
    fn ask(
        &mut self,
        master: &[u8],
        key: &[u8],
        request: impl FnOnce(&[u8]) -> Request<'_>,
    ) -> Result<Answer, Failure> {
        let (server, key) = (self.locate(master), self.prefixed(key));
        let answer = self.exchange(&[(server, request(&key))]).pop();
        answer.unwrap_or_else(|| Err(no_server()))
    }

    fn store(
        &mut self,
        master: &[u8],
        key: &[u8],
        mode: Mode,
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        let (server, key) = (self.locate(master), self.prefixed(key));
        let answer = self.exchange(&[(server, store(&key, mode, item))]).pop();
        self.stored(server, answer.unwrap_or_else(|| Err(no_server()))?)
    }

    fn get_from(
        &mut self,
        keys: &[&[u8]],
        servers: Vec<usize>,
    ) -> Vec<Result<Option<Value>, Failure>> {
        let whole: Vec<Vec<u8>> = keys.iter().map(|key| self.prefixed(key)).collect();
        let mut requests = Vec::new();
        let mut asked: Vec<Vec<usize>> = Vec::new();
        let mut distinct = servers.clone();
        distinct.sort_unstable();
        distinct.dedup();
        for server in distinct {
            let of_server: Vec<usize> = servers
                .iter()
                .enumerate()
                .filter_map(|(number, of)| (*of == server).then_some(number))
                .collect();
            for numbers in of_server.chunks(KEYS_AT_ONCE) {
                let keys = numbers.iter().filter_map(|number| whole.get(*number));
                requests.push((server, Request::Get { keys: keys.map(Vec::as_slice).collect() }));
                asked.push(numbers.to_vec());
            }
        }
        let mut values: Vec<Result<Option<Value>, Failure>> = vec![Ok(None); keys.len()];
        let answers = self.exchange(&requests).into_iter().zip(&requests);
        for ((answer, (server, _)), numbers) in answers.zip(asked) {
            let mut found = match answer {
                Ok(Answer::Values(found)) => Ok(found.into_iter()),
                Ok(answer) => Err(self.unexpected(*server, &answer)),
                Err(failure) => Err(failure),
            };
            for number in numbers {
                if let Some(value) = values.get_mut(number) {
                    *value = match &mut found {
                        Ok(found) => Ok(found.next().flatten()),
                        Err(failure) => Err(failure.clone()),
                    };
                }
            }
        }
        values
    }

    fn value(&self, master: &[u8], answer: Answer) -> Result<Option<Value>, Failure> {
        match answer {
            Answer::Values(mut values) => Ok(values.pop().flatten()),
            answer => Err(self.unexpected(self.locate(master), &answer)),
        }
    }

    fn was_there(&self, master: &[u8], answer: Answer) -> Result<bool, Failure> {
        match answer {
            Answer::Done => Ok(true),
            Answer::Missing => Ok(false),
            answer => Err(self.unexpected(self.locate(master), &answer)),
        }
    }

    fn number(&self, master: &[u8], answer: Answer) -> Result<Option<u64>, Failure> {
        match answer {
            Answer::Number(number) => Ok(Some(number)),
            Answer::Missing => Ok(None),
            answer => Err(self.unexpected(self.locate(master), &answer)),
        }
    }

    fn stored(&self, server: usize, answer: Answer) -> Result<Stored, Failure> {
        match answer {
            Answer::Done => Ok(Stored::Yes),
            Answer::NotStored => Ok(Stored::Condition),
            Answer::Changed => Ok(Stored::Changed),
            Answer::Missing => Ok(Stored::Missing),
            answer => Err(self.unexpected(server, &answer)),
        }
    }

    fn unexpected(&self, server: usize, answer: &Answer) -> Failure {
        let reason = Reason::Protocol(format!("{answer:?} is an answer to something else"));
        Failure { server: self.name(server), reason }
    }
}

fn no_server() -> Failure {
    let reason = Reason::Request("there are no servers".to_owned());
    Failure { server: String::new(), reason }
}

/// A server's name, and its statistics by name.
pub type Statistics = (String, Vec<(String, String)>);

/// Keys of one request, so that no request is too long a line for a server.
const KEYS_AT_ONCE: usize = 100;

fn store<'a>(key: &'a [u8], mode: Mode, item: &Item<'a>) -> Request<'a> {
    let Item { value, flags, expiry } = *item;
    Request::Store { mode, key, value, flags, expiry }
}
