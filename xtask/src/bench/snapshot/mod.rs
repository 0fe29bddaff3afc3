//! The effect of a save on concurrent requests. nagi is compared with Valkey and Redis, with 1 to 8
//! GB of data.
//!
//! The load is paced, and latencies count from the due time of a request, so that no stall is
//! hidden.

mod memory;
mod plots;
mod row;
mod runs;
mod session;
mod tables;

use std::fs;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Arguments;
use super::contestants::Contestant;
use super::report::Report;
use crate::{process, workspace};
use row::Row;
use runs::Run;
use session::Plan;

/// The document with the tables; the plots are in the same folder.
pub(super) const DOCUMENT: &str = "docs/benchmarks/snapshot.md";

/// Pairs of windows in a quick run.
const QUICK_PAIRS: u32 = 2;
/// With this many gigabytes or more, everything takes long, so there are fewer pairs of windows,
/// and the windows without a save are shorter.
const LARGE_GB: f64 = 2.0;
const LARGE_PAIRS: u32 = 3;
/// A window without a save is as long as the save before it, within these bounds, in seconds.
const QUIET_S: (f64, f64) = (2.0, 8.0);
const LARGE_QUIET_S: (f64, f64) = (2.0, 4.0);
/// Maximum gigabytes with which the limit on processor time is measured and keys are overwritten.
const DETAILED_GB: f64 = 1.0;
const LIMIT_ROUNDS: usize = 3;
/// From `BARE_GB` gigabytes, no save is measured without load. From `ALONE_GB`, Redis is omitted,
/// because it saves in the same way as Valkey.
const BARE_GB: f64 = 4.0;
const ALONE_GB: f64 = 8.0;
const LEFT_OUT: &str = "Redis";
/// Disk space to leave free, in gigabytes.
const SPARE_DISK_GB: f64 = 6.0;

/// The options of the measurement.
#[derive(clap::Args)]
pub(super) struct Options {
    /// Measure the cost of a save in latency, memory and time, instead of requests
    #[arg(long)]
    pub(super) snapshot: bool,
    /// With --snapshot: gigabytes of data [default: 1,2,4,8, or 0.25,0.5,1 with --quick]; results
    /// of other sizes are kept
    #[arg(long, value_name = "GB", value_delimiter = ',')]
    sizes: Vec<f64>,
    /// With --snapshot: requests per second of the load
    #[arg(long, default_value_t = 20_000.0, value_name = "N")]
    rate: f64,
    /// With --snapshot: write tables and plots from existing results, without measuring
    #[arg(long, requires = "snapshot")]
    redraw: bool,
}

impl Options {
    /// Whether tables and plots are drawn without measuring.
    pub(super) fn redraws(&self) -> bool {
        self.redraw
    }
}

/// Measures every server with every size of data. Stores the results of a size when they are
/// complete.
pub(super) fn measure(
    contestants: &[Contestant],
    arguments: &Arguments,
    machine: &Value,
) -> Result<()> {
    let options = &arguments.snapshot;
    let quick: &[f64] = if arguments.quick { &[0.25, 0.5, 1.0] } else { &[1.0, 2.0, 4.0, 8.0] };
    let sizes = if options.sizes.is_empty() { quick } else { &options.sizes };
    let nagi = contestants.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let takes_part = |it: &&Contestant| {
        (it.is_nagi() || it.has_snapshots()) && it.name.contains(&arguments.only)
    };
    let servers: Vec<&Contestant> = contestants.iter().filter(takes_part).collect();
    let is_whole = arguments.is_written_down() && arguments.only.is_empty();
    let servers_with = |gigabytes: f64| {
        let is_in = move |it: &&Contestant| gigabytes < ALONE_GB || it.name != LEFT_OUT;
        servers.iter().copied().filter(is_in)
    };
    let total: f64 = sizes.iter().map(|&gb| gb * servers_with(gb).count() as f64).sum();
    let (started, mut done, mut unkept) = (Instant::now(), 0.0, Vec::new());
    for &gigabytes in sizes {
        let plan = plan(nagi, gigabytes, sizes, arguments);
        let (size_started, mut rows) = (Instant::now(), Vec::new());
        for contestant in servers_with(gigabytes) {
            ensure_room(gigabytes)?;
            rows.push(session::measure(contestant, &plan)?);
            done += gigabytes;
            let left_s = started.elapsed().as_secs_f64() * (total - done) / done;
            println!("bench: {done:.2} of {total:.2} GB done, about {:.1} min left", left_s / 60.0);
        }
        println!("bench: {gigabytes} GB took {} s", size_started.elapsed().as_secs());
        let run = Run::new(machine, contestants, rows);
        println!("\n{}", tables::all(&run.rows));
        if is_whole {
            run.keep()?;
            redraw()?;
        } else {
            unkept.push(run);
        }
    }
    if is_whole {
        return Ok(());
    }
    println!("\nbench: not a whole run, so nothing is written down");
    report(unkept)?.0.keep_apart(machine, contestants)
}

/// Returns the plan for a size of data. The limit on processor time is only measured with the
/// largest size that does not exceed `DETAILED_GB`.
fn plan<'a>(nagi: &'a Contestant, gb: f64, sizes: &[f64], arguments: &Arguments) -> Plan<'a> {
    let detailed = sizes.iter().copied().filter(|&gb| gb <= DETAILED_GB);
    Plan {
        load: nagi.program(),
        gigabytes: gb,
        pairs: match gb {
            _ if arguments.quick => QUICK_PAIRS,
            LARGE_GB.. => arguments.repetitions.min(LARGE_PAIRS),
            _ => arguments.repetitions,
        },
        quiet_s: if gb < LARGE_GB { QUIET_S } else { LARGE_QUIET_S },
        rate: arguments.snapshot.rate,
        limit_rounds: match gb == detailed.fold(0.0, f64::max) {
            true if arguments.quick => 1,
            true => LIMIT_ROUNDS,
            false => 0,
        },
        overwrites: gb <= DETAILED_GB,
        saves_idle: gb < BARE_GB,
    }
}

/// Writes the tables and plots of the last run with each size.
pub(super) fn redraw() -> Result<()> {
    let (report, about) = report(runs::last()?)?;
    report.rewrite(&about)
}

/// Returns the report on these runs, and a description of where each was measured.
fn report(runs: Vec<Run>) -> Result<(Report, String)> {
    let about = runs.chunk_by(|a, b| a.about == b.about).filter_map(|same| {
        let sizes: Vec<String> = same.iter().map(|run| run.gigabytes.to_string()).collect();
        Some(format!("- **{} GB**: {}", sizes.join(", "), same.first()?.about))
    });
    let about = about.collect::<String>();
    let largest = runs.iter().max_by(|a, b| a.gigabytes.total_cmp(&b.gigabytes));
    let settings = largest.and_then(Run::unusual_settings).map(str::to_owned);
    let rows: Vec<Row> = runs.into_iter().flat_map(|run| run.rows).collect();
    let report = Report {
        name: "snapshot",
        document: DOCUMENT,
        table: tables::all(&rows),
        details: String::new(),
        summary: match settings {
            Some(settings) => format!("{}\nMeasured with {settings}.", tables::summary(&rows)),
            None => tables::summary(&rows),
        },
        results: rows.iter().map(Row::as_json).collect(),
        pictures: plots::all(&rows)?,
    };
    Ok((report, about))
}

/// Fails if the machine lacks the memory or disk space.
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
