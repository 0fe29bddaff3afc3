//! Measures the server's cost of a message to many subscribers, and the time until the last of them
//! has received it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use anyhow::{Result, ensure};
use harness::Server;

use super::{ComparedTable, Contestants, Measured, median_of_each, milliseconds, started};
use crate::bench::Arguments;
use crate::bench::client::{check, connect};
use crate::bench::contestants::Placement;
use crate::bench::figures::median;
use crate::bench::pipelined::{encoded, receive};
use crate::bench::usage::CpuTime;

/// The numbers of subscribers, each with the target for the processor time of a message, as a
/// multiple of Valkey's.
const AUDIENCES: [(usize, &str); 3] = [(1, "1.1"), (100, "1"), (1000, "1")];
/// The target for the time until the last delivery, as a multiple of Valkey's.
const DELIVERY_ASKED: &str = "0.5";
/// Messages sent at once when processor time is measured.
const PIPELINE: usize = 16;
const MESSAGE: &[u8] = b"*3\r\n$7\r\nmessage\r\n$7\r\nchannel\r\n$5\r\nhello\r\n";

/// Measures each number of subscribers on each server in turn, for each repetition.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let names = || contestants.resp().map(|it| it.name).collect();
    let mut cpu = ComparedTable::new("CPU us of PUBLISH, one worker", names());
    let mut delivery = ComparedTable::new("ms until the last has it, default workers", names());
    for (count, asked) in AUDIENCES {
        // The total number of deliveries is about the same for each number of subscribers.
        let rounds = (100_000.0 * arguments.seconds) as usize / (PIPELINE * count) + 10;
        let cpu_us = medians(contestants, Placement::Pinned, arguments, count, |audience| {
            audience.cpu_us(rounds)
        })?;
        let last_us = medians(contestants, Placement::Free, arguments, count, |audience| {
            let times: Result<Vec<f64>> = (0..100).map(|_| audience.last_us()).collect();
            times.map(median)
        })?;
        let name = format!("{count} {}", if count == 1 { "subscriber" } else { "subscribers" });
        cpu.row(&name, &cpu_us, |us| format!("{us:.2}"), asked);
        delivery.row(&name, &last_us, milliseconds, DELIVERY_ASKED);
    }
    Ok(Measured { tables: vec![cpu.into_table(), delivery.into_table()], details: None })
}

/// Returns the median of a figure for each server.
fn medians(
    contestants: &Contestants<'_>,
    placement: Placement,
    arguments: &Arguments,
    count: usize,
    figure: impl Fn(&mut Audience<'_>) -> Result<f64>,
) -> Result<Vec<f64>> {
    let servers = started(contestants, placement)?;
    let mut audiences: Vec<Audience<'_>> =
        servers.iter().map(|(_, server)| Audience::gather(server, count)).collect::<Result<_>>()?;
    median_of_each(&mut audiences, arguments.repetitions, figure)
}

/// The subscribers of one channel, and a client that publishes.
struct Audience<'a> {
    server: &'a Server,
    publisher: TcpStream,
    subscribers: Vec<TcpStream>,
    buffer: Vec<u8>,
}

impl<'a> Audience<'a> {
    fn gather(server: &'a Server, count: usize) -> Result<Self> {
        let mut subscribers = Vec::new();
        for _ in 0..count {
            let mut stream = connect(server.resp())?;
            let reply = b"*3\r\n$9\r\nsubscribe\r\n$7\r\nchannel\r\n:1\r\n";
            check(&mut stream, &encoded("SUBSCRIBE channel"), reply)?;
            subscribers.push(stream);
        }
        let publisher = connect(server.resp())?;
        Ok(Audience { server, publisher, subscribers, buffer: vec![0; 1 << 16] })
    }

    /// Returns the server's processor time for one message, in microseconds.
    fn cpu_us(&mut self, rounds: usize) -> Result<f64> {
        let requests = encoded("PUBLISH channel hello").repeat(PIPELINE);
        let messages = MESSAGE.repeat(PIPELINE);
        let before = CpuTime::of(self.server.process_id())?;
        for _ in 0..rounds {
            self.publisher.write_all(&requests)?;
            for stream in &mut self.subscribers {
                await_messages(stream, &messages, &mut self.buffer)?;
            }
            receive(&mut self.publisher, PIPELINE as u64, &mut self.buffer)?;
        }
        let used = CpuTime::of(self.server.process_id())?.since(before);
        Ok((used.user + used.system) * 1e6 / (rounds * PIPELINE) as f64)
    }

    /// Returns the time from a PUBLISH until the last subscriber has received the message, in
    /// microseconds.
    fn last_us(&mut self) -> Result<f64> {
        let request = encoded("PUBLISH channel hello");
        let start = Instant::now();
        self.publisher.write_all(&request)?;
        for stream in &mut self.subscribers {
            await_messages(stream, MESSAGE, &mut self.buffer)?;
        }
        let last = start.elapsed();
        receive(&mut self.publisher, 1, &mut self.buffer)?;
        Ok(last.as_secs_f64() * 1e6)
    }
}

/// Receives from a subscriber, and checks that exactly `messages` arrive.
fn await_messages(stream: &mut TcpStream, messages: &[u8], buffer: &mut [u8]) -> Result<()> {
    let room = buffer.get_mut(..messages.len()).unwrap_or_default();
    stream.read_exact(room)?;
    ensure!(room == messages, "another message: {}", room.escape_ascii());
    Ok(())
}
