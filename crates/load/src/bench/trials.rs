//! `--slo`: tries one rate after another, or checks the given rate.
//!
//! A trial is a separate run in an open loop. It opens new connections, so that it is not affected
//! by the previous trial. It ends early when too many requests were too slow for the objective to
//! be met. Keys are filled only before the first trial.

use std::io::{IsTerminal, Write};

use super::error::Error;
use super::options::{BenchOptions, Rate};
use super::phases::{self, Measured};
use super::search::{self, Bounds, Step};
use super::setup::{DEFAULT_SECONDS, Setup};
use super::slo::{Objective, Slo, Trial, Verdict};
use super::timeline::GiveUp;
use crate::interrupt::Interrupt;
use crate::text::{grouped, microseconds};

/// The first rate of a search, in requests per second.
const FIRST_RATE: f64 = 1000.0;

/// The highest rate that is tried.
const MAX_RATE: f64 = 1e7;

/// Maximum length in seconds to which a trial is extended to get enough requests beyond the
/// percentile.
const LONGEST_SECONDS: f64 = 60.0;

/// The length of the confirming trial, as a multiple of the other trials' length.
const CONFIRMATION: f64 = 3.0;

/// Measures once, or repeatedly in a search for the highest rate.
///
/// # Errors
/// The options contradict each other, or the server cannot be reached.
pub(crate) fn measured(options: &BenchOptions, interrupt: &Interrupt) -> Result<Measured, Error> {
    if let Some(slo) = options.slo.filter(|_| options.rate.is_none()) {
        return search(slo, options, interrupt);
    }
    let setup = Setup::new(options.clone())?;
    Ok(judged(phases::measure(&setup, None, interrupt)?, options))
}

/// Finds the highest rate at which the objective holds. The report is the report of the last trial.
///
/// # Errors
/// The options contradict each other, or the server cannot be reached.
fn search(slo: Slo, options: &BenchOptions, interrupt: &Interrupt) -> Result<Measured, Error> {
    if options.requests.is_some() || options.bgsave_after_seconds.is_some() {
        let why = "a search for --slo excludes --requests and --bgsave-after-seconds; give a \
                   --rate to check that rate only";
        return Err(Error::Options(why.to_owned()));
    }
    let seconds = options.seconds.unwrap_or(DEFAULT_SECONDS);
    let mut options = options.clone();
    options.seconds = Some(seconds);
    let at_least = options.slo_at_least;
    let told = slo.least_requests() / LONGEST_SECONDS.max(seconds);
    let first = at_least.unwrap_or(FIRST_RATE).max(told);
    let least = at_least.unwrap_or(told).max(told);
    let shown = !options.quiet && (options.timeline || std::io::stderr().is_terminal());
    options.quiet |= !options.timeline;
    let mut trials = Trials {
        slo,
        setup: Setup::new(options)?,
        seconds,
        shown,
        interrupt,
        tried: Vec::new(),
        last: None,
    };
    let bounds = Bounds { first, least, most: MAX_RATE };
    let rate = match search::highest(bounds, |rate, step| trials.holds(rate, step)) {
        Ok(rate) => rate,
        Err(Stop::Interrupted) => None,
        Err(Stop::Error(error)) => return Err(error),
    };
    let Some(mut measured) = trials.last else {
        return Err(Error::Options("interrupted before the first trial".to_owned()));
    };
    measured.report.objective = Some(Objective { slo, rate, at_least, trials: trials.tried });
    Ok(measured)
}

/// Adds the verdict on a run at the given rate, if there is an objective.
fn judged(mut measured: Measured, options: &BenchOptions) -> Measured {
    if let Some((slo, rate)) = options.slo.zip(options.rate) {
        let trial = trial("given", slo, rate.from.max(rate.to), &measured, options);
        let rate = (trial.verdict == Verdict::Holds).then_some(trial.rate);
        measured.report.objective =
            Some(Objective { slo, rate, at_least: None, trials: vec![trial] });
    }
    measured
}

/// Evaluates a run at `rate`.
fn trial(
    step: &'static str,
    slo: Slo,
    rate: f64,
    Measured { report, total, .. }: &Measured,
    options: &BenchOptions,
) -> Trial {
    let (found_ns, send_delay_ns) =
        (slo.percentile(&total.latencies), slo.percentile(&total.delays));
    // The verdict is certain if the percentile exceeds the limit even without the delay of the
    // load.
    let is_load_late = send_delay_ns >= slo.limit_ns() / 2
        && found_ns.saturating_sub(send_delay_ns) <= slo.limit_ns();
    let failed = report.requests == 0 || (report.errors > 0 && !options.ignore_errors);
    Trial {
        step,
        rate,
        seconds: report.seconds,
        requests: report.requests,
        percentile_us: found_ns as f64 / 1e3,
        send_delay_us: send_delay_ns as f64 / 1e3,
        errors: report.errors,
        verdict: match slo.holds(&total.latencies) {
            _ if report.interrupted => Verdict::Interrupted,
            false if is_load_late => Verdict::LoadWasLate,
            false => Verdict::TooSlow,
            true if failed => Verdict::Errors,
            true => Verdict::Holds,
        },
    }
}

/// Why a search ends early.
enum Stop {
    Interrupted,
    Error(Error),
}

/// The trials of a search.
struct Trials<'a> {
    slo: Slo,
    setup: Setup,
    /// The length of a trial in seconds; a trial is longer if the percentile needs more requests.
    seconds: f64,
    shown: bool,
    interrupt: &'a Interrupt,
    tried: Vec<Trial>,
    last: Option<Measured>,
}

impl Trials<'_> {
    /// Tries a rate.
    fn holds(&mut self, rate: f64, step: Step) -> Result<bool, Stop> {
        let slo = self.slo;
        let mut seconds = self.seconds.max(slo.least_requests() / rate);
        if step == Step::Confirm {
            seconds *= CONFIRMATION;
        }
        self.setup.options.rate = Some(Rate::even(rate));
        self.setup.options.seconds = Some(seconds);
        let due = rate * seconds;
        // Poisson arrivals may exceed the expected number, so five standard deviations are added.
        let requests = due + 5.0 * due.sqrt();
        let give_up = GiveUp { slo, requests, stop: Interrupt::default() };
        let measured = phases::measure(&self.setup, Some(give_up), self.interrupt);
        let measured = measured.map_err(Stop::Error)?;
        self.setup.options.fill = false;
        let name = match step {
            Step::Search => "search",
            Step::Again => "again",
            Step::Confirm => "confirm",
        };
        let trial = trial(name, slo, rate, &measured, &self.setup.options);
        let holds = trial.verdict == Verdict::Holds;
        self.last = Some(measured);
        if self.interrupt.is_set() {
            return Err(Stop::Interrupted);
        }
        self.print_progress(&trial);
        self.tried.push(trial);
        Ok(holds)
    }

    /// Prints a line on standard error; a failure to write it does not end the run.
    fn print_progress(&self, trial: &Trial) {
        if self.shown {
            let (rate, name) = (grouped(trial.rate as u64), self.slo.name());
            let percentile = microseconds((trial.percentile_us * 1e3) as u64);
            let verdict = trial.verdict.text();
            let _ = writeln!(
                std::io::stderr(),
                "  {:<8} {rate:>12}/s   {name} {percentile:>11} us   {verdict}",
                trial.step
            );
        }
    }
}
