//! The faults of cache servers, one row for each. A row's evaluation is a pure function of an
//! observation, which is made from outside (`nagi doctor`) or by the server itself.
//!
//! ```text
//! observation -> each row's evaluate -> found, noticed, healthy or unknown
//!                                    -> which finding explains which -> diagnosis
//! ```
//!
//! The order of the rows is their precedence: if neither of two findings explains the other, the
//! upper one is reported first.

mod connections;
mod finding;
mod memory;
mod network;
pub mod observation;
mod process;
mod requests;

use crate::observation::Observation;

pub use finding::{Evaluation, Evidence, Finding, is_late};
pub use memory::UNREAD_BYTES;

static FINDINGS: [&Finding; 22] = [
    &process::FROZEN,
    &connections::PORTS_USED_UP,
    &connections::CLIENTS_REFUSED,
    &connections::ACCEPT_QUEUE,
    &process::CPU_THROTTLED,
    &memory::SWAPPING,
    &requests::SLOW_COMMANDS,
    &process::FORK_STALL,
    &process::SLOW_DISK,
    &process::FAILED_SAVES,
    &requests::MONITOR,
    &memory::MASS_EXPIRY,
    &memory::AT_ITS_LIMIT,
    &network::NARROW_LINK,
    &network::LOSSY_LINK,
    &requests::LARGE_VALUES,
    &memory::SLOW_READER,
    &requests::HOT_KEY,
    &requests::CLIENTS_DIFFER,
    &connections::NO_KEEP_ALIVE,
    &process::ONE_THREAD_BUSY,
    &network::LONG_ROUND_TRIP,
];

/// Returns every row, in the order of precedence.
pub fn all() -> impl Iterator<Item = &'static Finding> {
    FINDINGS.iter().copied()
}

/// A fault or a notice.
#[derive(Clone, Debug)]
pub struct Diagnosed {
    /// The row.
    pub finding: &'static Finding,
    /// The evidence.
    pub evidence: Evidence,
    /// The name of the finding that explains this one; `None` if no finding does.
    pub explained_by: Option<&'static str>,
}

/// The results of all rows. Faults are in the order of precedence, but explained ones come last.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// Faults.
    pub found: Vec<Diagnosed>,
    /// Notices.
    pub noticed: Vec<Diagnosed>,
    /// Findings that were checked without a fault.
    pub healthy: Vec<&'static Finding>,
    /// Findings without enough evidence, with what would be needed.
    pub unknown: Vec<(&'static Finding, String)>,
}

impl Diagnosis {
    /// Iterates over faults and then notices, each with its label.
    pub fn findings(&self) -> impl Iterator<Item = (&'static str, &Diagnosed)> {
        let found = self.found.iter().map(|diagnosed| ("finding", diagnosed));
        found.chain(self.noticed.iter().map(|diagnosed| ("notice", diagnosed)))
    }
}

/// Evaluates every row for an observation made from outside.
#[must_use]
pub fn diagnose(observation: &Observation) -> Diagnosis {
    evaluate(observation, all())
}

/// Evaluates a server's observation of itself, with the rows that need no other observations.
#[must_use]
pub fn diagnose_from_within(observation: &Observation) -> Diagnosis {
    evaluate(observation, all().filter(|finding| finding.from_within))
}

fn evaluate(
    observation: &Observation,
    findings: impl Iterator<Item = &'static Finding>,
) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    for finding in findings {
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
