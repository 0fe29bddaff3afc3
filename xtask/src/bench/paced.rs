//! A paced load of `nagi bench`, and the latency of its slowest requests.

use anyhow::{Context, Result, ensure};
use harness::Server;
use serde_json::Value;

use super::contestants::{Contestant, Placement};
use crate::process;

/// Requests per second, an easy load for a server with two cores.
pub(super) const RATE: u32 = 20_000;

/// Returns the 99.9th percentile in microseconds, counted from the due time of each request.
pub(super) fn p99_9_us(nagi: &Contestant, server: &Server, seconds: u32) -> Result<f64> {
    let mut command = Placement::Free.load(nagi.program());
    command
        .args(["bench", "--quiet", "--json", "-", "--port", &server.resp().port().to_string()])
        .args(["--rate", &RATE.to_string(), "--seconds", &seconds.to_string()]);
    let report = process::output(&mut command)?;
    let report: Value = serde_json::from_str(&report).context("nagi bench prints JSON")?;
    ensure!(report.get("errors").and_then(Value::as_u64) == Some(0), "errors: {report}");
    let found = report.pointer("/latency_us/p99_9").and_then(Value::as_f64);
    found.context("nagi bench reports p99.9")
}
