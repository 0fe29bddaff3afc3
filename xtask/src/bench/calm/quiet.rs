//! Measures small requests without a disturbance, on processors shared with the load. Workers and
//! clients compete for the processors, which affects the slowest requests.

use anyhow::{Context, Result, ensure};
use harness::Server;
use serde_json::{Value, json};

use super::super::Arguments;
use super::super::contestants::{Contestant, Placement, Protocol};
use super::super::figures::{Figures, medians};
use super::super::report::{Report, Table, ratio};
use super::DOCUMENT;
use crate::process;

const CONNECTIONS: &str = "20";
/// Length of a load in seconds.
const SECONDS: &str = "15";
const QUICK_SECONDS: &str = "1";

/// The kinds of arrival of requests, and the options of `nagi bench` for each.
const LOADS: [(&str, &[&str]); 2] =
    [("20,000 requests/s", &["--rate", "20000"]), ("closed loop", &[])];

/// Variants of nagi's settings, in addition to the default settings.
const VARIANTS: [(&str, &[&str]); 2] = [
    ("nagi, one worker", &["--workers", "1"]),
    ("nagi, adaptive-workers no", &["--adaptive-workers", "no"]),
];

/// A running server.
struct Running {
    name: &'static str,
    is_peer: bool,
    server: Server,
    protocol: Protocol,
}

impl Running {
    fn start(contestant: &Contestant, name: &'static str, options: &[&str]) -> Result<Self> {
        let speaks_resp = contestant.speaks(Protocol::Resp);
        let protocol = if speaks_resp { Protocol::Resp } else { Protocol::Memcached };
        let server = contestant.start_with(Placement::Free, options)?;
        Ok(Running { name, is_peer: contestant.is_peer(), server, protocol })
    }

    /// Runs a load. `options` determine the arrival of its requests.
    fn measure(&self, load: &Contestant, options: &[&str], seconds: &str) -> Result<Figures> {
        let address = match self.protocol {
            Protocol::Resp => self.server.resp(),
            Protocol::Memcached => self.server.memcached_address(),
        };
        let mut command = Placement::Free.load(load.program());
        command
            .args(["bench", "--quiet", "--fill", "--json", "-", "--connections", CONNECTIONS])
            .args(["--protocol", self.protocol.name(), "--port", &address.port().to_string()])
            .args(["--keys", "100000", "--value-bytes", "32", "--seconds", seconds])
            .args(options);
        let report: Value = serde_json::from_str(&process::output(&mut command)?)?;
        let figure = |pointer: &str| {
            let value = report.pointer(pointer).and_then(Value::as_f64);
            value.with_context(|| format!("nagi bench reports no {pointer}"))
        };
        ensure!(figure("/errors")? == 0.0, "{}: requests failed: {report}", self.name);
        Ok(Figures::from([
            ("requests_per_second", figure("/requests_per_second")?),
            ("p50_us", figure("/latency_us/p50")?),
            ("p99_us", figure("/latency_us/p99")?),
            ("p99_9_us", figure("/latency_us/p99_9")?),
        ]))
    }
}

/// Measures every server in turn, for each repetition.
pub(super) fn measure(contestants: &[Contestant], arguments: &Arguments) -> Result<Report> {
    let nagi = contestants.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let takes_part = |it: &&Contestant| it.is_nagi() || it.is_peer();
    let servers = contestants.iter().filter(takes_part).map(|it| Running::start(it, it.name, &[]));
    let variants = VARIANTS.map(|(name, options)| Running::start(nagi, name, options));
    let servers: Vec<Running> = servers.chain(variants).collect::<Result<_>>()?;
    let seconds = if arguments.quick { QUICK_SECONDS } else { SECONDS };
    let loads = LOADS.iter().flat_map(|load| servers.iter().map(move |server| (load, server)));
    let loads: Vec<_> = loads.collect();
    let mut samples = vec![Vec::new(); loads.len()];
    for (earlier, repetition) in (1..=arguments.repetitions).enumerate() {
        println!("bench: quiet, {repetition} of {}", arguments.repetitions);
        let mut turns: Vec<_> = loads.iter().zip(&mut samples).collect();
        // No server is always measured first, or after the same one.
        turns.rotate_left(earlier * (servers.len() + 1) % loads.len());
        for ((load, server), samples) in turns {
            samples.push(server.measure(nagi, load.1, seconds)?);
        }
    }
    let figures: Vec<Figures> = samples.iter().map(|samples| medians(samples)).collect();
    Ok(report(&servers, &figures))
}

/// Creates the report. `figures` contains the figures of every server under the first load, then
/// under the second.
fn report(servers: &[Running], figures: &[Figures]) -> Report {
    let (mut text, mut results) = (String::new(), Vec::new());
    for ((load, _), figures) in LOADS.iter().zip(figures.chunks(servers.len().max(1))) {
        let of = |server: &Figures, name: &str| server.get(name).copied().unwrap_or(f64::NAN);
        let peers = servers.iter().zip(figures).filter(|(server, _)| server.is_peer);
        let best = peers.map(|(_, it)| of(it, "p99_9_us")).fold(f64::NAN, f64::min);
        let header = ["us", "p50", "p99", "p99.9", "p99.9 to best peer", "requests/s"];
        let mut table = Table::new(&header);
        for (server, figures) in servers.iter().zip(figures) {
            let [p50, p99, p99_9, rate] = ["p50_us", "p99_us", "p99_9_us", "requests_per_second"]
                .map(|name| of(figures, name));
            let times = [p50, p99, p99_9].map(|us| format!("{us:.0}"));
            let last = [ratio(p99_9, best), format!("{rate:.0}")];
            table.row([server.name.to_owned()].into_iter().chain(times).chain(last).collect());
            results.push(json!({ "load": load, "server": server.name, "medians": figures }));
        }
        text += &format!("### Nothing else happens: {load}\n\n{table}\n");
    }
    Report {
        name: "calm-quiet",
        document: DOCUMENT,
        table: text,
        details: String::new(),
        summary: String::new(),
        results,
        pictures: Vec::new(),
    }
}
