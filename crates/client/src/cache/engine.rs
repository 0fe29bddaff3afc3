//! Sends requests to several servers at once, for blocking and asynchronous clients: the engine
//! only needs sockets that send and receive.

use super::failure::{Failure, Reason};
use super::link::{AnswerDeadline, Link};
use super::redirect::Redirect;
use super::settings::Settings;
use super::socket::Socket;
use super::watch::Watch;
use crate::ring::{Ring, Server, slot_of};
use crate::wire::{Answer, Request};

/// Maximum bytes of requests in flight on a connection, unless a single request is larger. The
/// kernel's socket buffers hold this much, so a server never waits for the client to read while the
/// client waits to send.
const WINDOW_BYTES: usize = 32 * 1024;

/// Maximum redirections of one request in a cluster.
const REDIRECTIONS: usize = 5;

/// A request and the index of its server.
pub(super) type Routed<'a> = (usize, Request<'a>);

/// The connections to several servers, and the state of these servers.
#[derive(Debug)]
pub(crate) struct Engine<S> {
    pub(super) ring: Ring,
    pub(super) links: Vec<Link<S>>,
    pub(super) settings: Settings,
    pub(super) watch: Watch,
    pub(super) replica_failures: Vec<Failure>,
}

/// Encoded requests of one connection, the first `sent` of which have been sent.
#[derive(Clone, Default)]
struct Queue {
    requests: Vec<(usize, Vec<u8>)>,
    sent: usize,
}

