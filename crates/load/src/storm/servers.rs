//! Identifies the servers of a run in the run's protocol before the first request, so that no
//! record is sent to a server that speaks another protocol.

use std::collections::BTreeMap;
use std::time::Duration;

use nagi_client::cache::{Cache, Failure, Reason, Settings};
use nagi_client::ring::Ring;

use crate::bench::Identity;
use crate::figures::{self, Fields};

/// How long a server may take to identify itself: a server that speaks another protocol may wait
/// for the rest of the request.
const PATIENCE: Duration = Duration::from_secs(2);

/// Settings that a report includes if the server's statistics contain them.
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

/// Identifies the servers of `ring`.
///
/// # Errors
/// A server cannot be reached, asks for a password, or speaks another protocol; the error is one
/// line.
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

/// Whether an error shows that the server speaks another protocol. A RESP server answers an unknown
/// command with a line that starts with `-`; a RESP client would have removed the `-`.
fn is_foreign(reason: &Reason) -> bool {
    match reason {
        Reason::TimedOut | Reason::Protocol(_) => true,
        Reason::Refused(text) => text.starts_with('-'),
        _ => false,
    }
}

/// Whether a server may be usable although it did not answer: a proxy closes the connection after
/// an unknown command, and the user may lack the permission for the command.
fn is_silent(reason: &Reason) -> bool {
    match reason {
        Reason::Broken(_) => true,
        Reason::Refused(text) => {
            let demands = ["NOAUTH", "WRONGPASS", "CLIENT_ERROR", "Auth failure"];
            !demands.iter().any(|start| text.starts_with(start))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_asks_for_a_password_is_not_silent() {
        let silent = |text: &str| is_silent(&Reason::Refused(text.to_owned()));
        for text in ["NOAUTH Authentication required.", "Auth failure", "Auth failure."] {
            assert!(!silent(text), "{text}");
        }
        assert!(silent("NOPERM no permission"));
        assert!(is_silent(&Reason::Broken("closed by the server".to_owned())));
    }
}
