//! The operations of a cache as requests to servers, and results from their answers.

use super::engine::{Engine, Routed};
use super::failure::{Failure, Reason};
use super::item::{Item, Stored};
use super::socket::Socket;
use crate::ring::Ring;
use crate::wire::{Answer, Dialect, Mode, Request, Value};

/// Maximum number of keys in one request, so that its line is not too long for a server.
const KEYS_AT_ONCE: usize = 100;

/// A server's name, and its statistics by name.
///
/// ```
/// let statistics: nagi_client::cache::Statistics = ("kyoto:11211".into(), Vec::new());
/// assert!(statistics.1.is_empty());
/// ```
pub type Statistics = (String, Vec<(String, String)>);

/// One result per key or per server.
type Each<T> = Vec<Result<T, Failure>>;

impl<S: Socket> Engine<S> {
    pub(crate) async fn get(
        &mut self,
        master: &[u8],
        key: &[u8],
    ) -> Result<Option<Value>, Failure> {
        let key = self.prefixed(key);
        let (server, answer) = self.ask(master, Request::Get { keys: vec![&key] }).await?;
        self.value(server, answer)
    }

    pub(crate) async fn get_and_touch(
        &mut self,
        master: &[u8],
        key: &[u8],
        expiry: u32,
    ) -> Result<Option<Value>, Failure> {
        let key = &self.prefixed(key);
        let (server, answer) = self.ask(master, Request::GetAndTouch { key, expiry }).await?;
        self.value(server, answer)
    }

    pub(crate) async fn store(
        &mut self,
        master: &[u8],
        key: &[u8],
        mode: Mode,
        item: &Item<'_>,
    ) -> Result<Stored, Failure> {
        let key = self.prefixed(key);
        let (server, answer) = self.ask(master, store(&key, mode, item)).await?;
        self.stored(server, &answer)
    }

    pub(crate) async fn delete(&mut self, master: &[u8], key: &[u8]) -> Result<bool, Failure> {
        let key = &self.prefixed(key);
        let (server, answer) = self.ask(master, Request::Delete { key }).await?;
        self.was_there(server, &answer)
    }

    pub(crate) async fn touch(
        &mut self,
        master: &[u8],
        key: &[u8],
        expiry: u32,
    ) -> Result<bool, Failure> {
        let key = &self.prefixed(key);
        let (server, answer) = self.ask(master, Request::Touch { key, expiry }).await?;
        self.was_there(server, &answer)
    }

    pub(crate) async fn count(
        &mut self,
        master: &[u8],
        key: &[u8],
        by: u64,
        down: bool,
    ) -> Result<Option<u64>, Failure> {
        let key = &self.prefixed(key);
        match self.ask(master, Request::Count { key, by, down }).await? {
            (_, Answer::Number(number)) => Ok(Some(number)),
            (_, Answer::Missing) => Ok(None),
            (server, answer) => Err(self.unexpected(server, &answer)),
        }
    }

    pub(crate) async fn get_many(&mut self, keys: &[&[u8]]) -> Each<Option<Value>> {
        if matches!(self.ring, Ring::Cluster(_)) {
            // A cluster refuses a request whose keys are in several slots.
            return self.get_each(keys).await;
        }
        self.tend().await;
        let servers = keys.iter().map(|key| self.locate(key)).collect();
        self.get_from(keys, servers).await
    }

    pub(crate) async fn get_each(&mut self, keys: &[&[u8]]) -> Each<Option<Value>> {
        self.tend().await;
        let whole: Vec<Vec<u8>> = keys.iter().map(|key| self.prefixed(key)).collect();
        let requests: Vec<Routed<'_>> = keys
            .iter()
            .zip(&whole)
            .map(|(key, whole)| (self.locate(key), Request::Get { keys: vec![whole] }))
            .collect();
        let answers = self.perform(&requests).await.into_iter().zip(&requests);
        answers.map(|(answer, (server, _))| self.value(*server, answer?)).collect()
    }

