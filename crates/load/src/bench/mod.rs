//! `nagi bench`: fills, warms up, measures, reports.

mod keys;
mod options;
mod report;
mod requests;
mod run;
mod save;
mod timeline;
mod worker;

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::thread;

use fastrand::Rng;
use nagi_client::Address;

pub use keys::Distribution;
pub use options::{BenchOptions, Protocol, Ratio};

use crate::clock::{SECOND, now_ns};
use crate::interrupt::Interrupt;
use crate::pace::{Share, Timetable};
use crate::tally::Errors;
use keys::Keys;
pub use report::{Latency, Report, Window};
use requests::{Requests, Shape};
use run::{Plan, Run, Work};
pub use save::Save;
use save::Watch;
pub use timeline::Second;
use timeline::{Phase, Timeline};
use worker::Worker;

/// Time measured for if nothing else is said.
const DEFAULT_SECONDS: f64 = 10.0;

/// Bytes that filling keeps in flight on one connection, and requests at most.
const FILL_BYTES: usize = 256 * 1024;
const FILL_DEPTH: usize = 64;

/// Time for the threads to start before the first paced request is due.
const HEAD_START_NS: u64 = 2_000_000;

/// Why there is no report, or why it is not reliable.
#[derive(Debug)]
pub enum Error {
    /// BenchOptions that contradict each other.
    Options(String),
    /// Not one connection could be made.
    Unreachable(String),
    /// So many requests or connections failed; the report was written.
    Failures(u64),
    /// A file, thread or event loop.
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Options(text) | Error::Unreachable(text) => out.write_str(text),
            Error::Failures(1) => out.write_str("1 error (see the report)"),
            Error::Failures(count) => write!(out, "{count} errors (see the report)"),
            Error::Io(source) => source.fmt(out),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        Error::Io(source)
    }
}

/// Runs the benchmark and writes its report.
///
/// # Errors
/// The server cannot be reached, or requests failed and `ignore_errors` is not set; in the latter
/// case the report has been written.
pub fn run(options: &BenchOptions) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals().map_err(Error::Options)?;
    let report = measure(options, &interrupt)?;
    write_report(options, &report)?;
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
    let options = resolve(options.clone())?;
    let seed = options.seed.unwrap_or_default();
    let requests = Requests::new(&Shape {
        protocol: options.protocol.into(),
        keys: options.keys,
        key_bytes: options.key_bytes,
        value_bytes: options.value_bytes,
        seed,
    })
    .map_err(Error::Options)?;
    let longest = requests.longest();
    let address = address(&options)?;
    let (mut workers, mut errors) = connect(&options, &address, &Arc::new(requests), seed)?;
    let shown = !options.quiet && (options.timeline || io::stderr().is_terminal());
    let mut timeline = Timeline::new(shown).map_err(io::Error::other)?;

    if options.fill {
        let start_ns = now_ns();
        timeline.begin(Phase::Fill { keys: options.keys }, start_ns, u64::MAX);
        let plan = fill_plan(&options, start_ns, longest, interrupt);
        carry_out(&plan, &mut workers, &mut timeline)?;
    }
    let plan = measure_plan(&options, interrupt);
    if options.rate.is_none() {
        timeline.print_line("  closed loop: a connection sends when its last replies are in");
    }
    timeline.begin(Phase::Measure, plan.measure_ns, plan.end_ns);
    let save = carry_out_during_save(&options, &address, &plan, &mut workers, &mut timeline)?;
    errors.add(timeline.errors());
    let save = save.map_err(|error| errors.count(&error, 1)).unwrap_or_default();
    Ok(Report::new(&options, &address, &plan, &timeline, &errors, save))
}

/// Carries out `plan` while the server saves, if it is to: what became of that, or why it failed.
fn carry_out_during_save(
    options: &BenchOptions,
    address: &Address,
    plan: &Plan,
    workers: &mut [Worker],
    timeline: &mut Timeline,
) -> io::Result<Result<Option<Save>, String>> {
    let Some((marks, after)) = plan.marks.as_deref().zip(options.bgsave_after_seconds) else {
        return carry_out(plan, workers, timeline).map(|()| Ok(None));
    };
    let watch = Watch {
        address,
        marks,
        measure_ns: plan.measure_ns,
        margin_ns: nanoseconds(after),
        is_last: options.seconds.is_none() && options.requests.is_none(),
        end_ns: plan.end_ns,
        shown: timeline.shown(),
    };
    thread::scope(|scope| {
        let save = scope.spawn(|| watch.follow());
        carry_out(plan, workers, timeline)?;
        let panicked = |_| io::Error::other("the thread that asks for the save panicked");
        Ok(save.join().map_err(panicked)?.map(Some))
    })
}

/// Puts what the options leave open.
pub(crate) fn resolve(mut options: BenchOptions) -> Result<BenchOptions, Error> {
    options.threads = options.threads.min(options.connections);
    options.seed.get_or_insert_with(|| Rng::with_seed(now_ns()).u64(..1 << 32));
    if options.unix.is_none() {
        options.port.get_or_insert(options.protocol.default_port());
    }
    if options.bgsave_after_seconds.is_some() && options.protocol != Protocol::Resp {
        return Err(Error::Options("memcached has no BGSAVE".to_owned()));
    }
    if options.requests.is_none() && options.bgsave_after_seconds.is_none() {
        options.seconds.get_or_insert(DEFAULT_SECONDS);
    }
    if options.seconds == Some(0.0) {
        return Err(Error::Options("--seconds is 0: nothing to measure".to_owned()));
    }
    Ok(options)
}

