//! The phases of one run: connecting, filling, warming up and measuring.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::thread;

use fastrand::Rng;

use super::error::Error;
use super::hdr::Log;
use super::options::BenchOptions;
use super::report::Report;
use super::run::{Plan, Run, Work};
use super::save::{Save, Watch};
use super::servers::Identity;
use super::setup::Setup;
use super::timeline::{GiveUp, Phase, Timeline};
use super::worker::Worker;
use crate::clock::{SECOND, now_ns};
use crate::interrupt::Interrupt;
use crate::pace::{Curve, Share, Timetable};
use crate::tally::{Errors, Tally};

/// Maximum bytes that filling keeps in flight on one connection, and the maximum number of
/// requests.
const FILL_BYTES: usize = 256 * 1024;
const FILL_DEPTH: usize = 64;

/// Time for the threads to start before the first paced request is due, in nanoseconds.
const HEAD_START_NS: u64 = 2_000_000;

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) report: Report,
    /// The merged counts of all threads, from which the report is made.
    pub(crate) total: Tally,
    /// Histograms of each second, if requested.
    pub(crate) log: Option<Log>,
}

/// Connects, fills and measures. Ends early when the objective of `give_up` has certainly been
/// missed.
pub(crate) fn measure(
    setup: &Setup,
    give_up: Option<GiveUp>,
    interrupt: &Interrupt,
) -> Result<Measured, Error> {
    let options = &setup.options;
    let identities = identify(setup, interrupt)?;
    let (mut workers, mut errors) = connect(setup, interrupt)?;
    let shown = !options.quiet && (options.timeline || io::stderr().is_terminal());
    let mut timeline = Timeline::new(shown).map_err(io::Error::other)?;
    if options.hdr_log.is_some() {
        timeline.keep_log();
    }
    if options.fill {
        let start_ns = now_ns();
        timeline.begin(Phase::Fill { keys: options.keys }, start_ns, u64::MAX);
        let plan = fill_plan(setup, start_ns, interrupt);
        carry_out(&plan, &mut workers, &mut timeline)?;
        if interrupt.is_set() {
            return Err(Error::Unjudged("interrupted before all keys were filled".to_owned()));
        }
    }
    let mut plan = measure_plan(options, interrupt);
    if let Some(give_up) = give_up {
        plan.stop = give_up.stop.clone();
        timeline.give_up(give_up);
    }
    if options.rate.is_none() {
        timeline.print_line("  closed loop: a connection sends when its last replies have arrived");
    }
    timeline.begin(Phase::Measure, plan.measure_ns, plan.end_ns);
    let save = carry_out_during_save(setup, &plan, &mut workers, &mut timeline)?;
    errors.add(timeline.errors());
    let save = save.map_err(|error| errors.count(&error, 1)).unwrap_or_default();
    let report = Report::new(options, identities, &plan, &timeline, &errors, save);
    Ok(Measured { report, total: timeline.total().clone(), log: timeline.log().cloned() })
}

fn identify(setup: &Setup, interrupt: &Interrupt) -> Result<Vec<Identity>, Error> {
    let patience = setup.options.reply_timeout_seconds;
    let identities = setup.servers.iter().map(|server| server.identify(interrupt, patience));
    identities.collect::<Result<_, _>>().map_err(Error::Unreachable)
}

/// Opens the connections of all workers; each thread opens its own.
fn connect(setup: &Setup, interrupt: &Interrupt) -> Result<(Vec<Worker>, Errors), Error> {
    let BenchOptions { connections, threads, seed, .. } = setup.options;
    let (connections, threads) = (u64::from(connections), u64::from(threads));
    let mut seeds = Rng::with_seed(seed.unwrap_or_default());
    let mut workers = Vec::new();
    for first in 0..threads {
        let share = Share { first, stride: threads, len: (connections - first).div_ceil(threads) };
        let servers = Arc::clone(&setup.servers);
        let (load, keys) = (setup.load.clone(), setup.keys_of(share));
        workers.push(Worker::new(share, servers, load, keys, seeds.fork())?);
    }
    on_each_worker(&mut workers, |worker| worker.connect(interrupt))?;
    let mut errors = Errors::default();
    for worker in &workers {
        errors.add(worker.failures());
    }
    if !workers.iter().any(Worker::is_connected) {
        let reasons: Vec<_> = errors.by_text().keys().cloned().collect();
        return Err(Error::Unreachable(reasons.join("; ")));
    }
    Ok((workers, errors))
}

