//! Measures the server's CPU time for a request without pipelining, by the number of connections.

use anyhow::{Context, Result, ensure};
use harness::Server;
use serde_json::Value;

use super::{Contestants, Measured};
use crate::bench::Arguments;
use crate::bench::contestants::{Contestant, Placement, Protocol};
use crate::bench::report::{Table, ratio};
use crate::bench::usage::CpuTime;
use crate::process;

/// The cases, each with a number of connections. Pinned means one worker on its own core.
const CASES: [(Protocol, Placement, u32); 7] = [
    (Protocol::Resp, Placement::Pinned, 50),
    (Protocol::Resp, Placement::Free, 50),
    (Protocol::Resp, Placement::Pinned, 400),
    (Protocol::Resp, Placement::Pinned, 10_000),
    (Protocol::Memcached, Placement::Pinned, 50),
    (Protocol::Memcached, Placement::Pinned, 400),
    (Protocol::Memcached, Placement::Pinned, 10_000),
];
/// Only GET and only SET, as ratios of `nagi bench`.
const RATIOS: [&str; 2] = ["1:0", "0:1"];
/// The servers that nagi is compared with, one for each protocol.
const RIVALS: [&str; 2] = ["Valkey", "memcached"];
/// Maximum length of a load in seconds, because there are many loads.
const MAX_SECONDS: f64 = 1.0;

/// A server, and the CPU time per request of every run so far, in microseconds.
struct Runner<'a> {
    contestant: &'a Contestant,
    server: Server,
    times_us: [Vec<f64>; 2],
}

impl Runner<'_> {
    fn medians(&mut self) -> [f64; 2] {
        self.times_us.each_mut().map(|times| {
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
        })
    }
}

/// Measures GET and SET with values of 32 bytes. The results are medians over interleaved
/// repetitions.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let nagi = contestants.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let mut table = Table::new(&[
        "protocol",
        "workers",
        "connections",
        "server",
        "GET µs of CPU",
        "GET x",
        "SET µs of CPU",
        "SET x",
    ]);
    let mut comparison = Table::new(&[
        "protocol",
        "workers",
        "connections",
        "GET µs: nagi, io_uring",
        "nagi, epoll",
        "Valkey or memcached",
        "SET µs: nagi, io_uring",
        "nagi, epoll",
        "Valkey or memcached",
    ]);
    for (protocol, placement, connections) in CASES {
        let mut runners = Vec::new();
        for contestant in contestants.iter().filter(|it| it.speaks(protocol)) {
            let server = contestant.start(placement)?;
            runners.push(Runner { contestant, server, times_us: Default::default() });
        }
        for _ in 0..arguments.repetitions {
            for runner in &mut runners {
                for (ratio, times_us) in RATIOS.iter().zip(&mut runner.times_us) {
                    let port = match protocol {
                        Protocol::Resp => runner.server.resp().port(),
                        Protocol::Memcached => runner.server.memcached_address().port(),
                    };
                    let mut load = placement.load(nagi.program());
                    load.args(["bench", "--quiet", "--json", "-", "--ratio", ratio])
                        .args(["--protocol", protocol.name(), "--port", &port.to_string()])
                        .args(["--connections", &connections.to_string()])
                        .args(["--keys", "100000", "--value-bytes", "32"])
                        .args(["--seconds", &arguments.seconds.min(MAX_SECONDS).to_string()]);
                    times_us.push(cpu_us(runner.server.process_id(), &mut load)?);
                }
            }
        }
        let case = (protocol, placement, connections);
        compare(&mut comparison, case, &mut runners);
        tell(&mut table, case, &mut runners);
    }
    Ok(Measured { tables: vec![comparison], details: Some(table) })
}

/// Adds the row of a case: nagi's times, their ratios to those of its rival, and the rival's times.
fn compare(table: &mut Table, case: (Protocol, Placement, u32), runners: &mut [Runner<'_>]) {
    let rival = runners.iter_mut().find(|it| RIVALS.contains(&it.contestant.name));
    let rivals = rival.map_or([f64::NAN; 2], Runner::medians);
    let mut row = name(case).to_vec();
    for (index, rival) in rivals.into_iter().enumerate() {
        for runner in runners.iter_mut().filter(|it| it.contestant.is_nagi()) {
            let us = runner.medians().get(index).copied().unwrap_or(f64::NAN);
            row.push(format!("{us:.2} ({})", ratio(us, rival)));
        }
        row.push(format!("{rival:.2}"));
    }
    table.row(row);
}

/// Returns the name of a case in tables.
fn name((protocol, placement, connections): (Protocol, Placement, u32)) -> [String; 3] {
    let workers = if placement == Placement::Pinned { "1" } else { "default" };
    [protocol.name().to_owned(), workers.to_owned(), connections.to_string()]
}

/// Adds the rows of a case with all figures.
fn tell(table: &mut Table, case: (Protocol, Placement, u32), runners: &mut [Runner<'_>]) {
    let rival = runners.iter_mut().find(|it| RIVALS.contains(&it.contestant.name));
    let rivals = rival.map_or([f64::NAN; 2], Runner::medians);
    for runner in runners {
        let [get, set] = runner.medians();
        let mut row = name(case).to_vec();
        row.push(runner.contestant.name.to_owned());
        row.extend([format!("{get:.2}"), ratio(get, rivals[0])]);
        row.extend([format!("{set:.2}"), ratio(set, rivals[1])]);
        table.row(row);
    }
}

/// Runs a load. Returns the server's CPU time per request, in microseconds.
fn cpu_us(server: u32, load: &mut std::process::Command) -> Result<f64> {
    let before = CpuTime::of(server)?;
    let report = process::output(load)?;
    let used = CpuTime::of(server)?.since(before);
    let report: Value = serde_json::from_str(&report).context("nagi bench prints JSON")?;
    let figure = |name: &str| report.get(name).and_then(Value::as_f64);
    ensure!(figure("errors") == Some(0.0), "requests failed: {report}");
    let requests = figure("requests").context("nagi bench counts requests")?;
    Ok((used.user + used.system) * 1e6 / requests)
}
