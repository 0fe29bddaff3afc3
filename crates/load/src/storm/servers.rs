//! Identifies the servers of a run in its protocol before the first request, so that no record is
//! sent to a server that speaks another protocol.

use std::collections::BTreeMap;
use std::time::Duration;

use nagi_client::cache::{Cache, Failure, Reason, Settings};
use nagi_client::ring::Ring;

use crate::bench::Identity;
use crate::figures::{self, Fields};

/// How long a server may take to say what it is: one that speaks another protocol may wait for the
/// rest of what it takes for a request.
const PATIENCE: Duration = Duration::from_secs(2);

/// Settings that a report names, as far as a server has them among its statistics.
const SETTINGS: [&str; 8] = [
    "maxmemory",
    "maxmemory_policy",
    "aof_enabled",
    "rdb_bgsave_in_progress",
    "io_threads_active",
    "io",
    "limit_maxbytes",
    "threads",
];

/// What the servers of `ring` are.
///
/// # Errors
/// One cannot be reached, asks for a password, or speaks something else: one line.
pub(super) fn identify(ring: &Ring, settings: &Settings) -> Result<Vec<Identity>, String> {
    let timeout = settings.timeout.min(PATIENCE);
    let settings = Settings { timeout, connections: 1, ..settings.clone() };
    let mut cache = Cache::new(ring.clone(), settings);
    let found = cache.stats().into_iter().zip(ring.servers());
    found.map(|(found, server)| identity(server.to_string(), found)).collect()
}

type Found = Result<nagi_client::cache::Statistics, Failure>;

fn identity(address: String, found: Found) -> Result<Identity, String> {
    let pairs = match found {
        Ok((_, pairs)) => pairs,
        Err(failure) if is_foreign(&failure.reason) => {
            return Err(format!("{failure} (does it speak another protocol? see --protocol)"));
        }
        Err(failure) if is_silent(&failure.reason) => Vec::new(),
        Err(failure) => return Err(failure.to_string()),
    };
    let fields: Fields =
        pairs.into_iter().map(|(name, value)| (name, value.trim().to_owned())).collect();
    let settings: BTreeMap<String, String> =
        fields.clone().into_iter().filter(|(name, _)| SETTINGS.contains(&name.as_str())).collect();
    Ok(Identity { address, name: figures::server_name(&fields), settings })
}

/// Whether a server speaks something else, as far as this shows: one of RESP refuses what it takes
/// for a command of its own, with a sign in front that its own clients do not see.
fn is_foreign(reason: &Reason) -> bool {
    match reason {
        Reason::TimedOut | Reason::Protocol(_) => true,
        Reason::Refused(text) => text.starts_with('-'),
        _ => false,
    }
}

/// Whether a server may still do what is asked of it: a proxy closes the connection at what it does
/// not know, and a user may not be allowed to ask.
fn is_silent(reason: &Reason) -> bool {
    match reason {
        Reason::Broken(_) => true,
        Reason::Refused(text) => {
            !["NOAUTH", "WRONGPASS", "CLIENT_ERROR"].iter().any(|start| text.starts_with(start))
        }
        _ => false,
    }
}
