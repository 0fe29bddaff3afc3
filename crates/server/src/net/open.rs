//! Opens the addresses that the settings name.

use crate::net::listener::{Address, Backlog, Endpoint, Listener};
use crate::net::protocol::Protocol;
use nagi_commands::{Addresses, Config};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

/// How long to retry a port that is in use when the server starts. With io_uring, the kernel closes
/// the sockets of a killed process some 10 ms after its end, so that an immediate restart would
/// find the port in use.
const RETRY_FOR: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(2);

/// How many ports are tried if the port that the kernel chose for one address is in use on another.
const CHOICES: usize = 16;

/// An address that cannot be listened on.
#[derive(Debug)]
pub struct OpenError {
    /// The address, as configured.
    pub address: String,
    /// The setting that it comes from.
    pub setting: &'static str,
    /// The command-line option that changes that setting.
    pub option: String,
    /// The error of the kernel.
    pub error: io::Error,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpenError { address, option, error, .. } = self;
        match (error.kind(), self.port()) {
            (io::ErrorKind::AddrInUse, Some(port)) => write!(
                f,
                "{address} is in use; choose another port with {option} \
                 (or stop the server that has it: ss -ltnp 'sport = :{port}')"
            ),
            (io::ErrorKind::AddrInUse, None) => {
                write!(f, "{address} is in use; choose another path with {option}")
            }
            _ => write!(f, "cannot listen on {address} ({option}): {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

impl OpenError {
    fn new(config: &Config, setting: &'static str, address: String, error: io::Error) -> Self {
        let option = config.option(setting).unwrap_or_else(|| setting.to_owned());
        OpenError { address, setting, option, error }
    }

    /// The port of the address, or `None` for a path.
    fn port(&self) -> Option<u16> {
        let (_, port) = self.address.rsplit_once(':')?;
        port.parse().ok().filter(|_| !self.setting.ends_with("unixsocket"))
    }

    /// The port, if it is in use.
    pub(crate) fn port_in_use(&self) -> Option<u16> {
        self.port().filter(|_| self.error.kind() == io::ErrorKind::AddrInUse)
    }
}

/// Opens all listeners, or none.
pub(crate) fn all(config: &Config) -> Result<Vec<Arc<Listener>>, OpenError> {
    let backlog = backlog(config);
    let mut listeners = ports_once_free(&config.addresses(), config)?;
    let permissions = u32::try_from(config.unixsocketperm.get()).unwrap_or(0);
    let sockets = [
        (Protocol::Resp, "unixsocket", config.unixsocket.get()),
        (Protocol::Memcached, "memcached-unixsocket", config.memcached_unixsocket.get()),
    ];
    for (protocol, setting, paths) in sockets {
        for path in paths.split_whitespace() {
            let listener = Listener::unix(protocol, path.as_ref(), backlog, permissions);
            let fail = |error| OpenError::new(config, setting, path.to_owned(), error);
            listeners.push(Arc::new(listener.map_err(fail)?));
        }
    }
    Ok(listeners)
}

/// Opens the wanted addresses that are not in `present`. Returns the new set of listeners. If
/// opening fails, returns the error with the previous set, in which listeners that had to be
/// stopped are opened again; one that cannot be opened again is missing.
pub(crate) fn change(
    present: &[Arc<Listener>],
    wanted: &Addresses,
    config: &Config,
) -> (Vec<Arc<Listener>>, Result<(), OpenError>) {
    let backlog = backlog(config);
    let is_path = |listener: &&Arc<Listener>| listener.endpoint().port().is_none();
    let with_paths = |mut listeners: Vec<Arc<Listener>>| {
        listeners.extend(present.iter().filter(is_path).cloned());
        (listeners, Ok(()))
    };
    let error = match ports(wanted, config, present) {
        Ok(listeners) => return with_paths(listeners),
        Err(error) => error,
    };
    let wanted_ports = [wanted.port, wanted.memcached_port];
    let (in_the_way, rest): (Vec<_>, Vec<_>) = present.iter().cloned().partition(|listener| {
        listener.endpoint().port().is_some_and(|port| wanted_ports.contains(&port.into()))
    });
    if error.error.kind() != io::ErrorKind::AddrInUse || in_the_way.is_empty() {
        return (present.to_vec(), Err(error));
    }
    // The kernel rejects an address that overlaps one in use, such as 0.0.0.0 and 127.0.0.1.
    in_the_way.iter().for_each(|listener| listener.stop());
    match ports(wanted, config, &rest) {
        Ok(listeners) => with_paths(listeners),
        Err(error) => {
            let mut restored = rest;
            for listener in &in_the_way {
                match listener.reopened(backlog) {
                    Ok(listener) => restored.push(Arc::new(listener)),
                    Err(error) => tracing::error!(
                        %error, "cannot listen again on {}", listener.endpoint().address
                    ),
                }
            }
            (restored, Err(error))
        }
    }
}

fn backlog(config: &Config) -> Backlog {
    Backlog {
        connections: i32::try_from(config.tcp_backlog.get()).unwrap_or(i32::MAX),
        keepalive: Duration::from_secs(config.tcp_keepalive_s.get()),
    }
}

/// Listens on all ports, and waits briefly for those that are in use.
fn ports_once_free(wanted: &Addresses, config: &Config) -> Result<Vec<Arc<Listener>>, OpenError> {
    let end = Instant::now() + RETRY_FOR;
    loop {
        match ports(wanted, config, &[]) {
            Err(taken)
                if taken.error.kind() == io::ErrorKind::AddrInUse && Instant::now() < end =>
            {
                thread::sleep(PAUSE);
            }
            outcome => return outcome,
        }
    }
}

/// Listens on all ports, and keeps those of `present` that are wanted.
fn ports(
    wanted: &Addresses,
    config: &Config,
    present: &[Arc<Listener>],
) -> Result<Vec<Arc<Listener>>, OpenError> {
    let bind = ("bind", wanted.bind.as_ref());
    let memcached_bind = match wanted.memcached_bind.as_ref() {
        own if own.trim().is_empty() => bind,
        own => ("memcached-bind", own),
    };
    let mut listeners = Vec::new();
    for (protocol, setting, bind, port) in [
        (Protocol::Resp, "port", bind, wanted.port),
        (Protocol::Memcached, "memcached-port", memcached_bind, wanted.memcached_port),
    ] {
        let opening = Opening { protocol, setting, bind, config, present };
        listeners.extend(match u16::try_from(port) {
            Ok(port) => opening.on_port(Some(port).filter(|port| *port != 0))?,
            Err(_) => opening.on_any_port()?,
        });
    }
    Ok(listeners)
}

/// Settings that a protocol's listeners share.
struct Opening<'a> {
    protocol: Protocol,
    /// The name of the setting with the port.
    setting: &'static str,
    /// The name of the setting with the addresses, and its value.
    bind: (&'static str, &'a str),
    config: &'a Config,
    present: &'a [Arc<Listener>],
}

impl Opening<'_> {
    /// Listens on every address, on a port that the kernel chooses for the first.
    fn on_any_port(&self) -> Result<Vec<Arc<Listener>>, OpenError> {
        let mut opened = self.on_port(Some(0));
        for _ in 1..CHOICES {
            match &opened {
                Err(error) if error.error.kind() == io::ErrorKind::AddrInUse => {}
                _ => break,
            }
            opened = self.on_port(Some(0));
        }
        opened
    }

    /// Listens on every address, or without a port, on the addresses that have their own. If `port`
    /// is 0, the first address gets a port from the kernel, and the others get the same one.
    fn on_port(&self, mut port: Option<u16>) -> Result<Vec<Arc<Listener>>, OpenError> {
        let (bind, words) = self.bind;
        let mut listeners = Vec::new();
        for word in words.split_whitespace() {
            let (host, optional) = match word.strip_prefix('-') {
                Some(host) => (host, true),
                None => (word, false),
            };
            let (host, own_port) = split_port(host);
            let Some(chosen) = own_port.or(port) else { continue };
            let Some(address) = address_of(host) else {
                let error = io::Error::new(io::ErrorKind::InvalidInput, "not an IP address");
                return Err(OpenError::new(self.config, bind, host.to_owned(), error));
            };
            let address = SocketAddr::new(address, chosen);
            match self.listener(address) {
                Ok(listener) => {
                    if own_port.is_none() {
                        port = listener.endpoint().port().or(port);
                    }
                    listeners.push(listener);
                }
                Err(error) if optional && is_missing(&error) => {
                    tracing::debug!(%address, %error, "skipped an optional address");
                }
                Err(error) => {
                    let is_of_bind = own_port.is_some() || is_missing(&error);
                    let setting = if is_of_bind { bind } else { self.setting };
                    let address = format!("{host}:{chosen}");
                    return Err(OpenError::new(self.config, setting, address, error));
                }
            }
        }
        Ok(listeners)
    }

    /// The listener of an address, which may already exist.
    fn listener(&self, address: SocketAddr) -> io::Result<Arc<Listener>> {
        let endpoint = Endpoint { protocol: self.protocol, address: Address::Tcp(address) };
        if let Some(listener) = self.present.iter().find(|it| *it.endpoint() == endpoint) {
            return Ok(Arc::clone(listener));
        }
        Ok(Arc::new(Listener::tcp(self.protocol, address, backlog(self.config))?))
    }
}

/// Splits a host and its optional port after a colon; an IPv6 address with a port is in brackets.
fn split_port(word: &str) -> (&str, Option<u16>) {
    let (host, port) = match word.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None if word.matches(':').count() == 1 => {
            word.split_once(':').map_or((word, None), |(host, port)| (host, Some(port)))
        }
        None => (word, None),
    };
    match port {
        None => (host, None),
        // With an invalid port, the word is not an address.
        Some(port) => port.parse().map_or((word, None), |port| (host, Some(port))),
    }
}

/// The address that a word of `bind` denotes.
fn address_of(host: &str) -> Option<IpAddr> {
    match host {
        "*" => Some(Ipv4Addr::UNSPECIFIED.into()),
        "::*" => Some(Ipv6Addr::UNSPECIFIED.into()),
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        host => host.parse().ok(),
    }
}

/// Whether the machine lacks the address or its address family.
fn is_missing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let missing = [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT, Errno::PROTONOSUPPORT];
    error.raw_os_error().is_some_and(|code| missing.contains(&Errno::from_raw_os_error(code)))
}
