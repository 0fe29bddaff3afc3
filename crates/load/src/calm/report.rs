//! The results of a run, as a table for a terminal and as JSON.

use std::fmt::{self, Write as _};

use serde::Serialize;

use super::probe::{LOST_NS, ProbeResult};
use super::scale::Scale;
use super::stops::Stops;
use crate::clock::SECOND;
use crate::tally::Latencies;
use crate::text::{microseconds, plain};

/// Figures are void if the machine or this process stalled for more than this share of the time.
const VOID_SHARE: f64 = 0.01;

/// The whole report.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) version: &'static str,
    /// Requests per second of the probe, and the number of its connections.
    pub(crate) rate: f64,
    pub(crate) connections: u32,
    pub(crate) quick: bool,
    /// Why the run ended before its last row.
    pub(crate) incomplete: Option<String>,
    pub(crate) scale: Scale,
    pub(crate) servers: Vec<Results>,
}

/// The results of one server.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    /// Name and version, such as `Valkey 9.1.0`.
    pub(crate) name: String,
    /// The URL without its password.
    pub(crate) url: String,
    pub(crate) quiet: Figures,
    pub(crate) rows: Vec<Row>,
}

/// The result of one disturbance of one server.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// The outcome of a disturbance.
#[derive(Debug, Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// The figures, and their ratios to the quiet phase.
    Measured { figures: Figures, ratios: Ratios },
    /// The machine or this process stalled for too long to judge the server.
    Void { figures: Figures, reason: String },
    /// The disturbance is impossible or not allowed on this server.
    NotApplicable { reason: String },
    /// The disturbance failed unexpectedly.
    Failed { reason: String },
}

/// The measurements of a probe, without the time in which the machine or this process stalled.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) seconds: f64,
    pub(crate) requests: u64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p99_9_us: f64,
    pub(crate) max_us: f64,
    /// Requests unanswered for ten seconds. The latencies above count them with ten seconds.
    pub(crate) lost: u64,
    /// Error replies, such as refusals for lack of memory.
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    /// Percentage of the time in which the machine or this process stalled.
    pub(crate) stopped_percent: f64,
    /// 99.9th percentile of the idle server's concurrent probe, in microseconds; includes stalls.
    pub(crate) idle_p99_9_us: f64,
    pub(crate) idle_max_us: f64,
    /// Pairs of a quantile and the latency in microseconds that this share of requests did not
    /// exceed.
    pub(crate) distribution: Vec<(f64, f64)>,
}

/// Latencies as multiples of those of the quiet phase.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Ratios {
    pub(crate) p99: f64,
    pub(crate) p99_9: f64,
    pub(crate) max: f64,
}

impl Figures {
    /// Computes the figures from a server's probe and the idle server's concurrent probe.
    pub(crate) fn new(seen: &ProbeResult, idle: &ProbeResult) -> Self {
        let stops = seen.own_stops.clone().joined(&idle.as_stops());
        let latencies = seen.latencies(&stops);
        let idle_latencies = idle.latencies(&Stops::default());
        let ns = seen.end_ns.saturating_sub(seen.start_ns).max(1);
        let us = |ns: u64| ns as f64 / 1e3;
        Figures {
            seconds: ns as f64 / SECOND as f64,
            requests: latencies.len(),
            p50_us: us(latencies.value_at_quantile(0.5)),
            p99_us: us(latencies.value_at_quantile(0.99)),
            p99_9_us: us(latencies.value_at_quantile(0.999)),
            max_us: us(latencies.max()),
            lost: seen.lost,
            errors: seen.errors,
            first_error: seen.first_error.clone(),
            stopped_percent: stops.within_ns(seen.start_ns, seen.end_ns) as f64 / ns as f64 * 100.0,
            idle_p99_9_us: us(idle_latencies.value_at_quantile(0.999)),
            idle_max_us: us(idle_latencies.max()),
            distribution: distribution(&latencies),
        }
    }

    pub(crate) fn is_void(&self) -> bool {
        self.stopped_percent > VOID_SHARE * 100.0
    }

    /// Returns the reason why the figures are void.
    fn void_reason(&self) -> String {
        format!("the machine or this tool stalled for {:.1} % of the time", self.stopped_percent)
    }
}

/// Returns the quantiles for a plot; their distances from 1 form a geometric series.
fn distribution(latencies: &Latencies) -> Vec<(f64, f64)> {
    let quantiles = (0..=20).map(|step| 1.0 - 10_f64.powf(-f64::from(step) / 4.0));
    quantiles.map(|share| (share, latencies.value_at_quantile(share) as f64 / 1e3)).collect()
}

impl Outcome {
    pub(crate) fn of(figures: Figures, quiet: &Figures) -> Self {
        if figures.is_void() {
            let reason = figures.void_reason();
            return Outcome::Void { figures, reason };
        }
        let ratio = |now: f64, before: f64| now / before.max(0.001);
        let ratios = Ratios {
            p99: ratio(figures.p99_us, quiet.p99_us),
            p99_9: ratio(figures.p99_9_us, quiet.p99_9_us),
            max: ratio(figures.max_us, quiet.max_us),
        };
        Outcome::Measured { figures, ratios }
    }

    /// Returns the figures, if the outcome has valid ones.
    pub(crate) fn figures(&self) -> Option<&Figures> {
        match self {
            Outcome::Measured { figures, .. } => Some(figures),
            _ => None,
        }
    }
}

impl Report {
    pub(crate) fn to_json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(self)
            .map(|text| text + "\n")
            .map_err(|error| error.to_string())
    }
}

