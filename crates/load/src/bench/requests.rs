//! Requests from templates: a request is a copy of prepared bytes in which the digits of the key
//! are overwritten.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;

use super::names::{Names, write_number};
use super::protocol::Protocol;
use super::values::letters;

/// The longest key that memcached accepts, in bytes.
pub(crate) const MEMCACHED_KEY_BYTES: usize = 250;
/// The longest time to live: memcached takes more than 30 days for an absolute Unix time.
pub(crate) const MAX_TTL_SECONDS: u64 = 30 * 24 * 3600;

/// The properties that all requests of a run share.
#[derive(Clone, Debug)]
pub(crate) struct Shape<'a> {
    pub(crate) protocol: Protocol,
    /// The names of keys. The digits of a key overwrite the end of the name of key 0.
    pub(crate) names: &'a Names,
    pub(crate) value_bytes: usize,
    pub(crate) ttl_seconds: Option<u64>,
    pub(crate) seed: u64,
    /// Over HTTP, the text before the command and the text after the path.
    pub(crate) http: (&'a str, &'a str),
}

/// The time to live of written values, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// The minimum, in seconds.
    pub from: u64,
    /// The maximum, in seconds.
    pub to: u64,
}

impl Ttl {
    pub(crate) fn draw(self, random: &mut Rng) -> u64 {
        if self.from == self.to { self.from } else { random.u64(self.from..=self.to) }
    }
}

impl FromStr for Ttl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let bounds = from.parse().ok().zip(to.parse().ok());
        bounds
            .map(|(from, to)| Ttl { from, to })
            .filter(|ttl| ttl.from > 0 && ttl.from <= ttl.to && ttl.to <= MAX_TTL_SECONDS)
            .ok_or_else(|| "expected seconds, such as 60 or 60-600, up to 30 days".to_owned())
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.from == self.to {
            write!(out, "{}", self.from)
        } else {
            write!(out, "{}-{}", self.from, self.to)
        }
    }
}

/// The prepared requests of a run.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    get: Template,
    set: Template,
}

#[derive(Clone, Debug)]
struct Template {
    bytes: Vec<u8>,
    /// The offset after the key's last digit.
    key_end: usize,
}

impl Requests {
    /// Prepares the requests. The names of the keys must be numbered, not listed.
    pub(crate) fn new(shape: &Shape<'_>) -> Self {
        let mut key = Vec::new();
        shape.names.append(0, &mut key);
        let value = letters(shape.value_bytes, shape.seed);
        let (key_bytes, value_bytes) = (key.len(), value.len());
        let (get, set) = match shape.protocol {
            Protocol::Resp => {
                let (words, expiry) = match shape.ttl_seconds {
                    None => (3, String::new()),
                    Some(seconds) => {
                        let digits = seconds.to_string();
                        (5, format!("$2\r\nEX\r\n${}\r\n{digits}\r\n", digits.len()))
                    }
                };
                let head = format!("*{words}\r\n$3\r\nSET\r\n${key_bytes}\r\n");
                let middle = format!("\r\n${value_bytes}\r\n");
                let tail = [middle.as_bytes(), &value, b"\r\n", expiry.as_bytes()].concat();
                (
                    Template::new(&format!("*2\r\n$3\r\nGET\r\n${key_bytes}\r\n"), &key, b"\r\n"),
                    Template::new(&head, &key, &tail),
                )
            }
            Protocol::Memcached => {
                let expiry = shape.ttl_seconds.unwrap_or(0);
                let middle = format!(" 0 {expiry} {value_bytes}\r\n");
                let tail = [middle.as_bytes(), &value, b"\r\n"].concat();
                (Template::new("get ", &key, b"\r\n"), Template::new("set ", &key, &tail))
            }
            Protocol::Http => {
                let (head, tail) = shape.http;
                let get = http_get(head, &key, tail);
                let set = http_set(head, &key, shape.ttl_seconds, value_bytes, tail);
                let split = |request: &str, body: &[u8]| {
                    let name = String::from_utf8_lossy(&key);
                    let at = request.find(&*name).unwrap_or_default();
                    let (before, after) = request.split_at(at);
                    let after = after.get(key_bytes..).unwrap_or_default();
                    Template::new(before, &key, &[after.as_bytes(), body].concat())
                };
                (split(&get, b""), split(&set, &value))
            }
        };
        Requests { get, set }
    }

    /// Appends a request for the value of key number `key`.
    pub(crate) fn get(&self, key: u64, out: &mut Vec<u8>) {
        self.get.append(key, out);
    }

