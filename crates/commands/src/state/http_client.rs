//! The client behind a connection that several HTTP clients use in turn, for lists of clients. The
//! connection's counters continue, so the current client's are differences.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};

/// The longest part of a User-Agent that is kept, in bytes.
const AGENT_BYTES: usize = 64;

/// The client of the current or last request on a shared connection.
#[derive(Debug)]
pub struct HttpClient {
    current: Mutex<Current>,
    /// The connection, once a worker has it.
    connection: OnceLock<Weak<dyn Counting>>,
}

#[derive(Debug)]
struct Current {
    address: SocketAddr,
    agent: String,
    is_web_socket: bool,
    before: Counted,
}

/// The state of a connection, with its counters.
pub trait Counting: fmt::Debug + Send + Sync {
    /// The current values of its counters.
    fn counted(&self) -> Counted;
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) requests: u64,
    pub(crate) busy_ticks: u64,
    /// When the connection or the client appeared, in milliseconds since 1970.
    pub(crate) since_ms: u64,
}

impl HttpClient {
    /// A client. If only a proxy knows its port, the port is 0; if the proxy has not reported its
    /// address, the address is 0 as well.
    #[must_use]
    pub fn new(address: SocketAddr, agent: &[u8], is_web_socket: bool) -> Self {
        let agent = shortened(agent).into_owned();
        let current = Current { address, agent, is_web_socket, before: Counted::default() };
        HttpClient { current: Mutex::new(current), connection: OnceLock::new() }
    }

    /// Records that a worker has opened the connection.
    pub fn connected<C: Counting + 'static>(&self, connection: &Arc<C>) {
        let connection: Weak<C> = Arc::downgrade(connection);
        // A connection is opened once.
        let _ = self.connection.set(connection);
    }

    /// Records that the connection now serves this client.
    pub fn serve(&self, address: SocketAddr, agent: &[u8], is_web_socket: bool, now_ms: u64) {
        let mut current = self.current.lock();
        let is_same = current.address == address && current.is_web_socket == is_web_socket;
        let agent = shortened(agent);
        if is_same && current.agent == agent {
            return;
        }
        let agent = agent.into_owned();
        let connection = self.connection.get().and_then(Weak::upgrade);
        let before = connection.map_or_else(Counted::default, |it| it.counted());
        let before = Counted { since_ms: now_ms, ..before };
        *current = Current { address, agent, is_web_socket, before };
    }

    /// The counters of the current client, given those of the connection.
    pub(crate) fn since(&self, counted: Counted) -> Counted {
        let before = self.current.lock().before;
        Counted {
            received_bytes: counted.received_bytes.saturating_sub(before.received_bytes),
            sent_bytes: counted.sent_bytes.saturating_sub(before.sent_bytes),
            requests: counted.requests.saturating_sub(before.requests),
            busy_ticks: counted.busy_ticks.saturating_sub(before.busy_ticks),
            since_ms: counted.since_ms.max(before.since_ms),
        }
    }

    /// The address of the client.
    pub(crate) fn address(&self) -> SocketAddr {
        self.current.lock().address
    }

    /// The name of the protocol, and the User-Agent.
    pub(crate) fn shown(&self) -> (&'static str, String) {
        let current = self.current.lock();
        let protocol = if current.is_web_socket { "WebSocket" } else { "HTTP" };
        (protocol, current.agent.clone())
    }
}

/// The beginning of a User-Agent, as text.
fn shortened(agent: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(agent.get(..AGENT_BYTES).unwrap_or(agent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A connection that has received this number of requests.
    #[derive(Debug)]
    struct Connection(AtomicU64);

    impl Counting for Connection {
        fn counted(&self) -> Counted {
            let requests = self.0.load(Ordering::Relaxed);
            Counted { requests, sent_bytes: requests * 10, since_ms: 5, ..Counted::default() }
        }
    }

    #[test]
    fn the_counters_begin_anew_with_each_client() {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let http = HttpClient::new(address(1), b"curl/8", false);
        let connection = Arc::new(Connection(AtomicU64::new(3)));
        http.connected(&connection);
        let counted = || {
            let counted = http.since(connection.counted());
            (counted.requests, counted.sent_bytes, counted.since_ms)
        };
        http.serve(address(1), b"curl/8", false, 7);
        assert_eq!(counted(), (3, 30, 5));
        http.serve(address(2), b"curl/8", true, 9);
        connection.0.store(4, Ordering::Relaxed);
        assert_eq!(counted(), (1, 10, 9));
        assert_eq!(http.shown(), ("WebSocket", "curl/8".to_owned()));
        http.serve(address(2), &b"\xffx".repeat(100), true, 11);
        assert_eq!(counted(), (0, 0, 11));
        assert_eq!(http.shown().1, "\u{fffd}x".repeat(AGENT_BYTES / 2));
    }
}
