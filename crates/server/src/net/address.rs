//! A connection's two ends, as CLIENT LIST shows them.

use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername, getsockname};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// At an address of a network.
    Network(SocketAddr),
    /// After a socket in the file system; or gone already.
    FileSystem,
}

impl Peer {
    /// That of a connection.
    pub(crate) fn of(socket: &OwnedFd) -> Self {
        let address = getpeername(socket).ok().flatten();
        match address.and_then(|address| SocketAddr::try_from(address).ok()) {
            Some(address) => Peer::Network(address),
            None => Peer::FileSystem,
        }
    }

    /// Whether it comes through the loopback interface or a Unix socket.
    pub(crate) fn is_local(self) -> bool {
        match self {
            Peer::Network(address) => address.ip().to_canonical().is_loopback(),
            Peer::FileSystem => true,
        }
    }

    /// Its address. In the file system it has none of its own: Redis shows the server's.
    pub(crate) fn shown(self, local: &str) -> String {
        match self {
            Peer::Network(address) => address.to_string(),
            Peer::FileSystem => local.to_owned(),
        }
    }
}

/// What is shown of a connection that requests over HTTP take turns on: it has no address, and is
/// not taken for a local client, as the clients behind it need not be local.
pub(crate) const GATEWAY: &str = "0.0.0.0:0";

/// Where a client has connected to.
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