    /// Appends a request that stores key number `key`.
    pub(crate) fn set(&self, key: u64, out: &mut Vec<u8>) {
        self.set.append(key, out);
    }
}

/// Returns the head of an HTTP request for a value, which has no body. `head` and `tail` depend on
/// the server: a database before the path, and header fields after it.
pub(crate) fn http_get(head: &str, key: &[u8], tail: &str) -> String {
    format!("GET {head}/GET/{}.bin HTTP/1.1\r\n{tail}\r\n", in_path(key))
}

/// Returns the head of an HTTP request that stores `bytes` bytes; the caller appends the body.
pub(crate) fn http_set(
    head: &str,
    key: &[u8],
    ttl_seconds: Option<u64>,
    bytes: usize,
    tail: &str,
) -> String {
    let key = in_path(key);
    let path = match ttl_seconds {
        None => format!("{head}/SET/{key}"),
        Some(seconds) => format!("{head}/SETEX/{key}/{seconds}"),
    };
    format!("PUT {path} HTTP/1.1\r\nContent-Length: {bytes}\r\n{tail}\r\n")
}

/// Encodes a key as part of a path (RFC 3986): all bytes except letters, digits, `-`, `_`, `~` and
/// `:` become `%XX`.
fn in_path(key: &[u8]) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' | b'~' | b':' => {
                out.push(char::from(*byte));
            }
            other => out += &format!("%{other:02X}"),
        }
    }
    out
}

impl Template {
    fn new(head: &str, key: &[u8], tail: &[u8]) -> Self {
        let key_end = head.len() + key.len();
        Template { bytes: [head.as_bytes(), key, tail].concat(), key_end }
    }

    fn append(&self, key: u64, out: &mut Vec<u8>) {
        let end = out.len() + self.key_end;
        out.extend_from_slice(&self.bytes);
        write_number(out.get_mut(..end).unwrap_or_default(), key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(protocol: Protocol, keys: u64, key_bytes: usize, ttl: Option<u64>) -> String {
        let names = Names::numbered(keys, key_bytes).unwrap();
        let http = ("/3", "Host: x\r\n");
        let shape =
            Shape { protocol, names: &names, value_bytes: 3, ttl_seconds: ttl, seed: 1, http };
        let requests = Requests::new(&shape);
        let mut out = Vec::new();
        requests.get(0, &mut out);
        requests.get(keys - 1, &mut out);
        requests.set(keys / 2, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn value() -> String {
        String::from_utf8(letters(3, 1)).unwrap()
    }

    #[test]
    fn resp_requests() {
        let value = value();
        assert_eq!(
            encode(Protocol::Resp, 1000, 8, None),
            format!(
                "*2\r\n$3\r\nGET\r\n$8\r\nkey:0000\r\n*2\r\n$3\r\nGET\r\n$8\r\nkey:0999\r\n\
                 *3\r\n$3\r\nSET\r\n$8\r\nkey:0500\r\n$3\r\n{value}\r\n"
            )
        );
        assert!(encode(Protocol::Resp, 10, 1, Some(60)).ends_with(&format!(
            "*5\r\n$3\r\nSET\r\n$1\r\n5\r\n$3\r\n{value}\r\n$2\r\nEX\r\n$2\r\n60\r\n"
        )));
    }

    #[test]
    fn memcached_requests() {
        let value = value();
        assert_eq!(
            encode(Protocol::Memcached, 1000, 6, None),
            format!("get 000000\r\nget 000999\r\nset 000500 0 0 3\r\n{value}\r\n")
        );
        assert!(encode(Protocol::Memcached, 10, 1, Some(60)).contains("set 5 0 60 3\r\n"));
    }

    #[test]
    fn http_requests() {
        let value = value();
        assert_eq!(
            encode(Protocol::Http, 1000, 8, Some(60)),
            format!(
                "GET /3/GET/key:0000.bin HTTP/1.1\r\nHost: x\r\n\r\n\
                 GET /3/GET/key:0999.bin HTTP/1.1\r\nHost: x\r\n\r\n\
                 PUT /3/SETEX/key:0500/60 HTTP/1.1\r\nContent-Length: 3\r\nHost: x\r\n\r\n{value}"
            )
        );
        assert_eq!(in_path(b"a/b c.%"), "a%2Fb%20c%2E%25");
    }

    #[test]
    fn times_to_live_read_back_as_written() {
        for text in ["60", "60-600"] {
            assert_eq!(text.parse::<Ttl>().unwrap().to_string(), text);
        }
        for text in ["", "0", "9-1", "2592001", "x"] {
            assert!(text.parse::<Ttl>().is_err(), "{text}");
        }
    }
}
