//! A cache over several servers: each key is asked of the server that the ring names, and each
//! result says which server failed and why.

mod failure;
mod item;
mod link;
mod operations;
mod pool;
mod redirect;
mod settings;

use std::time::Instant;

pub use failure::{Failure, Reason};
pub use item::{Item, Stored};
pub use operations::Statistics;
pub use pool::Pool;
pub use settings::Settings;

use link::Link;
use redirect::Redirect;

use crate::ring::{Ring, Server};
use crate::wire::{Answer, Request};

/// Bytes of requests that are under way at once on a connection, unless one alone has more: what
/// the system buffers, so that a server never has to wait for us to read while we wait to send.
const WINDOW_BYTES: usize = 32 * 1024;

/// A blocking client of several servers.
///
/// ```
/// use nagi_client::cache::{Cache, Item, Settings};
/// use nagi_client::ring::{Configuration, Library, Server};
///
/// let servers = vec!["127.0.0.1:1".parse::<Server>()?];
/// let ring = Configuration::from(Library::PhpKetama).ring(servers);
/// let mut cache = Cache::new(ring, Settings::default());
/// // No server listens there.
/// let failure = cache.set(b"user:1", &Item::new(b"Ume")).unwrap_err();
/// assert_eq!(failure.server, "127.0.0.1:1");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Cache {
    ring: Ring,
    links: Vec<Link>,
    settings: Settings,
}

/// How often one request follows a cluster's servers to another.
const REDIRECTIONS: usize = 5;

/// A request and the number of the server that it goes to.
type Routed<'a> = (usize, Request<'a>);

impl Cache {
    /// No connection is made until it is needed.
    ///
    /// ```
    /// use nagi_client::cache::{Cache, Settings};
    /// use nagi_client::ring::{Dalli, Ring};
    /// let ring = Ring::Dalli(Dalli::new(Vec::new()));
    /// assert!(Cache::new(ring, Settings::default()).get(b"key").is_err());
    /// ```
    #[must_use]
    pub fn new(ring: Ring, settings: Settings) -> Self {
        let mut cache = Cache { ring, links: Vec::new(), settings };
        cache.add_links();
        cache
    }

    /// Where keys are.
    ///
    /// ```
    /// use nagi_client::cache::{Cache, Settings};
    /// use nagi_client::ring::{Dalli, Ring, Server};
    /// let ring = Ring::Dalli(Dalli::new(vec![Server::new("kyoto", 0)]));
    /// assert_eq!(Cache::new(ring, Settings::default()).ring().servers().len(), 1);
    /// ```
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Makes the links of servers that have none; those of one server are behind each other.
    fn add_links(&mut self) {
        let connections = self.settings.connections.max(1);
        let known = self.links.len() / connections;
        for server in self.ring.servers().iter().skip(known) {
            self.links.extend((0..connections).map(|_| Link::new(server.clone())));
        }
    }

