//! The server's CPU time for one request on a collection, with 50 connections that have 16 requests
//! under way each.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::Server;

use super::filling::{Filler, Kind, Replies};
use super::{Contestants, Measured, nagi_to_valkey};
use crate::bench::Arguments;
use crate::bench::client::{connect, request};
use crate::bench::contestants::Placement;
use crate::bench::figures::median;
use crate::bench::report::Table;
use crate::bench::usage::CpuTime;

const CONNECTIONS: usize = 50;
const PIPELINE: u64 = 16;
/// Keys that requests on small collections are spread over.
const KEYS: u64 = 1000;
/// Elements of the collections that are only read.
const ELEMENTS: u64 = 1000;

/// A request; `{}` is a number that differs from request to request, `{key}` one below [`KEYS`].
struct Workload {
    name: &'static str,
    words: &'static str,
    /// At most this many times Valkey's.
    asked: f64,
}

const WORKLOADS: [Workload; 11] = [
    Workload { name: "LPUSH", words: "LPUSH list:{key} element:{}", asked: 0.7 },
    Workload { name: "SADD", words: "SADD set:{key} element:{}", asked: 0.7 },
    Workload { name: "HSET", words: "HSET hash:{key} field:{} value", asked: 0.7 },
    Workload { name: "HGET", words: "HGET fields member:{index}", asked: 0.7 },
    Workload { name: "ZADD", words: "ZADD sorted:{key} {} element:{}", asked: 0.7 },
    Workload { name: "ZSCORE", words: "ZSCORE scores member:{index}", asked: 1.0 },
    Workload { name: "LRANGE_100", words: "LRANGE elements 0 99", asked: 0.85 },
    Workload { name: "ZRANGE_100", words: "ZRANGE scores 0 99", asked: 0.85 },
    Workload {
        name: "MSET of 10",
        words: "MSET a{key} v b{key} v c{key} v d{key} v e{key} v f{key} v g{key} v h{key} v \
                i{key} v j{key} v",
        asked: 0.85,
    },
    Workload { name: "XADD", words: "XADD stream:{key} * field value", asked: 0.8 },
    Workload { name: "INCR", words: "INCR counter:{key}", asked: 0.7 },
];

/// Each workload on each server in turn, as often as there are repetitions.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let servers: Vec<(&str, Server)> = contestants
        .resp()
        .map(|it| anyhow::Ok((it.name, it.start(Placement::Pinned)?)))
        .collect::<Result<_>>()?;
    for (_, server) in &servers {
        prepare(server.resp())?;
    }
    let mut header = vec!["CPU us of a request"];
    let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
    header.extend(&names);
    header.extend(["nagi to Valkey", "asked"]);
    let mut table = Table::new(&header);
    let length = Duration::from_secs_f64(arguments.seconds);
    for workload in &WORKLOADS {
        let mut figures = vec![Vec::new(); servers.len()];
        for _ in 0..arguments.repetitions {
            for ((_, server), figures) in servers.iter().zip(&mut figures) {
                figures.push(cpu_us(server, workload, length)?);
            }
        }
        let medians: Vec<f64> = figures.into_iter().map(median).collect();
        let mut cells = vec![workload.name.to_owned()];
        cells.extend(medians.iter().map(|us| format!("{us:.2}")));
        cells.extend([nagi_to_valkey(&names, &medians), workload.asked.to_string()]);
        println!("bench: {}", cells.join(", "));
        table.row(cells);
    }
    Ok(Measured { tables: vec![table], details: None })
}

/// The collections that are only read.
fn prepare(address: SocketAddr) -> Result<()> {
    let mut filler = Filler::new(address)?;
    filler.add(Kind::Hash, "fields", 0, ELEMENTS)?;
    filler.add(Kind::SortedSet, "scores", 0, ELEMENTS)?;
    filler.add(Kind::ListByRpush, "elements", 0, ELEMENTS)?;
    filler.flush()
}

/// Requests for as long as `length`; the processor's microseconds for each.
fn cpu_us(server: &Server, workload: &Workload, length: Duration) -> Result<f64> {
    let mut streams: Vec<TcpStream> =
        (0..CONNECTIONS).map(|_| connect(server.resp())).collect::<Result<_>>()?;
    let mut buffer = vec![0; 1 << 20];
    let mut number = 0;
    let mut round = |streams: &mut [TcpStream]| {
        for stream in streams.iter_mut() {
            let requests: Vec<u8> =
                (number..number + PIPELINE).flat_map(|it| encode(workload.words, it)).collect();
            number += PIPELINE;
            stream.write_all(&requests)?;
        }
        for stream in streams {
            let mut replies = Replies::default();
            while replies.count < PIPELINE {
                let count = stream.read(&mut buffer)?;
                ensure!(count > 0, "the server has closed the connection");
                replies.take(buffer.get(..count).unwrap_or_default())?;
            }
        }
        Ok(())
    };
    // What a first round brings into being is not part of it.
    round(&mut streams)?;
    let before = CpuTime::of(server.process_id())?;
    let end = Instant::now() + length;
    let mut rounds = 0;
    while Instant::now() < end {
        round(&mut streams)?;
        rounds += 1;
    }
    let used = CpuTime::of(server.process_id())?.since(before);
    let requests = (rounds * CONNECTIONS) as f64 * PIPELINE as f64;
    Ok((used.user + used.system) * 1e6 / requests)
}

fn encode(words: &str, number: u64) -> Vec<u8> {
    // Numbers are spread, so that neighbours in time are none in order.
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34;
    let text = words
        .replace("{}", &format!("{spread:010}"))
        .replace("{key}", &(spread % KEYS).to_string())
        .replace("{index}", &format!("{:09}", spread % ELEMENTS));
    let words: Vec<&[u8]> = text.split_whitespace().map(str::as_bytes).collect();
    request(&words)
}
