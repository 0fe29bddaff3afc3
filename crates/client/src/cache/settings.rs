//! How a client talks to its servers, and what it does about those that fail.

use std::time::Duration;

use crate::error::REPLY_LIMIT_BYTES;
use crate::wire::{Dialect, Login};

/// How a [`Cache`](super::Cache) talks.
///
/// ```
/// use nagi_client::cache::Settings;
/// let settings = Settings { prefix: b"app:".to_vec(), ..Settings::default() };
/// assert_eq!(settings.timeout.as_millis(), 1000);
/// ```
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the servers speak.
    pub dialect: Dialect,
    /// Which version of RESP Redis is asked to answer in.
    pub resp: RespVersion,
    /// The user and password that are sent first on each connection.
    pub login: Option<Login>,
    /// How long a connection, a send and an answer may take, each.
    pub timeout: Duration,
    /// How long a server that did not answer in time is left alone; its requests fail at once.
    pub retry_after: Duration,
    /// What becomes of the keys of a server that fails.
    pub on_failure: OnFailure,
    /// Put before every key.
    pub prefix: Vec<u8>,
    /// Connections to each server, over which requests sent together are spread.
    pub connections: usize,
    /// Whether requests go out at once instead of waiting for a full packet (`TCP_NODELAY`).
    pub tcp_nodelay: bool,
    /// How many bytes the reply to one request may have, all its values together; a longer one ends
    /// the connection.
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
    /// What every server speaks from the start.
    #[default]
    Two,
    /// Asked for with `HELLO 3`, from Redis 6 on.
    Three,
}

/// What becomes of the keys of a server that fails.
///
/// ```
/// use nagi_client::cache::{Ejection, OnFailure, Settings};
/// let on_failure = OnFailure::Eject(Ejection { failures: 2, ..Ejection::default() });
/// let settings = Settings { on_failure, ..Settings::default() };
/// assert_ne!(settings.on_failure, OnFailure::Fail);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Their requests fail. They go to no other server: two clients that see a failure at different
    /// times would write to different servers.
    #[default]
    Fail,
    /// They go to other servers while theirs is left out of the ring.
    Eject(Ejection),
    /// They are read from other servers, which have copies.
    Replicate(Replicas),
}

/// How servers that fail are left out of a ring of libmemcached that has points (consistent,
/// weighted or `KETAMA_SPY`), as its `AUTO_EJECT_HOSTS` does; other rings leave none out, and the
/// last server of a ring stays in it.
///
/// A server comes back if it was restarted in the meantime and has loaded nothing, which its
/// statistics say. Otherwise it is flushed first, so that what this client has replaced elsewhere
/// is not read again. Values that were written to another server than usual are deleted there when
/// the ring changes.
///
/// ```
/// assert_eq!(nagi_client::cache::Ejection::default().failures, 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ejection {
    /// After how many failures in a row, each a time-out or a refused connection.
    pub failures: u32,
    /// For how long at least.
    pub duration: Duration,
    /// How long a server that was not restarted has to answer before it is flushed, so that it has
    /// executed by then what was sent to it before it failed.
    pub settling: Duration,
    /// How many keys this client may write to other servers than usual. Writes of further ones
    /// fail, since they could not be deleted there.
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

/// How values are copied to further servers, those that follow in the list of servers, as
/// libmemcached does with `NUMBER_OF_REPLICAS`.
///
/// Sets, deletions and new expiries go to all of them at once, and the result is that of the first;
/// [`Cache::take_replica_failures`](super::Cache::take_replica_failures) has the failures of
/// others. A value that was stored on a condition is copied when the first has answered, and what
/// was counted, appended or prepended is deleted on the others. A read that fails goes to the next.
/// A cluster of Redis has replicas of its own and gets none of these.
///
/// ```
/// use nagi_client::cache::{OnFailure, Replicas};
/// let on_failure = OnFailure::Replicate(Replicas { count: 1, random_reads: false });
/// assert_ne!(on_failure, OnFailure::Fail);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// How many copies there are besides the first.
    pub count: usize,
    /// Whether reads begin at any of them, `RANDOMIZE_REPLICA_READ`, which spreads the load of hot
    /// keys. What that one lacks is asked of the others.
    pub random_reads: bool,
}
