//! Which server a URL names. Its password is kept apart and no output shows it.

use std::fmt;
use std::path::{Path, PathBuf};

use nagi_client::{Address, Protocol};

/// A server as the user named it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL with `***` in place of its password.
    pub name: String,
    /// Where it listens.
    pub address: Address,
    /// Its protocol.
    pub protocol: Protocol,
    /// How to log in, where the URL or the user says so.
    pub password: Option<Password>,
}

/// What AUTH takes: perhaps a user, and a password.
#[derive(Clone)]
pub struct Password {
    /// The user; the default one if there is none.
    pub user: Option<String>,
    /// The password.
    pub secret: String,
}

impl fmt::Debug for Password {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

impl Target {
    /// Reads `redis://[[user]:password@]host[:port]`, `memcached://host[:port]` or `unix:PATH`;
    /// `password` is that of RESP servers whose URL has none.
    ///
    /// # Errors
    /// Says what is wrong with the URL, without its password.
    pub fn parse(url: &str, password: Option<&str>) -> Result<Self, String> {
        let name = masked(url);
        let wrong = |why: &str| format!("{name}: {why}");
        let spare = password.map(|secret| Password { user: None, secret: secret.to_owned() });
        if let Some(path) = url.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() {
                return Err(wrong("the path of the socket is missing"));
            }
            let address = Address::Unix(PathBuf::from(path));
            return Ok(Target { name, address, protocol: Protocol::Resp, password: spare });
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(|| {
            wrong("not a URL such as redis://host:port, memcached://host:port or unix:/path")
        })?;
        let (protocol, usual_port) = match scheme {
            "redis" | "valkey" | "nagi" => (Protocol::Resp, 6379),
            "memcached" => (Protocol::Memcached, 11211),
            _ => return Err(wrong("the scheme is none of redis, memcached and unix")),
        };
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        let place = place.strip_suffix('/').unwrap_or(place);
        if place.contains(['/', '?', '#']) {
            return Err(wrong("nothing may follow the port: database 0 is measured"));
        }
        let (host, port) = host_and_port(place, usual_port).map_err(|why| wrong(&why))?;
        let address = Address::tcp(host, port).map_err(|error| error.to_string())?;
        let password = match (login, protocol) {
            (Some(_), Protocol::Memcached) => {
                return Err(wrong("memcached takes no password here"));
            }
            (None, Protocol::Memcached) => None,
            (Some(login), Protocol::Resp) => {
                Some(Password::parse(login).map_err(wrong_owned(&name))?)
            }
            (None, Protocol::Resp) => spare,
        };
        Ok(Target { name, address, protocol, password })
    }

    /// Whether it is on this machine and only reachable from here.
    pub fn is_local(&self) -> bool {
        match &self.address {
            Address::Tcp { resolved, .. } => resolved.iter().all(|it| it.ip().is_loopback()),
            Address::Unix(_) => true,
        }
    }
}

/// The password of servers whose URL has none: a file's first line, or the environment's
/// `REDISCLI_AUTH`.
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
    /// Reads `[user]:password`, or a password alone, with `%40` and the like for what a URL
    /// cannot hold.
    fn parse(login: &str) -> Result<Self, String> {
        let (user, secret) = login.split_once(':').unwrap_or(("", login));
        let user = decoded(user)?;
        Ok(Password { user: (!user.is_empty()).then_some(user), secret: decoded(secret)? })
    }
}

/// The URL without what is secret in it.
fn masked(url: &str) -> String {
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
            let (host, behind) =
                rest.split_once(']').ok_or("the ] behind the address is missing")?;
            (host, behind.strip_prefix(':').or((!behind.is_empty()).then_some(behind)))
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
            .ok_or_else(|| format!("{text} is no port: 1 to 65535 are"))?,
    };
    Ok((host, port))
}

/// Text with each `%XX` replaced by the byte that it stands for.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
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
        ] {
            let target = Target::parse(url, None).unwrap();
            assert_eq!(
                (target.address.to_string(), target.protocol),
                (address.to_owned(), protocol)
            );
            assert!(target.is_local() && target.password.is_none(), "{url}");
        }
        assert!(!Target::parse("redis://192.0.2.1:1", None).unwrap().is_local());
    }

    #[test]
    fn passwords_are_parsed_and_never_shown() {
        let target = Target::parse("redis://bob:s%40cret@127.0.0.1:1", Some("other")).unwrap();
        assert!(!format!("{target:?}").contains("cret"), "{target:?}");
        let password = target.password.unwrap();
        assert_eq!((password.user.as_deref(), password.secret.as_str()), (Some("bob"), "s@cret"));
        let spare = Target::parse("redis://127.0.0.1:1", Some("other")).unwrap();
        assert_eq!(spare.password.unwrap().secret, "other");
        for url in [
            "redis://:s3cret@host:0",
            "redis://:s3cret@127.0.0.1:x",
            "http://:s3cret@127.0.0.1",
            "redis://:s3cret%zz@127.0.0.1",
            "memcached://:s3cret@127.0.0.1",
            "redis://:s3cret@127.0.0.1:1/3",
            ":s3cret@host",
        ] {
            let error = Target::parse(url, None).unwrap_err();
            assert!(!error.contains("s3cret") && !error.contains('\n'), "{error}");
        }
    }
}
