//! URLs of servers. Passwords are kept separately, and no output shows them.

use std::fmt;
use std::path::{Path, PathBuf};

use nagi_client::wire::{Dialect, Login, Request};
use nagi_client::{Address, Protocol};

/// A server as the user named it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL with `***` in place of its password.
    pub name: String,
    /// The address that the server listens on.
    pub address: Address,
    /// Its protocol.
    pub protocol: Protocol,
    /// The login, if the URL or the user gives one.
    pub password: Option<Password>,
}

/// The user in memcached's protocol if none is given: nagi's default user, whose password is
/// `requirepass`.
pub(crate) const MEMCACHED_USER: &str = "default";

/// A login: an optional user, and a password.
#[derive(Clone)]
pub struct Password {
    /// The user. `None` means the server's default user, which memcached's protocol names
    /// `default`.
    pub user: Option<String>,
    /// The password.
    pub secret: String,
}

impl fmt::Debug for Password {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

/// A parsed URL. Unlike a [`Target`], it can name a database or use HTTP.
#[derive(Clone, Debug)]
pub struct Site {
    /// The URL with `***` in place of its password.
    pub name: String,
    /// The host, or the path of a Unix socket.
    pub host: String,
    /// The port; 0 for a Unix socket.
    pub port: u16,
    /// The address that the server listens on.
    pub address: Address,
    /// The kind of URL.
    pub scheme: Scheme,
    /// The database, given after the port; 0 if none is given.
    pub database: u32,
    /// The login, if the URL gives one.
    pub password: Option<Password>,
}

/// Kinds of URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `redis://`, `valkey://` or `nagi://`.
    Redis,
    /// `memcached://`.
    Memcached,
    /// `http://`, nagi's gateway.
    Http,
    /// `unix:`, for any protocol.
    Unix,
}

impl Site {
    /// Parses `redis://[[user]:password@]host[:port][/database]`, `memcached://host[:port]`,
    /// `http://[user:password@]host[:port][/database]`, `unix:PATH`, or a server without a scheme:
    /// `host`, `host:port` or `/path`.
    ///
    /// # Errors
    /// The fault of the URL, without its password.
    pub fn parse(url: &str) -> Result<Self, String> {
        let (url, name) = match with_scheme(url) {
            Some(url) => (url.clone(), url),
            None => (revealed(url), masked(url)),
        };
        let url = &*url;
        let wrong = |why: &str| format!("{name}: {why}");
        if let Some(path) = url.strip_prefix("unix:") {
            return Site::socket(path.strip_prefix("//").unwrap_or(path))
                .map_err(|why| wrong(&why));
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(|| {
            wrong(
                "not a URL such as redis://host:port, memcached://host:port or unix:/path, nor \
                 host, host:port or /path",
            )
        })?;
        let (scheme, usual_port) = match scheme {
            "redis" | "valkey" | "nagi" => (Scheme::Redis, 6379),
            "memcached" => (Scheme::Memcached, 11211),
            "http" => (Scheme::Http, 7379),
            "rediss" | "https" => return Err(wrong("TLS is not supported")),
            _ => return Err(wrong("the scheme must be redis, memcached, http or unix")),
        };
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        let (place, path) = place.split_once('/').unwrap_or((place, ""));
        if place.contains(['?', '#']) || path.contains(['/', '?', '#']) {
            return Err(wrong("nothing but a database may follow the port"));
        }
        let database = match path {
            "" => 0,
            _ => {
                path.parse().map_err(|_| wrong("what follows the port is not a database number"))?
            }
        };
        let (host, port) = host_and_port(place, usual_port).map_err(|why| wrong(&why))?;
        let address = Address::tcp(host, port).map_err(|error| error.to_string())?;
        if scheme == Scheme::Memcached && database != 0 {
            return Err(wrong("memcached has no databases"));
        }
        let password = login.map(|login| Password::parse(login).map_err(wrong_owned(&name)));
        let (host, password) = (host.to_owned(), password.transpose()?);
        Ok(Site { name, host, port, address, scheme, database, password })
    }

    fn socket(path: &str) -> Result<Self, String> {
        if path.is_empty() {
            return Err("the path of the socket is missing".to_owned());
        }
        Ok(Site {
            name: format!("unix:{path}"),
            host: path.to_owned(),
            port: 0,
            address: Address::Unix(PathBuf::from(path)),
            scheme: Scheme::Unix,
            database: 0,
            password: None,
        })
    }
}

impl Target {
    /// Parses `redis://[[user]:password@]host[:port]`, the same with `memcached://`, or
    /// `unix:PATH`. `password` is used if the URL contains none.
    ///
    /// # Errors
    /// The fault of the URL, without its password.
    pub fn parse(url: &str, password: Option<&str>) -> Result<Self, String> {
        let Site { name, address, scheme, database, password: own, .. } = Site::parse(url)?;
        let protocol = match scheme {
            Scheme::Redis | Scheme::Unix => Protocol::Resp,
            Scheme::Memcached => Protocol::Memcached,
            Scheme::Http => {
                return Err(format!("{name}: the scheme must be redis, memcached or unix"));
            }
        };
        if database != 0 {
            return Err(format!("{name}: nothing may follow the port: database 0 is measured"));
        }
        let spare = password.map(|secret| Password { user: None, secret: secret.to_owned() });
        Ok(Target { name, address, protocol, password: own.or(spare) })
    }

