//! Measures requests per second, latencies, and the server's CPU time per request.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use harness::Server;
use serde_json::{Value, json};

use super::Arguments;
use super::contestants::{Contestant, Placement, Protocol};
use super::figures::{Figures, medians};
use super::fill::{KEY_BYTES, Shape, fill};
use super::report::{DOCUMENT, Report, Table, ratio};
use super::usage::CpuTime;
use crate::process;

const CONNECTIONS: u32 = 50;
const VALUE_BYTES: usize = 32;
const PLACEMENTS: [Placement; 2] = [Placement::Pinned, Placement::Free];

/// A kind of request at one pipeline depth.
struct Workload {
    protocol: Protocol,
    /// A value of `nagi bench --ratio`.
    ratio: &'static str,
    pipeline: u32,
}

impl Workload {
    fn all() -> Vec<Self> {
        let of = |protocol, pipelines: &[u32]| {
            let both =
                |&pipeline: &u32| ["1:0", "0:1"].map(|ratio| Self { protocol, ratio, pipeline });
            pipelines.iter().flat_map(both).collect::<Vec<_>>()
        };
        let mut all = of(Protocol::Resp, &[1, 16, 64]);
        all.extend(of(Protocol::Memcached, &[1, 16]));
        all
    }

    fn name(&self) -> String {
        let command = if self.ratio == "1:0" { "GET" } else { "SET" };
        format!("{} {command} pipeline {}", self.protocol.name(), self.pipeline)
    }
}

/// All repetitions of one workload on one server.
struct Series {
    placement: Placement,
    workload: String,
    server: &'static str,
    is_nagi: bool,
    is_peer: bool,
    repetitions: Vec<Figures>,
}

/// Measures every workload on every server that speaks its protocol.
pub(super) fn measure(contestants: &[Contestant], arguments: &Arguments) -> Result<Report> {
    let nagi = contestants.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let mut all = Vec::new();
    for repetition in 1..=arguments.repetitions {
        let start = Instant::now();
        for placement in PLACEMENTS {
            for contestant in contestants {
                for protocol in [Protocol::Resp, Protocol::Memcached] {
                    if contestant.speaks(protocol) {
                        let load = Load { program: nagi.program(), placement, protocol, arguments };
                        load.measure(contestant, &mut all)?;
                    }
                }
            }
        }
        let (of, seconds) = (arguments.repetitions, start.elapsed().as_secs());
        println!("bench: repetition {repetition} of {of} took {seconds} s");
    }
    Ok(Report {
        name: "throughput",
        table: comparison(&all),
        details: table(&all),
        summary: summary(&all),
        results: all.iter().map(Series::as_json).collect(),
        document: DOCUMENT,
        pictures: Vec::new(),
    })
}

/// The load on one server.
struct Load<'a> {
    program: &'a Path,
    placement: Placement,
    protocol: Protocol,
    arguments: &'a Arguments,
}

