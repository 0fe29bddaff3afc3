//! The client behind a connection that requests over HTTP share, for lists of clients: the
//! connection goes from one client to the next, and its counters go on.

use crate::state::client::ClientInfo;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::{OnceLock, Weak};

/// The longest part of a User-Agent that is kept, in bytes.
const AGENT_BYTES: usize = 64;

/// The client of the current or last request on a shared connection.
#[derive(Debug)]
pub struct HttpClient {
    current: Mutex<Current>,
    /// The connection, once a worker has it.
    connection: OnceLock<Weak<ClientInfo>>,
}

#[derive(Debug)]
struct Current {
    address: SocketAddr,
    agent: String,
    is_web_socket: bool,
    before: Counted,
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) requests: u64,
    pub(crate) busy_ticks: u64,
    /// When the client came, in milliseconds since 1970.
    pub(crate) since_ms: u64,
}

impl Counted {
    /// The counters of a connection since it was opened.
    fn of(client: &ClientInfo) -> Self {
        Counted {
            received_bytes: client.received_bytes.get(),
            sent_bytes: client.sent_bytes.get(),
            requests: client.requests.get(),
            busy_ticks: client.busy_ticks.get(),
            since_ms: client.connected_at_ms,
        }
    }

    /// The counters of its current client.
    pub(crate) fn of_current(client: &ClientInfo) -> Self {
        let counted = Counted::of(client);
        let Some(http) = &client.http_client else { return counted };
        let before = http.current.lock().before;
        Counted {
            received_bytes: counted.received_bytes.saturating_sub(before.received_bytes),
            sent_bytes: counted.sent_bytes.saturating_sub(before.sent_bytes),
            requests: counted.requests.saturating_sub(before.requests),
            busy_ticks: counted.busy_ticks.saturating_sub(before.busy_ticks),
            since_ms: counted.since_ms.max(before.since_ms),
        }
    }
}

impl HttpClient {
    /// A client, whose port is 0 if only a proxy knows it; and so is the address if the proxy has
    /// not reported it.
    #[must_use]
    pub fn new(address: SocketAddr, agent: &[u8], is_web_socket: bool) -> Self {
        let agent = shortened(agent).into_owned();
        let current = Current { address, agent, is_web_socket, before: Counted::default() };
        HttpClient { current: Mutex::new(current), connection: OnceLock::new() }
    }

    /// Records that a worker has opened the connection.
    pub fn connected(&self, connection: Weak<ClientInfo>) {
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
        let before = connection.map_or_else(Counted::default, |it| Counted::of(&it));
        let before = Counted { since_ms: now_ms, ..before };
        *current = Current { address, agent, is_web_socket, before };
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
    use std::sync::Arc;

    #[test]
    fn the_counters_begin_anew_with_each_client() {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let http = Arc::new(HttpClient::new(address(1), b"curl/8", false));
        let info = Arc::new(ClientInfo {
            http_client: Some(Arc::clone(&http)),
            connected_at_ms: 5,
            ..ClientInfo::default()
        });
        http.connected(Arc::downgrade(&info));
        info.requests.add(3);
        info.sent_bytes.add(10);
        http.serve(address(1), b"curl/8", false, 7);
        let counted = Counted::of_current(&info);
        assert_eq!((counted.requests, counted.sent_bytes, counted.since_ms), (3, 10, 5));
        http.serve(address(2), b"curl/8", true, 9);
        info.requests.add(1);
        let counted = Counted::of_current(&info);
        assert_eq!((counted.requests, counted.sent_bytes, counted.since_ms), (1, 0, 9));
        assert_eq!(http.shown(), ("WebSocket", "curl/8".to_owned()));
        http.serve(address(2), &b"\xffx".repeat(100), true, 11);
        assert_eq!(Counted::of_current(&info).requests, 0);
        assert_eq!(http.shown().1, "\u{fffd}x".repeat(AGENT_BYTES / 2));
    }
}
