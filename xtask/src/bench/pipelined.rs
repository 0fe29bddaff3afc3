//! Sends requests of one kind over 50 connections, and measures the server's cost of a request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::Server;

use super::client::{connect, request};
use super::replies::Replies;
use super::template::Template;
use super::usage::CpuTime;

const CONNECTIONS: usize = 50;
/// More numbers than requests are sent in one run.
const NUMBERS_OF_A_RUN: u64 = 1 << 24;

/// The first number of the next run.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// The load of each connection.
pub(super) struct Load<'a> {
    /// The requests, which are sent in a cycle: in the format of [`Template`].
    pub(super) requests: &'a [String],
    /// The number of requests sent at once over each connection.
    pub(super) pipeline: u64,
    /// Requests that each connection sends first.
    pub(super) opening: &'a [&'a str],
}

/// The cost of a request.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    /// The server's processor time for a request, in microseconds.
    pub(super) cpu_us: f64,
    pub(super) per_second: f64,
}

impl Load<'_> {
    /// Sends requests for the time `length`.
    pub(super) fn run(&self, server: &Server, length: Duration) -> Result<Cost> {
        let mut clients = Clients::connect(server.resp(), self)?;
        // The first round creates keys, so it is not measured.
        clients.round()?;
        let before = CpuTime::of(server.process_id())?;
        let (start, mut rounds) = (Instant::now(), 0);
        while start.elapsed() < length {
            clients.round()?;
            rounds += 1;
        }
        let seconds = start.elapsed().as_secs_f64();
        let used = CpuTime::of(server.process_id())?.since(before);
        let requests = (rounds * CONNECTIONS) as f64 * self.pipeline as f64;
        let cpu_us = (used.user + used.system) * 1e6 / requests;
        Ok(Cost { cpu_us, per_second: requests / seconds })
    }
}

/// Encodes words that are separated by blanks as a RESP request.
pub(super) fn encoded(text: &str) -> Vec<u8> {
    request(&text.split_whitespace().map(str::as_bytes).collect::<Vec<_>>())
}

struct Clients<'a> {
    load: &'a Load<'a>,
    templates: Vec<Template>,
    streams: Vec<TcpStream>,
    /// The number of the next request.
    next: u64,
    buffer: Vec<u8>,
}

impl<'a> Clients<'a> {
    fn connect(address: SocketAddr, load: &'a Load<'a>) -> Result<Self> {
        let streams = (0..CONNECTIONS).map(|_| connect(address)).collect::<Result<_>>()?;
        let templates = load.requests.iter().map(|it| Template::new(it)).collect();
        // Elements of one repetition are new in the next one, too.
        let next = STARTED.fetch_add(NUMBERS_OF_A_RUN, Ordering::Relaxed);
        let mut clients = Clients { load, templates, streams, next, buffer: vec![0; 1 << 20] };
        for stream in &mut clients.streams {
            for words in load.opening {
                stream.write_all(&encoded(words))?;
            }
            receive(stream, load.opening.len() as u64, &mut clients.buffer)?;
        }
        Ok(clients)
    }

    /// Sends the requests of each connection, and then receives all replies.
    fn round(&mut self) -> Result<()> {
        let Clients { load, templates, streams, next, buffer } = self;
        let mut requests = Vec::new();
        for stream in streams.iter_mut() {
            requests.clear();
            for number in *next..*next + load.pipeline {
                let at = number as usize % templates.len().max(1);
                let template = templates.get_mut(at).context("a load has requests")?;
                template.encode(number, &mut requests);
            }
            *next += load.pipeline;
            stream.write_all(&requests)?;
        }
        streams.iter_mut().try_for_each(|stream| receive(stream, load.pipeline, buffer))
    }
}

/// Receives `count` replies. Fails at an error reply.
pub(super) fn receive(stream: &mut TcpStream, count: u64, buffer: &mut [u8]) -> Result<()> {
    let mut replies = Replies::default();
    while replies.count < count {
        let received = stream.read(buffer)?;
        ensure!(received > 0, "the server has closed the connection");
        replies.take(buffer.get(..received).unwrap_or_default())?;
    }
    Ok(())
}