    pub(crate) async fn get_many_by_key(
        &mut self,
        master: &[u8],
        keys: &[&[u8]],
    ) -> Each<Option<Value>> {
        self.tend().await;
        let server = self.locate(master);
        self.get_from(keys, vec![server; keys.len()]).await
    }

    /// Stores each value on the server of its key, or all values on the server of `master` if
    /// given.
    pub(crate) async fn set_many(
        &mut self,
        master: Option<&[u8]>,
        items: &[(&[u8], Item<'_>)],
    ) -> Each<Stored> {
        self.tend().await;
        let keys: Vec<Vec<u8>> = items.iter().map(|(key, _)| self.prefixed(key)).collect();
        let mut results: Vec<Option<Result<Stored, Failure>>> = Vec::new();
        let mut requests: Vec<Routed<'_>> = Vec::new();
        for ((key, item), whole) in items.iter().zip(&keys) {
            let key = master.unwrap_or(key);
            let (server, request) = (self.locate(key), store(whole, Mode::Set, item));
            let noted = self.note(key, server, &request);
            results.push(noted.err().map(|reason| Err(self.failure(server, reason))));
            if results.last() == Some(&None) {
                requests.push((server, request));
            }
        }
        let mut answers = self.perform(&requests).await.into_iter().zip(&requests);
        let mut next = || match answers.next() {
            Some((answer, (server, _))) => self.stored(*server, &answer?),
            None => Err(no_server()),
        };
        results.into_iter().map(|result| result.unwrap_or_else(&mut next)).collect()
    }

    pub(crate) async fn set_many_quietly(
        &mut self,
        master: Option<&[u8]>,
        items: &[(&[u8], Item<'_>)],
    ) -> Vec<Failure> {
        if self.settings.dialect == Dialect::Resp {
            return self
                .set_many(master, items)
                .await
                .into_iter()
                .filter_map(Result::err)
                .collect();
        }
        let keys: Vec<Vec<u8>> = items.iter().map(|(key, _)| self.prefixed(key)).collect();
        let writes = items
            .iter()
            .zip(&keys)
            .map(|((key, item), whole)| (master.unwrap_or(key), store(whole, Mode::Set, item)));
        self.write_quietly(writes.collect()).await
    }

    pub(crate) async fn delete_many_quietly(
        &mut self,
        master: Option<&[u8]>,
        keys: &[&[u8]],
    ) -> Vec<Failure> {
        let whole: Vec<Vec<u8>> = keys.iter().map(|key| self.prefixed(key)).collect();
        let deletions = whole.iter().map(|key| Request::Delete { key });
        let deciding = keys.iter().map(|key| master.unwrap_or(key));
        let writes: Vec<(&[u8], Request<'_>)> = deciding.zip(deletions).collect();
        if self.settings.dialect != Dialect::Resp {
            return self.write_quietly(writes).await;
        }
        self.tend().await;
        let mut failures = Vec::new();
        let mut requests = Vec::new();
        for (key, request) in writes {
            let server = self.locate(key);
            match self.note(key, server, &request) {
                Ok(()) => requests.push((server, request)),
                Err(reason) => failures.push(self.failure(server, reason)),
            }
        }
        failures.extend(self.perform(&requests).await.into_iter().filter_map(Result::err));
        failures
    }

    /// Performs writes, each with the key that selects its server. Returns one failure for each
    /// server that failed.
    async fn write_quietly(&mut self, writes: Vec<(&[u8], Request<'_>)>) -> Vec<Failure> {
        self.tend().await;
        let mut failures = Vec::new();
        let mut of_servers = vec![Vec::new(); self.ring.servers().len()];
        for (key, request) in writes {
            let server = self.locate(key);
            let checked = request.check(self.settings.dialect).map_err(Reason::Request);
            match (
                checked.and_then(|()| self.note(key, server, &request)),
                of_servers.get_mut(server),
            ) {
                (Ok(()), Some(of_server)) => of_server.push(request),
                (Ok(()), None) => failures.push(no_server()),
                (Err(reason), _) => failures.push(self.failure(server, reason)),
            }
        }
        let batches = of_servers.iter().enumerate().flat_map(|(server, writes)| {
            let batches = writes.chunks(KEYS_AT_ONCE);
            batches.map(move |writes| (server, Request::Quietly { writes: writes.to_vec() }))
        });
        let requests: Vec<Routed<'_>> = batches.collect();
        failures.extend(self.perform(&requests).await.into_iter().filter_map(Result::err));
        failures
    }

    pub(crate) async fn stats(&mut self, section: &str) -> Each<Statistics> {
        let requests: Vec<Routed<'_>> = (0..self.ring.servers().len())
            .map(|server| (server, Request::Stats { section }))
            .collect();
        let answers = self.exchange(&requests).await.into_iter().enumerate();
        answers
            .map(|(server, answer)| match answer? {
                Answer::Pairs(pairs) => Ok((self.name(server), pairs)),
                answer => Err(self.unexpected(server, &answer)),
            })
            .collect()
    }

    pub(crate) async fn flush(&mut self) -> Each<()> {
        let requests: Vec<Routed<'_>> =
            (0..self.ring.servers().len()).map(|server| (server, Request::Flush)).collect();
        self.exchange(&requests).await.into_iter().map(|answer| answer.map(drop)).collect()
    }

    fn prefixed(&self, key: &[u8]) -> Vec<u8> {
        [&self.settings.prefix, key].concat()
    }

    /// Sends a request to the server that `master` selects. Returns the index of the server and its
    /// answer.
    async fn ask(
        &mut self,
        master: &[u8],
        request: Request<'_>,
    ) -> Result<(usize, Answer), Failure> {
        self.tend().await;
        let server = self.locate(master);
        self.note(master, server, &request).map_err(|reason| self.failure(server, reason))?;
        let answer = self.perform(&[(server, request)]).await.pop();
        Ok((server, answer.unwrap_or_else(|| Err(no_server()))?))
    }

    async fn get_from(&mut self, keys: &[&[u8]], servers: Vec<usize>) -> Each<Option<Value>> {
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
        let mut values: Each<Option<Value>> = vec![Ok(None); keys.len()];
        let answers = self.perform(&requests).await.into_iter().zip(&requests);
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

    fn value(&self, server: usize, answer: Answer) -> Result<Option<Value>, Failure> {
        match answer {
            Answer::Values(mut values) => Ok(values.pop().flatten()),
            answer => Err(self.unexpected(server, &answer)),
        }
    }

    fn was_there(&self, server: usize, answer: &Answer) -> Result<bool, Failure> {
        match answer {
            Answer::Done => Ok(true),
            Answer::Missing => Ok(false),
            answer => Err(self.unexpected(server, answer)),
        }
    }

    fn stored(&self, server: usize, answer: &Answer) -> Result<Stored, Failure> {
        match answer {
            Answer::Done => Ok(Stored::Yes),
            Answer::NotStored => Ok(Stored::Condition),
            Answer::Changed => Ok(Stored::Changed),
            Answer::Missing => Ok(Stored::Missing),
            answer => Err(self.unexpected(server, answer)),
        }
    }

    fn unexpected(&self, server: usize, answer: &Answer) -> Failure {
        let reason = Reason::Protocol(format!("{answer:?} is an answer to something else"));
        self.failure(server, reason)
    }
}

fn no_server() -> Failure {
    let reason = Reason::Request("there are no servers".to_owned());
    Failure { server: String::new(), reason }
}

fn store<'a>(key: &'a [u8], mode: Mode, item: &Item<'a>) -> Request<'a> {
    let Item { value, flags, expiry } = *item;
    Request::Store { mode, key, value, flags, expiry }
}
