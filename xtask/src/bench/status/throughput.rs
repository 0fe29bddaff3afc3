//! Measures the requests per second of a server with an open page, compared with a server without
//! pages. Both are measured in pairs, one right after the other, so that a temporary slowdown of
//! the machine affects both.

use anyhow::{Context, Result, ensure};
use harness::Server;
use serde_json::Value;

use super::interval::Interval;
use super::{BLIND, Contestants, Measured, PIPELINES, RATIOS, SEEN, pages};
use crate::bench::Arguments;
use crate::bench::contestants::{Contestant, Placement};
use crate::bench::figures::median;
use crate::bench::report::Table;
use crate::bench::usage::CpuTime;
use crate::process;

/// Number of pairs per repetition.
const PAIRS: u32 = 4;
const KEYS: &str = "100000";

/// The results of a run.
#[derive(Clone, Copy)]
struct Run {
    requests_per_second: f64,
    /// Processor time of the whole process per request, including the pages.
    cpu_us_per_request: f64,
}

/// Measures the ratios of the observed server to the other server, for each pipeline depth.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let nagi = contestants.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let servers = [&BLIND[..], &SEEN].map(|options| nagi.start_with(Placement::Free, options));
    let [blind, seen] = servers;
    let (blind, seen) = (blind?, seen?);
    for server in [&blind, &seen] {
        load(nagi, server, ("0:1", 16), &["--fill", "--requests", KEYS])?;
    }
    let mut table = Table::new(&[
        "request",
        "pipeline",
        "pairs",
        "requests/s without",
        "page open",
        "requests/s, change and 95 % interval",
        "CPU of a request, change and 95 % interval",
    ]);
    let seconds = arguments.seconds.to_string();
    let shape = ["--seconds", seconds.as_str()];
    for (name, ratio) in RATIOS {
        for pipeline in PIPELINES {
            let (mut without, mut with) = (Vec::new(), Vec::new());
            for pair in 0..arguments.repetitions * PAIRS {
                let alone = || load(nagi, &blind, (ratio, pipeline), &shape);
                let looked_at =
                    || pages::beside(seen.http(), || load(nagi, &seen, (ratio, pipeline), &shape));
                // The order alternates between pairs.
                if pair % 2 == 0 {
                    without.push(alone()?);
                    with.push(looked_at()?);
                } else {
                    with.push(looked_at()?);
                    without.push(alone()?);
                }
            }
            let of =
                |runs: &[Run]| median(runs.iter().map(|run| run.requests_per_second).collect());
            table.row(vec![
                name.to_owned(),
                pipeline.to_string(),
                with.len().to_string(),
                format!("{:.0}", of(&without)),
                format!("{:.0}", of(&with)),
                change(&with, &without, |run| run.requests_per_second),
                change(&with, &without, |run| run.cpu_us_per_request),
            ]);
        }
    }
    Ok(Measured { tables: vec![table], details: None })
}

/// Formats the change of a figure, computed pair by pair.
fn change(with: &[Run], without: &[Run], figure: impl Fn(&Run) -> f64) -> String {
    let pairs = with.iter().zip(without);
    let ratios: Vec<f64> = pairs.map(|(with, without)| figure(with) / figure(without)).collect();
    Interval::of(&ratios).as_change()
}

/// Runs a load of one kind of request at one pipeline depth.
fn load(
    nagi: &Contestant,
    server: &Server,
    (ratio, pipeline): (&str, u32),
    shape: &[&str],
) -> Result<Run> {
    let mut command = Placement::Free.load(nagi.program());
    command
        .args(["bench", "--quiet", "--json", "-", "--port", &server.resp().port().to_string()])
        .args(["--ratio", ratio, "--pipeline", &pipeline.to_string(), "--keys", KEYS])
        .args(shape);
    let before = CpuTime::of(server.process_id())?;
    let report = process::output(&mut command)?;
    let used = CpuTime::of(server.process_id())?.since(before);
    let report: Value = serde_json::from_str(&report).context("nagi bench prints JSON")?;
    let figure = |name: &str| {
        let value = report.get(name).and_then(Value::as_f64);
        value.with_context(|| format!("nagi bench reports no {name}"))
    };
    ensure!(figure("errors")? == 0.0, "requests failed: {report}");
    Ok(Run {
        requests_per_second: figure("requests_per_second")?,
        cpu_us_per_request: (used.user + used.system) * 1e6 / figure("requests")?,
    })
}
