//! The effect of HTTP requests on clients that use RESP.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use harness::Server;
use serde_json::Value;

use super::{Contestants, GATEWAY, Measured};
use crate::bench::Arguments;
use crate::bench::contestants::{Contestant, Placement};
use crate::bench::figures::median;
use crate::bench::paced::{RATE, p99_9_us};
use crate::bench::parts::milliseconds;
use crate::bench::report::Table;

/// HTTP requests per second.
const HTTP_RATE: u32 = 2_000;

/// Measures the slowest of a thousand RESP requests, with and without HTTP requests.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let nagi = contestants.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let seconds = if arguments.quick { 2 } else { 15 };
    let server = nagi.start_with(Placement::Free, &GATEWAY)?;
    let (mut quiet_us, mut beside_us, mut answered) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..arguments.repetitions {
        quiet_us.push(p99_9_us(nagi, &server, seconds)?);
        // The HTTP load starts earlier and ends later than the measurement.
        let http = start_http(nagi, &server, seconds + 2)?;
        beside_us.push(p99_9_us(nagi, &server, seconds)?);
        answered.push(http.finish()?);
    }
    let mut table = Table::new(&[
        "requests/s",
        "p99.9 ms without HTTP",
        "beside HTTP",
        "bound: 1.25 x + 0.2 ms",
        "requests/s over HTTP",
    ]);
    let (quiet_us, beside_us) = (median(quiet_us), median(beside_us));
    table.row(vec![
        RATE.to_string(),
        milliseconds(quiet_us),
        milliseconds(beside_us),
        milliseconds(quiet_us * 1.25 + 200.0),
        format!("{:.0}", median(answered)),
    ]);
    Ok(Measured { tables: vec![table], details: None })
}

/// A running load of HTTP requests.
struct HttpLoad(std::process::Child);

fn start_http(nagi: &Contestant, server: &Server, seconds: u32) -> Result<HttpLoad> {
    let mut command: Command = Placement::Free.load(nagi.program());
    command
        .args(["bench", "--quiet", "--json", "-", "--rate", &HTTP_RATE.to_string()])
        .args(["--seconds", &seconds.to_string()])
        .arg(format!("http://{}", server.http()))
        .stdout(Stdio::piped());
    command.spawn().map(HttpLoad).context("cannot start nagi bench")
}

impl HttpLoad {
    /// Waits for the end of the load. Returns the answered requests per second.
    fn finish(self) -> Result<f64> {
        let output = self.0.wait_with_output()?;
        let report: Value =
            serde_json::from_slice(&output.stdout).context("nagi bench prints JSON")?;
        ensure!(report.get("errors").and_then(Value::as_u64) == Some(0), "errors: {report}");
        report.get("requests_per_second").and_then(Value::as_f64).context("no requests a second")
    }
}
