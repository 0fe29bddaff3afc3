//! Keeps copies of values on further servers, like libmemcached with `NUMBER_OF_REPLICAS`. The
//! copies are on the next servers in the list, and are read when the first server does not answer.

use super::engine::{Engine, Routed};
use super::failure::{Failure, Reason};
use super::settings::{OnFailure, Replicas};
use super::socket::Socket;
use crate::ring::Ring;
use crate::wire::{Answer, Mode, Request, Value};

/// Maximum number of failures of copies that are kept until they are taken.
const KEPT_FAILURES: usize = 100;

/// The state of a read.
struct Read<'a, 'k> {
    /// The index of the read among the requests.
    number: usize,
    request: &'a Request<'k>,
    keys: Vec<&'k [u8]>,
    /// The index of the first copy's server.
    home: usize,
    /// The number of the copy that is read first; 0 is the first server's.
    start: usize,
    values: Vec<Option<Value>>,
    is_answered: bool,
    /// Whether the result is final: the first copy has answered, or the request is refused.
    is_final: bool,
    failure: Option<Failure>,
    /// An answer of an unexpected type, such as an error.
    odd: Option<Answer>,
}

impl<'k> Read<'_, 'k> {
    /// Returns the request for the keys that have no value yet, and the server of the given round.
    /// Returns `None` when nothing remains to be read.
    fn next(&self, round: usize, copies: usize, servers: usize) -> Option<Routed<'k>> {
        if self.is_final {
            return None;
        }
        let missing = self.keys.iter().zip(&self.values).filter(|(_, value)| value.is_none());
        let keys: Vec<&[u8]> = missing.map(|(key, _)| *key).collect();
        let request = match self.request {
            _ if keys.is_empty() => return None,
            Request::Get { .. } => Request::Get { keys },
            request => request.clone(),
        };
        Some(((self.home + self.copy(round, copies)) % servers, request))
    }

    fn copy(&self, round: usize, copies: usize) -> usize {
        (self.start + round) % (copies + 1)
    }

    fn take(&mut self, copy: usize, result: Result<Answer, Failure>) {
        match result {
            Ok(Answer::Values(found)) => {
                let missing = self.values.iter_mut().filter(|value| value.is_none());
                for (value, found) in missing.zip(found) {
                    // CAS numbers are only valid on the server that assigned them, so those of
                    // copies are dropped.
                    let is_home = copy == 0;
                    *value = found.map(|it| Value { cas: it.cas.filter(|_| is_home), ..it });
                }
                self.is_answered = true;
                self.is_final |= copy == 0;
            }
            Ok(answer) => (self.odd, self.is_final) = (Some(answer), true),
            Err(failure) => {
                self.is_final |= matches!(failure.reason, Reason::Request(_));
                self.failure.get_or_insert(failure);
            }
        }
    }

    fn result(self) -> Result<Answer, Failure> {
        match (self.odd, self.failure) {
            (Some(answer), _) => Ok(answer),
            (None, Some(failure)) if !self.is_answered => Err(failure),
            _ => Ok(Answer::Values(self.values)),
        }
    }
}

impl<S: Socket> Engine<S> {
    /// Sends requests to their servers, and to the servers of the copies.
    pub(super) async fn perform(
        &mut self,
        requests: &[Routed<'_>],
    ) -> Vec<Result<Answer, Failure>> {
        let servers = self.ring.servers().len();
        match self.settings.on_failure {
            OnFailure::Replicate(replicas)
                if servers > 1 && !matches!(self.ring, Ring::Cluster(_)) =>
            {
                self.replicate(requests, replicas, servers).await
            }
            _ => self.exchange(requests).await,
        }
    }

    /// Returns the failures of copies since the last call. The requests of these copies may have
    /// succeeded.
    pub(crate) fn take_replica_failures(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.replica_failures)
    }

