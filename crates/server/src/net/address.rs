//! The two addresses of a connection, as CLIENT LIST shows them.

use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername, getsockname};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Where a client connects from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A network address.
    Network(SocketAddr),
    /// A Unix socket.
    FileSystem,
    /// A peer on the network that has already disconnected, so that its address is not known.
    Gone,
}

impl Peer {
    /// The peer of a connection.
    pub(crate) fn of(socket: &OwnedFd) -> Self {
        let address = getpeername(socket).ok().flatten();
        match address.and_then(|address| SocketAddr::try_from(address).ok()) {
            Some(address) => Peer::Network(address),
            // What it has sent can still be read, and must not count as sent from this machine.
            None if is_network(socket) => Peer::Gone,
            None => Peer::FileSystem,
        }
    }

    /// Whether the client connects through the loopback interface or a Unix socket.
    pub(crate) fn is_local(self) -> bool {
        match self {
            Peer::Network(address) => address.ip().to_canonical().is_loopback(),
            Peer::FileSystem => true,
            Peer::Gone => false,
        }
    }

    /// The peer's address. A Unix socket's peer has none; as in Redis, the server's is shown.
    pub(crate) fn shown(self, local: &str) -> String {
        match self {
            Peer::Network(address) => address.to_string(),
            Peer::FileSystem => local.to_owned(),
            Peer::Gone => "?:0".to_owned(),
        }
    }
}

/// Whether a socket may be on a network.
fn is_network(socket: &OwnedFd) -> bool {
    !getsockname(socket).is_ok_and(|own| SocketAddrUnix::try_from(own).is_ok())
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::set_socket_linger;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn a_peer_that_has_reset_its_connection_is_not_local() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"PING\r\n").unwrap();
        set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        let socket = OwnedFd::from(listener.accept().unwrap().0);
        let peer = Peer::of(&socket);
        assert!(peer == Peer::Gone && !peer.is_local(), "{peer:?}");
        let (client, server) = UnixStream::pair().unwrap();
        drop(client);
        assert_eq!(Peer::of(&OwnedFd::from(server)), Peer::FileSystem);
    }
}