/// A latency in microseconds, formatted in a suitable unit.
pub(crate) fn time(us: f64) -> String {
    if us >= LOST_NS as f64 / 1e3 {
        return "> 10 s".to_owned();
    }
    microseconds((us * 1e3) as u64)
}

/// Formats a ratio as a multiple.
pub(crate) fn multiple(ratio: f64) -> String {
    if ratio < 100.0 { format!("{ratio:.1} x") } else { format!("{ratio:.0} x") }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for results in &self.servers {
            results.write(out)?;
        }
        if let Some(reason) = &self.incomplete {
            write!(out, "\nincomplete: the run ended early: {}\n", plain(reason))?;
        }
        write!(
            out,
            "\nus: microseconds; {}/s over {} connections, timed from when they were due\n\
             ratios are to the quiet phase; idle max: the slowest answer of an idle server at the \
             same time\nlost: no answer within 10 s\n",
            self.rate, self.connections
        )
    }
}

impl Results {
    fn write(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "\n{} at {}\n", plain(&self.name), plain(&self.url))?;
        writeln!(
            out,
            "  {:<18} {:>8} {:>9} {:>8} {:>9} {:>8} {:>9} {:>8} {:>9} {:>5} {:>9}",
            "us", "p50", "p99", "", "p99.9", "", "slowest", "", "idle max", "lost", "errors"
        )?;
        let quiet = if self.quiet.is_void() { "quiet (void)" } else { "quiet" };
        line(out, quiet, &self.quiet, None)?;
        if self.quiet.is_void() {
            writeln!(out, "  {:<18} void: {}", "", self.quiet.void_reason())?;
        }
        for row in &self.rows {
            match &row.outcome {
                Outcome::Measured { figures, ratios } => {
                    line(out, row.name, figures, Some(ratios))?;
                }
                Outcome::Void { reason, .. } => writeln!(out, "  {:<18} void: {reason}", row.name)?,
                Outcome::NotApplicable { reason } => {
                    writeln!(out, "  {:<18} n/a: {}", row.name, plain(reason))?;
                }
                Outcome::Failed { reason } => {
                    writeln!(out, "  {:<18} failed: {}", row.name, plain(reason))?;
                }
            }
        }
        Ok(())
    }
}

fn line(
    out: &mut fmt::Formatter<'_>,
    name: &str,
    figures: &Figures,
    ratios: Option<&Ratios>,
) -> fmt::Result {
    let ratio = |of: fn(&Ratios) -> f64| ratios.map_or(String::new(), |it| multiple(of(it)));
    let mut text = format!("  {name:<18}");
    write!(text, " {:>8}", time(figures.p50_us))?;
    write!(text, " {:>9} {:>8}", time(figures.p99_us), ratio(|it| it.p99))?;
    write!(text, " {:>9} {:>8}", time(figures.p99_9_us), ratio(|it| it.p99_9))?;
    write!(text, " {:>9} {:>8}", time(figures.max_us), ratio(|it| it.max))?;
    write!(text, " {:>9} {:>5}", time(figures.idle_max_us), figures.lost)?;
    writeln!(out, "{text} {:>9}", figures.errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(p99_9_us: f64, stopped_percent: f64) -> Figures {
        Figures { p99_9_us, max_us: p99_9_us, p99_us: 10.0, stopped_percent, ..Figures::default() }
    }

    #[test]
    fn rows_are_multiples_of_the_quiet_phase_or_void() {
        let quiet = figures(500.0, 0.0);
        let Outcome::Measured { ratios, .. } = Outcome::of(figures(1500.0, 1.0), &quiet) else {
            panic!("one percent is not void");
        };
        assert_eq!((ratios.p99_9, ratios.p99), (3.0, 1.0));
        let void = Outcome::of(figures(1500.0, 1.01), &quiet);
        assert!(matches!(&void, Outcome::Void { reason, .. } if reason.contains("1.0 %")));
        assert!(void.figures().is_none());
    }

    #[test]
    fn lost_requests_are_shown_without_a_time() {
        assert_eq!([time(1.5), time(10_000_000.0)], ["1.50", "> 10 s"]);
        assert_eq!([multiple(2.04), multiple(150.4)], ["2.0 x", "150 x"]);
    }

    #[test]
    fn the_table_has_three_ratios_and_says_if_rows_are_missing() {
        let quiet = Figures { p99_us: 10.0, p99_9_us: 100.0, max_us: 200.0, ..Figures::default() };
        let figures = Figures { p99_us: 25.0, p99_9_us: 300.0, max_us: 900.0, ..quiet.clone() };
        let outcome = Outcome::of(figures, &quiet);
        let failed = Outcome::Failed { reason: "ERR \x1b[2J".to_owned() };
        let rows = vec![
            Row { name: "keys", what: "KEYS *", outcome },
            Row { name: "script", what: "a script", outcome: failed },
        ];
        let results = Results { name: "nagi \x1b[31m".to_owned(), url: String::new(), quiet, rows };
        let report = Report {
            version: "1",
            rate: 5000.0,
            connections: 8,
            quick: true,
            incomplete: Some("interrupted".to_owned()),
            scale: Scale::QUICK,
            servers: vec![results],
        };
        let text = report.to_string();
        let row = text.lines().find(|line| line.contains("keys")).unwrap();
        let words: Vec<&str> = row.split_whitespace().filter(|word| *word != "x").collect();
        assert_eq!(words[2..8], ["25.00", "2.5", "300.0", "3.0", "900.0", "4.5"], "{text}");
        assert!(!text.contains('\x1b'), "{text}");
        assert!(text.contains("incomplete: the run ended early: interrupted"), "{text}");
    }
}
