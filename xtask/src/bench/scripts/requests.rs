//! What entries of streams and reads that are tracked cost the server.

use std::slice;
use std::time::Duration;

use anyhow::Result;
use harness::Server;

use super::{Contestants, Measured, nagi_to_valkey, started};
use crate::bench::Arguments;
use crate::bench::contestants::Placement;
use crate::bench::figures::median;
use crate::bench::pipelined::{KEYS, Load, encoded};
use crate::bench::report::Table;
use crate::bench::sender::Sender;

const PIPELINE: u64 = 16;
/// Entries of each stream that is read: more than are read in a run.
const ENTRIES: u64 = 2_000;
const ASKED: &str = "0.8";

/// A request, as [`Load`] has it.
struct Workload {
    name: &'static str,
    words: &'static str,
    opening: &'static [&'static str],
    /// What makes the keys ready for a run.
    prepare: fn(&mut Sender) -> Result<()>,
}

const WORKLOADS: [Workload; 4] = [
    Workload {
        name: "XADD",
        words: "XADD stream:{key} * field value",
        opening: &[],
        prepare: |_| Ok(()),
    },
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

/// Each workload on each server in turn, as often as there are repetitions.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let servers = started(contestants, Placement::Pinned)?;
    for (_, server) in &servers {
        fill(server)?;
    }
    let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
    let mut table =
        Table::new(&[&["CPU us of a request"], &names[..], &["nagi to Valkey", "asked"]].concat());
    let length = Duration::from_secs_f64(arguments.seconds);
    for workload in &WORKLOADS {
        let words = workload.words.to_owned();
        let requests = slice::from_ref(&words);
        let load = Load { requests, pipeline: PIPELINE, opening: workload.opening };
        let mut figures = vec![Vec::new(); servers.len()];
        for _ in 0..arguments.repetitions {
            for ((_, server), figures) in servers.iter().zip(&mut figures) {
                let mut sender = Sender::new(server.resp())?;
                (workload.prepare)(&mut sender)?;
                sender.flush()?;
                figures.push(load.run(server, length)?.cpu_us);
            }
        }
        let medians: Vec<f64> = figures.into_iter().map(median).collect();
        let mut cells = vec![workload.name.to_owned()];
        cells.extend(medians.iter().map(|us| format!("{us:.2}")));
        cells.extend([nagi_to_valkey(&names, &medians), ASKED.to_owned()]);
        println!("bench: {}", cells.join(", "));
        table.row(cells);
    }
    Ok(Measured { tables: vec![table], details: None })
}

/// The streams and strings that are read.
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

/// Groups that have read nothing.
fn begin_anew(sender: &mut Sender) -> Result<()> {
    for key in 0..KEYS {
        sender.send_encoded(&encoded(&format!("XGROUP DESTROY read:{key} group")))?;
        sender.send_encoded(&encoded(&format!("XGROUP CREATE read:{key} group 0")))?;
    }
    Ok(())
}
