//! `nagi bench`: fills, warms up, measures, reports.

mod arrival;
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
mod phases;
mod replies;
mod report;
mod requests;
mod run;
mod save;
mod search;
mod servers;
mod setup;
mod sizes;
mod slo;
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
pub use options::{Beside, BenchOptions, Protocol, Rate, Ratio};
pub use report::{Latency, Report, Window};
pub use requests::Ttl;
pub use save::Save;
pub use servers::Identity;
pub use sizes::Sizes;
pub use slo::{Objective, Slo, Trial, Verdict};
pub use timeline::Second;
pub use verified::Verified;

use crate::interrupt::Interrupt;
use phases::Measured;
use setup::Setup;

/// Runs the benchmark and writes its report.
///
/// # Errors
/// The server cannot be reached; or requests failed and `ignore_errors` is not set, or an objective
/// was not met, after the report has been written.
pub fn run(options: &BenchOptions) -> Result<(), Error> {
    if let Some(Beside::Compare(comparison)) = &options.beside {
        return compare::run(comparison);
    }
    let interrupt = Interrupt::on_signals().map_err(Error::Options)?;
    let measured = measured(options, &interrupt)?;
    outputs::write(options, &measured)?;
    verdict(options, &measured.report)
}

/// What the exit status says of a run.
fn verdict(options: &BenchOptions, report: &Report) -> Result<(), Error> {
    if let Some(verified) = report.verified.as_ref().filter(|it| it.wrong() > 0) {
        return Err(Error::Wrong(verified.wrong()));
    }
    if let Some(objective) = report.objective.as_ref().filter(|it| !it.is_met()) {
        return Err(Error::Verdict(objective.to_string()));
    }
    match report.errors {
        0 => Ok(()),
        _ if options.ignore_errors => Ok(()),
        errors => Err(Error::Failures(errors)),
    }
}

/// Runs the benchmark until its end or that which the user asks for.
///
/// # Errors
/// The server cannot be reached or the options contradict each other; failed requests are part of
/// the report.
pub fn measure(options: &BenchOptions, interrupt: &Interrupt) -> Result<Report, Error> {
    Ok(measured(options, interrupt)?.report)
}

fn measured(options: &BenchOptions, interrupt: &Interrupt) -> Result<Measured, Error> {
    if let Some(slo) = options.slo.filter(|_| options.rate.is_none()) {
        return trials::search(slo, options, interrupt);
    }
    let setup = Setup::new(options.clone())?;
    Ok(trials::judged(phases::measure(&setup, None, interrupt)?, options))
}
