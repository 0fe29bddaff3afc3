//! `nagi storm`, a counterpart of memstorm: it sets all records, gets them back, and reports the
//! time.

mod options;
mod report;
mod servers;

use std::io::{self, IsTerminal};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

pub use options::StormOptions;
pub use report::{Latency, Phase, Report};

use nagi_client::cache::{Cache, Item, Settings, Stored};

use crate::bench::Identity;
use crate::clock::{SECOND, now_ns};
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::output::{OutputFile, print};
use crate::tally::{Errors, LONGEST_NS, Latencies};

/// Maximum requests in flight on a connection with -b.
const IN_FLIGHT: usize = 100;

/// Maximum bytes of values that a thread has in flight, unless a single value is larger.
const GROUP_BYTES: usize = 256 << 20;

/// The interval of progress output.
const PROGRESS: Duration = Duration::from_millis(200);

/// Width of the progress bar in columns.
const BAR: u64 = 40;

/// Measures and writes the report.
///
/// # Errors
/// The options contradict each other, a server cannot be reached or speaks another protocol, the
/// report cannot be written, or requests failed; in the last case the report has been written.
pub fn run(options: &StormOptions) -> Result<(), String> {
    options.check()?;
    let interrupt = Interrupt::on_signals()?;
    let file = options.json.as_deref().filter(|path| *path != Path::new("-"));
    let file = file.map(OutputFile::open).transpose().map_err(|error| error.to_string())?;
    let settings = options.settings()?;
    let ring = options.like.ring(options.servers.clone());
    let run = Run { options, servers: servers::identify(&ring, &settings)?, settings, interrupt };
    let mut reports = Vec::new();
    for &value_bytes in &options.value_bytes {
        reports.push(measure(&run, value_bytes)?);
        if run.interrupt.is_set() {
            break;
        }
    }
    write(options, file, &reports)?;
    let failed: u64 = reports.iter().map(|report| report.set.failed + report.get.failed).sum();
    let reasons = reports.iter().flat_map(|report| [&report.set, &report.get]);
    match reasons.flat_map(|phase| phase.errors.iter()).next() {
        Some((reason, _)) => Err(format!("{failed} requests failed, such as: {reason}")),
        None => Ok(()),
    }
}

/// The state shared by the runs with different value sizes.
struct Run<'a> {
    options: &'a StormOptions,
    servers: Vec<Identity>,
    settings: Settings,
    interrupt: Interrupt,
}

/// Writes the requested outputs. Text is written first, so that it appears even if the file cannot
/// be written.
fn write(
    options: &StormOptions,
    file: Option<OutputFile<'_>>,
    reports: &[Report],
) -> Result<(), String> {
    let print = |text: &str| print(text.as_bytes()).map_err(|error| error.to_string());
    let json = || serde_json::to_string_pretty(reports).map_err(|error| error.to_string());
    if options.json.is_some() && file.is_none() {
        return print(&(json()? + "\n"));
    }
    let text: Vec<String> = reports.iter().map(ToString::to_string).collect();
    print(&text.join("\n"))?;
    match file {
        None => Ok(()),
        Some(file) => file.write(&(json()? + "\n")).map_err(|error| error.to_string()),
    }
}

fn measure(run: &Run<'_>, value_bytes: usize) -> Result<Report, String> {
    let options = run.options;
    let mut random = fastrand::Rng::with_seed(value_bytes as u64);
    let value: Vec<u8> = (0..value_bytes).map(|_| random.alphanumeric() as u8).collect();
    let ring = options.like.ring(options.servers.clone());
    let mut clients: Vec<Cache> = (0..options.threads)
        .map(|thread| {
            let connections = options.connections_of(thread);
            Cache::new(ring.clone(), Settings { connections, ..run.settings.clone() })
        })
        .collect();
    let set = phase(run, "SET", &mut clients, &value, set_group)?;
    let get = phase(run, "GET", &mut clients, &value, get_group)?;
    Ok(Report {
        records: options.records,
        key_bytes: options.key_bytes,
        value_bytes,
        non_blocking: options.non_blocking,
        tcp_nodelay: options.tcp_nodelay,
        connections: options.connections,
        threads: options.threads,
        loop_kind: "closed loop",
        servers: run.servers.clone(),
        machine: Machine::this(),
        version: env!("CARGO_PKG_VERSION"),
        interrupted: run.interrupt.is_set(),
        options: options.clone(),
        set,
        get,
    })
}

/// Sends the requests for a group of keys together. Returns one result for each key.
type Group = fn(&mut Cache, &[&[u8]], &[u8]) -> Vec<Result<(), String>>;

fn set_group(cache: &mut Cache, keys: &[&[u8]], value: &[u8]) -> Vec<Result<(), String>> {
    let items: Vec<_> = keys.iter().map(|key| (*key, Item::new(value))).collect();
    let stored = cache.set_many(&items).into_iter();
    stored
        .map(|stored| match stored {
            Ok(Stored::Yes) => Ok(()),
            Ok(_) => Err("not stored".to_owned()),
            Err(failure) => Err(failure.to_string()),
        })
        .collect()
}