impl Load<'_> {
    /// Starts and fills `contestant`, and adds a repetition of each workload to `all`.
    fn measure(&self, contestant: &Contestant, all: &mut Vec<Series>) -> Result<()> {
        let is_wanted = |it: &Workload| {
            it.protocol == self.protocol && it.name().contains(&self.arguments.only)
        };
        let workloads: Vec<Workload> = Workload::all().into_iter().filter(is_wanted).collect();
        if workloads.is_empty() {
            return Ok(());
        }
        let server = contestant.start(self.placement)?;
        let empty_bytes = server.resident_bytes() as f64;
        let shape = Shape { value_bytes: VALUE_BYTES, ttl_seconds: None };
        let keys = self.arguments.keys;
        fill(&server, self.protocol, 0..keys, shape)?;
        let content = keys as f64 * (KEY_BYTES + VALUE_BYTES) as f64;
        let overhead_bytes = server.resident_bytes() as f64 - empty_bytes - content;
        for workload in workloads {
            let mut figures = self
                .run(&server, &workload)
                .with_context(|| format!("{} on {}", workload.name(), contestant.name))?;
            figures.insert("overhead_bytes_per_key", overhead_bytes / keys as f64);
            self.add(contestant, &workload, figures, all);
        }
        Ok(())
    }

    fn add(
        &self,
        contestant: &Contestant,
        workload: &Workload,
        figures: Figures,
        all: &mut Vec<Series>,
    ) {
        let name = workload.name();
        let same = |series: &&mut Series| {
            series.placement == self.placement
                && series.server == contestant.name
                && series.workload == name
        };
        match all.iter_mut().find(same) {
            Some(series) => series.repetitions.push(figures),
            None => all.push(Series {
                placement: self.placement,
                workload: name,
                server: contestant.name,
                is_nagi: contestant.is_nagi(),
                is_peer: contestant.is_peer(),
                repetitions: vec![figures],
            }),
        }
    }

    /// Runs one workload. The server's CPU time is read just before and after, so it includes
    /// accepting 50 connections, which the measured time does not include.
    fn run(&self, server: &Server, workload: &Workload) -> Result<Figures> {
        let address = match self.protocol {
            Protocol::Resp => server.resp(),
            Protocol::Memcached => server.memcached_address(),
        };
        let mut command = self.placement.load(self.program);
        command
            .args(["bench", "--quiet", "--json", "-", "--protocol", self.protocol.name()])
            .args(["--port", &address.port().to_string()])
            .args(["--connections", &CONNECTIONS.to_string()])
            .args(["--pipeline", &workload.pipeline.to_string(), "--ratio", workload.ratio])
            .args(["--keys", &self.arguments.keys.to_string()])
            .args(["--key-bytes", &KEY_BYTES.to_string()])
            .args(["--value-bytes", &VALUE_BYTES.to_string()])
            .args(["--seconds", &self.arguments.seconds.to_string()]);
        let before = CpuTime::of(server.process_id())?;
        let report = process::output(&mut command)?;
        let used = CpuTime::of(server.process_id())?.since(before);
        let report: Value = serde_json::from_str(&report).context("nagi bench prints JSON")?;

        let figure = |pointer: &str| {
            let value = report.pointer(pointer).and_then(Value::as_f64);
            value.with_context(|| format!("nagi bench reports no {pointer}"))
        };
        if figure("/errors")? > 0.0 {
            bail!("requests failed: {report}");
        }
        let requests = figure("/requests")?;
        let per_request_us = |seconds: f64| seconds * 1e6 / requests;
        Ok(Figures::from([
            ("requests_per_second", figure("/requests_per_second")?),
            ("p50_us", figure("/latency_us/p50")?),
            ("p99_us", figure("/latency_us/p99")?),
            ("p99_9_us", figure("/latency_us/p99_9")?),
            ("max_us", figure("/latency_us/max")?),
            ("user_us", per_request_us(used.user)),
            ("system_us", per_request_us(used.system)),
            ("cpu_us", per_request_us(used.user + used.system)),
        ]))
    }
}

impl Series {
    fn as_json(&self) -> Value {
        json!({
            "placement": self.placement.name(),
            "workload": self.workload,
            "server": self.server,
            "repetitions": self.repetitions.len(),
            "medians": medians(&self.repetitions),
        })
    }

    fn median(&self, name: &str) -> f64 {
        medians(&self.repetitions).get(name).copied().unwrap_or(f64::NAN)
    }
}

