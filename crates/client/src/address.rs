//! A server's address, resolved once so that a thousand connections do not query a name server a
//! thousand times.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::Error;

/// How long a TCP connection may take to be established.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server's address.
///
/// ```
/// let address = nagi_client::Address::Unix("/run/redis.sock".into());
/// assert_eq!(address.to_string(), "/run/redis.sock");
/// ```
#[derive(Clone, Debug)]
pub enum Address {
    /// A host and port, with the resolved addresses, tried in order.
    Tcp {
        /// The host and port as given by the user.
        name: String,
        /// The resolved addresses.
        resolved: Vec<SocketAddr>,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Resolves `host`.
    ///
    /// # Errors
    /// The host has no address.
    ///
    /// ```
    /// let address = nagi_client::Address::tcp("::1", 6379)?;
    /// assert_eq!(address.to_string(), "[::1]:6379");
    /// # Ok::<(), nagi_client::Error>(())
    /// ```
    pub fn tcp(host: &str, port: u16) -> Result<Self, Error> {
        Address::resolved(host, port, (host, port).to_socket_addrs().map(Vec::from_iter))
    }

    /// Creates the address from the result of resolving `host`.
    pub(crate) fn resolved(
        host: &str,
        port: u16,
        found: io::Result<Vec<SocketAddr>>,
    ) -> Result<Self, Error> {
        let name =
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        match found {
            Ok(resolved) if !resolved.is_empty() => Ok(Address::Tcp { name, resolved }),
            Ok(_) => Err(Error::Connect {
                address: name,
                source: io::Error::new(io::ErrorKind::NotFound, "the host has no address"),
            }),
            Err(source) => Err(Error::Connect { address: name, source }),
        }
    }

    /// Opens a blocking connection with Nagle's algorithm off.
    ///
    /// # Errors
    /// No address could be connected to; the error is that of the last one.
    ///
    /// ```
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let socket = nagi_client::Address::from(listener.local_addr()?).connect()?;
    /// # drop(socket);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect(&self) -> Result<OwnedFd, Error> {
        self.connect_within(CONNECT_TIMEOUT)
    }

    /// Like [`Address::connect`], with a limit on how long each TCP address may take.
    ///
    /// # Errors
    /// No address could be connected to; the error is that of the last one.
    ///
    /// ```
    /// use std::time::Duration;
    /// let address = nagi_client::Address::Unix("/nonexistent".into());
    /// let error = address.connect_within(Duration::from_millis(100)).unwrap_err();
    /// assert!(error.to_string().starts_with("cannot connect to /nonexistent: "));
    /// ```
    pub fn connect_within(&self, timeout: Duration) -> Result<OwnedFd, Error> {
        self.open(timeout).map_err(|source| Error::Connect { address: self.to_string(), source })
    }

    fn open(&self, timeout: Duration) -> io::Result<OwnedFd> {
        match self {
            Address::Unix(path) => UnixStream::connect(path).map(OwnedFd::from),
            Address::Tcp { resolved, .. } => {
                let mut failure = io::Error::from(io::ErrorKind::NotFound);
                for address in resolved {
                    match TcpStream::connect_timeout(address, timeout) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            return Ok(stream.into());
                        }
                        Err(error) => failure = error,
                    }
                }
                Err(failure)
            }
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Address::Tcp { name: address.to_string(), resolved: vec![address] }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { name, .. } => out.write_str(name),
            Address::Unix(path) => path.display().fmt(out),
        }
    }
}
