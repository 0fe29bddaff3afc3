//! Listening sockets, as the kernel reports them (`man 7 sock_diag`): how many connections wait to
//! be accepted, how many may wait, and how many were dropped at the socket.
//!
//! The counter `ListenOverflows` covers a whole network namespace; only these figures identify the
//! socket.

use super::netlink::{Kernel, attribute, bytes, word};
use rustix::net::netlink;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The type of a request for sockets of one family (`linux/sock_diag.h`).
const BY_FAMILY: u16 = 20;
/// Address families and the protocol (`sys/socket.h`).
const INET: u8 = 2;
const INET6: u8 = 10;
const TCP: u8 = 6;
/// The attribute with the memory statistics of a socket (`linux/inet_diag.h`), and the offset of
/// the number of dropped connections in it (`linux/sock_diag.h`).
const MEMORY: u16 = 7;
const DROPS: usize = 8;
/// The bit for the state of a listening socket.
const LISTEN: u32 = 1 << 10;
/// The length of a socket's description in a message, in bytes.
const SOCKET: usize = 72;

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    /// The socket's cookie, a unique number given by the kernel.
    pub(crate) cookie: u64,
    /// Number of connections that wait to be accepted.
    pub(crate) waiting: u64,
    /// Maximum number of connections that may wait.
    pub(crate) length: u64,
    /// Number of connections dropped at the socket since it was opened.
    pub(crate) drops: Option<u64>,
}

/// Returns all listening TCP sockets of this network namespace; `None` if the kernel does not
/// report them.
pub(crate) fn listeners() -> Option<Vec<Listener>> {
    let kernel = Kernel::open(Some(netlink::SOCK_DIAG))?;
    let mut listeners = kernel.dump(BY_FAMILY, &request(INET), listener)?;
    // A kernel without IPv6 refuses this request.
    let more = kernel.dump(BY_FAMILY, &request(INET6), listener);
    listeners.extend(more.unwrap_or_default());
    Some(listeners)
}

/// Encodes a request for all listening sockets of a family, with their memory statistics.
fn request(family: u8) -> Vec<u8> {
    const IDENTITY: usize = 48;
    let mut request = vec![family, TCP, 1 << (MEMORY - 1), 0];
    request.extend(LISTEN.to_ne_bytes());
    request.extend([0; IDENTITY]);
    request
}

pub(super) fn listener(message: &[u8]) -> Option<Listener> {
    let port = u16::from_be_bytes(bytes(message, 4)?);
    let host: IpAddr = match *message.first()? {
        INET => Ipv4Addr::from(bytes::<4>(message, 8)?).into(),
        _ => Ipv6Addr::from(bytes::<16>(message, 8)?).to_canonical(),
    };
    Some(Listener {
        address: SocketAddr::new(host, port),
        cookie: u64::from_ne_bytes(bytes(message, 44)?),
        waiting: word(message, 56)?.into(),
        length: word(message, 60)?.into(),
        drops: attribute(message.get(SOCKET..)?, MEMORY)
            .and_then(|memory| word(memory, DROPS * 4))
            .map(u64::from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_listener_of_this_process_is_reported_with_its_queue() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let own = || {
            let all = listeners().expect("the kernel tells of sockets");
            *all.iter().find(|it| it.address == address).expect("it listens")
        };
        let before = own();
        assert_eq!((before.waiting, before.drops), (0, Some(0)));
        let _waiting = [(); 3].map(|()| TcpStream::connect(address).unwrap());
        assert_eq!(own(), Listener { waiting: 3, ..before });
        assert!(before.length >= 3 && before.cookie != 0);
    }

    #[test]
    fn address_families_are_distinguished() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(listeners().unwrap().iter().any(|it| it.address == address));
    }
}
