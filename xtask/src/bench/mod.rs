//! `cargo xtask bench`: compares nagi with Valkey, Redis and memcached on this machine, in one run.
//!
//! Repetitions are interleaved, so that a temporary slowdown of the machine affects all servers,
//! and medians are taken. `docs/benchmarks.md` explains the figures.

mod calm;
mod chart;
mod client;
mod collections;
mod contestants;
mod eviction;
mod figures;
mod fill;
mod http;
mod machine;
mod memory;
mod paced;
mod parts;
mod pipelined;
mod replies;
pub(crate) mod report;
mod scripts;
mod sender;
mod servers;
mod sid;
mod snapshot;
mod sockets;
mod status;
mod store;
mod template;
mod throughput;
mod usage;

use std::path::PathBuf;

use anyhow::Result;

use crate::workspace;
use contestants::Contestant;
use report::Report;
use serde_json::Value;

/// The options that choose what is measured: one of them, or none for requests.
const BENCHES: [&str; 10] = [
    "memory",
    "eviction",
    "store",
    "sockets",
    "collections",
    "scripts",
    "http",
    "calm",
    "status",
    "snapshot",
];

/// What is measured, and for how long.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("bench").args(BENCHES)))]
pub(crate) struct Arguments {
    /// One short repetition, printed but not written to files, to check that it works
    #[arg(long)]
    quick: bool,
    /// Measure memory per key instead of requests
    #[arg(long)]
    memory: bool,
    /// Measure hit rates of eviction, and memory at the limit, instead of requests
    #[arg(long)]
    eviction: bool,
    /// Measure the store alone while it grows to 16 million keys, instead of requests
    #[arg(long)]
    store: bool,
    /// Measure the cost of connections and their effect on each other, with both of nagi's drivers
    #[arg(long)]
    sockets: bool,
    /// Measure hashes, lists, sets and sorted sets: memory, CPU time, stalls and many clients
    #[arg(long)]
    collections: bool,
    /// Measure scripts, streams, tracked reads and messages
    #[arg(long)]
    scripts: bool,
    /// Compare commands over HTTP with webdis in front of Valkey, and measure RESP clients beside
    /// them
    #[arg(long)]
    http: bool,
    /// Measure small requests at rest and during disturbances
    #[arg(long)]
    calm: bool,
    /// Keep the repetitions of disturbances that an interrupted run of this revision has completed
    #[arg(long, requires = "calm")]
    resume: bool,
    /// Compare with this Pogocache too
    #[arg(long, value_name = "BINARY", requires = "calm")]
    pogocache: Option<PathBuf>,
    /// Measure the cost of an open status page and of metrics scrapers
    #[arg(long)]
    status: bool,
    #[command(flatten)]
    snapshot: snapshot::Options,
    /// Repetitions of each measurement
    #[arg(long, default_value_t = 5, value_name = "N")]
    repetitions: u32,
    /// Time to measure each workload
    #[arg(long, default_value_t = 1.5, value_name = "S")]
    seconds: f64,
    /// Keys that requests ask for
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    keys: u64,
    /// Run only workloads whose name contains this text
    #[arg(long, default_value = "", value_name = "TEXT")]
    only: String,
    /// Another build of nagi, such as an earlier revision, to compare with instead of the peers;
    /// nothing is written to files
    #[arg(long, value_name = "BINARY")]
    beside: Option<PathBuf>,
    /// Profile to build nagi with [default: release, or quick with --quick]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

/// Measures, prints tables, and writes them to docs/benchmarks.md and a summary to bench/results/.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    if arguments.snapshot.redraws() {
        return snapshot::redraw();
    }
    let arguments = if arguments.quick { arguments.shortened() } else { arguments };
    let machine = machine::describe();
    let usual_profile = if arguments.quick { "quick" } else { "release" };
    let profile = arguments.profile.as_deref().unwrap_or(usual_profile);
    println!("bench: builds nagi in profile {profile}");
    if arguments.store {
        let report = store::measure(&arguments, profile)?;
        return finish(&report, &arguments, &machine, &[]);
    }
    let nagi = workspace::build_nagi(profile)?;
    let mut contestants = match &arguments.beside {
        Some(other) => Contestant::builds(&nagi, other),
        None => Contestant::all(&nagi)?,
    };
    if arguments.sockets {
        Contestant::split_drivers(&mut contestants);
    }
    if let Some(program) = &arguments.pogocache {
        Contestant::add_pogocache(&mut contestants, program);
    }
    let names = contestants.iter().map(|it| format!("{} {}", it.name, it.version));
    println!("bench: {}", names.collect::<Vec<_>>().join(", "));
    let finish_part = |report: &Report| finish(report, &arguments, &machine, &contestants);
    if arguments.sockets {
        harness::allow_open_files(sockets::DESCRIPTORS);
        return parts::measure(&sockets::PARTS, &contestants, &arguments, finish_part);
    }
    if arguments.status {
        harness::allow_open_files(status::DESCRIPTORS);
        return parts::measure(&status::PARTS, &contestants, &arguments, finish_part);
    }
    if arguments.scripts {
        return parts::measure(&scripts::PARTS, &contestants, &arguments, finish_part);
    }
    if arguments.http {
        return parts::measure(&http::PARTS, &contestants, &arguments, finish_part);
    }
    if arguments.collections {
        harness::allow_open_files(collections::DESCRIPTORS);
        return parts::measure(&collections::PARTS, &contestants, &arguments, finish_part);
    }
    if arguments.snapshot.snapshot {
        return snapshot::measure(&contestants, &arguments, &machine);
    }
    if arguments.calm {
        return calm::measure(&contestants, &arguments, finish_part);
    }
    let report = if arguments.memory {
        memory::measure(&contestants, &arguments)?
    } else if arguments.eviction {
        eviction::measure(&contestants, &arguments)?
    } else {
        throughput::measure(&contestants, &arguments)?
    };
    finish(&report, &arguments, &machine, &contestants)
}

/// Prints a report. Writes the report of a complete run to files.
fn finish(
    report: &Report,
    arguments: &Arguments,
    machine: &Value,
    contestants: &[Contestant],
) -> Result<()> {
    println!("\n{}\n{}", report.details, report.table);
    let Arguments { sockets, collections, status, http, scripts, .. } = arguments;
    let has_parts = *sockets || *collections || *status || *http || *scripts;
    let is_whole = match arguments.calm {
        true => calm::is_whole(arguments),
        false => has_parts || arguments.only.is_empty(),
    };
    if !arguments.is_written_down() || !is_whole {
        println!("\nbench: not a whole run, so nothing is written down");
        return report.keep_apart(machine, contestants);
    }
    report.write(machine, contestants)
}

impl Arguments {
    /// Whether the results of this run are written to the documents.
    fn is_written_down(&self) -> bool {
        !self.quick && self.beside.is_none()
    }

    fn shortened(self) -> Self {
        Self { repetitions: 1, seconds: 0.5, keys: self.keys.min(100_000), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn only_one_bench_runs_at_a_time() {
        let parsed = |options: &[&str]| {
            let words = ["bench"].iter().chain(options);
            CommandLine::try_parse_from(words).map(|parsed| parsed.arguments)
        };
        assert!(parsed(&[]).is_ok_and(|arguments| !arguments.http));
        for bench in BENCHES {
            assert!(parsed(&[&format!("--{bench}")]).is_ok(), "{bench}");
            for other in BENCHES.into_iter().filter(|other| *other != bench) {
                let both = [format!("--{bench}"), format!("--{other}")];
                assert!(parsed(&both.each_ref().map(String::as_str)).is_err(), "{both:?}");
            }
        }
    }
}
