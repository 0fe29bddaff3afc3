//! The limit of the memory that clients take (`maxmemory-clients`).

use crate::state::shared::Shared;
use nagi_commands::{ClientInfo, Config, Marks, Server as _};
use std::cmp::Reverse;
use std::sync::Arc;

/// Closes the clients that take the most memory, until all of them together take no more than
/// `maxmemory-clients`.
pub(crate) fn limit_client_memory(shared: &Shared) {
    let limit = shared.config().client_memory_limit();
    if limit > 0 {
        evict_clients(shared, limit);
    }
    shared.client_memory.note_use(limit, shared.store.client_bytes());
}

fn evict_clients(shared: &Shared, limit: u64) {
    let with_bytes = |client: Arc<ClientInfo>| (client.memory_bytes() as u64, client);
    let mut clients: Vec<_> = shared.registry.clients().into_iter().map(with_bytes).collect();
    let mut used: u64 = clients.iter().map(|(bytes, _)| bytes).sum();
    if used < limit {
        return;
    }
    clients.retain(|(_, client)| !client.marks().contains(Marks::NO_EVICT));
    clients.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
    for (bytes, client) in clients {
        if used < limit {
            return;
        }
        used = used.saturating_sub(bytes);
        shared.evict(&client);
    }
}

/// Whether a client takes more alone than all are allowed, so that closing others would not help.
pub(crate) fn is_passed_by(client: &ClientInfo, config: &Config) -> bool {
    let limit = config.client_memory_limit();
    limit > 0 && client.memory_bytes() as u64 > limit && !client.marks().contains(Marks::NO_EVICT)
}

/// Says in the log that a client is closed for its memory.
pub(crate) fn log_closed(client: &ClientInfo) {
    tracing::warn!(
        client = client.id,
        address = %client.shown_address(),
        bytes = client.memory_bytes(),
        "closed: clients take more than maxmemory-clients"
    );
}
