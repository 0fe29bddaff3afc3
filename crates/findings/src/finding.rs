//! The type of the rows, and helpers that their evaluations share.

use crate::observation::{Observation, Pressure};

/// A possible fault.
#[derive(Debug)]
pub struct Finding {
    /// The name: lower-case words joined by hyphens.
    pub name: &'static str,
    /// The figures that are evaluated, and their sources.
    pub looks_at: &'static str,
    /// The threshold, and the reason for it.
    pub threshold: &'static str,
    /// Remedies, the most effective first.
    pub remedies: &'static [&'static str],
    /// Findings that explain this one if they are found as well.
    pub explained_by: &'static [&'static str],
    /// Whether a server can evaluate this finding by itself, without requests of `nagi doctor`.
    pub from_within: bool,
    /// Evaluates the finding for an observation.
    pub evaluate: fn(&Observation) -> Evaluation,
}

/// The result of evaluating one finding.
#[derive(Clone, Debug, PartialEq)]
pub enum Evaluation {
    /// Checked, without a fault.
    Healthy,
    /// The evidence does not suffice; contains what would be needed.
    Unknown(String),
    /// Worth knowing, but no fault.
    Notice(Evidence),
    /// A fault.
    Found(Evidence),
}

/// The evidence for a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// One or two sentences, with the relevant numbers.
    pub verdict: String,
    /// All numbers, each with its name.
    pub numbers: Vec<(String, String)>,
}

impl Evidence {
    pub(crate) fn new(verdict: String) -> Self {
        Evidence { verdict, numbers: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.numbers.push((name.to_owned(), value.to_string()));
        self
    }
}

/// Whether this program itself was so late that no delay can be attributed to the server.
#[must_use]
pub fn is_late(observation: &Observation) -> bool {
    const LATE_US: u64 = 20_000;
    const MAX_LATE_SHARE: f64 = 0.05;
    observation.probes.own_delays.share_from(LATE_US) > MAX_LATE_SHARE
}

/// Whether some requests took much longer than undisturbed ones: at least `least_us`, and at least
/// five times as long as the quickest 5 %. Even most requests may be disturbed.
pub(crate) fn is_delayed(observation: &Observation, least_us: u64) -> bool {
    let (pings, own) = (&observation.probes.pings, &observation.probes.own_delays);
    let Some(quick) = pings.quantile_us(0.05) else { return false };
    let least_us = least_us.max(quick.saturating_mul(5));
    // A single slow request is compared with the longest delay of this host; many slow requests are
    // compared with the host's frequent delays.
    let longest = pings.max_us();
    let is_long =
        longest >= Some(least_us) && longest > own.max_us().map(|it| it.saturating_mul(2));
    let share = pings.share_from(least_us);
    // The factor is above two because a round trip wakes two threads.
    let are_many = share >= 0.01 && share > 3.0 * own.share_from(least_us);
    !is_late(observation) && (is_long || are_many)
}

/// Describes the period in which events were counted.
pub(crate) fn in_time(observation: &Observation) -> String {
    format!("in {:.0} s", observation.seconds)
}

/// Describes the events of the server's latency monitor whose kinds begin with `prefix`.
pub(crate) fn logged(observation: &Observation, prefix: &str) -> String {
    let events = observation.server.latency.iter().filter(|it| it.name.starts_with(prefix));
    let shown =
        events.map(|it| format!("{} {} ms at most, {} times", it.name, it.longest_ms, it.count));
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") }
}

/// Formats the share of the run for which tasks of the server's host waited for a resource.
pub(crate) fn pressure(observation: &Observation, of: fn(&Pressure) -> f64) -> String {
    let pressure = observation.host.pressure.filter(|_| observation.host.has_server);
    pressure.map_or("not counted here".to_owned(), |it| percent(of(&it)))
}

pub(crate) fn milliseconds(us: u64) -> String {
    match us {
        ..1000 => format!("{us} us"),
        1000..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", us / 1000),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

pub(crate) fn bytes(bytes: f64) -> String {
    match bytes {
        ..1e3 => format!("{bytes:.0} B"),
        ..1e6 => format!("{:.0} kB", bytes / 1e3),
        ..1e9 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} GB", bytes / 1e9),
    }
}
