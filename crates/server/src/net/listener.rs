//! Listening sockets: one per address, which all workers watch.
//!
//! SO_REUSEPORT, with one socket per worker, has two drawbacks: a second server could share the
//! port without an error, and connections in the queue of a stalled worker would wait for it.

use crate::net::protocol::Protocol;
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};
use std::fmt;
use std::fs::Permissions;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// An address that clients can connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The protocol of its clients.
    pub protocol: Protocol,
    /// The address, with the actual port if the kernel chose it.
    pub address: Address,
}

impl Endpoint {
    /// Whether only clients on this machine can connect to it.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match &self.address {
            Address::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Address::Unix(_) => true,
        }
    }

    /// The port, or `None` for a path.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match &self.address {
            Address::Tcp(address) => Some(address.port()),
            Address::Unix(_) => None,
        }
    }
}

/// Settings that all TCP listeners share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    /// Maximum connections waiting to be accepted.
    pub(crate) connections: i32,
    /// Idle time after which the kernel probes a connection; zero disables probes.
    pub(crate) keepalive: Duration,
}

/// The set of listeners at one time.
pub(crate) type Listeners = Arc<[Arc<Listener>]>;

/// Distinguishes a file from others that have had the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The identity of the socket at a path, if there is one.
    fn of(path: &Path) -> Option<Self> {
        let found = path.symlink_metadata().ok().filter(|it| it.file_type().is_socket())?;
        Some(FileId { device: found.dev(), inode: found.ino() })
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    endpoint: Endpoint,
    /// The file of a Unix socket, which [`Listener::stop`] removes.
    file: Option<FileId>,
    stopped: AtomicBool,
}

impl Listener {
    /// Listens on a TCP address. Connections inherit the socket options set here, which saves
    /// setting them on each connection.
    pub(crate) fn tcp(
        protocol: Protocol,
        address: SocketAddr,
        backlog: Backlog,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_tcp_nodelay(true)?;
        set_keepalive(&socket, backlog.keepalive)?;
        socket.bind(&address.into())?;
        socket.listen(backlog.connections)?;
        let bound = socket.local_addr()?.as_socket().unwrap_or(address);
        Ok(Listener::new(socket, protocol, Address::Tcp(bound), None))
    }

    /// Listens on a path. Replaces only a stale socket that a stopped server left there, and no
    /// other file. `permissions` are those of the file; 0 leaves them to the umask.
    pub(crate) fn unix(
        protocol: Protocol,
        path: &Path,
        backlog: Backlog,
        permissions: u32,
    ) -> io::Result<Self> {
        let address = SockAddr::unix(path)?;
        if path.symlink_metadata().is_ok_and(|found| !found.file_type().is_socket()) {
            let what = "there is a file that is not a socket; move it away, or choose another path";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
        let abandoned = Socket::new(Domain::UNIX, Type::STREAM, None)?
            .connect(&address)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if abandoned {
            std::fs::remove_file(path)?;
        }
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
        socket.bind(&address)?;
        let file = FileId::of(path);
        if permissions != 0 {
            std::fs::set_permissions(path, Permissions::from_mode(permissions))?;
        }
        socket.listen(backlog.connections)?;
        Ok(Listener::new(socket, protocol, Address::Unix(path.to_owned()), file))
    }

    /// Opens another listener at the same TCP address, after this one was stopped.
    pub(crate) fn reopened(&self, backlog: Backlog) -> io::Result<Self> {
        match &self.endpoint.address {
            Address::Tcp(address) => Listener::tcp(self.endpoint.protocol, *address, backlog),
            Address::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn new(socket: Socket, protocol: Protocol, address: Address, file: Option<FileId>) -> Self {
        let endpoint = Endpoint { protocol, address };
        Listener { socket, endpoint, file, stopped: AtomicBool::new(false) }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sets how long connections accepted from now on may be idle before the kernel probes them,
    /// three times; zero disables probes.
    pub(crate) fn set_keepalive(&self, silence: Duration) {
        if matches!(self.endpoint.address, Address::Tcp(_))
            && let Err(error) = set_keepalive(&self.socket, silence)
        {
            tracing::warn!(%error, "cannot change tcp-keepalive");
        }
    }

    /// Refuses new clients, and removes the path unless another file has replaced it.
    pub(crate) fn stop(&self) {
        if self.stopped.swap(true, Ordering::Relaxed) {
            return;
        }
        // An error means that the socket no longer listens.
        let _ = self.socket.shutdown(Shutdown::Both);
        if let Address::Unix(path) = &self.endpoint.address
            && self.file.is_some_and(|file| FileId::of(path) == Some(file))
        {
            // The next server replaces a socket that could not be removed.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Unanswered probes after which a peer is lost.
const PROBES: u32 = 3;

/// Time between two probes.
fn probe_interval(silence: Duration) -> Duration {
    (silence / PROBES).max(Duration::from_secs(1))
}

/// How long a peer is silent before its connection counts as lost, if the kernel starts to probe it
/// after `silence`.
pub(crate) fn silence_before_loss(silence: Duration) -> Duration {
    silence.saturating_add(PROBES * probe_interval(silence))
}

fn set_keepalive(socket: &Socket, silence: Duration) -> io::Result<()> {
    if silence.is_zero() {
        return socket.set_keepalive(false);
    }
    let keepalive = TcpKeepalive::new().with_time(silence);
    let interval = probe_interval(silence);
    socket.set_tcp_keepalive(&keepalive.with_interval(interval).with_retries(PROBES))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn connections_inherit_what_is_set_on_the_listener() {
        let backlog = Backlog { connections: 10, keepalive: Duration::from_secs(300) };
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::tcp(Protocol::Resp, any, backlog).unwrap();
        let address = listener.socket.local_addr().unwrap().as_socket().unwrap();
        let accept = || {
            listener.socket.set_nonblocking(false).unwrap();
            let client = TcpStream::connect(address).unwrap();
            (client, listener.socket.accept().unwrap().0)
        };
        let (_client, socket) = accept();
        assert!(socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(300));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(100));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
        assert_eq!(silence_before_loss(Duration::from_secs(300)), Duration::from_secs(600));
        listener.set_keepalive(Duration::ZERO);
        let (_client, socket) = accept();
        assert!(!socket.keepalive().unwrap());
    }
}
