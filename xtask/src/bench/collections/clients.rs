//! Measures ten thousand clients that wait for one key or subscribe to one channel: the time until
//! the last of them is served, and the latency of another client meanwhile.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use harness::{Connection, until};

use super::stalls::{COUNTED, counted};
use super::{Contestants, Measured, milliseconds};
use crate::bench::Arguments;
use crate::bench::client::{Pair, check, connect, request};
use crate::bench::contestants::{Contestant, Placement};
use crate::bench::figures::median;
use crate::bench::pipelined::receive;
use crate::bench::report::Table;

/// The number of file descriptors for the crowd and everything else.
pub(crate) const DESCRIPTORS: u64 = 12_000;
const CROWD: usize = 10_000;

/// An event that a crowd of clients waits for.
struct Event {
    name: &'static str,
    /// Makes the whole crowd wait.
    gather: fn(&mut Crowd) -> Result<()>,
    /// Returns the requests that serve a crowd of the given size, and the number of requests.
    requests: fn(usize) -> (Vec<u8>, u64),
    /// The reply to each client. `#` stands for a number of [`DIGITS`] digits.
    reply: &'static str,
}

const DIGITS: usize = 5;

const EVENTS: [Event; 3] = [
    Event {
        name: "blocked in BLPOP, one LPUSH for all",
        gather: Crowd::block,
        requests: |count| {
            let values: Vec<String> = (0..count).map(number).collect();
            let words = [&b"LPUSH"[..], b"queue"];
            let words: Vec<&[u8]> =
                words.into_iter().chain(values.iter().map(String::as_bytes)).collect();
            (request(&words), 1)
        },
        reply: "*2\r\n$5\r\nqueue\r\n$5\r\n#\r\n",
    },
    Event {
        name: "blocked in BLPOP, an LPUSH for each",
        gather: Crowd::block,
        requests: |count| {
            let push = |it| request(&[b"LPUSH", b"queue", number(it).as_bytes()]);
            ((0..count).flat_map(push).collect(), count as u64)
        },
        reply: "*2\r\n$5\r\nqueue\r\n$5\r\n#\r\n",
    },
    Event {
        name: "subscribers, one PUBLISH",
        gather: Crowd::subscribe,
        requests: |_| (request(&[b"PUBLISH", b"channel", number(0).as_bytes()]), 1),
        reply: "*3\r\n$7\r\nmessage\r\n$7\r\nchannel\r\n$5\r\n#\r\n",
    },
];

fn number(number: usize) -> String {
    format!("{number:0DIGITS$}")
}

/// Measures each event on each server while the probe runs.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let count = if arguments.quick { CROWD / 10 } else { CROWD };
    let mut header = vec![format!("{count} clients")];
    for contestant in contestants.resp() {
        header.push(format!("{}: last has it after ms", contestant.name));
        header.push("slowest small GET ms".to_owned());
        header.push("idle server's".to_owned());
    }
    header.extend(COUNTED.map(|(title, _)| title.to_owned()));
    let mut columns = Vec::new();
    for contestant in contestants.resp() {
        columns.push(measure_one(contestant, arguments, count)?);
        println!("bench: {} is done", contestant.name);
    }
    let mut table = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for (at, event) in EVENTS.iter().enumerate() {
        let rows: Vec<&Option<Row>> = columns.iter().filter_map(|rows| rows.get(at)).collect();
        let mut cells = vec![event.name.to_owned()];
        for row in &rows {
            cells.extend(match row {
                Some(row) => [row.took_us, row.busy_us, row.idle_us].map(milliseconds),
                None => ["not within a minute", "n/a", "n/a"].map(str::to_owned),
            });
        }
        let counted = rows.iter().find_map(|row| row.as_ref()?.counted_us);
        cells.extend(counted.context("nagi counts slices and holds")?.map(milliseconds));
        table.row(cells);
    }
    Ok(Measured { tables: vec![table], details: None })
}

/// The results of one event on one server. Times are in microseconds.
struct Row {
    took_us: f64,
    busy_us: f64,
    idle_us: f64,
    /// nagi's own counters, in the order of [`COUNTED`].
    counted_us: Option<[f64; COUNTED.len()]>,
}