    async fn replicate(
        &mut self,
        requests: &[Routed<'_>],
        replicas: Replicas,
        servers: usize,
    ) -> Vec<Result<Answer, Failure>> {
        let copies = replicas.count.min(servers - 1);
        let mut reads = reads(requests, replicas, copies);
        // Writes, their copies and the first round of reads are sent together.
        let mut sent: Vec<Routed<'_>> = requests.to_vec();
        for read in &reads {
            if let (Some(place), Some(routed)) =
                (sent.get_mut(read.number), read.next(0, copies, servers))
            {
                *place = routed;
            }
        }
        sent.extend(requests.iter().flat_map(|(home, request)| {
            let copied = copy_at_once(request).into_iter();
            copied.flat_map(move |request| on_copies(*home, request, copies, servers))
        }));
        let mut results = self.exchange(&sent).await;
        let of_copies = results.split_off(requests.len());
        self.note_replica_failures(of_copies);
        for read in &mut reads {
            if let Some(result) = results.get(read.number) {
                read.take(read.copy(0, copies), result.clone());
            }
        }
        self.read_further(&mut reads, copies, servers).await;
        for read in reads {
            if let Some(result) = results.get_mut(read.number) {
                *result = read.result();
            }
        }
        let later: Vec<Routed<'_>> = requests
            .iter()
            .zip(&results)
            .filter_map(|((home, request), result)| Some((*home, copy_later(request, result)?)))
            .flat_map(|(home, request)| on_copies(home, request, copies, servers))
            .collect();
        let of_copies = self.exchange(&later).await;
        self.note_replica_failures(of_copies);
        results
    }

    /// Reads missing values from further copies.
    async fn read_further(&mut self, reads: &mut [Read<'_, '_>], copies: usize, servers: usize) {
        for round in 1..=copies {
            let (mut sent, mut asking) = (Vec::new(), Vec::new());
            for read in reads.iter_mut() {
                if let Some(routed) = read.next(round, copies, servers) {
                    sent.push(routed);
                    asking.push(read);
                }
            }
            for (read, result) in asking.into_iter().zip(self.exchange(&sent).await) {
                read.take(read.copy(round, copies), result);
            }
        }
    }

    fn note_replica_failures(&mut self, results: Vec<Result<Answer, Failure>>) {
        let room = KEPT_FAILURES.saturating_sub(self.replica_failures.len());
        self.replica_failures.extend(results.into_iter().filter_map(Result::err).take(room));
    }
}

fn reads<'a, 'k>(
    requests: &'a [Routed<'k>],
    replicas: Replicas,
    copies: usize,
) -> Vec<Read<'a, 'k>> {
    let reads = requests.iter().enumerate().filter_map(|(number, (home, request))| {
        let (keys, start) = match request {
            Request::Get { keys } if replicas.random_reads => {
                (keys.clone(), fastrand::usize(..=copies))
            }
            Request::Get { keys } => (keys.clone(), 0),
            Request::GetAndTouch { key, .. } => (vec![*key], 0),
            _ => return None,
        };
        let (home, values) = (*home, vec![None; keys.len()]);
        let (is_answered, is_final, failure, odd) = (false, false, None, None);
        Some(Read {
            number,
            request,
            keys,
            home,
            start,
            values,
            is_answered,
            is_final,
            failure,
            odd,
        })
    });
    reads.collect()
}

/// A request to the servers after the first.
fn on_copies<'k>(
    home: usize,
    request: Request<'k>,
    copies: usize,
    servers: usize,
) -> impl Iterator<Item = Routed<'k>> {
    (1..=copies).map(move |copy| (home.saturating_add(copy) % servers, request.clone()))
}

/// The request sent to copies together with that to the first server.
fn copy_at_once<'k>(request: &Request<'k>) -> Option<Request<'k>> {
    match request {
        Request::Store { mode: Mode::Set, .. }
        | Request::Delete { .. }
        | Request::Touch { .. }
        | Request::Quietly { .. } => Some(request.clone()),
        Request::GetAndTouch { key, expiry } => Some(Request::Touch { key, expiry: *expiry }),
        _ => None,
    }
}

/// The request sent to copies after the first server has answered a conditional request, or one
/// whose result only that server has: copies then delete values that may be stale.
fn copy_later<'k>(request: &Request<'k>, result: &Result<Answer, Failure>) -> Option<Request<'k>> {
    let is_done = matches!(result, Ok(Answer::Done | Answer::Number(_)));
    let is_unknown = matches!(result, Err(Failure { reason: Reason::Unknown(_), .. }));
    match request {
        Request::Store { mode: Mode::Set, .. } => None,
        Request::Store {
            mode: Mode::Add | Mode::Replace | Mode::Cas(_),
            key,
            value,
            flags,
            expiry,
        } if is_done => {
            let (mode, flags, expiry) = (Mode::Set, *flags, *expiry);
            Some(Request::Store { mode, key, value, flags, expiry })
        }
        Request::Store { key, .. } | Request::Count { key, .. } if is_done || is_unknown => {
            Some(Request::Delete { key })
        }
        _ => None,
    }
}
