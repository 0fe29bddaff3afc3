//! Samples of connections, for the lists on pages.

use crate::state::http_tally::HttpConnection;
use crate::{ClientInfo, Marks, Server};
use nagi_store::ticks;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A connection at the time of a sample.
#[derive(Clone, Debug, Default)]
pub struct ClientSample {
    /// Its number, unique over the life of the process.
    pub id: u64,
    /// The peer's address.
    pub address: String,
    /// CLIENT SETNAME.
    pub name: String,
    /// The name of its user.
    pub user: String,
    /// CLIENT SETINFO, or the beginning of the User-Agent.
    pub library: String,
    /// The protocol.
    pub protocol: &'static str,
    /// The worker that owns it; none of an HTTP connection between two requests.
    pub worker: Option<usize>,
    /// Its state.
    pub state: &'static str,
    /// The last command, in lower case.
    pub command: String,
    /// The key of that command, if known: its first 64 bytes.
    pub key: String,
    /// Its database.
    pub database: usize,
    /// The time since it connected, in seconds.
    pub age_s: u64,
    /// The time since it last sent data, in seconds.
    pub idle_s: u64,
    /// Memory that it takes, in bytes.
    pub memory_bytes: usize,
    /// Bytes received from it.
    pub received_bytes: u64,
    /// Bytes sent to it.
    pub sent_bytes: u64,
    /// Its requests.
    pub requests: u64,
    /// Its requests of the last second.
    pub requests_per_second: u64,
    /// Bytes of the last second, in both directions.
    pub bytes_per_second: u64,
    /// The time for which its worker was busy with it, in nanoseconds; 0 if timing is off.
    pub busy_ns: u64,
    /// The time for which its worker was busy with it in the last second, in nanoseconds.
    pub busy_ns_per_second: u64,
    /// The total busy time in ticks, so that differences have no rounding errors.
    pub(super) busy_ticks: u64,
}

/// A count that has grown by `grown` in this time, per second.
pub(super) fn per_second(grown: u64, passed: Duration) -> u64 {
    (grown as f64 / passed.as_secs_f64()) as u64
}

/// Lists all connections, the oldest first. `before` are the connections of the previous sample, if
/// it listed them, and the time since then.
pub(super) fn list(
    server: &dyn Server,
    before: Option<(&[ClientSample], Duration)>,
    now_ms: u64,
) -> Vec<ClientSample> {
    /// The number of ticks to convert, large enough for an exact length of a tick.
    const MEASURED: u64 = 1 << 32;
    let mut clients = server.clients();
    clients.sort_unstable_by_key(|client| client.id);
    let tick_ns = ticks::duration(MEASURED).as_nanos() as f64 / MEASURED as f64;
    // This client is marked as waiting, but its script executes.
    let has_script = server.scripts().running_for().map(|(client, _)| client);
    let ns = |ticks: u64| (ticks as f64 * tick_ns) as u64;
    let sample = |client: &ClientInfo| {
        let user = String::from_utf8_lossy(&client.user()).into_owned();
        let names = client.names().clone();
        let counted = client.shown_counters();
        let requests = counted.requests;
        // A connection that was not listed has been opened since, so all of its counts are new.
        let rate = |now: u64, count: fn(&ClientSample) -> u64| {
            before.map_or(0, |(listed, passed)| {
                let known = listed.binary_search_by_key(&client.id, |it| it.id).ok();
                let known = known.and_then(|place| listed.get(place)).map_or(0, count);
                per_second(now.saturating_sub(known), passed)
            })
        };
        let bytes = [counted.received_bytes, counted.sent_bytes];
        let busy_ticks = counted.busy_ticks;
        let busy_ticks_per_second = rate(busy_ticks, |it| it.busy_ticks);
        let since = |ms: u64| now_ms.saturating_sub(ms) / 1000;
        let library = format!("{} {}", names.library_name, names.library_version);
        let of_resp = match client.resp.load(Relaxed) {
            0 => "memcached",
            2 => "RESP2",
            _ => "RESP3",
        };
        let (protocol, library) = match &client.http_client {
            Some(http) => http.shown(),
            None => (of_resp, library.trim().to_owned()),
        };
        ClientSample {
            id: client.id,
            address: client.shown_address().into_owned(),
            name: names.name,
            user,
            library,
            protocol,
            worker: Some(client.worker()),
            state: if has_script == Some(client.id) { "executing" } else { state(client) },
            command: server.commands().label(client.last_command.load(Relaxed)).to_owned(),
            key: client.shown_key.text(),
            database: client.database.load(Relaxed),
            age_s: since(counted.since_ms),
            idle_s: since(client.active_at_ms.load(Relaxed)),
            memory_bytes: client.total_bytes(),
            received_bytes: bytes[0],
            sent_bytes: bytes[1],
            requests,
            requests_per_second: rate(requests, |it| it.requests),
            bytes_per_second: rate(bytes.iter().sum(), |it| it.received_bytes + it.sent_bytes),
            busy_ns: ns(busy_ticks),
            busy_ns_per_second: ns(busy_ticks_per_second),
            busy_ticks,
        }
    };
    let mut samples: Vec<_> = clients.iter().map(|client| sample(client)).collect();
    samples.extend(idle_http(server, &clients));
    samples.sort_by_key(|sample| sample.id);
    samples
}

/// HTTP connections that await a request. A worker's connection with the same address still shows
/// the last request of one, in which case it is not listed again.
fn idle_http(server: &dyn Server, clients: &[Arc<ClientInfo>]) -> Vec<ClientSample> {
    let of_http = clients.iter().filter_map(|client| client.http_client.as_ref());
    let shown: HashSet<SocketAddr> = of_http.map(|http| http.address()).collect();
    let mut idle = server.statistics().http.idle();
    idle.retain(|it| !shown.contains(&it.address));
    let sample = |it: HttpConnection| ClientSample {
        id: it.id,
        address: it.address.to_string(),
        protocol: "HTTP",
        state: "idle",
        age_s: it.age_s,
        idle_s: it.idle_s,
        requests: it.requests,
        ..ClientSample::default()
    };
    idle.into_iter().map(sample).collect()
}

/// The states of connections.
pub(super) const STATES: [&str; 7] =
    ["idle", "reading", "queued", "executing", "writing", "blocked", "subscribed"];

/// The state of a connection: one of [`STATES`].
fn state(client: &ClientInfo) -> &'static str {
    let marks = client.marks();
    match () {
        () if client.is_waiting.load(Relaxed) || marks.contains(Marks::WAITING) => "blocked",
        () if client.is_executing.load(Relaxed) => "executing",
        () if client.output_bytes.load(Relaxed) > 0 => "writing",
        () if marks.intersects(Marks::PUBSUB | Marks::MONITOR | Marks::WATCHER) => "subscribed",
        () if client.queued_requests.load(Relaxed) > 0 => "queued",
        () if client.query_bytes.load(Relaxed) > 0 => "reading",
        () => "idle",
    }
}