fn get_group(cache: &mut Cache, keys: &[&[u8]], value: &[u8]) -> Vec<Result<(), String>> {
    let found = cache.get_each(keys).into_iter();
    found
        .map(|found| match found {
            Ok(Some(found)) if found.bytes == value => Ok(()),
            Ok(Some(_)) => Err("another value was found".to_owned()),
            Ok(None) => {
                Err("not found: it was evicted, if the server has little memory".to_owned())
            }
            Err(failure) => Err(failure.to_string()),
        })
        .collect()
}

/// The counts of one thread.
struct Count {
    successful: u64,
    failed: u64,
    latencies: Latencies,
    errors: Errors,
}

fn phase(
    run: &Run<'_>,
    name: &str,
    clients: &mut [Cache],
    value: &[u8],
    group: Group,
) -> Result<Phase, String> {
    let options = run.options;
    let done = AtomicU64::new(0);
    let start_ns = now_ns();
    let (sender, receiver) = channel();
    let threads = options.threads as u64;
    let counts: Result<Vec<Count>, String> = thread::scope(|scope| {
        for (thread, client) in clients.iter_mut().enumerate() {
            let (sender, done, thread) = (sender.clone(), &done, thread as u64);
            let of = |thread: u64| {
                (u128::from(options.records) * u128::from(thread) / u128::from(threads)) as u64
            };
            let range = of(thread)..of(thread + 1);
            scope.spawn(move || {
                // The receiver outlives all threads, so sending cannot fail.
                sender.send(work(run, client, range, value, group, done)).ok();
            });
        }
        drop(sender);
        let shown = !options.quiet && io::stderr().is_terminal();
        let mut counts = Vec::new();
        loop {
            match receiver.recv_timeout(PROGRESS) {
                Ok(count) => counts.push(count?),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if shown {
                show(name, done.load(Ordering::Relaxed), options.records);
            }
        }
        if shown {
            eprint!("\r\x1b[K");
        }
        Ok(counts)
    });
    let seconds = (now_ns() - start_ns) as f64 / SECOND as f64;
    total(counts?, seconds, done.into_inner())
}

/// Sums the counts of the threads for `records` records.
fn total(counts: Vec<Count>, seconds: f64, records: u64) -> Result<Phase, String> {
    let mut phase = Phase {
        total_seconds: seconds,
        average_seconds: seconds / records.max(1) as f64,
        ..Phase::default()
    };
    let mut latencies = histogram()?;
    let mut errors = Errors::default();
    for count in counts {
        phase.successful += count.successful;
        phase.failed += count.failed;
        latencies.add(&count.latencies).map_err(|error| error.to_string())?;
        errors.add(&count.errors);
    }
    let us = |quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0;
    phase.latency_us = Latency {
        p50: us(0.5),
        p90: us(0.9),
        p99: us(0.99),
        p99_9: us(0.999),
        max: latencies.max() as f64 / 1000.0,
    };
    phase.errors = errors.by_text().clone();
    Ok(phase)
}

fn histogram() -> Result<Latencies, String> {
    Latencies::new_with_bounds(1, LONGEST_NS, 3).map_err(|error| error.to_string())
}

/// Sends the requests for the records of `range`, group by group.
fn work(
    run: &Run<'_>,
    client: &mut Cache,
    range: Range<u64>,
    value: &[u8],
    group: Group,
    done: &AtomicU64,
) -> Result<Count, String> {
    let options = run.options;
    let mut count =
        Count { successful: 0, failed: 0, latencies: histogram()?, errors: Errors::default() };
    let connections = options.connections.div_ceil(options.threads);
    let together = if options.non_blocking { connections * IN_FLIGHT } else { connections };
    let together = together.min((GROUP_BYTES / value.len().max(1)).max(1));
    let mut next = range.start;
    while next < range.end && !run.interrupt.is_set() {
        let end = range.end.min(next + together as u64);
        let keys: Vec<String> = (next..end).map(|record| options.key(record)).collect();
        let names: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let sent_ns = now_ns();
        let results = group(client, &names, value);
        let latency_ns = now_ns() - sent_ns;
        for result in results {
            count.latencies.saturating_record(latency_ns.max(1));
            match result {
                Ok(()) => count.successful += 1,
                Err(text) => {
                    count.failed += 1;
                    count.errors.count(&text, 1);
                }
            }
        }
        done.fetch_add(end - next, Ordering::Relaxed);
        next = end;
    }
    Ok(count)
}

fn show(name: &str, done: u64, records: u64) {
    let filled = (u128::from(done) * u128::from(BAR) / u128::from(records.max(1))) as usize;
    let percent = done as f64 * 100.0 / records.max(1) as f64;
    let rest = BAR as usize - filled.min(BAR as usize);
    eprint!("\r[{name}] [{}{}] {percent:.0} %", "=".repeat(filled), " ".repeat(rest));
}
