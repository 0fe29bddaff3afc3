//! A connection's two ends, as CLIENT LIST shows them.

use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername, getsockname};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Whether a client is on this machine.
pub(crate) fn is_local(socket: &OwnedFd) -> bool {
    let peer = getpeername(socket).ok().flatten().map(SocketAddr::try_from);
    // What is no address of a network is a socket in the file system.
    !matches!(peer, Some(Ok(address)) if !address.ip().to_canonical().is_loopback())
}

/// Where a client is.
pub(crate) fn peer(socket: &OwnedFd) -> String {
    match getpeername(socket).ok().flatten().and_then(|address| SocketAddr::try_from(address).ok())
    {
        Some(address) => address.to_string(),
        // A client of a socket in the file system has no address of its own: Redis shows the
        // server's.
        None => local(socket),
    }
}

/// Where it has connected to.
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
