//! `nagi doctor`: what is wrong with a cache server, and the evidence.
//!
//! ```text
//! options -> observe (probes, readers), placement -> observation -> findings -> report
//! ```
//!
//! What was observed and what it means is in `nagi_findings`.

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
use nagi_load::target::{Target, read_password};
use nagi_load::text::plain;
use report::Report;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

pub use options::DoctorOptions;

/// The exit status if something is wrong.
const FOUND: u8 = 1;
/// The exit status if no server could be observed.
const COULD_NOT_OBSERVE: u8 = 2;

/// Observes the servers, and writes the report. The exit status is 0 if nothing is wrong, and
/// otherwise 1 or 2.
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

/// Whether something is wrong.
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
        return watch(examine, &interrupt);
    }
    let report = examine()?;
    if options.json.is_none() && report.has_no_observation() {
        return report.has_findings();
    }
    if let Some(path) = &options.html {
        report::write_private(path, &report.to_html())?;
    }
    match &options.json {
        Some(path) if path == Path::new("-") => write_out(&report.to_json()?)?,
        Some(path) => {
            report::write_private(path, &report.to_json()?)?;
            write_out(&report.to_string())?;
        }
        None => write_out(&report.to_string())?,
    }
    report.has_findings()
}

/// Examines again and again, and reports in full what differs from before.
fn watch(
    examine: impl Fn() -> Result<Report, String>,
    interrupt: &Interrupt,
) -> Result<bool, String> {
    let mut before = None;
    let mut is_wrong = false;
    while !interrupt.is_set() {
        let report = examine()?;
        is_wrong = report.has_findings()?;
        let names = report.names();
        match before.as_ref() == Some(&names) {
            true => write_out(&format!("{} as before: {names}\n", report.time()))?,
            false => write_out(&format!("{}\n{report}", report.time()))?,
        }
        before = Some(names);
    }
    Ok(is_wrong)
}

/// What was observed of each server, or why nothing could be.
type Observations = Vec<Result<Observation, String>>;

/// Observes all servers at the same time.
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
    observations.map_err(|_| "a thread of the doctor's own broke".to_owned())
}

fn evaluate(
    targets: &[Target],
    observations: Observations,
    placement: Option<&Placement>,
) -> Report {
    let servers = targets.iter().zip(observations).map(|(target, observed)| {
        let examined = observed.map(|mut observation| {
            observation.placement = placement.cloned();
            let diagnosis = diagnose(&observation);
            (observation, diagnosis)
        });
        (target.name.clone(), examined)
    });
    Report::new(servers.collect())
}

fn write_out(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// A line on standard error that says how far the run is, if that is a terminal.
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
