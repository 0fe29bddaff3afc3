//! Counters outside the keyspace: connections, bytes, calls and errors, per worker, summed on
//! request.

use crate::state::activity::Activity;
use crate::state::histogram::{Distribution, Histogram};
use crate::state::hot_keys::{HotKeys, KeySample};
use crate::state::http_tally::{HttpTally, HttpTotals};
use crate::state::key_costs::WorkerCosts;
use crate::state::large_values::{self, LargeValue, LargeValues};
use crate::state::own_findings::OwnFindings;
use crate::state::phases::{PhaseTally, PhaseTotals};
use crate::state::rates::{Rates, Sums};
use crate::state::slow_log::CommandLogs;
use crate::state::verb_statistics::{VerbTally, VerbTotals};
use nagi_store::{Counter, ticks};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The codes of errors that are counted one by one, as in Redis: scripts can choose them.
const ERROR_CODES: usize = 128;
/// The length to which a code is truncated, in bytes.
const ERROR_CODE_BYTES: usize = 64;
/// The code under which errors with further codes are counted.
const OTHER_ERRORS: &str = "ERRORSTATS_OVERFLOW";

macro_rules! tallies {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The counters of one worker, on separate cache lines. Only that worker adds; any thread
        /// may read.
        #[derive(Debug)]
        #[repr(align(128))]
        pub struct Tally {
            $($(#[doc = $doc])+ pub $name: Counter,)+
            pub(crate) commands: Box<[CommandTally]>,
            pub(crate) verbs: VerbTally,
            /// The phases of requests.
            pub phases: PhaseTally,
            /// The longest time for which one connection, or the worker's own duties, occupied the
            /// worker.
            pub longest_slice: Longest,
            /// An upper bound for its running time during that.
            pub longest_slice_on_cpu: Longest,
            /// The longest time for which passing replies to the kernel occupied the worker.
            pub longest_send: Longest,
            /// The most frequent keys of its requests.
            pub hot_keys: HotKeys,
            /// The largest values of its requests.
            pub large_values: LargeValues,
            /// The cost of requests by keys, during a HOTKEYS session.
            pub(crate) key_costs: WorkerCosts,
            errors: Mutex<BTreeMap<String, u64>>,
        }

        /// The sum over all workers since the last reset.
        #[derive(Clone, Debug, Default)]
        pub struct Totals {
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// By the index of a command's row.
            pub commands: Vec<CommandTotals>,
            /// memcached's verbs.
            pub verbs: VerbTotals,
            /// Error replies by their code.
            pub errors: BTreeMap<String, u64>,
        }

        impl Totals {
            fn add(&mut self, tally: &Tally) {
                $(self.$name = self.$name.wrapping_add(tally.$name.get());)+
            }

            fn subtract(&mut self, baseline: &Totals) {
                $(self.$name = self.$name.wrapping_sub(baseline.$name);)+
            }
        }

        impl Tally {
            /// Zero counts for `commands` commands, including subcommands.
            pub(crate) fn new(commands: usize) -> Self {
                Tally {
                    $($name: Counter::default(),)+
                    commands: (0..commands).map(|_| CommandTally::default()).collect(),
                    verbs: VerbTally::default(),
                    phases: PhaseTally::default(),
                    longest_slice: Longest::default(),
                    longest_slice_on_cpu: Longest::default(),
                    longest_send: Longest::default(),
                    hot_keys: HotKeys::default(),
                    large_values: LargeValues::default(),
                    key_costs: WorkerCosts::default(),
                    errors: Mutex::default(),
                }
            }
        }
    };
}

tallies! {
    /// Connections accepted.
    connections,
    /// Connections refused because `maxclients` was reached.
    refused_connections,
    /// Connections refused by protected mode.
    unprotected_connections,
    /// Connections closed for `client-output-buffer-limit`.
    output_limit_disconnections,
    /// Connections closed for `timeout`.
    idle_disconnections,
    /// Connections closed for `client-query-buffer-limit`.
    query_limit_disconnections,
    /// Connections closed for `maxmemory-clients`.
    evicted_clients,
    /// Connections handed to another worker.
    relocations,
    /// Bytes received.
    input_bytes,
    /// Bytes sent.
    output_bytes,
    /// Number of receives.
    reads,
    /// Number of sends.
    writes,
    /// Turns of a worker's event loop.
    turns,
    /// The duration of these turns without waits, in ticks.
    turn_ticks,
    /// The time spent searching for expired keys, in ticks.
    expiry_ticks,
}

/// A worker's counters of one command.
#[derive(Debug, Default)]
pub(crate) struct CommandTally {
    calls: Counter,
    busy_ns: Counter,
    rejected: Counter,
    failed: Counter,
    /// The latencies of calls; unset before the first.
    latencies: OnceLock<Box<Histogram>>,
}

/// A maximum of times. One thread writes, any thread may read.
#[derive(Debug, Default)]
pub struct Longest(AtomicU64);

impl Longest {
    /// The longest time so far, in ticks.
    #[inline]
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Records a time, in ticks.
    #[inline]
    pub fn note(&self, ticks: u64) {
        if ticks > self.ticks() {
            self.0.store(ticks, Ordering::Relaxed);
        }
    }
}

/// The totals of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandTotals {
    /// The number of calls.
    pub calls: u64,
    /// The total execution time, in nanoseconds.
    pub busy_ns: u64,
    /// The number of calls refused before execution.
    pub rejected: u64,
    /// The number of calls with an error reply.
    pub failed: u64,
}

