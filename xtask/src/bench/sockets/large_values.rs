//! Measures the effect of values of up to 500 MB on small requests, and the time of large values
//! alone.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Contestants, Measured, milliseconds};
use crate::bench::Arguments;
use crate::bench::client::{Pair, Probed, check, connect, request, skip_bulk};
use crate::bench::contestants::Placement;
use crate::bench::figures::median;
use crate::bench::report::Table;

const MEGABYTE: usize = 1_000_000;
/// Sizes of values, in tenths of a megabyte.
const TENTHS: [usize; 3] = [15, 1000, 5000];
const SLOW_READERS: usize = 4;
/// Bytes that a slow reader reads at once, and the pause after each read.
const SIP_BYTES: usize = 256 * 1024;
const SIP_PAUSE: Duration = Duration::from_millis(5);

/// Measures the slowest small GET at rest, while a large value is written and read in a loop, and
/// while large values are read slowly. Also measures the times of large values alone.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let length = Duration::from_secs_f64(if arguments.quick { 1.0 } else { 3.0 });
    let large = value(if arguments.quick { 100 } else { 500 } * MEGABYTE);
    let mut slowest = Table::new(&[
        "server",
        "slowest small GET at rest ms",
        "beside a large value",
        "idle server beside a large value",
        "beside 4 slow readers of 100 MB",
        "idle server beside slow readers",
    ]);
    let mut times = Table::new(&["server", "MB", "SET ms", "GET ms"]);
    for contestant in contestants.resp() {
        let (server, idle) =
            (contestant.start(Placement::Free)?, contestant.start(Placement::Free)?);
        let pair = Pair { busy: server.resp(), idle: idle.resp() };
        let at_rest = slowest_of(arguments, || at_rest(pair, length))?;
        let beside = slowest_of(arguments, || beside_a_large_value(pair, length, &large))?;
        let slow = slowest_of(arguments, || beside_slow_readers(pair))?;
        let cells = [at_rest.0, beside.0, beside.1, slow.0, slow.1].map(milliseconds);
        slowest.row([vec![contestant.name.to_owned()], cells.to_vec()].concat());
        for tenths in TENTHS {
            let bytes = (tenths * MEGABYTE / 10).min(large.len());
            let (set_us, get_us) = set_and_get(pair.busy, large.get(..bytes).unwrap_or_default())?;
            let megabytes = format!("{:.1}", bytes as f64 / MEGABYTE as f64);
            let row = [megabytes, milliseconds(set_us), milliseconds(get_us)];
            times.row([vec![contestant.name.to_owned()], row.to_vec()].concat());
        }
    }
    Ok(Measured { tables: vec![slowest, times], details: None })
}

fn value(len: usize) -> Vec<u8> {
    vec![b'v'; len]
}

/// Returns the medians over all runs of the slowest request, in microseconds: of the busy server
/// and of the idle one.
fn slowest_of(
    arguments: &Arguments,
    mut run: impl FnMut() -> Result<(Probed, Probed)>,
) -> Result<(f64, f64)> {
    let (mut busy_us, mut idle_us) = (Vec::new(), Vec::new());
    for _ in 0..arguments.repetitions {
        let (busy, idle) = run()?;
        busy_us.push(busy.max_us);
        idle_us.push(idle.max_us);
    }
    Ok((median(busy_us), median(idle_us)))
}

fn at_rest(pair: Pair, length: Duration) -> Result<(Probed, Probed)> {
    pair.probe_beside(|| {
        std::thread::sleep(length);
        Ok(())
    })
}

fn beside_a_large_value(pair: Pair, length: Duration, large: &[u8]) -> Result<(Probed, Probed)> {
    pair.probe_beside(|| {
        let end = Instant::now() + length;
        while Instant::now() < end {
            set_and_get_once(pair.busy, large)?;
        }
        Ok(())
    })
}

fn beside_slow_readers(pair: Pair) -> Result<(Probed, Probed)> {
    let large = value(100 * MEGABYTE);
    let mut stream = connect(pair.busy)?;
    check(&mut stream, &set_header(&large), b"")?;
    stream.write_all(&large)?;
    check(&mut stream, b"\r\n", b"+OK\r\n")?;
    pair.probe_beside(|| {
        std::thread::scope(|scope| {
            let readers: Vec<_> =
                (0..SLOW_READERS).map(|_| scope.spawn(|| sip(pair.busy))).collect();
            readers.into_iter().try_for_each(|reader| {
                reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?
            })
        })
    })
}

/// Reads the large value slowly.
fn sip(address: SocketAddr) -> Result<()> {
    let mut stream = connect(address)?;
    stream.write_all(&request(&[b"GET", b"large"]))?;
    let mut buffer = vec![0; SIP_BYTES];
    let mut left = 100 * MEGABYTE;
    while left > 0 {
        let taken = std::io::Read::read(&mut stream, &mut buffer)?;
        left = if taken == 0 { 0 } else { left.saturating_sub(taken) };
        std::thread::sleep(SIP_PAUSE);
    }
    Ok(())
}

fn set_header(value: &[u8]) -> Vec<u8> {
    format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${}\r\n", value.len()).into_bytes()
}

/// Returns the times of a SET and a GET in microseconds; each is the median of five.
fn set_and_get(address: SocketAddr, value: &[u8]) -> Result<(f64, f64)> {
    let (mut sets, mut gets) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let (set_us, get_us) = set_and_get_once(address, value)?;
        sets.push(set_us);
        gets.push(get_us);
    }
    Ok((median(sets), median(gets)))
}

fn set_and_get_once(address: SocketAddr, value: &[u8]) -> Result<(f64, f64)> {
    let mut stream = connect(address)?;
    let mut buffer = vec![0; 1 << 20];
    let start = Instant::now();
    stream.write_all(&set_header(value))?;
    stream.write_all(value)?;
    check(&mut stream, b"\r\n", b"+OK\r\n")?;
    let set_us = start.elapsed().as_secs_f64() * 1e6;
    let start = Instant::now();
    stream.write_all(&request(&[b"GET", b"large"]))?;
    let len = skip_bulk(&mut stream, &mut buffer)?;
    anyhow::ensure!(len == value.len(), "{len} bytes came back of {}", value.len());
    Ok((set_us, start.elapsed().as_secs_f64() * 1e6))
}
