//! Transfers values of doubling size to the server and back. The link's rate follows from how the
//! time grows with the size.

use nagi_client::Protocol;
use nagi_findings::observation::Transfer;
use nagi_load::clock::{SECOND, now_ns};
use nagi_load::wire::Wire;
use std::hash::{BuildHasher, RandomState};

const SMALLEST: usize = 1 << 10;
const LARGEST: usize = 1 << 20;
/// The largest value sent to memcached, whose items are limited to 1 MB including the key.
const LARGEST_ITEM: usize = 1 << 19;
/// After a value that took this long, in microseconds, no larger one is sent.
const LONG_US: u64 = 100_000;
/// The number of tries for each size. The shortest time counts, because delays of single tries are
/// not due to the link.
const TRIES: usize = 5;
/// With fewer tries than this, a size is ignored if enough other sizes were measured, because all
/// of its times may include unrelated delays.
const MIN_TRIES: usize = 3;
/// Time limit for all transfers, in nanoseconds.
const ALL_NS: u64 = 3 * SECOND;

/// The results of all transfers.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// The shortest times of each size.
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
}

/// Sends values to the server and back: by ECHO, or in memcached as items that expire after a
/// minute.
///
/// # Errors
/// The server refuses a request, or does not answer; the error is one line.
pub(crate) fn transfers(wire: &mut Wire) -> Result<Sent, String> {
    wire.set_answer_timeout(ALL_NS);
    let is_memcached = wire.protocol != Protocol::Resp;
    let key = format!("nagi-doctor-{:016x}", RandomState::new().hash_one(now_ns()));
    let until_ns = now_ns() + ALL_NS;
    let (mut sent, mut len) = (Sent::default(), SMALLEST);
    while len <= if is_memcached { LARGEST_ITEM } else { LARGEST } {
        let value = vec![b'x'; len];
        let mut best = Transfer { bytes: len as u64, up_us: u64::MAX, down_us: u64::MAX };
        let mut tries = 0;
        while tries < TRIES && (tries == 0 || now_ns() < until_ns) {
            tries += 1;
            let (up_us, down_us) = match is_memcached {
                true => store_and_fetch(wire, &key, &value)?,
                false => echo(wire, &value)?,
            };
            sent.bytes += best.bytes;
            sent.requests += if is_memcached { 2 } else { 1 };
            best.up_us = best.up_us.min(up_us);
            best.down_us = best.down_us.min(down_us);
        }
        if tries >= MIN_TRIES || sent.transfers.len() < 2 {
            sent.transfers.push(best);
        }
        if best.up_us + best.down_us >= LONG_US || now_ns() >= until_ns {
            break;
        }
        len *= 2;
    }
    if is_memcached {
        wire.lines(&format!("delete {key}"))?;
    }
    Ok(sent)
}

/// The server begins its reply when it has received the whole request, which separates the two
/// directions.
fn echo(wire: &mut Wire, value: &[u8]) -> Result<(u64, u64), String> {
    let mut request = Vec::with_capacity(value.len() + 64);
    nagi_client::encode_command(&[b"ECHO", value], &mut request);
    let start_ns = now_ns();
    wire.send(&request)?;
    let line = wire.line()?;
    let up_ns = now_ns();
    let len = line.strip_prefix('$').and_then(|it| it.parse().ok());
    wire.content(len.ok_or_else(|| format!("ECHO: {line}"))?)?;
    Ok(((up_ns - start_ns) / 1000, (now_ns() - up_ns) / 1000))
}

fn store_and_fetch(wire: &mut Wire, key: &str, value: &[u8]) -> Result<(u64, u64), String> {
    let mut request = format!("set {key} 0 60 {}\r\n", value.len()).into_bytes();
    request.extend_from_slice(value);
    request.extend_from_slice(b"\r\n");
    let start_ns = now_ns();
    wire.send(&request)?;
    let answer = wire.line()?;
    let up_ns = now_ns();
    if answer != "STORED" {
        return Err(format!("set: {answer}"));
    }
    wire.send(format!("get {key}\r\n").as_bytes())?;
    let line = wire.line()?;
    if line != "END" {
        let len = line.rsplit(' ').next().and_then(|it| it.parse().ok());
        wire.content(len.ok_or_else(|| format!("get: {line}"))?)?;
        wire.line()?;
    }
    Ok(((up_ns - start_ns) / 1000, (now_ns() - up_ns) / 1000))
}
