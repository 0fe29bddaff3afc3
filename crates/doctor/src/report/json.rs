//! The report as JSON, for programs.

use super::outcome::{Report, ServerReport};
use nagi_findings::observation::TcpConnections;
use nagi_findings::{Diagnosed, is_late};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct JsonReport<'a> {
    version: &'static str,
    unix_seconds: u64,
    servers: Vec<JsonServer<'a>>,
    differences: &'a [String],
}

#[derive(Serialize)]
struct JsonServer<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(flatten)]
    examined: Option<Examined<'a>>,
}

#[derive(Serialize)]
struct Examined<'a> {
    server: &'a str,
    seconds: f64,
    found: Vec<JsonFinding<'a>>,
    noticed: Vec<JsonFinding<'a>>,
    well: Vec<&'static str>,
    /// The missing evidence, by name of the finding.
    unknown: BTreeMap<&'static str, &'a str>,
    unseen: &'a [String],
    round_trips: RoundTrips,
    /// TCP's counts on connections with the server that cross a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp: Option<Tcp>,
    /// The doctor's own failed connections, by reason.
    failed_connections: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    name: &'static str,
    verdict: &'a str,
    /// Names and values, in the order of the evidence.
    evidence: &'a [(String, String)],
    remedies: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    explained_by: Option<&'static str>,
}

#[derive(Serialize)]
struct RoundTrips {
    count: usize,
    min_us: Option<u64>,
    median_us: Option<u64>,
    p99_us: Option<u64>,
    max_us: Option<u64>,
    own_delay_us: u64,
    /// Whether this host was too slow to attribute delays to a server.
    was_late: bool,
}

#[derive(Serialize)]
struct Tcp {
    connections: u64,
    segments: u64,
    retransmitted: u64,
    duplicates: u64,
    least_round_trip_us: Option<u64>,
    round_trip_us: Option<u64>,
}

impl From<&TcpConnections> for Tcp {
    fn from(seen: &TcpConnections) -> Self {
        Tcp {
            connections: seen.connections,
            segments: seen.segments,
            retransmitted: seen.retransmitted,
            duplicates: seen.duplicates,
            least_round_trip_us: seen.least_round_trip_us,
            round_trip_us: seen.round_trip_us,
        }
    }
}

impl Report {
    /// # Errors
    /// The report cannot be serialized; the error is one line.
    pub(crate) fn to_json(&self) -> Result<String, String> {
        let written = JsonReport {
            version: env!("CARGO_PKG_VERSION"),
            unix_seconds: self.unix_seconds,
            servers: self.servers.iter().map(json_server).collect(),
            differences: &self.differences,
        };
        let text = serde_json::to_string_pretty(&written).map_err(|error| error.to_string())?;
        Ok(text + "\n")
    }
}

fn json_server(server: &ServerReport) -> JsonServer<'_> {
    let examined = server.examined.as_ref().ok().map(|(observation, diagnosis)| {
        let pings = &observation.probes.pings;
        let failures = observation.probes.failures.iter();
        Examined {
            server: &observation.server.name,
            seconds: observation.seconds,
            found: diagnosis.found.iter().map(json_finding).collect(),
            noticed: diagnosis.noticed.iter().map(json_finding).collect(),
            well: diagnosis.healthy.iter().map(|finding| finding.name).collect(),
            unknown: diagnosis.unknown.iter().map(|(it, needed)| (it.name, &**needed)).collect(),
            unseen: &observation.unseen,
            round_trips: RoundTrips {
                count: pings.count(),
                min_us: pings.min_us(),
                median_us: pings.quantile_us(0.5),
                p99_us: pings.quantile_us(0.99),
                max_us: pings.max_us(),
                own_delay_us: observation.probes.own_delays.max_us().unwrap_or(0),
                was_late: is_late(observation),
            },
            tcp: observation.host.tcp.as_ref().map(Tcp::from),
            failed_connections: failures.map(|(why, count)| (why.name(), *count)).collect(),
        }
    });
    JsonServer {
        url: &server.url,
        error: server.examined.as_ref().err().map(String::as_str),
        examined,
    }
}

fn json_finding(diagnosed: &Diagnosed) -> JsonFinding<'_> {
    JsonFinding {
        name: diagnosed.finding.name,
        verdict: &diagnosed.evidence.verdict,
        evidence: &diagnosed.evidence.numbers,
        remedies: diagnosed.finding.remedies,
        explained_by: diagnosed.explained_by,
    }
}
