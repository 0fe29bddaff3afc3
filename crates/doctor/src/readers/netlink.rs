//! Netlink requests for all kernel objects of a kind (`man 7 netlink`).

use rustix::fd::OwnedFd;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};
use std::time::Duration;

/// Types of messages that are not answers, and the flags of a request for all objects
/// (`linux/netlink.h`).
const ERROR: u16 = 2;
const DONE: u16 = 3;
const DUMP: u16 = 0x301;
/// The length of a message header, in bytes.
const HEAD: usize = 16;
/// How long the kernel may take to answer.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum number of datagrams that are read, which contain some ten thousand answers.
const MAX_DATAGRAMS: usize = 1000;

/// A netlink socket.
#[derive(Debug)]
pub(super) struct Kernel(OwnedFd);

impl Kernel {
    /// Opens a netlink socket for `protocol`; `None` means `NETLINK_ROUTE`.
    pub(super) fn open(protocol: Option<Protocol>) -> Option<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, protocol).ok()?;
        set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT)).ok()?;
        Some(Kernel(socket))
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.0
    }

    /// Sends a request, and returns the results of `read` for its answers; `None` if the kernel
    /// refuses the request.
    pub(super) fn dump<T>(
        &self,
        kind: u16,
        body: &[u8],
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<Vec<T>> {
        let mut request = Vec::from(((HEAD + body.len()) as u32).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(DUMP.to_ne_bytes());
        request.extend([0; 8]);
        request.extend(body);
        send(&self.0, &request, SendFlags::empty()).ok()?;
        let mut all = Vec::new();
        let mut datagram = vec![0; 1 << 16];
        for _ in 0..MAX_DATAGRAMS {
            let (len, _) = recv(&self.0, &mut datagram[..], RecvFlags::empty()).ok()?;
            if take(datagram.get(..len)?, &read, &mut all)? {
                return Some(all);
            }
        }
        None
    }
}

/// Passes the messages of one datagram to `read`. Returns whether the last answer was among them;
/// `None` for an error.
pub(super) fn take<T>(
    mut datagram: &[u8],
    read: &impl Fn(&[u8]) -> Option<T>,
    all: &mut Vec<T>,
) -> Option<bool> {
    while let (Some(len), Some(kind)) = (word(datagram, 0), half(datagram, 4)) {
        let message = datagram.get(HEAD..len as usize)?;
        match kind {
            DONE => return Some(true),
            ERROR => return None,
            _ => all.extend(read(message)),
        }
        datagram = datagram.get((len as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    Some(false)
}

/// Returns the value of the attribute of type `wanted`, if there is one.
pub(super) fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    const HEAD: usize = 4;
    /// Bits of the type field that are flags.
    const FLAGS: u16 = 0xc000;
    loop {
        let (len, kind) = (half(attributes, 0)? as usize, half(attributes, 2)? & !FLAGS);
        let value = attributes.get(HEAD..len)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

/// Returns `N` bytes at offset `at`.
pub(super) fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<[u8; N]> {
    from.get(at..at + N)?.try_into().ok()
}

/// Returns the 32-bit number at offset `at`.
pub(super) fn word(from: &[u8], at: usize) -> Option<u32> {
    bytes(from, at).map(u32::from_ne_bytes)
}

/// Returns the 16-bit number at offset `at`.
pub(super) fn half(from: &[u8], at: usize) -> Option<u16> {
    bytes(from, at).map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_read_beyond_the_end_of_a_datagram(
            bytes: Vec<u8>, len in 0..200_u32, kind in 0..30_u16,
        ) {
            let read = |message: &[u8]| attribute(message, 7).map(<[u8]>::len);
            let mut framed = Vec::from(len.to_ne_bytes());
            framed.extend(kind.to_ne_bytes());
            framed.extend(&bytes);
            for datagram in [bytes, framed] {
                let mut all = Vec::new();
                let _ = take(&datagram, &read, &mut all);
                prop_assert!(all.iter().all(|len| *len <= datagram.len()));
            }
        }
    }
}
