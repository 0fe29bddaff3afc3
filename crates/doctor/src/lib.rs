//! `nagi doctor`: diagnoses cache servers, with evidence.
//!
//! ```text
//! options -> observe (probes, readers), placement -> observation -> findings -> report
//! ```
//!
//! The types of observations, and their evaluation, are in `nagi_findings`.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod observe;
mod options;
mod placement;
mod probes;
mod readers;
mod report;

use nagi_findings::diagnose;
use nagi_findings::observation::{Observation, Placement};
use nagi_load::clock::{SECOND, now_ns};
use nagi_load::interrupt::Interrupt;
use nagi_load::output::{OutputFile, print};
use nagi_load::target::{Target, read_password};
use nagi_load::text::plain;
use report::Report;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

pub use options::DoctorOptions;

/// The exit status if a fault was found.
const FOUND: u8 = 1;
/// The exit status if no server could be observed.
const COULD_NOT_OBSERVE: u8 = 2;

/// Observes the servers, and writes the report. The exit status is 1 with a fault. Without one, it
/// is 2 if a server could not be observed or the run failed, and otherwise 0.
#[must_use]
pub fn run(options: &DoctorOptions) -> ExitCode {
    match try_run(options) {
        Ok(true) => ExitCode::from(FOUND),
        Ok(false) => ExitCode::SUCCESS,
        Err(why) => {
            // A closed standard error does not change the status.
            let _ = writeln!(std::io::stderr(), "nagi: {}", plain(&why));
            ExitCode::from(COULD_NOT_OBSERVE)
        }
    }
}

/// Runs, and returns whether there is a fault.
fn try_run(options: &DoctorOptions) -> Result<bool, String> {
    if options.list {
        return write_out(&report::list()).map(|()| false);
    }
    let password = read_password(options.password_file.as_deref())?;
    let parse = |url: &String| Target::parse(url, password.as_deref());
    let targets: Vec<Target> = options.urls.iter().map(parse).collect::<Result<_, _>>()?;
    let placement = match options.clients.as_deref() {
        Some([one, other]) => Some(placement::compare(one, other, &targets)?),
        _ => None,
    };
    let interrupt = Interrupt::on_signals()?;
    let examine = || {
        let observations = observe_all(&targets, options, &interrupt)?;
        Ok(evaluate(&targets, observations, placement.as_ref()))
    };
    if options.watch {
        return watch(examine, &interrupt, options.seconds);
    }
    // A file that cannot be written is reported before the run, because the results would be lost
    // after it.
    let is_printed = options.json.as_deref() == Some(Path::new("-"));
    let json = options.json.as_deref().filter(|_| !is_printed);
    let open = |path| OutputFile::open_private(path).map_err(|error| error.to_string());
    let json = json.map(open).transpose()?;
    let html = options.html.as_deref().map(open).transpose()?;
    let report = examine()?;
    if is_printed {
        write_out(&report.to_json()?)?;
    } else if json.is_some() || !report.has_no_observation() {
        write_out(&report.to_string())?;
    }
    if let Some(file) = json {
        file.write(&report.to_json()?).map_err(|error| error.to_string())?;
    }
    if let Some(file) = html {
        file.write(&report.to_html()).map_err(|error| error.to_string())?;
    }
    report.has_findings()
}

/// Repeats the examination until Ctrl-C. Results are reported in full when they differ from the
/// previous ones.
fn watch(
    examine: impl Fn() -> Result<Report, String>,
    interrupt: &Interrupt,
    seconds: f64,
) -> Result<bool, String> {
    let mut before = None;
    // A server that cannot be reached does not end the loop, because it may return.
    let mut outcome = Ok(false);
    while !interrupt.is_set() {
        let next_ns = now_ns() + (seconds * SECOND as f64) as u64;
        let report = examine()?;
        outcome = report.has_findings();
        let names = report.names();
        match before.as_ref() == Some(&names) {
            true => write_out(&format!("{} as before: {names}\n", report.time()))?,
            false => write_out(&format!("{}\n{report}", report.time()))?,
        }
        before = Some(names);
        // If a server cannot be reached, the run ends early; the pause keeps the interval.
        let _ = interrupt.sleep_until(next_ns);
    }
    outcome
}

