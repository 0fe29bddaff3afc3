//! The servers of a run: how to connect to them, and how they identify themselves.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nagi_client::{Address, Connection, encode_command};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, getpeername, ipproto,
    socket_with,
};
use serde::Serialize;

use super::options::BenchOptions;
use super::protocol::Protocol;
use crate::clock::SECOND;
use crate::figures::{self, Fields};
use crate::interrupt::Interrupt;
use crate::target::{self, Password, Scheme, Site, Target};
use crate::wire::{Answer, Wire};

/// Settings that a report includes, if a server has them.
const SETTINGS: [&str; 10] = [
    "maxmemory",
    "maxmemory-policy",
    "save",
    "appendonly",
    "appendfsync",
    "io-threads",
    "workers",
    "io",
    "maxbytes",
    "num_threads",
];

/// A server under load.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) site: Site,
    pub(crate) protocol: Protocol,
    password: Option<Password>,
    /// Whether the server is known to require the password. A server that requires none would store
    /// memcached's login as an item.
    is_login_required: Arc<AtomicBool>,
    /// The number of the host's address at which the server answers.
    answering: Arc<AtomicUsize>,
}

/// The identity of a server.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Identity {
    /// Its URL or address, without a password.
    pub address: String,
    /// Name and version, such as `nagi 0.1.0`.
    pub name: String,
    /// Settings that the server reports, by name.
    pub settings: BTreeMap<String, String>,
}

/// Returns the servers in the options and their protocol, which must be the same for all of them.
pub(crate) fn servers(options: &BenchOptions) -> Result<(Vec<Server>, Protocol), String> {
    let spare = target::read_password(options.password_file.as_deref())?;
    let spare = spare.map(|secret| Password { user: None, secret });
    if options.urls.is_empty() {
        let site = site_of(options)?;
        let server = Server {
            site,
            protocol: options.protocol,
            password: spare,
            is_login_required: Arc::default(),
            answering: Arc::default(),
        };
        return Ok((vec![server], options.protocol));
    }
    let mut servers: Vec<Server> = Vec::new();
    for url in &options.urls {
        let site = Site::parse(url)?;
        let protocol = match site.scheme {
            Scheme::Redis => Protocol::Resp,
            Scheme::Memcached => Protocol::Memcached,
            Scheme::Http => Protocol::Http,
            Scheme::Unix => options.protocol,
        };
        if let Some(other) = servers.first().filter(|other| other.protocol != protocol) {
            return Err(format!(
                "{} and {} speak different protocols and cannot form a ring",
                other.site.name, site.name
            ));
        }
        let password = site.password.clone().or_else(|| spare.clone());
        servers.push(Server {
            site,
            protocol,
            password,
            is_login_required: Arc::default(),
            answering: Arc::default(),
        });
    }
    let protocol = servers.first().map_or(options.protocol, |server| server.protocol);
    Ok((servers, protocol))
}

/// Returns the server given by --host and --port, or by --unix.
fn site_of(options: &BenchOptions) -> Result<Site, String> {
    let port = options.port.unwrap_or_else(|| options.protocol.default_port());
    let (address, host, port) = match &options.unix {
        Some(path) => (Address::Unix(path.clone()), path.display().to_string(), 0),
        None => {
            let address = Address::tcp(&options.host, port).map_err(|error| error.to_string())?;
            (address, options.host.clone(), port)
        }
    };
    let scheme = match options.protocol {
        _ if options.unix.is_some() => Scheme::Unix,
        Protocol::Resp => Scheme::Redis,
        Protocol::Memcached => Scheme::Memcached,
        Protocol::Http => Scheme::Http,
    };
    let name = address.to_string();
    Ok(Site { name, host, port, address, scheme, database: 0, password: None })
}

impl Server {
    fn target(&self) -> Target {
        Target {
            name: self.site.name.clone(),
            address: self.site.address.clone(),
            protocol: match self.protocol {
                Protocol::Resp => nagi_client::Protocol::Resp,
                Protocol::Memcached | Protocol::Http => nagi_client::Protocol::Memcached,
            },
            password: self.password.clone().filter(|_| self.protocol != Protocol::Http),
        }
    }

    /// Returns another server of the same cluster.
    ///
    /// # Errors
    /// The host has no address.
    pub(crate) fn at(&self, host: &str, port: u16) -> Result<Server, String> {
        let address = Address::tcp(host, port).map_err(|error| error.to_string())?;
        let (name, host) = (address.to_string(), host.to_owned());
        let site = Site { name, host, port, address, ..self.site.clone() };
        Ok(Server {
            site,
            is_login_required: Arc::default(),
            answering: Arc::default(),
            ..self.clone()
        })
    }

