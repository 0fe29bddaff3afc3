//! How a client talks to its servers.

use std::time::Duration;

use crate::wire::Dialect;

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
    /// How long a connection, a send and an answer may take, each.
    pub timeout: Duration,
    /// How long a server that did not answer in time is left alone; its requests fail at once.
    /// Its keys go to no other server: that would let one client read what another has replaced.
    pub retry_after: Duration,
    /// Put before every key.
    pub prefix: Vec<u8>,
    /// Connections to each server, over which requests sent together are spread.
    pub connections: usize,
    /// Whether requests go out at once instead of waiting for a full packet (`TCP_NODELAY`).
    pub tcp_nodelay: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            dialect: Dialect::Text,
            timeout: Duration::from_secs(1),
            retry_after: Duration::from_secs(2),
            prefix: Vec::new(),
            connections: 1,
            tcp_nodelay: true,
        }
    }
}