/// The statistics of all workers.
#[derive(Debug)]
pub struct Statistics {
    workers: Box<[Arc<Tally>]>,
    /// The number of commands, including subcommands.
    commands: usize,
    /// The values of the counters at the last reset. The counters themselves are never reset, since
    /// each has one writer, which could overwrite the reset with a value based on an earlier read.
    baseline: Mutex<Baseline>,
    rates: Mutex<Rates>,
    /// The peak of memory in use over all samples, in bytes.
    peak_bytes: AtomicU64,
    /// Slow and large requests.
    pub command_logs: CommandLogs,
    /// The server for HTTP.
    pub http: HttpTally,
    /// Faults detected by the server itself.
    pub(crate) findings: OwnFindings,
    /// The activity of threads and keys.
    pub(crate) activity: Activity,
}

/// The work of all workers since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Bytes sent.
    pub(crate) sent_bytes: u64,
    /// The execution time of commands and memcached's verbs, in nanoseconds.
    pub(crate) busy_ns: u64,
}

#[derive(Debug, Default)]
struct Baseline {
    totals: Totals,
    http: HttpTotals,
    /// By the index of a command's row: the counts at the last reset.
    latencies: BTreeMap<usize, Distribution>,
}

impl Tally {
    /// Counts a call of the command with this index.
    #[inline]
    pub(crate) fn count_call(&self, index: usize) {
        if let Some(command) = self.commands.get(index) {
            command.calls.add(1);
        }
    }

    /// Counts `calls` of the command with this index, of `ns` nanoseconds each.
    pub fn time_calls(&self, index: usize, calls: u64, ns: u64) {
        let Some(command) = self.commands.get(index) else { return };
        command.busy_ns.add(ns * calls);
        command.latencies.get_or_init(Box::default).add(ns, calls);
    }

    /// Counts the time of `calls` memcached verbs, of `ns` nanoseconds each.
    pub fn time_verbs(&self, calls: u64, ns: u64) {
        self.verbs.busy_ns.add(ns * calls);
    }

    /// Counts a command that was refused before it ran.
    #[cold]
    pub(crate) fn count_rejection(&self, index: usize) {
        if let Some(command) = self.commands.get(index) {
            command.rejected.add(1);
        }
    }

    /// Counts an error reply by its code, the text's first word.
    #[cold]
    pub(crate) fn count_error(&self, text: &[u8]) {
        let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let code = code.get(..ERROR_CODE_BYTES).unwrap_or(code);
        // Scripts choose their codes, which must not look like other lines of INFO.
        let code = String::from_utf8_lossy(code).replace(['#', ':', '\r', '\n'], "_");
        add_errors(&mut self.errors.lock(), &code, 1);
    }

    /// Counts a command with an error reply.
    #[cold]
    pub(crate) fn count_failure(&self, index: usize) {
        if let Some(command) = self.commands.get(index) {
            command.failed.add(1);
        }
    }
}

/// Adds errors with a code to the counts of all codes.
fn add_errors(errors: &mut BTreeMap<String, u64>, code: &str, count: u64) {
    let is_full = errors.len() >= ERROR_CODES && !errors.contains_key(code);
    let code = if is_full { OTHER_ERRORS } else { code };
    match errors.get_mut(code) {
        Some(before) => *before += count,
        None => {
            errors.insert(code.to_owned(), count);
        }
    }
}

