//! Connections that open and close: one after another, all at once, and next to steady traffic.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Contestants, Measured, milliseconds};
use crate::bench::Arguments;
use crate::bench::client::{Pair, check, connect, probe_beside, request};
use crate::bench::contestants::Placement;
use crate::bench::figures::median;
use crate::bench::report::Table;

/// A connect that takes longer counts as late: the retransmission of a SYN takes a second.
const LATE: Duration = Duration::from_secs(1);
const PER_SECOND: u32 = 1000;

/// Measures all three storms on every server.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let (cycles, rounds, at_once) =
        if arguments.quick { (2_000_u32, 1, 500) } else { (20_000, 10, 5_000) };
    let length = Duration::from_secs(if arguments.quick { 1 } else { 3 });
    let mut table = Table::new(&[
        "server",
        "cycles/s",
        "slowest cycle ms",
        "all at once, slowest ms",
        "later than 1 s",
        "probe p99.9 ms, quiet",
        "beside 1000 connects/s",
        "idle server meanwhile",
    ]);
    for contestant in contestants.resp() {
        let (server, idle) =
            (contestant.start(Placement::Free)?, contestant.start(Placement::Free)?);
        let pair = Pair { busy: server.resp(), idle: idle.resp() };
        let start = Instant::now();
        let mut tally = Tally::default();
        let mut done = u64::from(cycles * rounds);
        for number in 1..=done {
            tally.add(cycle(pair.busy, number)?);
        }
        let per_second = done as f64 / start.elapsed().as_secs_f64();
        let mut crowd = Tally::default();
        all_at_once(pair.busy, at_once, &mut crowd)?;
        let mut beside_us = [const { Vec::new() }; 3];
        for _ in 0..arguments.repetitions {
            for (all, one) in beside_us.iter_mut().zip(beside_storm(pair, length, &mut done)?) {
                all.push(one);
            }
        }
        let mut row = vec![
            contestant.name.to_owned(),
            format!("{per_second:.0}"),
            milliseconds(tally.slowest.as_secs_f64() * 1e6),
            milliseconds(crowd.slowest.as_secs_f64() * 1e6),
            (tally.late + crowd.late).to_string(),
        ];
        row.extend(beside_us.map(|runs| milliseconds(median(runs))));
        table.row(row);
    }
    Ok(Measured { tables: vec![table], details: None })
}

/// Returns the 99.9th percentile of a probe in microseconds: at rest, while connections open and
/// close, and of the idle server in the latter time. Adds the number of cycles to `done`.
fn beside_storm(pair: Pair, length: Duration, done: &mut u64) -> Result<[f64; 3]> {
    let sleep = || {
        std::thread::sleep(length);
        Ok(())
    };
    let (quiet, ()) = probe_beside(pair.busy, sleep)?;
    let (beside, idle) = pair.probe_beside(|| steadily(pair.busy, length, done))?;
    Ok([quiet, beside, idle].map(|probed| probed.p99_9_us))
}

/// The slowest time, and the number of late connections.
#[derive(Default)]
struct Tally {
    slowest: Duration,
    late: u32,
}

impl Tally {
    fn add(&mut self, took: Duration) {
        self.slowest = self.slowest.max(took);
        self.late += u32::from(took >= LATE);
    }
}

/// Connects, increments a counter, quits, and waits for the end of the connection. Checks that the
/// counter is then `number`. Returns the time that the cycle took.
fn cycle(address: SocketAddr, number: u64) -> Result<Duration> {
    let start = Instant::now();
    let mut stream = connect(address)?;
    let expected = format!(":{number}\r\n");
    check(&mut stream, &request(&[b"INCR", b"cycles"]), expected.as_bytes())?;
    check(&mut stream, &request(&[b"QUIT"]), b"+OK\r\n")?;
    ensure!(stream.read(&mut [0])? == 0, "QUIT ends the connection");
    Ok(start.elapsed())
}

/// Opens very many connections before sending the first request. Each connection is timed from the
/// start of its connect until its request is answered.
fn all_at_once(address: SocketAddr, count: usize, tally: &mut Tally) -> Result<()> {
    let mut streams: Vec<(Instant, TcpStream)> = Vec::new();
    for _ in 0..count {
        streams.push((Instant::now(), connect(address)?));
    }
    let incr = request(&[b"INCR", b"crowd"]);
    for (_, stream) in &mut streams {
        stream.write_all(&incr)?;
    }
    for (start, stream) in &mut streams {
        let mut end = [0; 3];
        stream.read_exact(&mut end)?;
        tally.add(start.elapsed());
    }
    let mut last = connect(address)?;
    let counted = format!(":{}\r\n", count + 1);
    check(&mut last, &incr, counted.as_bytes())
}

/// Connects at a fixed rate, one connection after another.
fn steadily(address: SocketAddr, length: Duration, done: &mut u64) -> Result<()> {
    let start = Instant::now();
    let pace = Duration::from_secs(1) / PER_SECOND;
    for number in 1_u32.. {
        let due = pace * number;
        if due > length {
            break;
        }
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        *done += 1;
        cycle(address, *done)?;
    }
    Ok(())
}
