//! What a save does to those who ask meanwhile: nagi beside Valkey and Redis, with 1 to 8 GB.
//!
//! The load is paced, and latencies count from when a request was due, so that no freeze can hide.

mod memory;
mod plots;
mod row;
mod session;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Arguments;
use super::contestants::Contestant;
use super::report::Report;
use crate::{process, workspace};
use row::Row;
use session::Plan;

/// The document with the tables, beside which the plots are.
pub(super) const DOCUMENT: &str = "docs/benchmarks/snapshot.md";

/// Pairs of windows in a quick run.
const QUICK_PAIRS: u32 = 2;
/// Pairs of windows with so much data, which takes long.
const LARGE_PAIRS: u32 = 3;
const LARGE_GB: f64 = 2.0;
/// With how much data the limit for processor time is tried, at most, in gigabytes.
const LIMITED_GB: f64 = 1.0;
/// With how much data keys are written over, at most: a fork may need as much memory again.
const OVERWRITTEN_GB: f64 = 2.0;
/// Room on the disk that is left alone, in gigabytes.
const SPARE_DISK_GB: f64 = 6.0;

/// How a save is measured.
#[derive(clap::Args)]
pub(super) struct Options {
    /// Measure what a save does to requests, memory and time, instead of requests
    #[arg(long, conflicts_with_all = ["memory", "eviction", "store", "sockets"])]
    pub(super) snapshot: bool,
    /// With --snapshot: gigabytes of data [default: 1,2,4,8, or 0.25,0.5,1 with --quick]
    #[arg(long, value_name = "GB", value_delimiter = ',')]
    sizes: Vec<f64>,
    /// With --snapshot: requests per second of the load that latencies are measured with
    #[arg(long, default_value_t = 20_000.0, value_name = "N")]
    rate: f64,
    /// With --snapshot: write tables and plots of these results again, without measuring
    #[arg(long, value_name = "FILE")]
    redraw: Option<PathBuf>,
}

impl Options {
    /// The results that are only to be written anew.
    pub(super) fn redrawn(&self) -> Option<&Path> {
        self.redraw.as_deref()
    }
}

/// Measures every server with every size of data.
pub(super) fn measure(contestants: &[Contestant], arguments: &Arguments) -> Result<Report> {
    let options = &arguments.snapshot;
    let quick: &[f64] = if arguments.quick { &[0.25, 0.5, 1.0] } else { &[1.0, 2.0, 4.0, 8.0] };
    let sizes = if options.sizes.is_empty() { quick } else { &options.sizes };
    let nagi = contestants.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let takes_part = |it: &&Contestant| {
        (it.is_nagi() || it.has_snapshots()) && it.name.contains(&arguments.only)
    };
    let contestants: Vec<&Contestant> = contestants.iter().filter(takes_part).collect();
    let limited_gb = sizes.iter().copied().filter(|&gb| gb <= LIMITED_GB).fold(0.0, f64::max);
    let total = sizes.iter().sum::<f64>() * contestants.len() as f64;
    let (started, mut done, mut rows) = (Instant::now(), 0.0, Vec::new());
    for &gigabytes in sizes {
        let plan = Plan {
            load: nagi.program(),
            gigabytes,
            pairs: match gigabytes {
                _ if arguments.quick => QUICK_PAIRS,
                LARGE_GB.. => arguments.repetitions.min(LARGE_PAIRS),
                _ => arguments.repetitions,
            },
            rate: options.rate,
            tries_limits: gigabytes == limited_gb,
            overwrites: gigabytes <= OVERWRITTEN_GB,
        };
        for contestant in &contestants {
            ensure_room(gigabytes)?;
            rows.push(session::measure(contestant, &plan)?);
            done += gigabytes;
            let left_s = started.elapsed().as_secs_f64() * (total - done) / done;
            println!("bench: {done} of {total} GB done, about {:.1} min left", left_s / 60.0);
        }
    }
    Ok(report(&rows))
}

/// Reads the rows of an earlier run.
pub(super) fn read(path: &Path) -> Result<(Report, Value)> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let all: Value = serde_json::from_slice(&text)?;
    let rows: Vec<Row> = serde_json::from_value(all.get("results").cloned().unwrap_or_default())?;
    Ok((report(&rows), all))
}

fn report(rows: &[Row]) -> Report {
    Report {
        name: "snapshot",
        document: DOCUMENT,
        table: tables::all(rows),
        summary: tables::summary(rows),
        results: rows.iter().map(Row::as_json).collect(),
        pictures: plots::all(rows),
    }
}

/// Nothing is worth filling the machine for.
fn ensure_room(gigabytes: f64) -> Result<()> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory_gb = memory::field(&text, "MemAvailable:") / 1e9;
    let needed_gb = gigabytes * 1.7 + 1.0;
    ensure!(memory_gb > needed_gb, "{needed_gb:.0} GB of memory needed, {memory_gb:.0} free");
    let mut command = Command::new("df");
    command.args(["--output=avail", "--block-size=1"]).arg(workspace::root());
    let free = process::output(&mut command)?;
    let free_gb = free.lines().last().and_then(|it| it.trim().parse::<f64>().ok());
    let free_gb = free_gb.unwrap_or(0.0) / 1e9;
    let needed_gb = gigabytes * 1.1 + SPARE_DISK_GB;
    ensure!(free_gb > needed_gb, "{needed_gb:.0} GB of disk needed, {free_gb:.0} free");
    Ok(())
}
