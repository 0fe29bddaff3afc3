//! Sockets that listen, one by one, as the kernel tells of them (`man 7 sock_diag`): how many
//! connections wait to be accepted, how many may, and how many were dropped at that socket.
//!
//! `ListenOverflows` counts for a whole network namespace; only these figures say of whom.

use rustix::fd::OwnedFd;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Types and flags of messages (`linux/netlink.h`, `linux/sock_diag.h`).
const ERROR: u16 = 2;
const DONE: u16 = 3;
const BY_FAMILY: u16 = 20;
/// A request, for all that match.
const DUMP: u16 = 0x301;
/// Address families and the protocol (`sys/socket.h`).
const INET: u8 = 2;
const INET6: u8 = 10;
const TCP: u8 = 6;
/// The attribute with figures of a socket's memory (`linux/inet_diag.h`), and where the dropped
/// connections are among these (`linux/sock_diag.h`).
const MEMORY: u16 = 7;
const DROPS: usize = 8;
/// The state of a socket that listens, as a bit.
const LISTEN: u32 = 1 << 10;
/// Lengths of a message's head and of a socket's description, in bytes.
const HEAD: usize = 16;
const SOCKET: usize = 72;
/// How long the kernel may take to answer.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Messages that are read at most: some ten thousand sockets.
const MOST_MESSAGES: usize = 1000;

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    /// The kernel's number of it, which no other socket gets.
    pub(crate) cookie: u64,
    /// Connections that wait to be accepted.
    pub(crate) waiting: u64,
    /// How many may.
    pub(crate) length: u64,
    /// Connections that were dropped at it since it was opened.
    pub(crate) drops: Option<u64>,
}

/// All sockets of this network namespace that listen for TCP; none where the kernel does not tell.
pub(crate) fn listeners() -> Option<Vec<Listener>> {
    let flags = SocketFlags::CLOEXEC;
    let kernel =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG));
    let kernel = kernel.ok()?;
    set_socket_timeout(&kernel, Timeout::Recv, Some(TIMEOUT)).ok()?;
    let mut listeners = dump(&kernel, INET)?;
    // A kernel without IPv6 has no such sockets.
    listeners.extend(dump(&kernel, INET6).unwrap_or_default());
    Some(listeners)
}

fn dump(kernel: &OwnedFd, family: u8) -> Option<Vec<Listener>> {
    send(kernel, &request(family), SendFlags::empty()).ok()?;
    let mut listeners = Vec::new();
    let mut answer = vec![0; 1 << 16];
    for _ in 0..MOST_MESSAGES {
        let (len, _) = recv(kernel, &mut answer[..], RecvFlags::empty()).ok()?;
        if take(answer.get(..len)?, &mut listeners)? {
            return Some(listeners);
        }
    }
    None
}

/// A request for all sockets of a family that listen, with figures of their memory.
fn request(family: u8) -> Vec<u8> {
    const IDENTITY: usize = 48;
    let len = (HEAD + 8 + IDENTITY) as u32;
    let mut request = Vec::from(len.to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(DUMP.to_ne_bytes());
    request.extend([0; 8]);
    request.extend([family, TCP, 1 << (MEMORY - 1), 0]);
    request.extend(LISTEN.to_ne_bytes());
    request.extend([0; IDENTITY]);
    request
}

/// Takes the messages of one datagram; whether that was the end, and none if it is an error.
fn take(mut datagram: &[u8], listeners: &mut Vec<Listener>) -> Option<bool> {
    while let (Some(len), Some(kind)) = (word(datagram, 0), half(datagram, 4)) {
        let message = datagram.get(HEAD..len as usize)?;
        match kind {
            DONE => return Some(true),
            ERROR => return None,
            _ => listeners.extend(listener(message)),
        }
        datagram = datagram.get((len as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    Some(false)
}

fn listener(message: &[u8]) -> Option<Listener> {
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

/// The attribute of this type, if it is there.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    const HEAD: usize = 4;
    loop {
        let (len, kind) = (half(attributes, 0)? as usize, half(attributes, 2)?);
        let value = attributes.get(HEAD..len)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<[u8; N]> {
    from.get(at..at + N)?.try_into().ok()
}

fn word(from: &[u8], at: usize) -> Option<u32> {
    bytes(from, at).map(u32::from_ne_bytes)
}

fn half(from: &[u8], at: usize) -> Option<u16> {
    bytes(from, at).map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_listener_of_this_process_is_told_of_with_what_waits_at_it() {
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
    fn the_address_family_is_told_apart() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(listeners().unwrap().iter().any(|it| it.address == address));
    }

    proptest! {
        #[test]
        fn no_datagram_is_read_beyond_its_end(
            datagram: Vec<u8>, len in 0..200_u32, kind in 0..30_u16,
        ) {
            let _ = take(&datagram, &mut Vec::new());
            let mut framed = Vec::from(len.to_ne_bytes());
            framed.extend(kind.to_ne_bytes());
            framed.extend(&datagram);
            let _ = take(&framed, &mut Vec::new());
        }
    }
}
