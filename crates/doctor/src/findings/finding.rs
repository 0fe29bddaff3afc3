//! What a row of the table is, and what rows share.

use crate::observation::Observation;

/// Something that may be wrong.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) name: &'static str,
    /// What is looked at.
    pub(crate) looks_at: &'static str,
    /// From where on it is a finding, and why from there on.
    pub(crate) threshold: &'static str,
    /// What helps, the best first.
    pub(crate) remedies: &'static [&'static str],
    /// Findings that explain this one where they are found as well.
    pub(crate) explained_by: &'static [&'static str],
    pub(crate) evaluate: fn(&Observation) -> Evaluation,
}

/// The result of one row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Evaluation {
    Healthy,
    /// Not enough to say, and what would be needed.
    Unknown(String),
    /// Worth knowing, but no fault.
    Notice(Evidence),
    Found(Evidence),
}

/// Why something is found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Evidence {
    /// One sentence or two, with the numbers that matter.
    pub(crate) verdict: String,
    /// All numbers, each with its name.
    pub(crate) numbers: Vec<(String, String)>,
}

impl Evidence {
    pub(super) fn new(verdict: String) -> Self {
        Evidence { verdict, numbers: Vec::new() }
    }

    pub(super) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.numbers.push((name.to_owned(), value.to_string()));
        self
    }
}

/// Whether this program was so late that no delay can be attributed to a server.
pub(crate) fn is_late(observation: &Observation) -> bool {
    const LATE_US: u64 = 20_000;
    const MOST_LATE_SHARE: f64 = 0.05;
    observation.probes.own_delays.share_from(LATE_US) > MOST_LATE_SHARE
}

/// Whether requests took much longer than undisturbed ones at times: at least this long, and many
/// times as long as the quick ones. Most of them may be disturbed.
pub(super) fn is_delayed(observation: &Observation, least_us: u64) -> bool {
    let (pings, own) = (&observation.probes.pings, &observation.probes.own_delays);
    let Some(quick) = pings.quantile_us(0.05) else { return false };
    let least_us = least_us.max(quick.saturating_mul(5));
    // A single one is compared with the worst that this host did, and many with what it did often.
    let longest = pings.max_us();
    let is_long =
        longest >= Some(least_us) && longest > own.max_us().map(|it| it.saturating_mul(2));
    let share = pings.share_from(least_us);
    // A round trip wakes two threads.
    let are_many = share >= 0.01 && share > 3.0 * own.share_from(least_us);
    !is_late(observation) && (is_long || are_many)
}

pub(super) fn milliseconds(us: u64) -> String {
    match us {
        ..1000 => format!("{us} us"),
        1000..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", us / 1000),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

pub(super) fn bytes(bytes: f64) -> String {
    match bytes {
        ..1e3 => format!("{bytes:.0} B"),
        ..1e6 => format!("{:.0} kB", bytes / 1e3),
        ..1e9 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} GB", bytes / 1e9),
    }
}
