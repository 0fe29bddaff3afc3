//! Whether a peer can still be reached, as far as the kernel knows.
//!
//! Keepalive probes peers that nothing waits to be sent to. As soon as something does, the kernel
//! tries for a quarter of an hour; TCP_USER_TIMEOUT would tell it for how long, but has it give up
//! living peers as well that answer every try and have no room (tcp(7), `tcp_probe_timer` in
//! Linux). So it is asked instead how often its tries were unanswered, and what has come since.

use rustix::fd::{AsRawFd as _, BorrowedFd};
use std::mem::MaybeUninit;
use std::time::Duration;

/// Tries in a row that nothing came back from.
const TRIES: u8 = 3;

/// Whether a peer's side has taken all that was sent to it, so that nothing is awaited from there.
pub(crate) fn has_acknowledged_all(socket: BorrowedFd<'_>) -> bool {
    let mut waiting: libc::c_int = 0;
    // SAFETY: the kernel writes one number, which is there.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut waiting) };
    result == 0 && waiting == 0
}

/// Whether nothing has come from a TCP peer for so long, in spite of several tries to send it
/// something.
pub(crate) fn is_unreachable(socket: BorrowedFd<'_>, silence: Duration) -> bool {
    tcp_info(socket).is_some_and(|info| {
        let silent_ms = info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv);
        let tries = info.tcpi_retransmits.max(info.tcpi_probes);
        u128::from(silent_ms) >= silence.as_millis() && tries >= TRIES
    })
}

/// What the kernel knows of a TCP connection; nothing of other sockets.
fn tcp_info(socket: BorrowedFd<'_>) -> Option<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes no more than `len` bytes, for which there is room.
    let result = unsafe {
        let option = (libc::IPPROTO_TCP, libc::TCP_INFO);
        let info = info.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), option.0, option.1, info, &raw mut len)
    };
    // SAFETY: it consists of numbers, which are zeros where the kernel has written nothing.
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