fn address(options: &BenchOptions) -> Result<Address, Error> {
    match &options.unix {
        Some(path) => Ok(Address::Unix(path.clone())),
        None => Address::tcp(&options.host, options.port.unwrap_or_default())
            .map_err(|error| Error::Unreachable(error.to_string())),
    }
}

/// Opens all connections, every thread its own.
fn connect(
    options: &BenchOptions,
    address: &Address,
    requests: &Arc<Requests>,
    seed: u64,
) -> Result<(Vec<Worker>, Errors), Error> {
    let (connections, threads) = (u64::from(options.connections), u64::from(options.threads));
    let mut seeds = Rng::with_seed(seed);
    let mut workers = Vec::new();
    for first in 0..threads {
        let share = Share { first, stride: threads, len: (connections - first).div_ceil(threads) };
        let keys = Keys::new(
            options.key_distribution,
            options.keys,
            (u128::from(options.keys) * u128::from(first) / u128::from(threads)) as u64,
        );
        let random = seeds.fork();
        workers.push(Worker::new(share, Arc::clone(requests), keys, random)?);
    }
    on_each_worker(&mut workers, |worker| worker.connect(address, options.protocol.into()))?;
    let mut errors = Errors::default();
    for worker in &workers {
        errors.add(worker.failures());
    }
    if workers.iter().all(|worker| worker.open_connections() == 0) {
        let reasons: Vec<_> = errors.by_text().keys().cloned().collect();
        return Err(Error::Unreachable(reasons.join("; ")));
    }
    Ok((workers, errors))
}

/// Runs `work` for each worker on a thread of its own.
fn on_each_worker(
    workers: &mut [Worker],
    work: impl Fn(&mut Worker) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(move || work(worker))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a load thread panicked")))
        })
    })
}

fn carry_out(plan: &Plan, workers: &mut [Worker], timeline: &mut Timeline) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let threads = workers.len();
        // The sender goes with the load's thread: that is what ends the timeline.
        let load = scope
            .spawn(move || on_each_worker(workers, |worker| Run::new(worker, plan, &sender)?.drive()));
        timeline.follow(&receiver, threads);
        load.join().unwrap_or_else(|_| Err(io::Error::other("a load thread panicked")))
    })
}

fn fill_plan(options: &BenchOptions, start_ns: u64, longest: usize, interrupt: &Interrupt) -> Plan {
    Plan {
        work: Work::Fill { keys: options.keys },
        depth: (FILL_BYTES / longest.max(1)).clamp(1, FILL_DEPTH),
        measure_ns: start_ns,
        end_ns: u64::MAX,
        budget: None,
        timetable: None,
        reply_timeout_ns: nanoseconds(options.reply_timeout_seconds),
        marks: None,
        interrupt: interrupt.clone(),
    }
}

pub(crate) fn measure_plan(options: &BenchOptions, interrupt: &Interrupt) -> Plan {
    let start_ns = now_ns() + if options.rate.is_some() { HEAD_START_NS } else { 0 };
    let measure_ns = start_ns + nanoseconds(options.warmup_seconds);
    let mut end_ns = options.seconds.map_or(u64::MAX, |seconds| measure_ns + nanoseconds(seconds));
    let timetable = options.rate.map(|rate| {
        let gap_ns = SECOND as f64 / rate;
        let begun_by = |at_ns: u64| ((at_ns - start_ns) as f64 / gap_ns).ceil() as u64;
        let mut requests = begun_by(end_ns);
        if let Some(limit) = options.requests.map(|limit| begun_by(measure_ns) + limit)
            && limit < requests
        {
            // The run is over when these are answered, not when its time is up.
            (requests, end_ns) = (limit, u64::MAX);
        }
        Timetable { start_ns, gap_ns, connections: options.connections.into(), requests }
    });
    Plan {
        work: Work::Mix { gets: options.ratio.gets, sets: options.ratio.sets },
        depth: options.pipeline as usize,
        measure_ns,
        end_ns,
        budget: options.requests.map(|requests| Arc::new(AtomicU64::new(requests))),
        timetable,
        reply_timeout_ns: nanoseconds(options.reply_timeout_seconds),
        marks: options.bgsave_after_seconds.map(|_| Arc::default()),
        interrupt: interrupt.clone(),
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * SECOND as f64) as u64
}

fn write_report(options: &BenchOptions, report: &Report) -> io::Result<()> {
    let json_only = options.json.as_deref() == Some(Path::new("-"));
    if let Some(path) = &options.json {
        let json = report.to_json()?;
        if json_only {
            io::stdout().lock().write_all(json.as_bytes())?;
        } else {
            std::fs::write(path, json).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?;
        }
    }
    let silent = json_only || (options.quiet && options.json.is_some());
    if !silent {
        io::stdout().lock().write_all(report.to_string().as_bytes())?;
    }
    Ok(())
}
