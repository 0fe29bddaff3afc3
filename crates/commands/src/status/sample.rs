//! The sample: every statistic at one moment.

use crate::runtime::shown::quote;
use crate::state::activity::Fields;
use crate::state::hot_keys::KeySample;
use crate::state::http_tally::HttpTotals;
use crate::state::large_values::LargeValue;
use crate::state::phases::PhaseTotals;
use crate::state::saves::Saves;
use crate::state::slow_log::SlowRequest;
use crate::state::statistics::Work;
use crate::state::usage::{self, Usage};
use crate::status::clients::{self, ClientSample, per_second};
use crate::status::history::History;
use crate::status::own_findings::{Moment, Moments, remarkable_clients};
use crate::{CommandTotals, HookFlags, Server, Totals};
use nagi_findings::Diagnosis;
use nagi_store::Store;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The shortest time between samples over which rates are computed.
const SHORTEST: Duration = Duration::from_millis(1);
/// The number of slow requests on a page.
const LATEST_SLOW: usize = 20;

/// The minimum share of all requests for a key to be hot.
const HOT_SHARE: f64 = 0.01;
/// The factor by which the sample of keys decays per second, so that it represents about the last
/// ten seconds.
const DECAY: f64 = 0.8;

/// All figures for pages at one moment. Keys are not counted, since that would take latches.
#[derive(Debug)]
pub struct Sample {
    /// When the process started, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// When it was taken, in milliseconds since 1970.
    pub at_ms: u64,
    /// The same moment for intervals, which changes of the system's clock do not affect.
    at: Instant,
    /// The delay with which this sample was taken.
    pub lateness: Duration,
    /// The longest delay of any sample.
    pub longest_lateness: Duration,
    /// Whether the data is being loaded.
    pub is_loading: bool,
    /// Whether reads and writes are answered.
    pub is_ready: bool,
    /// The activity of each worker.
    pub workers: Vec<WorkerSample>,
    /// The activity of the script thread, which has no connections.
    pub scripts: WorkerSample,
    /// The running script.
    pub running_script: Option<RunningScript>,
    /// The connections, the oldest first; `None` if there are many and no page has requested them.
    pub clients: Option<Vec<ClientSample>>,
    /// Maximum number of connections (maxclients).
    pub max_clients: u64,
    /// The work of the workers since the process started.
    pub(crate) work: Work,
    /// The counts of the workers since the last reset.
    pub totals: Totals,
    /// The counts of the server for HTTP since the last reset.
    pub http: HttpTotals,
    /// The counts of commands, by family.
    pub families: BTreeMap<&'static str, CommandTotals>,
    /// Requests in memcached's protocols.
    pub memcached_requests: u64,
    /// Requests per second, of Redis and memcached clients.
    pub requests_per_second: u64,
    /// The counts of the keyspace.
    pub keyspace: nagi_store::Totals,
    /// The memory that `maxmemory` limits, in bytes.
    pub dataset_bytes: u64,
    /// The memory of clients' requests and replies, in bytes.
    pub client_bytes: u64,
    /// The peak of the sum of both, in bytes.
    pub peak_bytes: u64,
    /// `maxmemory`, 0 for no limit.
    pub limit_bytes: u64,
    /// The resident memory according to the kernel, in bytes.
    pub resident_bytes: u64,
    /// CPU time in user and kernel mode.
    pub cpu: [Duration; 2],
    /// The machine's load averages over 1, 5 and 15 minutes, if the kernel reports them.
    pub(crate) load: Option<[f64; 3]>,
    /// The progress and results of saves.
    pub(crate) saves: SaveSample,
    /// Requests in the slow log.
    pub slow_requests: usize,
    /// The latest requests in the slow log, with their numbers.
    pub(crate) latest_slow: Vec<(u64, Arc<SlowRequest>)>,
    /// The largest values of recent requests, the largest first; `None` while no page is open.
    pub(crate) largest_values: Option<Vec<LargeValue>>,
    /// Keys and their shares of requests, the hottest first.
    pub(crate) hottest: Vec<(String, f64)>,
    /// The sample of keys from which `hottest` is computed.
    hot_keys: KeySample,
    /// The last ten minutes.
    pub(crate) history: History,
    /// The phases of requests, by families.
    pub(crate) phases: PhaseTotals,
    /// The figures of the last seconds, for `diagnosis`.
    moments: Moments,
    /// The faults that the figures show.
    pub(crate) diagnosis: Arc<Diagnosis>,
}

