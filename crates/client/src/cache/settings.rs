//! Settings for the protocol with the servers, and for failed servers.

use std::time::Duration;

use crate::error::REPLY_LIMIT_BYTES;
use crate::wire::{Dialect, Login};

/// Settings of a [`Cache`](super::Cache).
///
/// ```
/// use nagi_client::cache::Settings;
/// let settings = Settings { prefix: b"app:".to_vec(), ..Settings::default() };
/// assert_eq!(settings.timeout.as_millis(), 1000);
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    /// The servers' protocol.
    pub dialect: Dialect,
    /// The version of RESP for Redis.
    pub resp: RespVersion,
    /// The user and password, which are sent first on each connection.
    pub login: Option<Login>,
    /// The limit for each of: opening a connection, sending without progress, and waiting for
    /// answers.
    pub timeout: Duration,
    /// How long a server is skipped that did not answer in time or could not be connected to. Its
    /// requests fail at once meanwhile.
    pub retry_after: Duration,
    /// What happens to the keys of a failed server.
    pub on_failure: OnFailure,
    /// A prefix that is added to every key.
    pub prefix: Vec<u8>,
    /// The number of connections to each server. Requests that are sent together are spread over
    /// them.
    pub connections: usize,
    /// Whether requests are sent at once instead of waiting for a full packet (`TCP_NODELAY`).
    pub tcp_nodelay: bool,
    /// The maximum length in bytes of the reply to one request, including all of its values. A
    /// longer reply closes the connection.
    pub reply_limit_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            dialect: Dialect::Text,
            resp: RespVersion::Two,
            login: None,
            timeout: Duration::from_secs(1),
            retry_after: Duration::from_secs(2),
            on_failure: OnFailure::Fail,
            prefix: Vec::new(),
            connections: 1,
            tcp_nodelay: true,
            reply_limit_bytes: REPLY_LIMIT_BYTES,
        }
    }
}

/// A version of Redis' protocol.
///
/// ```
/// use nagi_client::cache::{RespVersion, Settings};
/// let settings = Settings { resp: RespVersion::Three, ..Settings::default() };
/// assert_ne!(settings.resp, RespVersion::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RespVersion {
    /// The default of every server.
    #[default]
    Two,
    /// Selected with `HELLO 3`, since Redis 6.
    Three,
}

/// What happens to the keys of a failed server.
///
/// ```
/// use nagi_client::cache::{Ejection, OnFailure, Settings};
/// let on_failure = OnFailure::Eject(Ejection { failures: 2, ..Ejection::default() });
/// let settings = Settings { on_failure, ..Settings::default() };
/// assert_ne!(settings.on_failure, OnFailure::Fail);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Their requests fail. The keys are not moved to other servers, since two clients that detect
    /// a failure at different times would write to different servers.
    #[default]
    Fail,
    /// The keys move to other servers while the failed server is ejected from the ring.
    Eject(Ejection),
    /// The keys are read from copies on other servers.
    Replicate(Replicas),
}

/// Ejection of failed servers from libmemcached's rings with points (consistent, weighted or
/// `KETAMA_SPY`), like its `AUTO_EJECT_HOSTS`. Other rings eject no server, and the last server of
/// a ring is never ejected.
///
/// An ejected server is readmitted without a flush if its statistics show that it was restarted
/// empty in the meantime. Otherwise it is flushed first, so that values which this client has
/// replaced on other servers are not read again. Values that were written to other servers than
/// usual are deleted there when the ring changes.
///
/// ```
/// assert_eq!(nagi_client::cache::Ejection::default().failures, 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ejection {
    /// The number of consecutive failures after which a server is ejected. A failure is a timeout
    /// or a connection that cannot be opened.
    pub failures: u32,
    /// The minimum duration of an ejection.
    pub duration: Duration,
    /// How long a server that was not restarted must answer before it is flushed. By then it should
    /// have executed the requests that were sent before it failed.
    pub settling: Duration,
    /// Maximum number of keys that this client may write to other servers than usual. Further
    /// writes fail, since their copies could not be deleted later.
    pub keys: usize,
}

impl Default for Ejection {
    fn default() -> Self {
        Ejection {
            failures: 3,
            duration: Duration::from_secs(30),
            settling: Duration::from_secs(3),
            keys: 100_000,
        }
    }
}

/// Replication of values to the next servers in the list of servers, like libmemcached's
/// `NUMBER_OF_REPLICAS`.
///
/// Sets, deletions and new expiries go to all copies at once, and the result is that of the first
/// server; [`Cache::take_replica_failures`](super::Cache::take_replica_failures) returns the
/// failures of the others. A value that is stored conditionally is copied after the first server
/// has answered; after an increment, append or prepend, the copies are deleted. A read that fails
/// continues with the next server. Redis Cluster has its own replicas, so this setting does not
/// affect it.
///
/// ```
/// use nagi_client::cache::{OnFailure, Replicas};
/// let on_failure = OnFailure::Replicate(Replicas { count: 1, random_reads: false });
/// assert_ne!(on_failure, OnFailure::Fail);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// The number of copies in addition to the first server's value.
    pub count: usize,
    /// Whether reads start at a random copy (`RANDOMIZE_REPLICA_READ`), which spreads the load of
    /// hot keys. A value that is missing there is read from the other copies.
    pub random_reads: bool,
}
