//! Measures the requests per second of a server with an open page, compared with a server without
//! pages. Both are measured in pairs, one right after the other, so that a temporary slowdown of
//! the machine affects both. Both are often started anew, because one of two equal servers can be
//! faster for as long as it lives.

use anyhow::{Context, Result, ensure};
use harness::Server;
use serde_json::Value;

use super::interval::{Interval, geometric_mean};
use super::{BLIND, Contestants, Measured, PIPELINES, RATIOS, SEEN, pages};
use crate::bench::Arguments;
use crate::bench::contestants::{Contestant, Placement};
use crate::bench::figures::median;
use crate::bench::report::Table;
use crate::bench::usage::CpuTime;
use crate::process;

/// Number of starts of both servers per repetition.
const STARTS: u32 = 10;
/// Number of pairs per start and kind of request.
const PAIRS: usize = 2;
const KEYS: &str = "100000";

/// The results of a run.
#[derive(Clone, Copy)]
struct Run {
    requests_per_second: f64,
    /// Processor time of the whole process per request, including the pages.
    cpu_us_per_request: f64,
}

/// A kind of request, and the runs of both servers, pair by pair.
struct Shape {
    name: &'static str,
    ratio: &'static str,
    pipeline: u32,
    without: Vec<Run>,
    with: Vec<Run>,
}

impl Shape {
    fn all() -> Vec<Shape> {
        let of = |(name, ratio), pipeline| Shape {
            name,
            ratio,
            pipeline,
            without: Vec::new(),
            with: Vec::new(),
        };
        RATIOS.iter().flat_map(|it| PIPELINES.map(|pipeline| of(*it, pipeline))).collect()
    }

    /// Measures a pair.
    fn measure(&mut self, servers: &Servers<'_>, seconds: &str, blind_first: bool) -> Result<()> {
        let Servers { nagi, blind, seen } = servers;
        let load =
            |server| load(nagi, server, (self.ratio, self.pipeline), &["--seconds", seconds]);
        if blind_first {
            self.without.push(load(blind)?);
        }
        self.with.push(pages::beside(seen.http(), || load(seen))?);
        if !blind_first {
            self.without.push(load(blind)?);
        }
        Ok(())
    }

    fn row(&self) -> Vec<String> {
        let of = |runs: &[Run]| median(runs.iter().map(|run| run.requests_per_second).collect());
        vec![
            self.name.to_owned(),
            self.pipeline.to_string(),
            self.with.len().to_string(),
            format!("{:.0}", of(&self.without)),
            format!("{:.0}", of(&self.with)),
            change(&self.with, &self.without, |run| run.requests_per_second),
            change(&self.with, &self.without, |run| run.cpu_us_per_request),
        ]
    }
}

/// A server without pages and one with pages.
struct Servers<'a> {
    nagi: &'a Contestant,
    blind: Server,
    seen: Server,
}

impl<'a> Servers<'a> {
    fn start(nagi: &'a Contestant) -> Result<Self> {
        let start = |options: &[&str]| {
            let server = nagi.start_with(Placement::Free, options)?;
            load(nagi, &server, ("0:1", 16), &["--fill", "--requests", KEYS])?;
            Ok::<_, anyhow::Error>(server)
        };
        Ok(Servers { nagi, blind: start(&BLIND)?, seen: start(&SEEN)? })
    }
}

/// Measures the ratios of the observed server to the other server, for each pipeline depth.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let nagi = contestants.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let seconds = arguments.seconds.to_string();
    let mut shapes = Shape::all();
    for _ in 0..arguments.repetitions * STARTS {
        let servers = Servers::start(nagi)?;
        for shape in &mut shapes {
            for pair in 0..PAIRS {
                shape.measure(&servers, &seconds, pair % 2 == 0)?;
            }
        }
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
    for shape in &shapes {
        table.row(shape.row());
    }
    Ok(Measured { tables: vec![table], details: None })
}

/// Formats the change of a figure, computed pair by pair. The interval is that of the starts'
/// means, since pairs of the same servers are not independent.
fn change(with: &[Run], without: &[Run], figure: impl Fn(&Run) -> f64) -> String {
    let pairs = with.iter().zip(without);
    let ratios: Vec<f64> = pairs.map(|(with, without)| figure(with) / figure(without)).collect();
    let starts = ratios.chunks(PAIRS).map(|start| geometric_mean(start.iter().copied()));
    Interval::of(&starts.collect::<Vec<f64>>()).as_change()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_reflects_the_differences_between_starts() {
        let run = |requests_per_second| Run { requests_per_second, cpu_us_per_request: 1.0 };
        let change = |with: &[f64]| {
            let with: Vec<Run> = with.iter().copied().map(run).collect();
            change(&with, &vec![run(100.0); with.len()], |run| run.requests_per_second)
        };
        // Within each start the pairs differ, and the starts' means do not.
        assert_eq!(change(&[80.0, 125.0, 125.0, 80.0]), "+0.0 % (+0.0 to +0.0)");
        assert_eq!(change(&[80.0, 80.0, 125.0, 125.0]), "+0.0 % (-20.0 to +25.0)");
    }
}
