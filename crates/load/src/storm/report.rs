//! The results of `nagi storm`, printed as memstorm prints them, followed by percentiles.

use std::fmt;

use serde::Serialize;

use super::options::StormOptions;
use crate::bench::Identity;
use crate::machine::Machine;
use crate::text::{microseconds, plain};

/// The results for one size of values.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Records that were set and got.
    pub records: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Whether requests were sent without waiting for earlier answers.
    pub non_blocking: bool,
    /// Whether requests were sent without waiting for a full packet.
    pub tcp_nodelay: bool,
    /// Connections to each server.
    pub connections: usize,
    /// Threads.
    pub threads: usize,
    /// Always "closed loop": a server that stalls receives fewer requests.
    pub loop_kind: &'static str,
    /// The identities of the servers.
    pub servers: Vec<Identity>,
    /// The machine that ran the measurement.
    pub machine: Machine,
    /// The version of nagi.
    pub version: &'static str,
    /// Whether the user has interrupted the run.
    pub interrupted: bool,
    /// The options of the run.
    pub options: StormOptions,
    /// Results of setting the records.
    pub set: Phase,
    /// Results of getting the records back.
    pub get: Phase,
}

/// The results of all requests of one kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Phase {
    /// Successful requests.
    pub successful: u64,
    /// Failed requests: refused, lost, not found, or answered with another value.
    pub failed: u64,
    /// The time from the first request to the last answer, in seconds.
    pub total_seconds: f64,
    /// `total_seconds` divided by the number of records.
    pub average_seconds: f64,
    /// Latencies in microseconds. Requests that are sent together all count with the latency of the
    /// whole group.
    pub latency_us: Latency,
    /// The number of failed requests by error text.
    pub errors: std::collections::BTreeMap<String, u64>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p99_9: f64,
    /// The slowest.
    pub max: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "Num of Records      : {}", self.records)?;
        writeln!(out, "Non-Blocking IO     : {}", u8::from(self.non_blocking))?;
        writeln!(out, "TCP No-Delay        : {}", u8::from(self.tcp_nodelay))?;
        for (name, phase) in [("SET", &self.set), ("GET", &self.get)] {
            writeln!(out)?;
            writeln!(out, "Successful   [{name}]  : {}", phase.successful)?;
            writeln!(out, "Failed       [{name}]  : {}", phase.failed)?;
            writeln!(out, "Total Time   [{name}]  : {:.5}s", phase.total_seconds)?;
            writeln!(out, "Average Time [{name}]  : {:.5}s", phase.average_seconds)?;
        }
        let Report { key_bytes, value_bytes, connections, threads, .. } = self;
        if self.interrupted {
            writeln!(out, "\nInterrupted: these are the figures so far.")?;
        }
        writeln!(out)?;
        for Identity { address, name, .. } in &self.servers {
            writeln!(out, "{} ({})", plain(address), plain(name))?;
        }
        writeln!(
            out,
            "closed loop, keys of {key_bytes} B, values of {value_bytes} B, {connections} \
             connection{} to a server, {threads} thread{}",
            if *connections == 1 { "" } else { "s" },
            if *threads == 1 { "" } else { "s" },
        )?;
        writeln!(
            out,
            "latency in us{:>12}{:>12}{:>12}{:>12}{:>12}",
            "p50", "p90", "p99", "p99.9", "max"
        )?;
        for (name, phase) in [("SET", &self.set), ("GET", &self.get)] {
            let Latency { p50, p90, p99, p99_9, max } = phase.latency_us;
            let shown = [p50, p90, p99, p99_9, max].map(|us| microseconds((us * 1000.0) as u64));
            let columns = shown.map(|text| format!("{text:>12}")).concat();
            writeln!(out, "[{name}]        {columns}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: StormOptions,
    }

    #[test]
    fn the_report_begins_like_that_of_memstorm() {
        let set = Phase {
            successful: 10_000,
            total_seconds: 13.610_78,
            average_seconds: 0.001_361,
            ..Phase::default()
        };
        let report = Report {
            records: 10_000,
            key_bytes: 64,
            value_bytes: 10_240,
            non_blocking: false,
            tcp_nodelay: false,
            connections: 1,
            threads: 1,
            loop_kind: "closed loop",
            servers: Vec::new(),
            machine: Machine::default(),
            version: "0",
            interrupted: false,
            options: Line::try_parse_from(["storm"]).unwrap().options,
            get: set.clone(),
            set,
        };
        let expected = "Num of Records      : 10000\n\
                        Non-Blocking IO     : 0\n\
                        TCP No-Delay        : 0\n\
                        \n\
                        Successful   [SET]  : 10000\n\
                        Failed       [SET]  : 0\n\
                        Total Time   [SET]  : 13.61078s\n\
                        Average Time [SET]  : 0.00136s\n\
                        \n\
                        Successful   [GET]  : 10000\n";
        assert!(report.to_string().starts_with(expected), "{report}");
    }
}