/// The activity of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerSample {
    /// The number of requests that it has executed since the process started.
    pub requests: u64,
    /// The number of connections that it serves or has been assigned.
    pub connections: usize,
    /// Its running time on a processor, in nanoseconds, if the kernel counts that.
    pub cpu_ns: u64,
    /// The share of the time since the last sample for which it ran, from 0 to 1.
    pub busy: f64,
    /// Requests per second since the last sample.
    pub requests_per_second: u64,
}

/// The running script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningScript {
    /// The client that waits for it.
    pub client: u64,
    /// Its running time, in milliseconds.
    pub for_ms: u64,
}

impl RunningScript {
    fn of(server: &dyn Server, now_ms: u64) -> Option<Self> {
        let (client, since_ms) = server.scripts().running_for()?;
        Some(RunningScript { client, for_ms: now_ms.saturating_sub(since_ms) })
    }
}

/// The state of saves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SaveSample {
    /// Whether a save is in progress.
    pub(crate) in_progress: bool,
    /// Keys written by the current save.
    pub(crate) keys_written: u64,
    /// The total number of its keys, or 0 while unknown.
    pub(crate) keys_total: u64,
    /// When the last successful save ended, in seconds since 1970.
    pub(crate) last_success_s: u64,
    /// Whether the last background save failed.
    pub(crate) has_failed: bool,
    /// Changes since the last successful save.
    pub(crate) unsaved_changes: u64,
}

impl SaveSample {
    /// The state of saves, given the total number of changes.
    fn of(saves: &Saves, changes: u64) -> Self {
        let (status, progress) = (saves.status(), &saves.progress);
        let [keys_written, keys_total] = match status.in_progress {
            true => [&progress.keys, &progress.total_keys].map(|keys| keys.load(Relaxed)),
            false => [0; 2],
        };
        SaveSample {
            in_progress: status.in_progress,
            keys_written,
            keys_total,
            last_success_s: status.last_success_s,
            has_failed: status.last_error.is_some(),
            unsaved_changes: changes.saturating_sub(status.changes_saved),
        }
    }
}

/// Whether the server answers reads and writes: not while it loads, after a failed save if that
/// stops writes, or when memory is full and no key can be evicted. A server that saves before it
/// stops must not get more requests either.
#[must_use]
pub fn is_ready(server: &dyn Server, store: &Store) -> bool {
    !store.is_full()
        && !server.saves().is_shutdown_pending()
        && !server.hooks().reasons().intersects(HookFlags::LOADING | HookFlags::UNSAVED)
}

impl WorkerSample {
    /// Its letter on the scoreboard, as in mod_status: `W` if it executed requests in the last
    /// second or ran for at least a tenth of the time, `K` if it only keeps connections, `_` if it
    /// has none.
    #[must_use]
    pub fn letter(&self) -> char {
        match self.connections {
            _ if self.requests_per_second > 0 || self.busy >= 0.1 => 'W',
            0 => '_',
            _ => 'K',
        }
    }
}

impl Sample {
    /// The letters of all workers, followed by that of the script thread. While the data is loaded,
    /// each worker has the letter `S`.
    #[must_use]
    pub fn scoreboard(&self) -> String {
        let letter = |it: &WorkerSample| if self.is_loading { 'S' } else { it.letter() };
        self.workers.iter().map(letter).chain([self.script_letter()]).collect()
    }

    /// The script thread's letter: `W` if a script runs or did within the last second, and
    /// otherwise `.`, an open slot, since it takes no connections.
    #[must_use]
    pub fn script_letter(&self) -> char {
        let is_busy = self.running_script.is_some() || self.scripts.letter() == 'W';
        if is_busy { 'W' } else { '.' }
    }

