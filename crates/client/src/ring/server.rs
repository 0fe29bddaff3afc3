//! A server of a ring, as libraries name it. Rings hash the name, not the address.

use std::fmt;
use std::str::FromStr;

/// memcached's default port.
pub(super) const DEFAULT_PORT: u16 = 11211;

/// A server with its weight.
///
/// ```
/// use nagi_client::ring::Server;
/// let server: Server = "cache-1:11311:3".parse()?;
/// assert_eq!((server.host.as_str(), server.port, server.weight), ("cache-1", 11311, 3));
/// let socket: Server = "/run/memcached.sock".parse()?;
/// assert!(socket.is_unix());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// A host name or address, or the path of a Unix socket, which starts with `/`.
    pub host: String,
    /// The port; 0 with a Unix socket.
    pub port: u16,
    /// The server's share of the keys relative to other servers, at least 1.
    pub weight: u32,
}

impl Server {
    /// Creates a server of weight 1. Port 0 stands for memcached's default port, except with a Unix
    /// socket.
    ///
    /// ```
    /// assert_eq!(nagi_client::ring::Server::new("kyoto", 0).port, 11211);
    /// ```
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        let port = match port {
            0 if !host.starts_with('/') => DEFAULT_PORT,
            port => port,
        };
        Server { host, port, weight: 1 }
    }

    /// Sets the weight; 0 stands for 1.
    ///
    /// ```
    /// assert_eq!(nagi_client::ring::Server::new("kyoto", 0).with_weight(4).weight, 4);
    /// ```
    #[must_use]
    pub fn with_weight(mut self, weight: u32) -> Self {
        self.weight = weight.max(1);
        self
    }

    /// Whether the host is the path of a Unix socket.
    ///
    /// ```
    /// assert!(!nagi_client::ring::Server::new("kyoto", 0).is_unix());
    /// ```
    #[must_use]
    pub fn is_unix(&self) -> bool {
        self.host.starts_with('/')
    }

    /// Returns `host:port`, or the path of a Unix socket.
    pub(super) fn address(&self) -> String {
        if self.is_unix() { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(out, "[{}]:{}", self.host, self.port)
        } else {
            out.write_str(&self.address())
        }
    }
}

impl FromStr for Server {
    type Err = String;

    /// Parses `host`, `host:port`, `host:port:weight`, `[v6]:port` or `/path`; the default port is
    /// memcached's.
    fn from_str(text: &str) -> Result<Self, String> {
        Server::parse(text, DEFAULT_PORT)
    }
}

impl Server {
    /// Parses the same forms with another default port.
    ///
    /// # Errors
    /// The text has none of these forms.
    ///
    /// ```
    /// use nagi_client::ring::Server;
    /// assert_eq!(Server::parse("kyoto", 6379)?.port, 6379);
    /// assert_eq!(Server::parse("kyoto:6380", 6379)?.port, 6380);
    /// # Ok::<(), String>(())
    /// ```
    pub fn parse(text: &str, default_port: u16) -> Result<Self, String> {
        let malformed =
            || format!("{text}: a server is HOST, HOST:PORT, HOST:PORT:WEIGHT or /PATH");
        if text.starts_with('/') {
            return Ok(Server::new(text, 0));
        }
        let (host, rest) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
            Some((host, rest)) => (host, rest),
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(malformed());
        }
        let mut parts = match rest.strip_prefix(':') {
            Some(rest) => rest.split(':'),
            None if rest.is_empty() => return Ok(Server::new(host, default_port)),
            None => return Err(malformed()),
        };
        let port: u16 = parts.next().and_then(|port| port.parse().ok()).ok_or_else(malformed)?;
        let weight = match parts.next() {
            Some(weight) => weight.parse().map_err(|_| malformed())?,
            None => 1,
        };
        if port == 0 || weight == 0 || parts.next().is_some() {
            return Err(malformed());
        }
        Ok(Server::new(host, port).with_weight(weight))
    }
}
