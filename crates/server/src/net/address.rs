//! The two addresses of a connection, as CLIENT LIST shows them.

use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername, getsockname};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Where a client connects from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A network address.
    Network(SocketAddr),
    /// A Unix socket, or a peer that has already disconnected.
    FileSystem,
}

impl Peer {
    /// The peer of a connection.
    pub(crate) fn of(socket: &OwnedFd) -> Self {
        let address = getpeername(socket).ok().flatten();
        match address.and_then(|address| SocketAddr::try_from(address).ok()) {
            Some(address) => Peer::Network(address),
            None => Peer::FileSystem,
        }
    }

    /// Whether the client connects through the loopback interface or a Unix socket.
    pub(crate) fn is_local(self) -> bool {
        match self {
            Peer::Network(address) => address.ip().to_canonical().is_loopback(),
            Peer::FileSystem => true,
        }
    }

    /// The peer's address. A Unix socket's peer has none; as in Redis, the server's is shown.
    pub(crate) fn shown(self, local: &str) -> String {
        match self {
            Peer::Network(address) => address.to_string(),
            Peer::FileSystem => local.to_owned(),
        }
    }
}

/// The address shown for a connection that HTTP requests share. It is not a loopback address, since
/// the HTTP clients need not be local.
pub(crate) const GATEWAY: &str = "0.0.0.0:0";

/// The local address that a client has connected to.
pub(crate) fn local(socket: &OwnedFd) -> String {
    let Ok(address) = getsockname(socket) else { return "?:0".to_owned() };
    match SocketAddr::try_from(address.clone()) {
        Ok(address) => address.to_string(),
        Err(_) => unix_path(address),
    }
}

fn unix_path(address: SocketAddrAny) -> String {
    let address = SocketAddrUnix::try_from(address).ok();
    let path = address.as_ref().and_then(SocketAddrUnix::path_bytes).unwrap_or(b"?");
    format!("{}:0", String::from_utf8_lossy(path))
}