/// Runs `plan`, with a save of the server if the options request one. Returns the outcome of the
/// save, or the reason why it failed.
fn carry_out_during_save(
    setup: &Setup,
    plan: &Plan,
    workers: &mut [Worker],
    timeline: &mut Timeline,
) -> io::Result<Result<Option<Save>, String>> {
    let options = &setup.options;
    let marked = plan.marks.as_deref().zip(options.bgsave_after_seconds);
    let Some(((marks, after), server)) = marked.zip(setup.servers.first()) else {
        return carry_out(plan, workers, timeline).map(|()| Ok(None));
    };
    let watch = Watch {
        server,
        marks,
        measure_ns: plan.measure_ns,
        margin_ns: nanoseconds(after),
        is_last: options.seconds.is_none() && options.requests.is_none(),
        end_ns: plan.end_ns,
        shown: timeline.shown(),
        interrupt: &plan.interrupt,
        load_ended: Interrupt::default(),
    };
    thread::scope(|scope| {
        let save = scope.spawn(|| watch.follow());
        let carried_out = carry_out(plan, workers, timeline);
        watch.load_ended.set();
        carried_out?;
        let panicked = |_| io::Error::other("the thread that asks for the save panicked");
        Ok(save.join().map_err(panicked)?.map(Some))
    })
}

/// Runs `work` for each worker on a separate thread.
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
        // The closure takes ownership of the sender: dropping it ends the timeline.
        let load = scope.spawn(move || {
            on_each_worker(workers, |worker| Run::new(worker, plan, &sender)?.drive())
        });
        timeline.follow(&receiver, threads);
        load.join().unwrap_or_else(|_| Err(io::Error::other("a load thread panicked")))
    })
}

fn fill_plan(setup: &Setup, start_ns: u64, interrupt: &Interrupt) -> Plan {
    let options = &setup.options;
    Plan {
        work: Work::Fill { keys: options.keys },
        depth: (FILL_BYTES / setup.longest.max(1)).clamp(1, FILL_DEPTH),
        measure_ns: start_ns,
        end_ns: u64::MAX,
        budget: None,
        timetable: None,
        reply_timeout_ns: nanoseconds(options.reply_timeout_seconds),
        marks: None,
        reconnect_every: None,
        interrupt: interrupt.clone(),
        stop: Interrupt::default(),
    }
}

pub(crate) fn measure_plan(options: &BenchOptions, interrupt: &Interrupt) -> Plan {
    let start_ns = now_ns() + if options.rate.is_some() { HEAD_START_NS } else { 0 };
    let measure_ns = start_ns + nanoseconds(options.warmup_seconds);
    let mut end_ns = options.seconds.map_or(u64::MAX, |seconds| measure_ns + nanoseconds(seconds));
    let timetable = options.rate.map(|rate| {
        let curve = match rate.is_even() {
            true => Curve::even(rate.to),
            false => Curve::ramp(rate.from, rate.to, end_ns - measure_ns),
        };
        let begun_by = |at_ns: u64| curve.requests_by((at_ns - start_ns) as f64).ceil() as u64;
        let mut requests = u64::MAX;
        let limit = options.requests.map(|limit| begun_by(measure_ns).saturating_add(limit));
        if let Some(limit) = limit.filter(|limit| *limit < begun_by(end_ns)) {
            // With a limited number of requests, the run ends when all are answered, not at a given
            // time.
            (requests, end_ns) = (limit, u64::MAX);
        }
        Timetable {
            start_ns,
            curve,
            arrivals: options.arrivals,
            connections: options.connections.into(),
            requests,
            end_ns,
            seed: options.seed.unwrap_or_default(),
        }
    });
    Plan {
        work: Work::Load,
        depth: options.pipeline as usize,
        measure_ns,
        end_ns,
        budget: options.requests.map(|requests| Arc::new(AtomicU64::new(requests))),
        timetable,
        reply_timeout_ns: nanoseconds(options.reply_timeout_seconds),
        marks: options.bgsave_after_seconds.map(|_| Arc::default()),
        reconnect_every: options.reconnect_every,
        interrupt: interrupt.clone(),
        stop: Interrupt::default(),
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * SECOND as f64) as u64
}
