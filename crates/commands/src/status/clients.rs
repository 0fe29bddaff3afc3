//! Connections as pages list them.

use crate::{ClientInfo, Marks, Server};
use std::sync::atomic::Ordering::Relaxed;

/// A connection, as it was at the moment of a sample.
#[derive(Clone, Debug)]
pub struct ClientSample {
    /// Its number, unique over the life of the process.
    pub id: u64,
    /// The peer's address.
    pub address: String,
    /// CLIENT SETNAME.
    pub name: String,
    /// CLIENT SETINFO.
    pub library: String,
    /// What it speaks.
    pub protocol: &'static str,
    /// The worker that owns it.
    pub worker: usize,
    /// What it does.
    pub state: &'static str,
    /// The last command, in small letters.
    pub command: String,
    /// Its database.
    pub database: usize,
    /// For how long it has been connected, in seconds.
    pub age_s: u64,
    /// For how long it has sent nothing, in seconds.
    pub idle_s: u64,
    /// Memory that it takes, in bytes.
    pub memory_bytes: usize,
}

/// All connections, the oldest first.
pub(super) fn list(server: &dyn Server, now_ms: u64) -> Vec<ClientSample> {
    let mut clients = server.clients();
    clients.sort_unstable_by_key(|client| client.id);
    let sample = |client: &ClientInfo| {
        let names = client.names().clone();
        let since = |ms: u64| now_ms.saturating_sub(ms) / 1000;
        let library = format!("{} {}", names.library_name, names.library_version);
        ClientSample {
            id: client.id,
            address: client.address.clone(),
            name: names.name,
            library: library.trim().to_owned(),
            protocol: match client.resp.load(Relaxed) {
                0 => "memcached",
                2 => "RESP2",
                _ => "RESP3",
            },
            worker: client.worker,
            state: state(client),
            command: server.commands().label(client.last_command.load(Relaxed)).to_owned(),
            database: client.database.load(Relaxed),
            age_s: since(client.connected_at_ms),
            idle_s: since(client.active_at_ms.load(Relaxed)),
            memory_bytes: client.total_bytes(),
        }
    };
    clients.iter().map(|client| sample(client)).collect()
}

/// In one word, what a connection does.
fn state(client: &ClientInfo) -> &'static str {
    let marks = client.marks();
    match () {
        () if marks.contains(Marks::WAITING) => "blocked",
        () if client.output_bytes.load(Relaxed) > 0 => "writing",
        () if marks.intersects(Marks::PUBSUB | Marks::MONITOR | Marks::WATCHER) => "subscribed",
        () if client.queued_requests.load(Relaxed) > 0 => "queued",
        () if client.query_bytes.load(Relaxed) > 0 => "reading",
        () => "idle",
    }
}
