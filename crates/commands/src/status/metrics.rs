//! The metrics of `/metrics`. Their labels have only few values: families of commands, phases and
//! workers, but never keys, addresses or names that clients choose.

use super::exposition::{Exposition, Format};
use super::sample::Sample;
use crate::VERSION;
use crate::state::histogram::Distribution;
use crate::state::phases::Phases;
use std::time::Duration;

/// Bounds of the buckets of times, as text and in nanoseconds.
const BOUNDS: [(&str, u64); 15] = [
    ("0.00001", 10_000),
    ("0.000025", 25_000),
    ("0.00005", 50_000),
    ("0.0001", 100_000),
    ("0.00025", 250_000),
    ("0.0005", 500_000),
    ("0.001", 1_000_000),
    ("0.0025", 2_500_000),
    ("0.005", 5_000_000),
    ("0.01", 10_000_000),
    ("0.025", 25_000_000),
    ("0.1", 100_000_000),
    ("0.5", 500_000_000),
    ("1.0", 1_000_000_000),
    ("10.0", 10_000_000_000),
];

/// All metrics of a sample.
#[must_use]
pub fn metrics(sample: &Sample, format: Format) -> String {
    let mut page = Exposition::new(format);
    process(sample, &mut page);
    traffic(sample, &mut page);
    http(sample, &mut page);
    commands(sample, &mut page);
    memory(sample, &mut page);
    keyspace(sample, &mut page);
    saves(sample, &mut page);
    phases(sample, &mut page);
    page.finish()
}

fn seconds(duration: Duration) -> String {
    format!("{:.6}", duration.as_secs_f64())
}