/// Returns a row for each event: `None` if the server stopped replying.
fn measure_one(
    contestant: &Contestant,
    arguments: &Arguments,
    count: usize,
) -> Result<Vec<Option<Row>>> {
    let one = |event: &Event| match measure_event(contestant, arguments, count, event) {
        Ok(row) => Ok(Some(row)),
        Err(error) if is_timeout(&error) => {
            println!("bench: {} does not reply: {}", contestant.name, event.name);
            Ok(None)
        }
        Err(error) => Err(error),
    };
    EVENTS.iter().map(one).collect()
}

fn is_timeout(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(|it: &io::Error| it.kind() == io::ErrorKind::WouldBlock)
}

/// Measures an event on newly started servers, because after the previous event a server may not
/// reply.
fn measure_event(
    contestant: &Contestant,
    arguments: &Arguments,
    count: usize,
    event: &Event,
) -> Result<Row> {
    let (server, idle) = (contestant.start(Placement::Free)?, contestant.start(Placement::Free)?);
    let pair = Pair { busy: server.resp(), idle: idle.resp() };
    let mut crowd = Crowd::connect(pair.busy, count)?;
    let mut trigger = connect(pair.busy)?;
    let (mut took_us, mut busy_us, mut idle_us) = (Vec::new(), Vec::new(), Vec::new());
    // The time until all clients wait is not measured.
    (event.gather)(&mut crowd)?;
    check(&mut trigger, &request(&[b"CONFIG", b"RESETSTAT"]), b"+OK\r\n")?;
    for repetition in 0..arguments.repetitions {
        if repetition > 0 {
            (event.gather)(&mut crowd)?;
        }
        let (busy, idle) = pair.probe_beside(|| {
            let start = Instant::now();
            crowd.receive(&mut trigger, event)?;
            took_us.push(start.elapsed().as_secs_f64() * 1e6);
            Ok(())
        })?;
        busy_us.push(busy.max_us);
        idle_us.push(idle.max_us);
    }
    let counted_us = contestant.is_nagi().then(|| counted(&server));
    let [took_us, busy_us, idle_us] = [took_us, busy_us, idle_us].map(median);
    Ok(Row { took_us, busy_us, idle_us, counted_us })
}

/// Many clients, and another client that checks their state.
struct Crowd {
    streams: Vec<TcpStream>,
    observer: Connection,
    is_subscribed: bool,
}

impl Crowd {
    fn connect(address: SocketAddr, count: usize) -> Result<Self> {
        let streams = (0..count).map(|_| connect(address)).collect::<Result<_>>()?;
        Ok(Self { streams, observer: Connection::open(address), is_subscribed: false })
    }

    /// Makes all clients wait for the queue.
    fn block(&mut self) -> Result<()> {
        let blpop = request(&[b"BLPOP", b"queue", b"0"]);
        for stream in &mut self.streams {
            stream.write_all(&blpop)?;
        }
        let field = format!("blocked_clients:{}\r\n", self.streams.len());
        let observer = &mut self.observer;
        let are_blocked = || observer.run("INFO clients").text().contains(&field).then_some(());
        until("the crowd to be blocked", are_blocked).map_err(|problem| anyhow!(problem))
    }

    /// Makes all clients subscribe to the channel, until they disconnect.
    fn subscribe(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_subscribed, true) {
            return Ok(());
        }
        let subscribe = request(&[b"SUBSCRIBE", b"channel"]);
        for stream in &mut self.streams {
            check(stream, &subscribe, b"*3\r\n$9\r\nsubscribe\r\n$7\r\nchannel\r\n:1\r\n")?;
        }
        Ok(())
    }

    /// Sends the requests of an event, and receives until all clients have been served.
    fn receive(&mut self, trigger: &mut TcpStream, event: &Event) -> Result<()> {
        let (requests, count) = (event.requests)(self.streams.len());
        let (before, after) = event.reply.split_once('#').context("a reply with a number")?;
        let mut reply = vec![0; before.len() + DIGITS + after.len()];
        // The server may stop reading requests until its replies are read, so both happen
        // concurrently.
        let mut from = trigger.try_clone()?;
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| trigger.write_all(&requests));
            let replied = scope.spawn(move || receive(&mut from, count, &mut vec![0; 1 << 16]));
            for stream in &mut self.streams {
                stream.read_exact(&mut reply)?;
                let is_right =
                    reply.starts_with(before.as_bytes()) && reply.ends_with(after.as_bytes());
                ensure!(is_right, "another reply: {}", reply.escape_ascii());
            }
            sender.join().map_err(|_| anyhow!("the sender panicked"))??;
            replied.join().map_err(|_| anyhow!("the receiver panicked"))?
        })
    }
}
