//! File descriptors: how many the process may have, and how many clients that allows.

use nagi_commands::Config;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io;
use std::os::fd::RawFd;

/// Raises the descriptor limit of the process to its maximum: each connection needs one.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, current = limit.current, "cannot raise the descriptor limit");
    }
}

/// Connections beyond `maxclients` for administration from this machine.
pub(crate) const RESERVED_CONNECTIONS: usize = 8;
/// Descriptors of the process itself: streams, the log, listeners, an open file.
const OWN_DESCRIPTORS: u64 = 32;
/// Descriptors of each worker: its epoll or ring, and its eventfd.
const WORKER_DESCRIPTORS: u64 = 4;

/// HTTP gets at most this fraction of all descriptors: one in 8.
const HTTP_PART: u64 = 8;

fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Maximum concurrent HTTP connections. Descriptors are reserved for them and for as many
/// WebSockets.
pub(crate) fn http_connections(config: &Config) -> usize {
    let most = usize::try_from(limit() / HTTP_PART / 2).unwrap_or(usize::MAX);
    if config.http_port.is_on() { most.clamp(1, nagi_http::MAX_CONNECTIONS) } else { 0 }
}

/// Descriptors that are not for clients: saving and accepting always need some.
fn kept_descriptors(config: &Config, workers: usize) -> u64 {
    let connections = RESERVED_CONNECTIONS + 2 * http_connections(config);
    OWN_DESCRIPTORS + connections as u64 + workers as u64 * WORKER_DESCRIPTORS
}

/// The most clients that the process may have descriptors for.
pub(crate) fn max_clients(config: &Config, workers: usize) -> u64 {
    limit().saturating_sub(kept_descriptors(config, workers)).max(1)
}

/// Lowers `maxclients` to the number that descriptors allow, and preallocates the table.
pub(crate) fn prepare(config: &Config, workers: usize) {
    let (wanted, most) = (config.maxclients.get(), max_clients(config, workers));
    if wanted > most {
        tracing::warn!(
            "maxclients is lowered from {wanted} to {most}: each client takes a file \
             descriptor, and ulimit -n allows no more"
        );
        config.maxclients.set(most);
    }
    if let Err(error) = make_room(wanted.min(most) + kept_descriptors(config, workers)) {
        tracing::warn!(%error, "accepting may stall while the table of descriptors grows");
    }
}

/// Makes the kernel grow the descriptor table to `descriptors` entries at once.
///
/// The kernel otherwise grows the table by doubling. In a process of several threads, accepting a
/// client then waits for an RCU grace period. Meanwhile more than 511 clients may connect, which
/// overflows a `tcp-backlog` of that size, and the next client retries after a second.
fn make_room(descriptors: u64) -> io::Result<()> {
    let last = RawFd::try_from(descriptors.saturating_sub(1)).unwrap_or(RawFd::MAX);
    let null = File::open("/dev/null")?;
    drop(fcntl_dupfd_cloexec(&null, last)?);
    Ok(())
}
