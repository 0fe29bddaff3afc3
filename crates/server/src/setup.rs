//! What a process that serves asks of the system before it starts.

use crate::server::RESERVE;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io;
use std::os::fd::RawFd;

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

/// Warns if there may be more clients than there are descriptors, and makes room for those that
/// there may be.
pub(crate) fn prepare_descriptors(max_clients: u64, workers: usize) {
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
    if let Err(error) = make_room(needed.min(limit)) {
        tracing::warn!(%error, "the table of descriptors grows when clients come");
    }
}

/// Has the kernel make its table of descriptors that large at once, which it keeps.
///
/// When it grows it, by doubling, in a process of several threads, whoever accepts a client waits
/// for a grace period of RCU: long enough here for more than 511 others to connect, which overflows
/// a `tcp-backlog` of so many, and who comes then tries again after a second.
fn make_room(descriptors: u64) -> io::Result<()> {
    let last = RawFd::try_from(descriptors.saturating_sub(1)).unwrap_or(RawFd::MAX);
    let null = File::open("/dev/null")?;
    drop(fcntl_dupfd_cloexec(&null, last)?);
    Ok(())
}
