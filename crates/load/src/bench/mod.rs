//! `nagi bench`: fills a server, warms it up, measures it under load and reports the results.

mod arrival;
mod chart;
mod cluster;
mod command;
mod compare;
mod error;
mod hdr;
mod keys;
mod ledger;
mod mix;
mod names;
mod options;
mod outputs;
mod page;
mod phases;
mod protocol;
mod replies;
mod report;
mod requests;
mod run;
#[cfg(test)]
mod sample_run;
mod save;
mod search;
mod servers;
mod setup;
mod sizes;
mod slo;
mod splits;
mod sweep;
mod sweeps;
mod timeline;
mod trace;
mod trials;
mod values;
mod verified;
mod worker;

pub use command::Command;
pub use compare::Comparison;
pub use error::Error;
pub use keys::Distribution;
pub use options::{BenchOptions, Beside, Rate, Ratio};
pub use protocol::Protocol;
pub use report::{Latency, Report, Window};
pub use requests::Ttl;
pub use save::Save;
pub use servers::Identity;
pub use sizes::Sizes;
pub use slo::{Objective, Slo, Trial, Verdict};
pub use sweep::Sweep;
pub use sweeps::{Swept, SweptRun};
pub use timeline::Second;
pub use verified::Verified;

use crate::interrupt::Interrupt;
use outputs::Outputs;

/// Runs the benchmark and writes its report, or compares saved ones.
///
/// # Errors
/// The server cannot be reached; or requests failed and `ignore_errors` is not set, replies were
/// wrong, or an objective was not met, after the report has been written.
pub fn run(options: &BenchOptions) -> Result<(), Error> {
    if let Some(Beside::Compare(comparison)) = &options.beside {
        return compare::run(comparison);
    }
    let interrupt = Interrupt::on_signals().map_err(Error::Options)?;
    let outputs = Outputs::open(options)?;
    if let Some(sweep) = &options.sweep {
        let swept = sweeps::measure(sweep, options, &interrupt)?;
        outputs.write_sweep(&swept)?;
        return swept.runs.iter().try_for_each(|run| verdict(options, &run.report));
    }
    let measured = trials::measured(options, &interrupt)?;
    outputs.write(&measured)?;
    verdict(options, &measured.report)
}

/// Determines the exit status of a run.
fn verdict(options: &BenchOptions, report: &Report) -> Result<(), Error> {
    if let Some(verified) = report.verified.as_ref().filter(|it| it.wrong() > 0) {
        return Err(Error::Wrong(verified.wrong()));
    }
    if let Some(objective) = report.objective.as_ref().filter(|it| !it.is_met()) {
        let is_judged = objective.is_judged() && !report.interrupted;
        let told = if is_judged { Error::Verdict } else { Error::Unjudged };
        return Err(told(objective.to_string()));
    }
    match report.errors {
        0 => Ok(()),
        _ if options.ignore_errors => Ok(()),
        errors => Err(Error::Failures(errors)),
    }
}

/// Measures once, or repeatedly in the search for an objective, until the measurement is complete
/// or interrupted.
///
/// # Errors
/// The server cannot be reached or the options contradict each other; failed requests are part of
/// the report.
pub fn measure(options: &BenchOptions, interrupt: &Interrupt) -> Result<Report, Error> {
    Ok(trials::measured(options, interrupt)?.report)
}