    /// Whether the address is only reachable from this machine.
    pub fn is_local(&self) -> bool {
        match &self.address {
            Address::Tcp { resolved, .. } => {
                resolved.iter().all(|it| it.ip().to_canonical().is_loopback())
            }
            Address::Unix(_) => true,
        }
    }
}

/// Returns the URL for a server that is given without a scheme, as a path or a host. Port 11211,
/// memcached's default, means memcached; any other port means RESP.
fn with_scheme(text: &str) -> Option<String> {
    if text.starts_with('/') {
        return Some(format!("unix:{text}"));
    }
    // Text with any other character is either a URL already, or ambiguous without a scheme.
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-:[]".contains(letter);
    if text.is_empty() || text.starts_with("unix:") || !text.chars().all(is_plain) {
        return None;
    }
    // An IPv6 address without a port has no brackets.
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Some(format!("redis://[{text}]"));
    }
    let (_, port) = host_and_port(text, 0).ok()?;
    Some(format!("{}://{text}", if port == 11211 { "memcached" } else { "redis" }))
}

/// Schemes of URLs that may have a password.
const SCHEMES: [&str; 5] = ["redis", "valkey", "nagi", "memcached", "http"];

/// The environment variable that passes URLs with passwords to the restarted program: a line with
/// the placeholder, and one with the URL, of each.
const HIDDEN: &str = "NAGI_URLS";

/// Restarts this program with `***` in place of the passwords in its URLs, because all users of a
/// machine can read the arguments of all processes. Does nothing if no argument is a URL with a
/// password. Not for commands whose arguments may look like URLs and are none, such as keys.
///
/// # Errors
/// The program cannot be restarted.
pub fn hide_passwords() -> std::io::Result<()> {
    use std::os::unix::process::CommandExt;
    let mut hidden = Vec::new();
    let mut shown = Vec::new();
    for argument in std::env::args_os().skip(1) {
        let placeholder = argument.to_str().and_then(|url| placeholder(url, hidden.len() / 2));
        match (placeholder, argument.to_str()) {
            (Some(placeholder), Some(url)) => {
                hidden.extend([placeholder.clone(), url.to_owned()]);
                shown.push(placeholder.into());
            }
            _ => shown.push(argument),
        }
    }
    if hidden.is_empty() {
        return Ok(());
    }
    let mut command = std::process::Command::new(std::env::current_exe()?);
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    Err(command.args(shown).env(HIDDEN, hidden.join("\n")).exec())
}

/// What stands for a URL with a password, of which `earlier` are hidden already. Logins at the same
/// address differ in it.
fn placeholder(url: &str, earlier: usize) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (_, place) = rest.rsplit_once('@')?;
    let is_url = SCHEMES.contains(&scheme) && !rest.starts_with("***");
    let number = if earlier == 0 { String::new() } else { (earlier + 1).to_string() };
    is_url.then(|| format!("{scheme}://***{number}@{place}"))
}