/// Nanoseconds as seconds.
fn seconds_of(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn process(sample: &Sample, page: &mut Exposition) {
    page.info("nagi_build", "The version of nagi.", &format!("version=\"{VERSION}\""));
    let started = Duration::from_millis(sample.started_at_ms);
    page.gauge(
        "nagi_start_time_seconds",
        "Start time of the process, as a Unix time.",
        seconds(started),
    );
    page.gauge(
        "nagi_ready",
        "Whether reads and writes are served: 0 while loading or while writes are refused.",
        u8::from(sample.is_ready),
    );
    page.gauge("nagi_loading", "Whether a file is being loaded.", u8::from(sample.is_loading));
    page.counters(
        "nagi_cpu_seconds",
        "CPU time of the process.",
        [("user", sample.cpu[0]), ("system", sample.cpu[1])]
            .map(|(mode, time)| (format!("mode=\"{mode}\""), seconds(time))),
    );
    page.gauge(
        "nagi_sampler_lateness_seconds",
        "How late the last sample was taken.",
        seconds(sample.lateness),
    );
    page.gauge(
        "nagi_sampler_longest_lateness_seconds",
        "The greatest lateness of a sample since the start.",
        seconds(sample.longest_lateness),
    );
    workers(sample, page);
}

/// Workers, including the script thread, which has no connections.
fn workers(sample: &Sample, page: &mut Exposition) {
    let of_worker = |index: usize| format!("worker=\"{index}\"");
    let workers = || sample.workers.iter().enumerate();
    let threads = || {
        let of_workers = workers().map(|(index, worker)| (of_worker(index), worker));
        of_workers.chain([("worker=\"scripts\"".to_owned(), &sample.scripts)])
    };
    page.counters(
        "nagi_worker_requests",
        "Requests that a worker has executed, and commands that scripts called.",
        threads().map(|(worker, it)| (worker, it.requests)),
    );
    page.gauges(
        "nagi_worker_busy_ratio",
        "Share of the last second in which a worker or the script thread ran on a processor.",
        threads().map(|(worker, it)| (worker, format!("{:.4}", it.busy))),
    );
    page.gauge(
        "nagi_script_running_seconds",
        "Time since the running script started, 0 for none.",
        seconds(Duration::from_millis(sample.running_script.map_or(0, |it| it.for_ms))),
    );
    page.gauges(
        "nagi_worker_connections",
        "Connections per worker.",
        workers().map(|(index, worker)| (of_worker(index), worker.connections)),
    );
}

fn traffic(sample: &Sample, page: &mut Exposition) {
    let totals = &sample.totals;
    page.gauge("nagi_connected_clients", "Connections now.", sample.connections());
    page.gauge(
        "nagi_max_clients",
        "Maximum number of connections (maxclients).",
        sample.max_clients,
    );
    for (name, help, count) in [
        ("nagi_connections", "Connections accepted.", totals.connections),
        (
            "nagi_refused_connections",
            "Connections rejected because of maxclients.",
            totals.refused_connections,
        ),
        (
            "nagi_unprotected_connections",
            "Connections rejected by protected mode.",
            totals.unprotected_connections,
        ),
        ("nagi_received_bytes", "Bytes received from clients.", totals.input_bytes),
        ("nagi_sent_bytes", "Bytes sent to clients.", totals.output_bytes),
        ("nagi_receives", "Number of receives.", totals.reads),
        ("nagi_sends", "Number of sends.", totals.writes),
    ] {
        page.counter(name, help, count);
    }
    page.counters(
        "nagi_closed_connections",
        "Connections that the server closed, by the limit that they exceeded.",
        [
            ("output-buffer", totals.output_limit_disconnections),
            ("query-buffer", totals.query_limit_disconnections),
            ("memory", totals.evicted_clients),
            ("idle", totals.idle_disconnections),
        ]
        .map(|(limit, count)| (format!("limit=\"{limit}\""), count)),
    );
}

/// The server for HTTP: pages and commands.
fn http(sample: &Sample, page: &mut Exposition) {
    let http = &sample.http;
    page.gauge(
        "nagi_http_connections",
        "HTTP connections now, without WebSockets.",
        http.connections,
    );
    page.gauge("nagi_http_web_sockets", "WebSockets now.", http.web_sockets);
    let status = |status: &str| format!("status=\"{status}\"");
    page.counters(
        "nagi_http_requests",
        "Requests over HTTP, by the class of their response's status.",
        ["1xx", "2xx", "3xx", "4xx", "5xx"].map(status).into_iter().zip(http.responses),
    );
    page.counters(
        "nagi_http_refusals",
        "Requests for commands, and connections, that were refused over HTTP: too many at a time \
         (429), or not served for another reason (503).",
        ["429", "503"].map(status).into_iter().zip(http.refusals),
    );
}

fn commands(sample: &Sample, page: &mut Exposition) {
    let families = || {
        sample.families.iter().map(|(family, counted)| (format!("family=\"{family}\""), counted))
    };
    page.counters(
        "nagi_commands",
        "Commands executed, by family.",
        families().map(|(family, it)| (family, it.calls)),
    );
    page.counters(
        "nagi_command_seconds",
        "Execution time of commands, by family.",
        families().map(|(family, it)| (family, seconds_of(it.busy_ns))),
    );
    page.counters(
        "nagi_command_failures",
        "Commands that returned an error, by family.",
        families().map(|(family, it)| (family, it.failed)),
    );
    page.counters(
        "nagi_command_rejections",
        "Commands refused before execution, by family.",
        families().map(|(family, it)| (family, it.rejected)),
    );
    page.counter(
        "nagi_memcached_requests",
        "Requests in memcached's protocols.",
        sample.memcached_requests,
    );
    page.counter(
        "nagi_error_replies",
        "Error replies.",
        sample.totals.errors.values().sum::<u64>(),
    );
    page.gauge("nagi_slow_requests", "Requests in the slow log.", sample.slow_requests);
    page.gauge(
        "nagi_hottest_key_ratio",
        "Share of requests for the hottest key, in a sample of the last seconds; 0 if it is below \
         0.01.",
        format!("{:.4}", sample.hottest.first().map_or(0.0, |(_, share)| *share)),
    );
}

fn memory(sample: &Sample, page: &mut Exposition) {
    for (name, help, bytes) in [
        ("nagi_memory_dataset_bytes", "Memory used by data.", sample.dataset_bytes),
        ("nagi_memory_clients_bytes", "Memory used by requests and replies.", sample.client_bytes),
        ("nagi_memory_peak_bytes", "Peak memory used by both.", sample.peak_bytes),
        (
            "nagi_memory_limit_bytes",
            "Maximum memory for data (maxmemory), 0 for no limit.",
            sample.limit_bytes,
        ),
        ("nagi_memory_resident_bytes", "Resident memory of the process.", sample.resident_bytes),
    ] {
        page.gauge(name, help, bytes);
    }
}

fn keyspace(sample: &Sample, page: &mut Exposition) {
    for (name, help, count) in [
        ("nagi_keyspace_hits", "Lookups that found a key (hits).", sample.keyspace.hits),
        ("nagi_keyspace_misses", "Lookups that found no key (misses).", sample.keyspace.misses),
        ("nagi_expired_keys", "Expired keys.", sample.keyspace.expired),
        ("nagi_evicted_keys", "Evicted keys.", sample.keyspace.evicted),
    ] {
        page.counter(name, help, count);
    }
}

fn saves(sample: &Sample, page: &mut Exposition) {
    let saves = &sample.saves;
    page.gauge(
        "nagi_save_in_progress",
        "Whether the data is being saved.",
        u8::from(saves.in_progress),
    );
    page.gauge(
        "nagi_save_written_keys",
        "Keys that the current save has written.",
        saves.keys_written,
    );
    page.gauge(
        "nagi_save_keys",
        "Keys that the current save has to write, 0 without a save or while it starts.",
        saves.keys_total,
    );
    page.gauge(
        "nagi_last_save_failed",
        "Whether the last background save failed.",
        u8::from(saves.has_failed),
    );
    page.gauge(
        "nagi_last_save_timestamp_seconds",
        "End of the last successful save, or start of the process, as a Unix time.",
        saves.last_success_s,
    );
    page.gauge("nagi_unsaved_changes", "Changes since the last save.", saves.unsaved_changes);
}

/// The durations of phases: of a sample of requests, each counted with its weight, and of all slow
/// requests.
fn phases(sample: &Sample, page: &mut Exposition) {
    let name = "nagi_request_phase_seconds";
    page.histograms(
        name,
        "Time of requests in the phases received, queued, executed and sent, by family; the sum is \
         accurate to 4 %.",
    );
    for (family, distributions) in &sample.phases {
        for (phase, times) in Phases::NAMES.iter().zip(distributions) {
            histogram(page, name, &format!("family=\"{family}\",phase=\"{phase}\""), times);
        }
    }
}

fn histogram(page: &mut Exposition, name: &str, labels: &str, times: &Distribution) {
    for (bound, ns) in BOUNDS {
        page.sample(name, "_bucket", &format!("{labels},le=\"{bound}\""), times.count_up_to(ns));
    }
    let count = times.count();
    page.sample(name, "_bucket", &format!("{labels},le=\"+Inf\""), count);
    page.sample(name, "_sum", labels, seconds_of(times.sum_ns()));
    page.sample(name, "_count", labels, count);
}
