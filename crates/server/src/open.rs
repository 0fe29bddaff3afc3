//! Opening every address that the settings name.

use crate::listener::{Backlog, Listener};
use crate::server::Options;
use crate::session::Protocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use std::{fmt, io};

/// How often other ports are tried where the kernel's choice for one address is taken on another.
const CHOICES: usize = 16;

/// An address that cannot be listened on.
#[derive(Debug)]
pub struct OpenError {
    /// The address, as it was asked for.
    pub address: String,
    /// The setting that it comes from, which is also the name of its option.
    pub setting: &'static str,
    /// What the kernel says.
    pub error: io::Error,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpenError { address, setting, error } = self;
        let port = address.rsplit(':').next().unwrap_or_default();
        match error.kind() {
            io::ErrorKind::AddrInUse if setting.ends_with("port") => write!(
                f,
                "{address} is in use; choose another port with --{setting} \
                 (or stop the server that has it: ss -ltnp 'sport = :{port}')"
            ),
            io::ErrorKind::AddrInUse => {
                write!(f, "{address} is in use; choose another path with --{setting}")
            }
            _ => write!(f, "cannot listen on {address} (--{setting}): {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// Opens all listeners, or none.
pub(crate) fn all(options: &Options) -> Result<Vec<Listener>, OpenError> {
    let config = &options.config;
    let backlog = Backlog {
        connections: i32::try_from(config.tcp_backlog.get()).unwrap_or(i32::MAX),
        keepalive: Duration::from_secs(config.tcp_keepalive_s.get()),
    };
    let bind = config.bind.get();
    let mut listeners = Vec::new();
    let ports = [
        (Protocol::Resp, "port", config.port.get()),
        (Protocol::Memcached, "memcached-port", config.memcached_port.get()),
    ];
    for (protocol, setting, port) in ports {
        let opening = Opening { protocol, setting, bind: &bind, backlog };
        match u16::try_from(port) {
            Ok(0) => {}
            Ok(port) => listeners.extend(opening.on_port(port)?),
            Err(_) => listeners.extend(opening.on_any_port()?),
        }
    }
    let permissions = u32::try_from(config.unixsocketperm.get()).unwrap_or(0);
    let sockets = [
        (Protocol::Resp, "unixsocket", config.unixsocket.get()),
        (Protocol::Memcached, "memcached-unixsocket", config.memcached_unixsocket.get()),
    ];
    for (protocol, setting, paths) in sockets {
        for path in paths.split_whitespace() {
            let listener = Listener::unix(protocol, path.as_ref(), backlog, permissions);
            let fail = |error| OpenError { address: path.to_owned(), setting, error };
            listeners.push(listener.map_err(fail)?);
        }
    }
    Ok(listeners)
}

/// What a protocol's listeners have in common.
struct Opening<'a> {
    protocol: Protocol,
    setting: &'static str,
    bind: &'a str,
    backlog: Backlog,
}

impl Opening<'_> {
    /// Listens on every address, on a port that the kernel chooses for the first.
    fn on_any_port(&self) -> Result<Vec<Listener>, OpenError> {
        let mut opened = self.on_port(0);
        for _ in 1..CHOICES {
            match &opened {
                Err(error) if error.error.kind() == io::ErrorKind::AddrInUse => {}
                _ => break,
            }
            opened = self.on_port(0);
        }
        opened
    }

    /// Listens on every address. After the first, port 0 stands for the port of the first.
    fn on_port(&self, mut port: u16) -> Result<Vec<Listener>, OpenError> {
        let mut listeners = Vec::new();
        for word in self.bind.split_whitespace() {
            let (host, optional) = match word.strip_prefix('-') {
                Some(host) => (host, true),
                None => (word, false),
            };
            let fail = |error| OpenError {
                address: format!("{host}:{port}"),
                setting: self.setting,
                error,
            };
            let Some(address) = address_of(host) else {
                let error = io::Error::new(io::ErrorKind::InvalidInput, "not an IP address");
                return Err(OpenError { setting: "bind", address: host.to_owned(), error });
            };
            let address = SocketAddr::new(address, port);
            match Listener::tcp(self.protocol, address, self.backlog) {
                Ok(listener) => {
                    port = listener.endpoint().port().unwrap_or(port);
                    listeners.push(listener);
                }
                Err(error) if optional && is_missing(&error) => {
                    tracing::debug!(%address, %error, "not listening there");
                }
                Err(error) => return Err(fail(error)),
            }
        }
        Ok(listeners)
    }
}

/// The address that a word of `bind` stands for.
fn address_of(host: &str) -> Option<IpAddr> {
    match host {
        "*" => Some(Ipv4Addr::UNSPECIFIED.into()),
        "::*" => Some(Ipv6Addr::UNSPECIFIED.into()),
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        host => host.parse().ok(),
    }
}

/// Whether the machine does not have an address, or its family.
fn is_missing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let missing = [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT, Errno::PROTONOSUPPORT];
    error.raw_os_error().is_some_and(|code| missing.contains(&Errno::from_raw_os_error(code)))
}
