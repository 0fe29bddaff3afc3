//! Stores a range of keys, each once, as fast as one connection allows.
//!
//! The keys have the same names as with `nagi bench --key-bytes 16`.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use harness::Server;

use super::contestants::Protocol;

/// Length of every key in bytes.
pub(super) const KEY_BYTES: usize = 16;

/// Number of requests sent before reading the replies: enough to keep a server busy, and few enough
/// for the buffers of sockets.
const BATCH: u64 = 256;

/// The value and TTL of each key.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) value_bytes: usize,
    /// The TTL, which is so long that no key expires during the measurement.
    pub(super) ttl_seconds: Option<u32>,
}

/// Stores the keys numbered `keys` in `server`.
pub(super) fn fill(
    server: &Server,
    protocol: Protocol,
    keys: Range<u64>,
    shape: Shape,
) -> Result<()> {
    let address = match protocol {
        Protocol::Resp => server.resp(),
        Protocol::Memcached => server.memcached_address(),
    };
    send(address, protocol, keys, shape).with_context(|| format!("filling at {address}"))
}

fn send(address: SocketAddr, protocol: Protocol, keys: Range<u64>, shape: Shape) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let success = match protocol {
        Protocol::Resp => "+OK\r\n",
        Protocol::Memcached => "STORED\r\n",
    };
    let value = "v".repeat(shape.value_bytes);
    let mut requests = String::new();
    let mut first = keys.start;
    while first < keys.end {
        let end = keys.end.min(first + BATCH);
        requests.clear();
        for key in first..end {
            encode(protocol, key, &value, shape.ttl_seconds, &mut requests)?;
        }
        stream.write_all(requests.as_bytes())?;
        let mut replies = vec![0; success.len() * usize::try_from(end - first)?];
        stream.read_exact(&mut replies)?;
        if replies.chunks(success.len()).any(|reply| reply != success.as_bytes()) {
            bail!("a reply is not {success:?}: {}", replies.escape_ascii());
        }
        first = end;
    }
    Ok(())
}

fn encode(
    protocol: Protocol,
    key: u64,
    value: &str,
    ttl_seconds: Option<u32>,
    requests: &mut String,
) -> std::fmt::Result {
    let length = value.len();
    match (protocol, ttl_seconds) {
        (Protocol::Resp, None) => {
            write!(requests, "*3\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n${length}\r\n{value}\r\n")
        }
        (Protocol::Resp, Some(ttl)) => {
            let ttl = ttl.to_string();
            write!(
                requests,
                "*5\r\n$3\r\nSET\r\n$16\r\nkey:{key:012}\r\n${length}\r\n{value}\r\n\
                 $2\r\nEX\r\n${}\r\n{ttl}\r\n",
                ttl.len()
            )
        }
        (Protocol::Memcached, ttl) => {
            let ttl = ttl.unwrap_or(0);
            write!(requests, "set key:{key:012} 0 {ttl} {length}\r\n{value}\r\n")
        }
    }
}
