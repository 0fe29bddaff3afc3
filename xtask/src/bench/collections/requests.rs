//! Measures the server's CPU time for a request on a collection, with 50 connections that each have
//! 16 requests in flight.

use std::net::SocketAddr;
use std::slice;
use std::time::Duration;

use anyhow::Result;

use super::filling::Kind;
use super::{Contestants, Measured};
use crate::bench::Arguments;
use crate::bench::contestants::Placement;
use crate::bench::pipelined::Load;
use crate::bench::sender::Sender;
use crate::bench::servers::{ComparedTable, median_of_each, started};
use crate::bench::template::ELEMENTS;

const PIPELINE: u64 = 16;

/// A request in the format of [`Load`].
struct Workload {
    name: &'static str,
    words: &'static str,
    /// The target: at most this multiple of Valkey's CPU time.
    asked: f64,
}

const WORKLOADS: [Workload; 14] = [
    Workload { name: "LPUSH", words: "LPUSH list:{key} element:{}", asked: 0.7 },
    Workload { name: "SADD of a new member", words: "SADD set:{key} element:{}", asked: 0.7 },
    Workload { name: "HSET of a new field", words: "HSET hash:{key} field:{} value", asked: 0.7 },
    Workload { name: "HGET", words: "HGET fields member:{index}", asked: 0.7 },
    Workload { name: "ZADD of a new member", words: "ZADD sorted:{key} {} element:{}", asked: 0.7 },
    Workload {
        name: "SADD of an existing member",
        words: "SADD members member:{index}",
        asked: 0.7,
    },
    Workload {
        name: "HSET of an existing field",
        words: "HSET fields member:{index} value::{index}",
        asked: 0.7,
    },
    Workload {
        name: "ZADD of an existing member",
        words: "ZADD scores {key} member:{index}",
        asked: 0.7,
    },
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

/// Measures each workload on each server in turn, for each repetition.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let mut servers = started(contestants, Placement::Pinned)?;
    for (_, server) in &servers {
        prepare(server.resp())?;
    }
    let names = servers.iter().map(|(name, _)| *name).collect();
    let mut table = ComparedTable::new("CPU us of a request", names);
    let length = Duration::from_secs_f64(arguments.seconds);
    for workload in &WORKLOADS {
        let words = workload.words.to_owned();
        let load = Load { requests: slice::from_ref(&words), pipeline: PIPELINE, opening: &[] };
        let medians = median_of_each(&mut servers, arguments.repetitions, |(_, server)| {
            Ok(load.run(server, length)?.cpu_us)
        })?;
        table.row(workload.name, &medians, |us| format!("{us:.2}"), &workload.asked.to_string());
    }
    Ok(Measured { tables: vec![table.into_table()], details: None })
}

/// Creates the collections that are only read.
fn prepare(address: SocketAddr) -> Result<()> {
    let mut sender = Sender::new(address)?;
    Kind::Hash.fill(&mut sender, "fields", 0, ELEMENTS)?;
    Kind::Set.fill(&mut sender, "members", 0, ELEMENTS)?;
    Kind::SortedSet.fill(&mut sender, "scores", 0, ELEMENTS)?;
    Kind::ListByRpush.fill(&mut sender, "elements", 0, ELEMENTS)?;
    sender.flush()
}