    /// Returns the first requests of a new connection, and the number of answers to them.
    pub(crate) fn greeting(&self) -> (Vec<u8>, usize) {
        let (mut bytes, mut answers) = (Vec::new(), 0);
        let protocol = self.target().protocol;
        let must_log_in = match self.protocol {
            Protocol::Resp => true,
            Protocol::Memcached => self.is_login_required.load(Relaxed),
            Protocol::Http => false,
        };
        // A login that cannot be encoded has already failed on the first connection.
        if let Some(password) = self.password.as_ref().filter(|_| must_log_in)
            && password.encode(protocol, &mut bytes).is_ok()
        {
            answers += 1;
        }
        if self.protocol == Protocol::Resp && self.site.database != 0 {
            let number = self.site.database.to_string();
            encode_command(&[b"SELECT", number.as_bytes()], &mut bytes);
            answers += 1;
        }
        (bytes, answers)
    }

    /// Opens a connection for single requests, and selects the database.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the password or the database.
    pub(crate) fn wire(&self, interrupt: &Interrupt) -> Result<Wire, String> {
        let mut wire = Wire::open(&self.target(), interrupt)?;
        self.is_login_required.store(wire.is_logged_in(), Relaxed);
        if self.protocol == Protocol::Resp && self.site.database != 0 {
            let select = format!("SELECT {}", self.site.database);
            wire.run(&select).map_err(|error| format!("{}: {error}", self.site.name))?;
        }
        Ok(wire)
    }

    /// Opens a connection that is ready for requests.
    ///
    /// # Errors
    /// As for [`Server::wire`].
    pub(crate) fn open(&self, interrupt: &Interrupt) -> Result<Connection, String> {
        let is_bare = match self.protocol {
            Protocol::Resp => self.greeting().1 == 0,
            Protocol::Memcached => self.password.is_none(),
            Protocol::Http => true,
        };
        let socket = match is_bare {
            true => self.site.address.connect().map_err(|error| error.to_string())?,
            false => self.wire(interrupt)?.into_socket(),
        };
        self.note_address(&socket);
        Connection::over(socket, self.protocol.into()).map_err(|error| error.to_string())
    }

    /// Records at which of its host's addresses the server answers.
    fn note_address(&self, socket: &OwnedFd) {
        let Address::Tcp { resolved, .. } = &self.site.address else { return };
        let peer = getpeername(socket).ok().flatten();
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        let number = resolved.iter().position(|address| Some(*address) == peer);
        self.answering.store(number.unwrap_or_default(), Relaxed);
    }

    /// Begins to connect without waiting, for the event loop.
    ///
    /// # Errors
    /// The system refuses the socket at once.
    pub(crate) fn begin(&self) -> Result<Connection, nagi_client::Error> {
        let number = self.answering.load(Relaxed);
        let socket = begin(&self.site.address, number).map_err(nagi_client::Error::from)?;
        Connection::over(socket, self.protocol.into())
    }

    /// Returns the text that precedes a path over HTTP.
    pub(crate) fn http_head(&self) -> String {
        match self.site.database {
            0 => String::new(),
            database => format!("/{database}"),
        }
    }

    /// Returns the header fields of a request over HTTP.
    pub(crate) fn http_fields(&self) -> String {
        let host = match &self.site.address {
            Address::Unix(_) => "localhost".to_owned(),
            address @ Address::Tcp { .. } => address.to_string(),
        };
        let login = match &self.password {
            None => String::new(),
            Some(Password { user: None, secret }) => format!("Authorization: Bearer {secret}\r\n"),
            Some(Password { user: Some(user), secret }) => {
                let encoded = BASE64_STANDARD.encode(format!("{user}:{secret}"));
                format!("Authorization: Basic {encoded}\r\n")
            }
        };
        format!("Host: {host}\r\n{login}")
    }

    /// Identifies the server, as far as it reports its identity.
    ///
    /// # Errors
    /// The server cannot be reached, refuses the password, or speaks another protocol.
    pub(crate) fn identify(
        &self,
        interrupt: &Interrupt,
        patience_seconds: f64,
    ) -> Result<Identity, String> {
        let mut wire = self.wire(interrupt)?;
        wire.set_answer_timeout((patience_seconds.max(1.0) * SECOND as f64) as u64);
        let (fields, settings) = match self.protocol {
            Protocol::Resp => ask_resp(&mut wire),
            Protocol::Memcached => ask_memcached(&mut wire),
            Protocol::Http => ask_http(&mut wire, &self.http_head(), &self.http_fields()),
        }
        .map_err(|why| {
            let spoken = self.protocol.name();
            let hint = match is_login_missing(&why) {
                true => "--password-file or REDISCLI_AUTH has the password".to_owned(),
                false => format!("does the server speak {spoken}?"),
            };
            format!("{}: {why} ({hint})", self.site.name)
        })?;
        let name =
            if fields.is_empty() { UNKNOWN.to_owned() } else { figures::server_name(&fields) };
        let named = settings.into_iter().filter(|(name, _)| SETTINGS.contains(&name.as_str()));
        Ok(Identity { address: self.site.name.clone(), name, settings: named.collect() })
    }
}