    /// The number of busy workers (`W`), counting the script thread as a worker.
    #[must_use]
    pub fn busy_workers(&self) -> usize {
        self.workers.len() - self.idle_workers() + usize::from(self.script_letter() == 'W')
    }

    /// The number of workers that are not busy.
    #[must_use]
    pub fn idle_workers(&self) -> usize {
        self.workers.iter().filter(|worker| worker.letter() != 'W').count()
    }

    /// Requests that were executed since the process started, and commands that scripts called.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.workers.iter().chain([&self.scripts]).map(|worker| worker.requests).sum()
    }

    /// Takes a sample and evaluates faults. `connections` has the number of connections of each
    /// worker; `latenesses` are the delay of this sample and the longest delay so far;
    /// `lists_clients` is whether to list clients.
    #[must_use]
    pub fn take(
        server: &dyn Server,
        store: &Store,
        connections: &[usize],
        previous: Option<&Sample>,
        latenesses: [Duration; 2],
        lists_clients: bool,
    ) -> Sample {
        let mut sample =
            Sample::read(server, store, connections, previous, latenesses, lists_clients);
        let before = previous.map_or_else(Moments::default, |it| it.moments.clone());
        sample.moments = before.with(Moment {
            at: sample.at,
            counters: counters(&sample),
            cpu_ns: sample.workers.iter().map(|worker| worker.cpu_ns).collect(),
            clients: remarkable_clients(server, sample.connections()),
        });
        let hottest = sample.hottest.first().map(|(_, share)| (sample.hot_keys.seen, *share));
        sample.diagnosis = Arc::new(sample.moments.diagnose(hottest));
        server.statistics().findings.set(Arc::clone(&sample.diagnosis));
        server.statistics().activity.set(activity(&sample));
        sample
    }

    fn read(
        server: &dyn Server,
        store: &Store,
        connections: &[usize],
        previous: Option<&Sample>,
        [lateness, longest_lateness]: [Duration; 2],
        lists_clients: bool,
    ) -> Sample {
        let statistics = server.statistics();
        let totals = statistics.totals();
        let (now_ms, at) = (store.now_ms(), Instant::now());
        let passed = previous.map_or(Duration::ZERO, |it| at.duration_since(it.at)).max(SHORTEST);
        let (used_bytes, client_bytes) = (store.used_bytes(), store.client_bytes());
        let usage = Usage::read();
        let mut hot_keys = previous.map_or_else(KeySample::default, |it| it.hot_keys.clone());
        hot_keys.decay(DECAY);
        statistics.take_hot_keys(&mut hot_keys);
        // Only pages and metrics show phases.
        let has_pages = server.config().http_port.is_on();
        let phases = if has_pages { statistics.phases() } else { PhaseTotals::default() };
        let changes = store.totals();
        let saves = server.saves();
        let before = previous.and_then(|sample| Some((sample.clients.as_deref()?, passed)));
        let (workers, scripts) = workers(server, connections, previous, passed);
        Sample {
            started_at_ms: server.process().started_at_ms,
            at_ms: now_ms,
            at,
            lateness,
            longest_lateness,
            is_loading: server.hooks().reasons().contains(HookFlags::LOADING),
            is_ready: is_ready(server, store),
            workers,
            scripts,
            running_script: RunningScript::of(server, now_ms),
            clients: lists_clients.then(|| clients::list(server, before, now_ms)),
            max_clients: server.config().maxclients.get(),
            http: statistics.http_totals(),
            work: statistics.work(),
            families: families(server, &totals),
            memcached_requests: totals.verbs.calls(),
            totals,
            requests_per_second: statistics.rates().requests,
            keyspace: changes,
            dataset_bytes: used_bytes.saturating_sub(client_bytes),
            client_bytes,
            peak_bytes: statistics.peak_bytes(used_bytes),
            limit_bytes: store.limit().0,
            resident_bytes: usage.as_ref().map_or(0, |usage| usage.resident_bytes),
            cpu: usage.map_or([Duration::ZERO; 2], |usage| [usage.user, usage.system]),
            load: usage::load_averages(),
            saves: SaveSample::of(saves, changes.changes),
            slow_requests: statistics.command_logs.slow.len(),
            latest_slow: statistics.command_logs.slow.latest(if has_pages {
                LATEST_SLOW
            } else {
                0
            }),
            largest_values: statistics.largest_values(now_ms),
            hottest: hot_keys.hottest(HOT_SHARE),
            hot_keys,
            history: match previous.filter(|_| has_pages) {
                Some(previous) => {
                    previous.history.with(statistics.rates().requests, &previous.phases, &phases)
                }
                None => History::default(),
            },
            phases,
            moments: Moments::default(),
            diagnosis: Arc::default(),
        }
    }

    /// The uptime of the process.
    #[must_use]
    pub fn uptime_s(&self) -> u64 {
        self.at_ms.saturating_sub(self.started_at_ms) / 1000
    }

    /// Connections of all workers.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.workers.iter().map(|worker| worker.connections).sum()
    }
}

