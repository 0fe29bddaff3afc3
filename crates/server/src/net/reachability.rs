//! Whether a peer can still be reached, as far as the kernel knows.
//!
//! Keepalive probes a peer only while no data is unacknowledged. With unacknowledged data, the
//! kernel retransmits for a quarter of an hour. TCP_USER_TIMEOUT shortens that, but also drops live
//! peers that answer every probe with a zero window (tcp(7), `tcp_probe_timer` in Linux). Therefore
//! the worker asks the kernel how many tries were unanswered and when the peer was last heard from.

use rustix::fd::{AsRawFd as _, BorrowedFd};
use std::mem::MaybeUninit;
use std::time::Duration;

/// Consecutive unanswered tries.
const TRIES: u8 = 3;

/// Whether the peer has acknowledged all data, so that no answer is outstanding.
pub(crate) fn has_acknowledged_all(socket: BorrowedFd<'_>) -> bool {
    unacknowledged_bytes(socket) == Some(0)
}

/// The number of bytes in the kernel that the peer has not acknowledged.
pub(crate) fn unacknowledged_bytes(socket: BorrowedFd<'_>) -> Option<usize> {
    let mut waiting: libc::c_int = 0;
    // SAFETY: the kernel writes one number, which `waiting` has room for.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut waiting) };
    usize::try_from(waiting).ok().filter(|_| result == 0)
}

/// Whether a TCP peer has been silent for `silence` despite several tries to send to it.
pub(crate) fn is_unreachable(socket: BorrowedFd<'_>, silence: Duration) -> bool {
    tcp_info(socket).is_some_and(|info| {
        let silent_ms = info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv);
        let tries = info.tcpi_retransmits.max(info.tcpi_probes);
        u128::from(silent_ms) >= silence.as_millis() && tries >= TRIES
    })
}

/// The kernel's statistics of a TCP connection; `None` for other sockets.
fn tcp_info(socket: BorrowedFd<'_>) -> Option<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes no more than `len` bytes, for which there is room.
    let result = unsafe {
        let option = (libc::IPPROTO_TCP, libc::TCP_INFO);
        let info = info.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), option.0, option.1, info, &raw mut len)
    };
    // SAFETY: `tcp_info` consists of integers, which are zero where the kernel has not written.
    (result == 0).then(|| unsafe { info.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    #[test]
    fn a_peer_has_acknowledged_all_when_its_buffer_has_room() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut ours = listener.accept().unwrap().0;
        assert!(has_acknowledged_all(ours.as_fd()), "nothing was sent");
        ours.set_nonblocking(true).unwrap();
        let mut sent = 0;
        loop {
            match ours.write(&[7; 100_000]) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(!has_acknowledged_all(ours.as_fd()), "the peer has read nothing yet");
        theirs.read_exact(&mut vec![0; sent]).unwrap();
        while !has_acknowledged_all(ours.as_fd()) {
            std::thread::yield_now();
        }
    }
}