/// The observation of each server, or why the server could not be observed.
type Observations = Vec<Result<Observation, String>>;

/// Observes all servers concurrently.
fn observe_all(
    targets: &[Target],
    options: &DoctorOptions,
    interrupt: &Interrupt,
) -> Result<Observations, String> {
    let progress = Progress::start(options);
    let observations = std::thread::scope(|scope| {
        let threads: Vec<_> = targets
            .iter()
            .map(|target| scope.spawn(move || observe::observe(target, options, interrupt)))
            .collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.collect::<Result<_, _>>()
    });
    progress.stop();
    observations.map_err(|_| "a thread of nagi doctor failed".to_owned())
}

fn evaluate(
    targets: &[Target],
    observations: Observations,
    placement: Option<&Placement>,
) -> Report {
    let servers = targets.iter().zip(observations).map(|(target, observed)| {
        let examined = observed.and_then(|mut observation| {
            observation.placement = placement.cloned();
            let diagnosis = diagnose(&observation);
            if diagnosis.found.is_empty() && is_empty(&observation) {
                let why = observation.unseen.first().cloned();
                return Err(why.unwrap_or_else(|| format!("{}: no answer", target.name)));
            }
            Ok((observation, diagnosis))
        });
        (target.name.clone(), examined)
    });
    Report::new(servers.collect())
}

/// Whether the observation contains neither a connection nor an answer.
fn is_empty(observation: &Observation) -> bool {
    let (probes, counters) = (&observation.probes, &observation.server.counters);
    let answers = probes.pings.count() + probes.connects.count();
    answers == 0 && counters.before.is_empty() && counters.after.is_empty()
}

fn write_out(text: &str) -> Result<(), String> {
    print(text.as_bytes()).map_err(|error| error.to_string())
}

/// A progress line on standard error, shown if that is a terminal.
struct Progress {
    end: Interrupt,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Progress {
    fn start(options: &DoctorOptions) -> Self {
        let end = Interrupt::default();
        let (until, seconds) = (end.clone(), options.seconds);
        let is_shown = !options.quiet && std::io::stderr().is_terminal();
        let thread = is_shown.then(|| std::thread::spawn(move || show(seconds, &until)));
        Progress { end, thread }
    }

    fn stop(self) {
        self.end.set();
        if let Some(thread) = self.thread {
            // A failure to show progress does not affect the run.
            let _ = thread.join();
        }
    }
}

fn show(seconds: f64, until: &Interrupt) {
    let start_ns = now_ns();
    let mut out = std::io::stderr();
    loop {
        let passed = (now_ns() - start_ns) as f64 / 1e9;
        let _ = write!(out, "\r  looks for {:.0} of {seconds} s ", passed.min(seconds));
        if until.sleep_until(now_ns() + SECOND / 2).is_err() {
            let _ = write!(out, "\r\x1b[K");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_findings::observation::{Failure, Probes};

    #[test]
    fn a_server_that_was_not_observed_is_not_healthy() {
        let targets = [Target::parse("redis://127.0.0.1:1", None).unwrap()];
        let evaluated = |observation| evaluate(&targets, vec![Ok(observation)], None);
        let unseen = Observation { unseen: vec!["timed out".to_owned()], ..<_>::default() };
        assert_eq!(evaluated(unseen).has_findings(), Err("timed out".to_owned()));
        assert!(evaluated(Observation::default()).has_findings().is_err());
        let probes = Probes { failures: [(Failure::NoPort, 3)].into(), ..<_>::default() };
        let found = Observation { probes, ..<_>::default() };
        assert_eq!(evaluated(found).has_findings(), Ok(true));
    }
}