/// Returns the original URL if [`hide_passwords`] has masked the password in `url`.
fn revealed(url: &str) -> String {
    let hidden = std::env::var(HIDDEN).unwrap_or_default();
    let lines: Vec<&str> = hidden.lines().collect();
    let mut pairs = lines.chunks_exact(2);
    let found = pairs.find_map(|pair| pair.strip_prefix(&[url])?.first().copied());
    found.unwrap_or(url).to_owned()
}

/// Returns the password for servers whose URL has none: the first line of `file`, or the
/// environment variable `REDISCLI_AUTH`.
///
/// # Errors
/// The file cannot be read, or its first line is empty.
pub fn read_password(file: Option<&Path>) -> Result<Option<String>, String> {
    let Some(path) = file else {
        return Ok(std::env::var("REDISCLI_AUTH").ok().filter(|text| !text.is_empty()));
    };
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let line = text.lines().next().filter(|line| !line.is_empty());
    line.map(|line| Some(line.to_owned()))
        .ok_or_else(|| format!("{}: the first line is empty", path.display()))
}

fn wrong_owned(name: &str) -> impl Fn(String) -> String + '_ {
    move |why| format!("{name}: {why}")
}

impl Password {
    /// Appends the request that logs in.
    ///
    /// # Errors
    /// The login contains blanks, which memcached's protocol uses as separators.
    pub(crate) fn encode(&self, protocol: Protocol, out: &mut Vec<u8>) -> Result<(), String> {
        let (dialect, usual) = match protocol {
            Protocol::Resp => (Dialect::Resp, None),
            Protocol::Memcached => (Dialect::Text, Some(MEMCACHED_USER)),
        };
        let user = self.user.clone().or(usual.map(str::to_owned));
        let login = Login { user, password: self.secret.clone() };
        Request::Login { login: &login }.encode(dialect, out)
    }

    /// Parses `[user]:password`, or a password alone, with percent-encoding such as `%40`.
    fn parse(login: &str) -> Result<Self, String> {
        let (user, secret) = login.split_once(':').unwrap_or(("", login));
        let user = decoded(user)?;
        Ok(Password { user: (!user.is_empty()).then_some(user), secret: decoded(secret)? })
    }
}

/// Returns the URL with its password replaced by `***`.
#[must_use]
pub fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.rsplit_once('@').map_or(url.to_owned(), |(_, rest)| format!("***@{rest}"));
    };
    match rest.rsplit_once('@') {
        Some((_, place)) => format!("{scheme}://***@{place}"),
        None => url.to_owned(),
    }
}

fn host_and_port(place: &str, usual: u16) -> Result<(&str, u16), String> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("the ] after the address is missing")?;
            (host, after.strip_prefix(':').or((!after.is_empty()).then_some(after)))
        }
        None => match place.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    if host.is_empty() {
        return Err("the host is missing".to_owned());
    }
    let port = match port {
        None => usual,
        Some(text) => text
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| format!("{text} is not a port (1 to 65535)"))?,
    };
    Ok((host, port))
}