/// The fields of INFO about threads and keys.
fn activity(sample: &Sample) -> Fields {
    /// The number of keys shown.
    const TOP: usize = 10;
    let states = sample.scoreboard();
    let threads = sample.workers.iter().chain([&sample.scripts]).zip(states.chars()).enumerate();
    let threads = threads.map(|(index, (thread, state))| {
        let name = match index < sample.workers.len() {
            true => format!("worker_{index}"),
            false => "script_thread".to_owned(),
        };
        let WorkerSample { busy, requests_per_second, requests, connections, .. } = thread;
        let value = format!(
            "state={state},busy={busy:.4},requests_per_second={requests_per_second},\
             requests={requests},connections={connections}"
        );
        (name, value)
    });
    let keys = sample.hottest.iter().take(TOP).enumerate();
    let hot_keys = keys.map(|(index, (key, share))| {
        let mut value = format!("share={share:.4},key=");
        quote(key.as_bytes(), &mut value);
        (format!("hot_key_{index}"), value)
    });
    Fields { threads: threads.collect(), hot_keys: hot_keys.collect() }
}

/// The figures that the rules for faults need, by their names in INFO.
fn counters(sample: &Sample) -> BTreeMap<String, String> {
    let totals = &sample.totals;
    let calls = totals.commands.iter().map(|command| command.calls).sum::<u64>();
    let figures = [
        ("connected_clients", sample.connections() as u64),
        ("maxclients", sample.max_clients),
        ("rejected_connections", totals.refused_connections),
        ("total_connections_received", totals.connections),
        ("total_commands_processed", calls + sample.memcached_requests),
        ("used_memory", sample.dataset_bytes + sample.client_bytes),
        ("used_memory_rss", sample.resident_bytes),
        ("maxmemory", sample.limit_bytes),
        ("evicted_keys", sample.keyspace.evicted),
        ("expired_keys", sample.keyspace.expired),
        ("client_output_buffer_limit_disconnections", totals.output_limit_disconnections),
        ("rdb_changes_since_last_save", sample.saves.unsaved_changes),
        ("store_no_memory", totals.verbs.no_memory()),
    ];
    let mut counters: BTreeMap<String, String> =
        figures.into_iter().map(|(name, figure)| (name.to_owned(), figure.to_string())).collect();
    let refused = totals.errors.get("OOM").copied().unwrap_or(0);
    counters.insert("errorstat_OOM".to_owned(), format!("count={refused}"));
    let saved = if sample.saves.has_failed { "err" } else { "ok" };
    counters.insert("rdb_last_bgsave_status".to_owned(), saved.to_owned());
    counters
}