const UNKNOWN: &str = "unknown server";

/// The statistics of a server, and its settings.
type Told = (Fields, Fields);

fn ask_resp(wire: &mut Wire) -> Result<Told, String> {
    let info = match wire.command(&[b"INFO"]) {
        Ok(Answer::Error(text)) if text.starts_with("NOAUTH") => return Err(text),
        Ok(Answer::Text(text, _)) => figures::parse_info(&String::from_utf8_lossy(&text)),
        Ok(_) => return Ok(Told::default()),
        // A proxy may close the connection after a command that it does not know.
        Err(why) if is_closed(&why) => return Ok(Told::default()),
        Err(why) => return Err(without_name(&why)),
    };
    let mut settings = Fields::new();
    for name in SETTINGS {
        if let Ok(Answer::Array(pair)) = wire.command(&[b"CONFIG", b"GET", name.as_bytes()])
            && let [name, value] = pair.as_slice()
        {
            settings.insert(name.text(), value.text());
        }
    }
    Ok((info, settings))
}

fn ask_memcached(wire: &mut Wire) -> Result<Told, String> {
    let lines = match wire.lines("stats") {
        Ok(lines) => lines,
        Err(why) if is_closed(&why) => return Ok(Told::default()),
        Err(why) => return Err(without_name(&why)),
    };
    match lines.last().map(String::as_str) {
        Some("END") => {}
        Some("ERROR") | None => return Ok(Told::default()),
        Some(line) => return Err(format!("answers stats with {:?}", shortened(line))),
    }
    let fields = figures::parse_stats(&lines);
    if fields.is_empty() {
        return Ok(Told::default());
    }
    let settings = figures::stats(wire, "stats settings").unwrap_or_default();
    Ok((fields, settings))
}

fn ask_http(wire: &mut Wire, head: &str, fields: &str) -> Result<Told, String> {
    let request = format!("GET {head}/INFO.json HTTP/1.1\r\n{fields}\r\n");
    let asked = wire.send(request.as_bytes()).and_then(|()| wire.line());
    let status = asked.map_err(|why| without_name(&why))?;
    let mut length = None;
    loop {
        if !status.starts_with("HTTP/1.1 200") {
            return Err(format!("answers a command with {:?}", shortened(&status)));
        }
        let line = wire.line().map_err(|why| without_name(&why))?.to_lowercase();
        if line.is_empty() {
            break;
        }
        length = line.strip_prefix("content-length:").map(str::to_owned).or(length);
    }
    let Some(length) = length.and_then(|length| length.trim().parse().ok()) else {
        return Ok(Told::default());
    };
    // Unlike a string of RESP, a body of HTTP has no line break after it.
    let body = wire.body(length).map_err(|why| without_name(&why))?;
    let json: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut found = Fields::new();
    collect(&json, &mut found);
    Ok((found, Fields::new()))
}

/// Collects all strings of `json` by name, at any depth.
fn collect(json: &serde_json::Value, found: &mut Fields) {
    for (name, value) in json.as_object().into_iter().flatten() {
        match value {
            serde_json::Value::String(text) => {
                found.insert(name.clone(), text.clone());
            }
            other => collect(other, found),
        }
    }
}

/// Whether an error says that the server requires a login.
pub(crate) fn is_login_missing(why: &str) -> bool {
    ["NOAUTH", "401 Unauthorized", "CLIENT_ERROR unauthenticated"]
        .iter()
        .any(|text| why.contains(text))
}

fn is_closed(why: &str) -> bool {
    why.ends_with("the server closed the connection")
}

/// Removes the server's name from an error of [`Wire`], because the caller adds the name.
fn without_name(why: &str) -> String {
    why.rsplit_once(": ").map_or(why, |(_, why)| why).to_owned()
}

fn shortened(line: &str) -> &str {
    line.get(..line.floor_char_boundary(80)).unwrap_or(line)
}

/// Begins to connect to an address, of those of a host to the one with this number.
fn begin(address: &Address, number: usize) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (socket, begun) = match address {
        Address::Unix(path) => {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            let begun = connect(&socket, &SocketAddrUnix::new(path.as_path())?);
            (socket, begun)
        }
        Address::Tcp { resolved, .. } => {
            let address = resolved.get(number).ok_or(io::ErrorKind::NotFound)?;
            let family = match address {
                SocketAddr::V4(_) => AddressFamily::INET,
                SocketAddr::V6(_) => AddressFamily::INET6,
            };
            let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
            set_tcp_nodelay(&socket, true)?;
            let begun = connect(&socket, address);
            (socket, begun)
        }
    };
    match begun {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno.into()),
    }
}