/// Formats one table for each placement: nagi compared with the peer of the lowest CPU time, and
/// with the responder.
fn comparison(all: &[Series]) -> String {
    let mut text = String::new();
    for placement in PLACEMENTS {
        let mut table = Table::new(&[
            "workload",
            "nagi: CPU µs/request",
            "requests/s",
            "p99 µs",
            "best peer",
            "its CPU µs/request",
            "requests/s",
            "p99 µs",
            "CPU to best peer",
            "requests/s to best peer",
            "CPU of the responder",
        ]);
        for series in all.iter().filter(|it| it.is_nagi && it.placement == placement) {
            let figures = |of: &Series| {
                let [cpu, rate, p99] =
                    ["cpu_us", "requests_per_second", "p99_us"].map(|name| of.median(name));
                [format!("{cpu:.2}"), format!("{rate:.0}"), format!("{p99:.0}")]
            };
            let best = best_peer(all, series);
            let floor = all.iter().find(|it| {
                let is_same = it.placement == placement && it.workload == series.workload;
                is_same && !it.is_nagi && !it.is_peer
            });
            let mut cells = vec![series.workload.clone()];
            cells.extend(figures(series));
            cells.push(best.map_or(String::new(), |best| best.server.to_owned()));
            cells.extend(best.map_or_else(Default::default, figures));
            cells.push(against_best_peer(all, series, "cpu_us", f64::min));
            cells.push(against_best_peer(all, series, "requests_per_second", f64::max));
            cells.push(floor.map_or(String::new(), |it| format!("{:.2}", it.median("cpu_us"))));
            table.row(cells);
        }
        text.push_str(&format!("### {}\n\n{table}\n", placement.name()));
    }
    text
}

/// Returns the peer with the lowest CPU time per request.
fn best_peer<'a>(all: &'a [Series], of: &'a Series) -> Option<&'a Series> {
    let cpu = |series: &Series| series.median("cpu_us");
    peers_of(all, of).min_by(|a, b| cpu(a).total_cmp(&cpu(b)))
}

/// Formats one table for each placement: all figures of all servers, and in the last column nagi's
/// as a multiple of the best peer's.
fn table(all: &[Series]) -> String {
    let mut text = String::new();
    for placement in PLACEMENTS {
        let mut table = Table::new(&[
            "workload",
            "server",
            "requests/s",
            "p50 µs",
            "p99 µs",
            "p99.9 µs",
            "max µs",
            "CPU µs/request",
            "user + system",
            "requests/s to best peer",
            "CPU to best peer",
        ]);
        for series in all.iter().filter(|series| series.placement == placement) {
            let mut cells = vec![series.workload.clone(), series.server.to_owned()];
            cells.push(format!("{:.0}", series.median("requests_per_second")));
            cells.extend(
                ["p50_us", "p99_us", "p99_9_us", "max_us"]
                    .map(|name| format!("{:.0}", series.median(name))),
            );
            cells.push(format!("{:.2}", series.median("cpu_us")));
            let (user, system) = (series.median("user_us"), series.median("system_us"));
            cells.push(format!("{user:.2} + {system:.2}"));
            cells.push(against_best_peer(all, series, "requests_per_second", f64::max));
            cells.push(against_best_peer(all, series, "cpu_us", f64::min));
            table.row(cells);
        }
        text.push_str(&format!("### {}\n\n{table}\n", placement.name()));
    }
    text
}

/// Formats nagi's median as a multiple of the best peer's; empty for other servers.
fn against_best_peer(
    all: &[Series],
    of: &Series,
    figure: &str,
    better: fn(f64, f64) -> f64,
) -> String {
    if !of.is_nagi {
        return String::new();
    }
    let best = peers_of(all, of).map(|peer| peer.median(figure)).reduce(better);
    best.map_or(String::new(), |best| ratio(of.median(figure), best))
}

fn peers_of<'a>(all: &'a [Series], of: &'a Series) -> impl Iterator<Item = &'a Series> {
    all.iter().filter(move |series| {
        series.is_peer && series.placement == of.placement && series.workload == of.workload
    })
}

/// Formats the CPU time per request on one worker, of nagi and of the best peer.
fn summary(all: &[Series]) -> String {
    let mut table = Table::new(&["server CPU time for one request", "nagi", "best peer", "ratio"]);
    for series in all.iter().filter(|it| it.is_nagi && it.placement == Placement::Pinned) {
        let cpu = |series: &Series| series.median("cpu_us");
        let best = best_peer(all, series);
        let (peer, compared) = best.map_or((String::new(), String::new()), |best| {
            (format!("{:.2} µs ({})", cpu(best), best.server), ratio(cpu(series), cpu(best)))
        });
        let own = format!("{:.2} µs", cpu(series));
        table.row(vec![series.workload.clone(), own, peer, compared]);
    }
    table.to_string()
}