impl<S: Socket> Engine<S> {
    pub(crate) fn new(ring: Ring, settings: Settings) -> Self {
        let (links, watch, replica_failures) = (Vec::new(), Watch::default(), Vec::new());
        let mut engine = Engine { ring, links, settings, watch, replica_failures };
        engine.add_links();
        engine
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    pub(super) fn connections(&self) -> usize {
        self.settings.connections.max(1)
    }

    pub(super) fn locate(&self, key: &[u8]) -> usize {
        self.ring.locate(key).unwrap_or(usize::MAX)
    }

    pub(super) fn name(&self, server: usize) -> String {
        self.ring.servers().get(server).map(ToString::to_string).unwrap_or_default()
    }

    pub(super) fn failure(&self, server: usize, reason: Reason) -> Failure {
        Failure { server: self.name(server), reason }
    }

    /// Creates links for servers that have none. The links of a server are adjacent.
    fn add_links(&mut self) {
        let connections = self.connections();
        let known = self.links.len() / connections;
        for server in self.ring.servers().iter().skip(known) {
            self.links.extend((0..connections).map(|_| Link::new(server.clone())));
        }
    }

    /// Sends requests to all of their servers at once. Returns the answers in the order of the
    /// requests. A request that a cluster redirects has not been executed, and is sent to the new
    /// server. If a server of a cluster does not answer, another one is asked, which may have taken
    /// over the slot, or redirects.
    pub(super) async fn exchange(
        &mut self,
        requests: &[Routed<'_>],
    ) -> Vec<Result<Answer, Failure>> {
        let mut results = self.exchange_once(requests).await;
        if !matches!(self.ring, Ring::Cluster(_)) {
            return results;
        }
        let mut asked: Vec<usize> = requests.iter().map(|(server, _)| *server).collect();
        for _ in 0..REDIRECTIONS {
            let mut numbers = Vec::new();
            let mut moved: Vec<Routed<'_>> = Vec::new();
            for (number, ((_, request), result)) in requests.iter().zip(&mut results).enumerate() {
                let Ring::Cluster(cluster) = &mut self.ring else { continue };
                let Some(asked) = asked.get_mut(number) else { continue };
                let next = match redirect(result) {
                    Some(Redirect::Moved { slot, server }) => Some(cluster.assign(slot, server)),
                    Some(Redirect::Ask { server }) => {
                        *result = self.ask_once(server, request).await;
                        None
                    }
                    None if is_unanswered(result) => {
                        let key = request.keys().first().copied();
                        key.and_then(|key| cluster.replace(slot_of(key), *asked))
                    }
                    None => None,
                };
                let Some(next) = next else { continue };
                *asked = next;
                moved.push((next, request.clone()));
                numbers.push(number);
            }
            if moved.is_empty() {
                break;
            }
            self.add_links();
            for (number, answer) in numbers.into_iter().zip(self.exchange_once(&moved).await) {
                if let Some(result) = results.get_mut(number) {
                    *result = answer;
                }
            }
        }
        results
    }

    /// Sends one request to the server that a slot is migrating to.
    async fn ask_once(&mut self, server: Server, request: &Request<'_>) -> Result<Answer, Failure> {
        let name = server.to_string();
        let failed = |reason| Failure { server: name.clone(), reason };
        let Ring::Cluster(cluster) = &mut self.ring else { return Err(failed(Reason::Dead)) };
        let place = cluster.add(server);
        self.add_links();
        let mut bytes = Vec::new();
        for request in [&Request::Asking, request] {
            let encoded = request.encode(self.settings.dialect, &mut bytes);
            encoded.map_err(|text| failed(Reason::Request(text)))?;
        }
        let deadline = AnswerDeadline::start(&self.settings);
        let link = self.links.get_mut(place * self.settings.connections.max(1));
        let link = link.ok_or_else(|| failed(Reason::Dead))?;
        let mut answer = link.send(&self.settings, &bytes, 2).await.map(|()| Answer::Done);
        for request in [&Request::Asking, request] {
            if answer.is_ok() {
                answer = link.receive(&self.settings, request, deadline).await;
            }
        }
        match answer {
            Ok(Answer::Refused(text)) => Err(failed(Reason::Refused(text))),
            Ok(answer) => Ok(answer),
            Err(reason) => {
                link.fail(&reason, &self.settings);
                Err(failed(lost(request, &reason)))
            }
        }
    }

    /// Like `exchange`, without following redirections.
    pub(super) async fn exchange_once(
        &mut self,
        requests: &[Routed<'_>],
    ) -> Vec<Result<Answer, Failure>> {
        let mut results: Vec<Option<Result<Answer, Reason>>> = vec![None; requests.len()];
        let mut queues = self.queues(requests, &mut results);
        loop {
            let mut windows = Vec::new();
            for (link, queue) in queues.iter_mut().enumerate() {
                windows.push(self.send_window(link, queue, requests, &mut results).await);
            }
            if windows.iter().all(Vec::is_empty) {
                break;
            }
            let deadline = AnswerDeadline::start(&self.settings);
            for (link, numbers) in windows.into_iter().enumerate() {
                self.receive_window(link, &numbers, deadline, requests, &mut results).await;
            }
        }
        let no_server = || Err(Reason::Request("there are no servers".to_owned()));
        let results = results.into_iter().map(|result| result.unwrap_or_else(no_server));
        let named = results.zip(requests).map(|(result, (server, _))| {
            match result {
                Ok(Answer::Refused(text)) => Err(Reason::Refused(text)),
                result => result,
            }
            .map_err(|reason| self.failure(*server, reason))
        });
        named.collect()
    }

    /// Encodes the requests into one queue for each connection. Requests that cannot be encoded, or
    /// whose server is ejected, fail.
    fn queues(
        &self,
        requests: &[Routed<'_>],
        results: &mut [Option<Result<Answer, Reason>>],
    ) -> Vec<Queue> {
        let mut queues = vec![Queue::default(); self.links.len()];
        for (number, (server, request)) in requests.iter().enumerate() {
            if self.watch.is_out(*server) {
                set(results, number, Err(Reason::Dead));
                continue;
            }
            let mut bytes = Vec::new();
            let encoded = request.encode(self.settings.dialect, &mut bytes);
            let connections = self.connections();
            let link = server.saturating_mul(connections).saturating_add(number % connections);
            match (encoded, queues.get_mut(link)) {
                (Ok(()), Some(queue)) => queue.requests.push((number, bytes)),
                (Err(reason), _) => set(results, number, Err(Reason::Request(reason))),
                (Ok(()), None) => {}
            }
        }
        queues
    }

    /// Sends as many of a connection's next requests as fit into a window. Returns the numbers of
    /// the requests sent.
    async fn send_window(
        &mut self,
        link: usize,
        queue: &mut Queue,
        requests: &[Routed<'_>],
        results: &mut [Option<Result<Answer, Reason>>],
    ) -> Vec<usize> {
        let mut bytes = Vec::new();
        let mut numbers = Vec::new();
        for (number, request) in queue.requests.iter().skip(queue.sent) {
            if !bytes.is_empty() && bytes.len() + request.len() > WINDOW_BYTES {
                break;
            }
            bytes.extend_from_slice(request);
            numbers.push(*number);
        }
        queue.sent += numbers.len();
        let link = self.links.get_mut(link).filter(|_| !numbers.is_empty());
        let Some(link) = link else { return Vec::new() };
        let Err(reason) = link.send(&self.settings, &bytes, numbers.len()).await else {
            return numbers;
        };
        link.fail(&reason, &self.settings);
        for number in numbers {
            let Some((_, request)) = requests.get(number) else { continue };
            set(results, number, Err(lost(request, &reason)));
        }
        // The remaining requests would fail in the same way, so they fail at once. The empty window
        // returned means that this connection has nothing left to receive.
        for (number, _) in queue.requests.iter().skip(queue.sent) {
            set(results, *number, Err(not_sent(&reason)));
        }
        queue.sent = queue.requests.len();
        Vec::new()
    }

    async fn receive_window(
        &mut self,
        link: usize,
        numbers: &[usize],
        deadline: AnswerDeadline,
        requests: &[Routed<'_>],
        results: &mut [Option<Result<Answer, Reason>>],
    ) {
        let Some(link) = self.links.get_mut(link) else { return };
        let deadline = deadline.for_turn(&self.settings);
        let mut failed: Option<Reason> = None;
        for &number in numbers {
            let Some((_, request)) = requests.get(number) else { continue };
            let mut answer = match &failed {
                Some(reason) => Err(reason.clone()),
                None => link.receive(&self.settings, request, deadline).await,
            };
            if let (Err(reason), None) = (&answer, &failed) {
                link.fail(reason, &self.settings);
                failed = Some(failure_of_later(reason));
            }
            // An idempotent request is repeated once, unless the server was too slow.
            if request.is_idempotent() && matches!(answer, Err(Reason::Broken(_))) {
                answer = link.ask(&self.settings, request).await;
                if let Err(reason) = &answer {
                    link.fail(reason, &self.settings);
                    failed = Some(failure_of_later(reason));
                }
            }
            set(results, number, answer.map_err(|reason| lost(request, &reason)));
        }
    }
}

/// Returns the target of a redirected request, if the result is a redirection.
fn redirect(result: &Result<Answer, Failure>) -> Option<Redirect> {
    let Err(Failure { server, reason: Reason::Refused(text) }) = result else { return None };
    let (answering, _) = server.rsplit_once(':')?;
    Redirect::parse(text, answering.trim_matches(['[', ']']))
}

/// Whether a request was not executed, or may be repeated, because its server does not answer.
fn is_unanswered(result: &Result<Answer, Failure>) -> bool {
    let reason = result.as_ref().err().map(|failure| &failure.reason);
    let Some(reason) = reason else { return false };
    matches!(reason, Reason::Connect(_) | Reason::Dead | Reason::TimedOut | Reason::Broken(_))
}

fn set(
    results: &mut [Option<Result<Answer, Reason>>],
    number: usize,
    answer: Result<Answer, Reason>,
) {
    if let Some(result) = results.get_mut(number) {
        *result = Some(answer);
    }
}

/// Returns the failure of later requests on the connection of a failed request.
fn failure_of_later(reason: &Reason) -> Reason {
    match reason {
        Reason::TooLong { .. } => Reason::Broken(reason.cause()),
        reason => reason.clone(),
    }
}

/// Returns the failure of a request of which at least a part was sent.
fn lost(request: &Request<'_>, reason: &Reason) -> Reason {
    match reason {
        reason if request.is_idempotent() => reason.clone(),
        Reason::TimedOut | Reason::Broken(_) | Reason::Protocol(_) | Reason::TooLong { .. } => {
            Reason::Unknown(reason.cause())
        }
        reason => reason.clone(),
    }
}

/// Returns the failure of a request of which nothing was sent.
fn not_sent(reason: &Reason) -> Reason {
    match reason {
        Reason::Connect(_) | Reason::Refused(_) => reason.clone(),
        _ => Reason::Dead,
    }
}
