//! A minimal client, and a probe that measures the slowest of small requests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// The time limit for every reply.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time from one request of the probe to the next.
const PROBE_PACE: Duration = Duration::from_millis(1);

/// Connects, with a limit of a minute for each reply.
pub(super) fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Encodes a request as a RESP array.
pub(super) fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend_from_slice(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Sends a request, and checks that the reply is `expected`.
pub(super) fn check(stream: &mut TcpStream, request: &[u8], expected: &[u8]) -> Result<()> {
    stream.write_all(request)?;
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got)?;
    ensure!(got == expected, "another reply: {}", got.escape_ascii());
    Ok(())
}

/// Reads and discards a bulk string. Returns its length in bytes.
pub(super) fn skip_bulk(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<usize> {
    let mut header = Vec::new();
    while !header.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        header.extend(byte);
    }
    let digits = header.strip_prefix(b"$").unwrap_or_default();
    let len: usize = std::str::from_utf8(digits)?.trim_end().parse()?;
    let mut left = len + 2;
    while left > 0 {
        let most = left.min(buffer.len());
        let taken = stream.read(buffer.get_mut(..most).unwrap_or_default())?;
        ensure!(taken > 0, "the connection ended");
        left -= taken;
    }
    Ok(len)
}

/// The results of a probe, in microseconds.
pub(super) struct Probed {
    pub(super) p99_9_us: f64,
    pub(super) max_us: f64,
}

/// Requests a key that never exists, so that flushing or filling the server does not affect the
/// reply.
fn ask(stream: &mut TcpStream) -> Result<()> {
    check(stream, &request(&[b"GET", b"probe"]), b"$-1\r\n")
}

/// Sends a small GET every millisecond until `stop` is set.
fn probe(mut stream: TcpStream, stop: &AtomicBool) -> Result<Probed> {
    let mut times_us = Vec::new();
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        next += PROBE_PACE;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let start = Instant::now();
        ask(&mut stream)?;
        times_us.push(start.elapsed().as_secs_f64() * 1e6);
        next = next.max(start);
    }
    times_us.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = ((times_us.len() as f64 * share) as usize).min(times_us.len().max(1) - 1);
        times_us.get(index).copied().unwrap_or(f64::NAN)
    };
    Ok(Probed { p99_9_us: at(0.999), max_us: at(1.0) })
}

/// Runs the probe during `work`.
pub(super) fn probe_beside<T>(
    address: SocketAddr,
    work: impl FnOnce() -> Result<T>,
) -> Result<(Probed, T)> {
    let (stop, mut stream) = (AtomicBool::new(false), connect(address)?);
    // The first request is sent before the work begins, because the work may block the server.
    ask(&mut stream)?;
    std::thread::scope(|scope| {
        let probe = scope.spawn(|| probe(stream, &stop));
        let done = work();
        stop.store(true, Ordering::Relaxed);
        let probed = probe.join().map_err(|_| anyhow::anyhow!("the probe panicked"))?;
        Ok((probed?, done?))
    })
}

/// Two servers of the same kind. If the idle server is delayed as well, the delay is not caused by
/// the busy server.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) busy: SocketAddr,
    pub(super) idle: SocketAddr,
}

impl Pair {
    /// Probes the busy and the idle server during `work`.
    pub(super) fn probe_beside(
        self,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<(Probed, Probed)> {
        let (busy, (idle, ())) = probe_beside(self.busy, || probe_beside(self.idle, work))?;
        Ok((busy, idle))
    }
}
