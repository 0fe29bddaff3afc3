//! Measures the server's cost of stream entries and of tracked reads.

use std::slice;
use std::time::Duration;

use anyhow::Result;
use harness::Server;

use super::{ComparedTable, Contestants, Measured, median_of_each, started};
use crate::bench::Arguments;
use crate::bench::contestants::Placement;
use crate::bench::pipelined::{Load, encoded};
use crate::bench::sender::Sender;
use crate::bench::template::KEYS;

const PIPELINE: u64 = 16;
/// Number of entries of each stream that is read, which is more than a run reads.
const ENTRIES: u64 = 2_000;
const ASKED: &str = "0.8";

/// A request in the format of [`Load`].
struct Workload {
    name: &'static str,
    words: &'static str,
    opening: &'static [&'static str],
    /// Prepares the server's keys for a run.
    prepare: fn(&mut Sender) -> Result<()>,
}

const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "XREADGROUP",
        words: "XREADGROUP GROUP group consumer COUNT 1 STREAMS read:{key} >",
        opening: &[],
        prepare: begin_anew,
    },
    Workload { name: "GET", words: "GET key:{key}", opening: &[], prepare: |_| Ok(()) },
    Workload {
        name: "GET, tracked",
        words: "GET key:{key}",
        opening: &["CLIENT TRACKING ON"],
        prepare: |_| Ok(()),
    },
];

/// Measures each workload on each server in turn, for each repetition.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let mut servers = started(contestants, Placement::Pinned)?;
    for (_, server) in &servers {
        fill(server)?;
    }
    let names = servers.iter().map(|(name, _)| *name).collect();
    let mut table = ComparedTable::new("CPU us of a request", names);
    let length = Duration::from_secs_f64(arguments.seconds);
    for workload in &WORKLOADS {
        let words = workload.words.to_owned();
        let requests = slice::from_ref(&words);
        let load = Load { requests, pipeline: PIPELINE, opening: workload.opening };
        let medians = median_of_each(&mut servers, arguments.repetitions, |(_, server)| {
            let mut sender = Sender::new(server.resp())?;
            (workload.prepare)(&mut sender)?;
            sender.flush()?;
            Ok(load.run(server, length)?.cpu_us)
        })?;
        table.row(workload.name, &medians, |us| format!("{us:.2}"), ASKED);
    }
    Ok(Measured { tables: vec![table.into_table()], details: None })
}

/// Creates the streams and strings that are read.
fn fill(server: &Server) -> Result<()> {
    let mut sender = Sender::new(server.resp())?;
    for key in 0..KEYS {
        for entry in 1..=ENTRIES {
            sender.send_encoded(&encoded(&format!("XADD read:{key} {entry}-0 field value")))?;
        }
        sender.send_encoded(&encoded(&format!("SET key:{key} value")))?;
    }
    sender.flush()
}

/// Creates consumer groups that have read nothing.
fn begin_anew(sender: &mut Sender) -> Result<()> {
    for key in 0..KEYS {
        sender.send_encoded(&encoded(&format!("XGROUP DESTROY read:{key} group")))?;
        sender.send_encoded(&encoded(&format!("XGROUP CREATE read:{key} group 0")))?;
    }
    Ok(())
}
