//! What a process that serves asks of the system before it starts.

use crate::server::RESERVE;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets the process have as many descriptors as it may: each connection is one.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, current = limit.current, "the limit of descriptors stays as it is");
    }
}

/// Descriptors of the process itself: streams, the log, listeners, a file that is read.
const OWN_DESCRIPTORS: u64 = 32;
/// Those of each worker: what it waits with, and what wakes it.
const WORKER_DESCRIPTORS: u64 = 4;

/// Warns if there may be more clients than there are descriptors.
pub(crate) fn tell_of_descriptors(max_clients: u64, workers: usize) {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return };
    let own = OWN_DESCRIPTORS + workers as u64 * WORKER_DESCRIPTORS;
    let needed = max_clients.saturating_add(RESERVE as u64 + own);
    if needed > limit {
        tracing::warn!(
            "maxclients {max_clients} takes {needed} descriptors, and there are {limit}: clients \
             beyond {} will wait until others leave (ulimit -n, or a lower maxclients)",
            limit.saturating_sub(own)
        );
    }
}