    /// Sends requests to all their servers at once and returns the answers in their order. Where a
    /// cluster's server says that a key is elsewhere, it has done nothing, and the request goes
    /// there.
    fn exchange(&mut self, requests: &[Routed<'_>]) -> Vec<Result<Answer, Failure>> {
        let mut results = self.exchange_once(requests);
        if !matches!(self.ring, Ring::Cluster(_)) {
            return results;
        }
        for _ in 0..REDIRECTIONS {
            let mut numbers = Vec::new();
            let mut moved: Vec<Routed<'_>> = Vec::new();
            for (number, ((_, request), result)) in requests.iter().zip(&mut results).enumerate() {
                match redirect(result) {
                    Some(Redirect::Moved { slot, server }) => {
                        let Ring::Cluster(cluster) = &mut self.ring else { continue };
                        moved.push((cluster.assign(slot, server), request.clone()));
                        numbers.push(number);
                    }
                    Some(Redirect::Ask { server }) => *result = self.ask_once(server, request),
                    None => {}
                }
            }
            if moved.is_empty() {
                break;
            }
            self.add_links();
            for (number, answer) in numbers.into_iter().zip(self.exchange_once(&moved)) {
                if let Some(result) = results.get_mut(number) {
                    *result = answer;
                }
            }
        }
        results
    }

    /// Sends one request to the server that a slot is on its way to.
    fn ask_once(&mut self, server: Server, request: &Request<'_>) -> Result<Answer, Failure> {
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
        let deadline = Instant::now() + self.settings.timeout;
        let link = self.links.get_mut(place * self.settings.connections.max(1));
        let link = link.ok_or_else(|| failed(Reason::Dead))?;
        let sent = link.send(&self.settings, &bytes);
        let asked = sent.and_then(|()| link.receive(&Request::Asking, deadline));
        let answer = asked.and_then(|_| link.receive(request, deadline)).map_err(|reason| {
            link.fail(&reason, self.settings.retry_after);
            lost(&[(place, request.clone())], 0, &reason)
        });
        match answer {
            Ok(Answer::Refused(text)) => Err(failed(Reason::Refused(text))),
            answer => answer.map_err(failed),
        }
    }

    fn exchange_once(&mut self, requests: &[Routed<'_>]) -> Vec<Result<Answer, Failure>> {
        let mut results: Vec<Option<Result<Answer, Reason>>> = vec![None; requests.len()];
        let mut queues: Vec<Vec<(usize, Vec<u8>)>> = vec![Vec::new(); self.links.len()];
        for (number, (server, request)) in requests.iter().enumerate() {
            let mut bytes = Vec::new();
            let encoded = request.encode(self.settings.dialect, &mut bytes);
            let connections = self.settings.connections.max(1);
            let link = server.saturating_mul(connections).saturating_add(number % connections);
            match (encoded, queues.get_mut(link), results.get_mut(number)) {
                (Ok(()), Some(queue), _) => queue.push((number, bytes)),
                (Err(reason), _, Some(result)) => *result = Some(Err(Reason::Request(reason))),
                _ => {}
            }
        }
        let mut at = vec![0; queues.len()];
        loop {
            let sent: Vec<Vec<usize>> = queues
                .iter()
                .zip(&mut at)
                .enumerate()
                .map(|(link, (queue, at))| {
                    self.send_window(link, queue, at, requests, &mut results)
                })
                .collect();
            if sent.iter().all(Vec::is_empty) {
                break;
            }
            let deadline = Instant::now() + self.settings.timeout;
            for (link, numbers) in sent.into_iter().enumerate() {
                self.receive_window(link, &numbers, deadline, requests, &mut results);
            }
        }
        let no_server = || Err(Reason::Request("there are no servers".to_owned()));
        let results = results.into_iter().map(|result| result.unwrap_or_else(no_server));
        let named = results.zip(requests).map(|(result, (server, _))| {
            let name = || self.ring.servers().get(*server).map(ToString::to_string);
            match result {
                Ok(Answer::Refused(text)) => Err(Reason::Refused(text)),
                result => result,
            }
            .map_err(|reason| Failure { server: name().unwrap_or_default(), reason })
        });
        named.collect()
    }

    /// Sends as many of a link's next requests as a window takes: their numbers.
    fn send_window(
        &mut self,
        link: usize,
        queue: &[(usize, Vec<u8>)],
        at: &mut usize,
        requests: &[Routed<'_>],
        results: &mut [Option<Result<Answer, Reason>>],
    ) -> Vec<usize> {
        let Some(link) = self.links.get_mut(link) else { return Vec::new() };
        let mut bytes = Vec::new();
        let mut numbers = Vec::new();
        for (number, request) in queue.iter().skip(*at) {
            if !bytes.is_empty() && bytes.len() + request.len() > WINDOW_BYTES {
                break;
            }
            bytes.extend_from_slice(request);
            numbers.push(*number);
        }
        *at += numbers.len();
        if numbers.is_empty() {
            return numbers;
        }
        let Settings { retry_after, .. } = self.settings;
        match link.send(&self.settings, &bytes) {
            Ok(()) => numbers,
            Err(reason) => {
                link.fail(&reason, retry_after);
                for number in numbers {
                    set(results, number, Err(lost(requests, number, &reason)));
                }
                // An empty window ends a server's turn: what is left fails likewise, at once.
                for (number, _) in queue.iter().skip(*at) {
                    set(results, *number, Err(not_sent(&reason)));
                }
                *at = queue.len();
                Vec::new()
            }
        }
    }

    fn receive_window(
        &mut self,
        link: usize,
        numbers: &[usize],
        deadline: Instant,
        requests: &[Routed<'_>],
        results: &mut [Option<Result<Answer, Reason>>],
    ) {
        let Settings { retry_after, .. } = self.settings;
        let Some(link) = self.links.get_mut(link) else { return };
        let mut failed: Option<Reason> = None;
        for &number in numbers {
            let Some((_, request)) = requests.get(number) else { continue };
            let mut answer = match &failed {
                Some(reason) => Err(reason.clone()),
                None => link.receive(request, deadline),
            };
            if let (Err(reason), None) = (&answer, &failed) {
                link.fail(reason, retry_after);
                failed = Some(reason.clone());
            }
            // What changes nothing is asked once more, unless the server was too slow.
            if request.is_idempotent() && matches!(answer, Err(Reason::Broken(_))) {
                let mut bytes = Vec::new();
                if request.encode(self.settings.dialect, &mut bytes).is_ok() {
                    let again = link.send(&self.settings, &bytes);
                    answer = again.and_then(|()| link.receive(request, deadline));
                    if let Err(reason) = &answer {
                        link.fail(reason, retry_after);
                        failed = Some(reason.clone());
                    }
                }
            }
            set(results, number, answer.map_err(|reason| lost(requests, number, &reason)));
        }
    }
}

/// Where a refused request belongs, if the refusal says so.
fn redirect(result: &Result<Answer, Failure>) -> Option<Redirect> {
    let Err(Failure { server, reason: Reason::Refused(text) }) = result else { return None };
    let (answering, _) = server.rsplit_once(':')?;
    Redirect::parse(text, answering.trim_matches(['[', ']']))
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

/// What a failure means for a request that was, perhaps in part, sent.
fn lost(requests: &[Routed<'_>], number: usize, reason: &Reason) -> Reason {
    let is_read = requests.get(number).is_none_or(|(_, request)| request.is_idempotent());
    match reason {
        Reason::TimedOut if !is_read => Reason::Unknown("no answer in time".to_owned()),
        Reason::Broken(text) if !is_read => Reason::Unknown(text.clone()),
        Reason::Protocol(text) if !is_read => Reason::Unknown(format!("not an answer: {text}")),
        reason => reason.clone(),
    }
}

/// What a failure means for a request of which nothing was sent.
fn not_sent(reason: &Reason) -> Reason {
    match reason {
        Reason::Connect(text) => Reason::Connect(text.clone()),
        _ => Reason::Dead,
    }
}