/// The activity of each worker and of the script thread.
fn workers(
    server: &dyn Server,
    connections: &[usize],
    previous: Option<&Sample>,
    passed: Duration,
) -> (Vec<WorkerSample>, WorkerSample) {
    let process = server.process();
    let sample = |thread: Option<&OnceLock<i32>>, before: Option<&WorkerSample>, requests| {
        let thread = thread.and_then(|thread| thread.get().copied());
        let cpu_ns = thread.and_then(usage::thread_time_ns).unwrap_or(0);
        let mut worker = WorkerSample { requests, cpu_ns, ..Default::default() };
        if let Some(before) = before {
            let ran_ns = cpu_ns.saturating_sub(before.cpu_ns);
            worker.busy = (ran_ns as f64 / passed.as_nanos() as f64).min(1.0);
            worker.requests_per_second =
                per_second(requests.saturating_sub(before.requests), passed);
        }
        worker
    };
    let calls = server.statistics().calls_of_workers();
    let workers = calls.iter().zip(connections).enumerate().map(|(index, (requests, count))| {
        let before = previous.and_then(|it| it.workers.get(index));
        let worker = sample(process.worker_threads.get(index), before, *requests);
        WorkerSample { connections: *count, ..worker }
    });
    let workers = workers.collect();
    // The script thread's counters follow those of the workers.
    let requests = calls.get(process.workers).copied().unwrap_or(0);
    let scripts = sample(Some(&process.script_thread), previous.map(|it| &it.scripts), requests);
    (workers, scripts)
}

/// Sums commands by families, including unused ones: if a series began with its first event, the
/// computation of a rate would miss that event.
fn families(server: &dyn Server, totals: &Totals) -> BTreeMap<&'static str, CommandTotals> {
    let mut families = BTreeMap::<_, CommandTotals>::new();
    for (entry, counted) in server.commands().entries().iter().zip(&totals.commands) {
        let family = families.entry(entry.command.group.name()).or_default();
        family.calls += counted.calls;
        family.busy_ns += counted.busy_ns;
        family.rejected += counted.rejected;
        family.failed += counted.failed;
    }
    families
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientInfo;
    use crate::testing::Bench;

    fn sample(bench: &Bench, previous: Option<&Sample>, lists_clients: bool) -> Sample {
        let (server, store) = (&bench.process, &bench.store);
        Sample::take(server, store, &[0], previous, [Duration::ZERO; 2], lists_clients)
    }

    #[test]
    fn changes_of_the_system_clock_affect_no_rate() {
        let bench = Bench::new();
        let first = sample(&bench, None, true);
        let tally = bench.process.statistics.worker(0);
        (0..600).for_each(|_| tally.count_call(0));
        bench.process.clients[0].requests.add(600);
        bench.counters.evicted.add(600);
        bench.advance_ms(3_600_000);
        let second = sample(&bench, Some(&first), true);
        assert!(second.workers[0].requests_per_second > 0, "{second:?}");
        let requests = second.clients.iter().flatten().map(|it| it.requests_per_second);
        assert!(requests.sum::<u64>() > 0, "{second:?}");
        // One eviction a second is a finding. Others depend on the machine.
        let found: Vec<&str> = second.diagnosis.found.iter().map(|it| it.finding.name).collect();
        assert!(found.contains(&"memory-at-its-limit"), "{found:?}");
    }

    #[test]
    fn the_rates_of_a_new_connection_count_from_zero() {
        let mut bench = Bench::new();
        let [listed, unlisted] = [true, false].map(|lists| sample(&bench, None, lists));
        let client = ClientInfo { id: 3, ..ClientInfo::default() };
        client.requests.add(1_000_000);
        client.received_bytes.add(1_000_000);
        bench.process.clients.push(Arc::new(client));
        let rates = |previous| {
            let clients = sample(&bench, previous, true).clients.expect("a list");
            let client = clients.iter().find(|client| client.id == 3).expect("the new one");
            [client.requests_per_second, client.bytes_per_second]
        };
        assert!(rates(Some(&listed)).iter().all(|rate| *rate > 0), "{:?}", rates(Some(&listed)));
        // When there was no list, it may be old.
        assert_eq!([rates(Some(&unlisted)), rates(None)], [[0; 2]; 2]);
    }
}