/// Replaces each `%XX` by the byte that it encodes.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(code.ok_or("a % in a password is written %25")?);
        rest = rest.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| "the password is not text in UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_into_an_address_and_a_protocol() {
        for (url, address, protocol) in [
            ("redis://127.0.0.1:7000", "127.0.0.1:7000", Protocol::Resp),
            ("redis://127.0.0.1/", "127.0.0.1:6379", Protocol::Resp),
            ("memcached://127.0.0.1", "127.0.0.1:11211", Protocol::Memcached),
            ("redis://[::1]:5", "[::1]:5", Protocol::Resp),
            ("unix:/run/x.sock", "/run/x.sock", Protocol::Resp),
            ("127.0.0.1:7000", "127.0.0.1:7000", Protocol::Resp),
            ("127.0.0.1", "127.0.0.1:6379", Protocol::Resp),
            ("127.0.0.1:11211", "127.0.0.1:11211", Protocol::Memcached),
            ("[::1]:5", "[::1]:5", Protocol::Resp),
            ("::1", "[::1]:6379", Protocol::Resp),
            ("redis://[::ffff:127.0.0.1]:5", "[::ffff:127.0.0.1]:5", Protocol::Resp),
            ("/run/x.sock", "/run/x.sock", Protocol::Resp),
        ] {
            let target = Target::parse(url, None).unwrap();
            assert_eq!(
                (target.address.to_string(), target.protocol),
                (address.to_owned(), protocol)
            );
            assert!(target.is_local() && target.password.is_none(), "{url}");
        }
        assert!(!Target::parse("redis://192.0.2.1:1", None).unwrap().is_local());
        assert_eq!(Target::parse("127.0.0.1:1", None).unwrap().name, "redis://127.0.0.1:1");
    }

    #[test]
    fn a_target_that_is_neither_a_url_nor_a_server_is_refused() {
        for text in
            ["", "unix:", "127.0.0.1:x", "127.0.0.1:0", ":6379", "a b", "user@host", "host/3"]
        {
            assert!(Target::parse(text, None).is_err(), "{text}");
        }
        let error = Target::parse("127.0.0.1:70000", None).unwrap_err();
        assert!(error.contains("127.0.0.1:70000") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn passwords_are_parsed_and_never_shown() {
        let target = Target::parse("redis://bob:s%40cret@127.0.0.1:1", Some("other")).unwrap();
        assert!(!format!("{target:?}").contains("cret"), "{target:?}");
        let password = target.password.unwrap();
        assert_eq!((password.user.as_deref(), password.secret.as_str()), (Some("bob"), "s@cret"));
        for url in ["redis://127.0.0.1:1", "memcached://127.0.0.1:1"] {
            let spare = Target::parse(url, Some("other")).unwrap();
            assert_eq!(spare.password.unwrap().secret, "other");
        }
        for url in [
            "redis://:s3cret@host:0",
            "redis://:s3cret@127.0.0.1:x",
            "http://:s3cret@127.0.0.1",
            "redis://:s3cret%zz@127.0.0.1",
            "memcached://:s3cret@127.0.0.1/1",
            "redis://:s3cret@127.0.0.1:1/3",
            ":s3cret@host",
        ] {
            let error = Target::parse(url, None).unwrap_err();
            assert!(!error.contains("s3cret") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn passwords_are_sent_as_each_protocol_has_it() {
        let encoded = |user: Option<&str>, secret: &str, protocol| {
            let login = Password { user: user.map(str::to_owned), secret: secret.to_owned() };
            let mut out = Vec::new();
            login.encode(protocol, &mut out).map(|()| String::from_utf8(out).unwrap())
        };
        assert_eq!(
            encoded(None, "pw", Protocol::Memcached).unwrap(),
            "set login 0 0 10\r\ndefault pw\r\n"
        );
        assert!(encoded(Some("bob"), "pw", Protocol::Memcached).unwrap().contains("bob pw"));
        assert!(encoded(Some("bob"), "p w", Protocol::Memcached).is_err());
        assert_eq!(
            encoded(Some("bob"), "p w", Protocol::Resp).unwrap(),
            "*3\r\n$4\r\nAUTH\r\n$3\r\nbob\r\n$3\r\np w\r\n"
        );
    }

    #[test]
    fn sites_may_have_databases_and_speak_http() {
        let site = Site::parse("redis://127.0.0.1:7000/3").unwrap();
        assert_eq!((site.database, site.port, site.scheme), (3, 7000, Scheme::Redis));
        let site = Site::parse("http://bob:pw@127.0.0.1").unwrap();
        assert_eq!((site.database, site.port, site.scheme), (0, 7379, Scheme::Http));
        assert!(site.password.is_some() && !site.name.contains("pw"));
        for url in [
            "redis://127.0.0.1/x",
            "redis://127.0.0.1/1/2",
            "memcached://127.0.0.1/1",
            "rediss://127.0.0.1",
            "unix:",
        ] {
            assert!(Site::parse(url).is_err(), "{url}");
        }
    }
}
