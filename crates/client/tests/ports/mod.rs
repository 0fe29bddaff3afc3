//! Ports for servers of other projects.

use rustix::net::{AddressFamily, SocketType, sockopt};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::IntoRawFd;

/// Returns a port for a server that cannot choose a free port itself. A socket stays bound to the
/// port without listening. The kernel does not give the port to sockets that request any free port,
/// but a server that requests this port with SO_REUSEADDR may listen on it.
pub(crate) fn free_port() -> u16 {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    // The socket is leaked, so that it stays open until the process ends.
    let _ = socket.into_raw_fd();
    address.port()
}