impl Statistics {
    /// A tally for each of `workers` workers, with `commands` commands, including subcommands.
    #[must_use]
    pub fn new(workers: usize, commands: usize) -> Self {
        Statistics {
            workers: (0..workers).map(|_| Arc::new(Tally::new(commands))).collect(),
            commands,
            baseline: Mutex::default(),
            rates: Mutex::default(),
            peak_bytes: AtomicU64::new(0),
            command_logs: CommandLogs::default(),
            http: HttpTally::default(),
            findings: OwnFindings::default(),
            activity: Activity::default(),
        }
    }

    /// The tally of worker `index`, the same one at every call.
    #[must_use]
    pub fn worker(&self, index: usize) -> Arc<Tally> {
        let tally = self.workers.get(index).map(Arc::clone);
        tally.unwrap_or_else(|| Arc::new(Tally::new(self.commands)))
    }

    /// The sum over all workers since the last reset.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let baseline = self.baseline();
        // Under the lock, since a sum from before a reset would be less than its baseline.
        let mut totals = self.sum();
        let baseline = &baseline.totals;
        totals.subtract(baseline);
        totals.verbs.subtract(&baseline.verbs);
        for (command, before) in totals.commands.iter_mut().zip(&baseline.commands) {
            command.calls = command.calls.wrapping_sub(before.calls);
            command.busy_ns = command.busy_ns.wrapping_sub(before.busy_ns);
            command.rejected = command.rejected.wrapping_sub(before.rejected);
            command.failed = command.failed.wrapping_sub(before.failed);
        }
        for (code, count) in &mut totals.errors {
            *count -= baseline.errors.get(code).copied().unwrap_or(0).min(*count);
        }
        totals.errors.retain(|_, count| *count > 0);
        totals
    }

    /// Resets all statistics (CONFIG RESETSTAT, memcached's `stats reset`).
    pub fn reset(&self) {
        let indices = 0..self.commands;
        let latencies = indices.filter_map(|index| Some((index, self.all_latencies(index)?)));
        let (totals, latencies) = (self.sum(), latencies.collect());
        let http = self.http.since(&HttpTotals::default());
        *self.baseline() = Baseline { totals, http, latencies };
        for tally in &self.workers {
            tally.phases.reset();
            for longest in [&tally.longest_slice, &tally.longest_slice_on_cpu, &tally.longest_send]
            {
                longest.0.store(0, Ordering::Relaxed);
            }
        }
    }

    /// The counts of the server for HTTP since the last reset.
    pub(crate) fn http_totals(&self) -> HttpTotals {
        let baseline = self.baseline().http;
        self.http.since(&baseline)
    }

    /// The latencies of the command with this index since the last reset; `None` if there were no
    /// calls.
    pub(crate) fn latencies(&self, index: usize) -> Option<Distribution> {
        let baseline = self.baseline();
        let mut latencies = self.all_latencies(index)?;
        if let Some(before) = baseline.latencies.get(&index) {
            latencies.subtract(before);
        }
        (latencies.count() > 0).then_some(latencies)
    }

    fn all_latencies(&self, index: usize) -> Option<Distribution> {
        let commands = self.workers.iter().filter_map(|tally| tally.commands.get(index));
        let mut histograms = commands.filter_map(|command| command.latencies.get()).peekable();
        histograms.peek()?;
        let mut sum = Distribution::default();
        histograms.for_each(|histogram| sum.add(histogram));
        Some(sum)
    }

    /// The phases of requests, by families of commands.
    pub(crate) fn phases(&self) -> PhaseTotals {
        let mut totals = PhaseTotals::new();
        self.workers.iter().for_each(|tally| tally.phases.add_to(&mut totals));
        totals
    }

    /// Takes the keys of requests since the last call.
    pub(crate) fn take_hot_keys(&self, sample: &mut KeySample) {
        self.workers.iter().for_each(|tally| tally.hot_keys.take_into(sample));
    }

    /// The largest values that requests of the last ten minutes used, the largest first, according
    /// to the workers' recent checks; `None` if there are none.
    pub(crate) fn largest_values(&self, now_ms: u64) -> Option<Vec<LargeValue>> {
        large_values::largest(self.workers.iter().map(|tally| &tally.large_values), now_ms)
    }

    /// The costs by keys of each worker.
    pub(crate) fn key_costs(&self) -> impl Iterator<Item = &WorkerCosts> {
        self.workers.iter().map(|tally| &tally.key_costs)
    }

    /// The maximum of a figure over all workers, such as of the longest slice.
    pub(crate) fn longest(&self, of: fn(&Tally) -> &Longest) -> Duration {
        let all = self.workers.iter().map(|tally| of(tally).ticks());
        ticks::duration(all.max().unwrap_or(0))
    }

    /// The number of requests that each worker has executed since the process started.
    pub(crate) fn calls_of_workers(&self) -> Vec<u64> {
        let calls = |tally: &Arc<Tally>| {
            tally.commands.iter().map(|it| it.calls.get()).sum::<u64>() + tally.verbs.calls.get()
        };
        self.workers.iter().map(calls).collect()
    }

    /// The work of all workers since the process started.
    pub(crate) fn work(&self) -> Work {
        let mut work = Work::default();
        for tally in &self.workers {
            let commands = tally.commands.iter().map(|command| command.busy_ns.get());
            work.busy_ns += commands.sum::<u64>() + tally.verbs.busy_ns.get();
            work.sent_bytes += tally.output_bytes.get();
        }
        work
    }

    /// The number of receives and sends of each worker since the process started.
    pub(crate) fn traffic_of_workers(&self) -> Vec<[u64; 2]> {
        self.workers.iter().map(|tally| [tally.reads.get(), tally.writes.get()]).collect()
    }

    /// Updates the peak of memory in use with `used_bytes`, and returns it.
    pub fn peak_bytes(&self, used_bytes: u64) -> u64 {
        self.peak_bytes.fetch_max(used_bytes, Ordering::Relaxed).max(used_bytes)
    }

    /// Records the current counts for [`Statistics::rates`]. `expired` is the number of expired
    /// keys. To be called ten times a second.
    pub fn sample(&self, now: Instant, expired: u64) {
        let mut sums = Sums { expired, ..Sums::default() };
        for tally in &self.workers {
            let calls = tally.commands.iter().map(|command| command.calls.get());
            sums.requests += calls.sum::<u64>() + tally.verbs.calls.get();
            sums.input_bytes += tally.input_bytes.get();
            sums.output_bytes += tally.output_bytes.get();
            sums.turns += tally.turns.get();
            sums.turn_ticks += tally.turn_ticks.get();
        }
        self.rates.lock().sample(now, sums);
    }

    /// The current rates per second.
    pub(crate) fn rates(&self) -> Sums {
        self.rates.lock().per_second()
    }

    fn baseline(&self) -> MutexGuard<'_, Baseline> {
        self.baseline.lock()
    }

    fn sum(&self) -> Totals {
        let mut totals =
            Totals { commands: vec![CommandTotals::default(); self.commands], ..Totals::default() };
        for tally in &self.workers {
            totals.add(tally);
            totals.verbs.add(&tally.verbs);
            for (total, command) in totals.commands.iter_mut().zip(&tally.commands) {
                total.calls = total.calls.wrapping_add(command.calls.get());
                total.busy_ns = total.busy_ns.wrapping_add(command.busy_ns.get());
                total.rejected = total.rejected.wrapping_add(command.rejected.get());
                total.failed = total.failed.wrapping_add(command.failed.get());
            }
            let errors = tally.errors.lock();
            for (code, count) in errors.iter() {
                add_errors(&mut totals.errors, code, *count);
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// A total that is less than its baseline would wrap, to almost 2^64.
    #[test]
    fn a_reset_at_the_same_time_makes_no_count_wrap() {
        const RESETS: u64 = 20_000;
        let statistics = Statistics::new(4, 2);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let tally = statistics.worker(0);
                for _ in 0..RESETS {
                    tally.connections.add(1);
                    tally.count_call(0);
                    tally.time_calls(0, 1, 1000);
                    statistics.reset();
                }
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                let totals = statistics.totals();
                let latencies = statistics.latencies(0).map_or(0, |it| it.count());
                let counts = [totals.connections, totals.commands[0].calls, latencies];
                assert!(counts.iter().all(|count| *count <= RESETS), "{counts:?}");
            }
        });
    }
}
