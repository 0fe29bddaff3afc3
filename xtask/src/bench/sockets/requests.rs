//! The server's CPU time for one request, without pipeline, by the number of connections.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Contestants;
use crate::bench::Arguments;
use crate::bench::contestants::{Placement, Protocol};
use crate::bench::report::Table;
use crate::bench::usage::CpuTime;
use crate::process;

const CONNECTIONS: [u32; 3] = [50, 400, 10_000];

/// Medians over the repetitions, GET and SET of 32 bytes, one worker on its own core.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<String> {
    let nagi = contestants.0.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let mut table =
        Table::new(&["protocol", "connections", "server", "GET µs of CPU", "SET µs of CPU"]);
    for protocol in [Protocol::Resp, Protocol::Memcached] {
        for connections in CONNECTIONS {
            for contestant in contestants.0.iter().filter(|it| it.speaks(protocol)) {
                let server = contestant.start(Placement::Pinned)?;
                let port = match protocol {
                    Protocol::Resp => server.resp().port(),
                    Protocol::Memcached => server.memcached_address().port(),
                };
                let mut row = vec![
                    protocol.name().to_owned(),
                    connections.to_string(),
                    contestant.name.to_owned(),
                ];
                for ratio in ["1:0", "0:1"] {
                    let mut times_us = Vec::new();
                    for _ in 0..arguments.repetitions {
                        let mut command = Placement::Pinned.load(nagi.program());
                        command
                            .args(["bench", "--quiet", "--json", "-", "--ratio", ratio])
                            .args(["--protocol", protocol.name(), "--port", &port.to_string()])
                            .args(["--connections", &connections.to_string()])
                            .args(["--keys", "100000", "--value-bytes", "32"])
                            .args(["--seconds", &arguments.seconds.to_string()]);
                        times_us.push(cpu_us(server.process_id(), &mut command)?);
                    }
                    times_us.sort_by(f64::total_cmp);
                    let middle = times_us.get(times_us.len() / 2).copied().unwrap_or(f64::NAN);
                    row.push(format!("{middle:.2}"));
                }
                table.row(row);
            }
        }
    }
    Ok(table.to_string())
}

/// Runs a load and returns the server's CPU time for each of its requests.
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
