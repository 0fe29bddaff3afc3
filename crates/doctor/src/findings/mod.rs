//! What may be wrong: one row for each, and their evaluation, a pure function of what was observed.
//!
//! ```text
//! observation -> each row's evaluate -> found, noticed, healthy or not enough to say
//!                                    -> which finding explains which -> diagnosis
//! ```
//!
//! The order of the rows is their precedence: of two findings neither of which explains the other,
//! the one above is named first.

mod connections;
mod finding;
mod memory;
mod network;
mod process;
mod requests;

use crate::observation::Observation;

pub(crate) use finding::{Evaluation, Evidence, Finding, is_late};

static FINDINGS: [&Finding; 20] = [
    &process::FROZEN,
    &connections::PORTS_USED_UP,
    &connections::CLIENTS_REFUSED,
    &connections::ACCEPT_QUEUE,
    &process::CPU_THROTTLED,
    &memory::SWAPPING,
    &requests::SLOW_COMMANDS,
    &process::FORK_STALL,
    &process::SLOW_DISK,
    &requests::MONITOR,
    &memory::MASS_EXPIRY,
    &memory::AT_ITS_LIMIT,
    &network::NARROW_LINK,
    &requests::LARGE_VALUES,
    &memory::SLOW_READER,
    &requests::HOT_KEY,
    &requests::CLIENTS_DIFFER,
    &connections::NO_KEEP_ALIVE,
    &process::ONE_THREAD_BUSY,
    &network::LONG_ROUND_TRIP,
];

/// Every row, in the order of precedence.
pub(crate) fn all() -> impl Iterator<Item = &'static Finding> {
    FINDINGS.iter().copied()
}

/// A row that was found or noticed.
#[derive(Clone, Debug)]
pub(crate) struct Diagnosed {
    pub(crate) finding: &'static Finding,
    pub(crate) evidence: Evidence,
    /// The name of the finding that explains it.
    pub(crate) explained_by: Option<&'static str>,
}

/// What is wrong, the most specific first, and what is not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Diagnosis {
    pub(crate) found: Vec<Diagnosed>,
    pub(crate) noticed: Vec<Diagnosed>,
    pub(crate) healthy: Vec<&'static Finding>,
    pub(crate) unknown: Vec<(&'static Finding, String)>,
}

/// Evaluates what was observed by every row.
pub(crate) fn diagnose(observation: &Observation) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    for finding in all() {
        let diagnosed = |evidence| Diagnosed { finding, evidence, explained_by: None };
        match (finding.evaluate)(observation) {
            Evaluation::Healthy => diagnosis.healthy.push(finding),
            Evaluation::Unknown(needed) => diagnosis.unknown.push((finding, needed)),
            Evaluation::Notice(evidence) => diagnosis.noticed.push(diagnosed(evidence)),
            Evaluation::Found(evidence) => diagnosis.found.push(diagnosed(evidence)),
        }
    }
    let names: Vec<&str> = diagnosis.found.iter().map(|it| it.finding.name).collect();
    for diagnosed in diagnosis.found.iter_mut().chain(&mut diagnosis.noticed) {
        let mut causes = diagnosed.finding.explained_by.iter();
        diagnosed.explained_by = causes.find(|cause| names.contains(*cause)).copied();
    }
    diagnosis.found.sort_by_key(|diagnosed| diagnosed.explained_by.is_some());
    diagnosis
}

#[cfg(test)]
mod tests;
