//! The limit of the memory that clients take (`maxmemory-clients`).

use crate::state::client_lines;
use nagi_commands::{ClientInfo, Config, Marks};
use std::cmp::Reverse;
use std::sync::Arc;

/// The clients to close so that all clients together take at most `limit` bytes: those that take
/// the most memory.
pub(crate) fn beyond_limit(clients: Vec<Arc<ClientInfo>>, limit: u64) -> Vec<Arc<ClientInfo>> {
    let with_bytes = |client: Arc<ClientInfo>| (client.memory_bytes() as u64, client);
    let mut clients: Vec<_> = clients.into_iter().map(with_bytes).collect();
    let mut used: u64 = clients.iter().map(|(bytes, _)| bytes).sum();
    if used < limit {
        return Vec::new();
    }
    clients.retain(|(_, client)| !client.marks().contains(Marks::NO_EVICT));
    clients.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
    let is_beyond = |(bytes, _): &(u64, Arc<ClientInfo>)| {
        let was_beyond = used >= limit;
        used = used.saturating_sub(*bytes);
        was_beyond
    };
    clients.into_iter().take_while(is_beyond).map(|(_, client)| client).collect()
}

/// Whether a client alone exceeds the limit for all, so that closing other clients would not help.
pub(crate) fn is_passed_by(client: &ClientInfo, config: &Config) -> bool {
    let limit = config.client_memory_limit();
    limit > 0 && client.memory_bytes() as u64 > limit && !client.marks().contains(Marks::NO_EVICT)
}

/// Logs that a client is closed for its memory.
pub(crate) fn log_closed(client: &ClientInfo) {
    if client_lines::MEMORY.admit() {
        tracing::warn!(
            client = client.id,
            address = %client.shown_address(),
            bytes = client.memory_bytes(),
            "{}", client_lines::MEMORY.text()
        );
    }
}
