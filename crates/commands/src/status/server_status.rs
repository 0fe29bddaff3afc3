//! `/server-status` for programs: the lines of Apache's mod_status, and JSON with the fields of
//! Plack::Middleware::ServerStatus::Lite.

use super::client_groups::{ClientGroup, TopClients};
use super::clients::ClientSample;
use super::history::Series;
use super::list_options::ListOptions;
use super::sample::Sample;
use crate::VERSION;
use crate::state::large_values::LargeValue;
use crate::state::statistics::Work;
use serde_json::{Map, Value, json};

/// The lines of `?auto`. Scrapers split the version at its slash and dots.
#[must_use]
pub fn auto(sample: &Sample) -> String {
    let uptime_s = sample.uptime_s();
    let [user, system] = sample.cpu.map(|time| time.as_secs_f64());
    let per_second = |count: f64| count / uptime_s.max(1) as f64;
    // All of these count from the start, since they are divided by the uptime and by each other.
    let (requests, Work { sent_bytes, busy_ns }) = (sample.requests(), sample.work);
    let busy = sample.busy_workers();
    let server = [
        ("ServerVersion", format!("nagi/{VERSION}")),
        ("ServerMPM", "worker".to_owned()),
        ("ParentServerConfigGeneration", "1".to_owned()),
        ("ParentServerMPMGeneration", "0".to_owned()),
        ("ServerUptimeSeconds", uptime_s.to_string()),
    ];
    let load = ["Load1", "Load5", "Load15"].into_iter().zip(sample.load.into_iter().flatten());
    let counts = [
        ("Total Accesses", requests.to_string()),
        ("Total kBytes", (sent_bytes / 1024).to_string()),
        ("Total Duration", (busy_ns / 1_000_000).to_string()),
        ("CPUUser", format!("{user:.2}")),
        ("CPUSystem", format!("{system:.2}")),
        ("CPUChildrenUser", "0".to_owned()),
        ("CPUChildrenSystem", "0".to_owned()),
        ("CPULoad", format!("{:.6}", per_second(user + system) * 100.0)),
        ("Uptime", uptime_s.to_string()),
        ("ReqPerSec", format!("{:.6}", per_second(requests as f64))),
        ("BytesPerSec", format!("{:.6}", per_second(sent_bytes as f64))),
        ("BytesPerReq", format!("{:.6}", sent_bytes as f64 / requests.max(1) as f64)),
        ("BusyWorkers", busy.to_string()),
        ("IdleWorkers", sample.idle_workers().to_string()),
        ("Processes", "1".to_owned()),
        ("Stopping", "0".to_owned()),
        ("ConnsTotal", sample.connections().to_string()),
        ("Scoreboard", sample.scoreboard()),
    ];
    let load = load.map(|(name, load)| (name, format!("{load:.2}")));
    let lines = server.into_iter().chain(load).chain(counts);
    lines.map(|(name, value)| format!("{name}: {value}\n")).collect()
}

/// The object of `?json`: numbers are strings in the fields of Plack's middleware, except `ss`, and
/// numbers in all other fields.
#[must_use]
pub fn json(sample: &Sample, options: &ListOptions) -> String {
    let busy = sample.busy_workers();
    let workers: Vec<Value> = sample
        .workers
        .iter()
        .zip(sample.scoreboard().chars())
        .map(|(worker, letter)| {
            json!({
                "status": letter.to_string(),
                "requests": worker.requests,
                "requests_per_second": worker.requests_per_second,
                "busy": worker.busy,
                "connections": worker.connections,
            })
        })
        .collect();
    let listed = options.list(sample, usize::MAX).clients;
    let page = json!({
        "Uptime": (sample.started_at_ms / 1000).to_string(),
        "TotalAccesses": sample.requests().to_string(),
        "TotalKbytes": (sample.work.sent_bytes / 1000).to_string(),
        "BusyWorkers": busy.to_string(),
        "IdleWorkers": sample.idle_workers().to_string(),
        "stats": listed.into_iter().map(connection).collect::<Vec<_>>(),
        "version": VERSION,
        "uptime_seconds": sample.uptime_s(),
        "ready": sample.is_ready,
        "loading": sample.is_loading,
        "connections": sample.connections(),
        "connections_limit": sample.max_clients,
        "connections_are_listed": sample.clients.is_some(),
        "requests_per_second": sample.requests_per_second,
        "memory_dataset_bytes": sample.dataset_bytes,
        "memory_resident_bytes": sample.resident_bytes,
        "keyspace_hits": sample.keyspace.hits,
        "keyspace_misses": sample.keyspace.misses,
        "evicted_keys": sample.keyspace.evicted,
        "memory_limit_bytes": sample.limit_bytes,
        "save": {
            "in_progress": sample.saves.in_progress,
            "keys_written": sample.saves.keys_written,
            "keys_total": sample.saves.keys_total,
            "failed": sample.saves.has_failed,
            "unsaved_changes": sample.saves.unsaved_changes,
        },
        "findings": findings(sample),
        "slow_requests": slow_requests(sample),
        "slow_requests_logged": sample.slow_requests,
        "history": history(sample),
        "hot_keys": hot_keys(sample),
        "largest_values": largest_values(sample),
        "top_clients": top_clients(sample),
        "workers": workers,
        "script_thread": script_thread(sample),
    });
    format!("{page}\n")
}

fn script_thread(sample: &Sample) -> Value {
    let thread = &sample.scripts;
    json!({
        "status": sample.script_letter().to_string(),
        "requests": thread.requests,
        "requests_per_second": thread.requests_per_second,
        "busy": thread.busy,
        "running": sample.running_script.map(|script| {
            json!({ "client": script.client, "seconds": script.for_ms as f64 / 1e3 })
        }),
    })
}

/// The data of the page's charts: the number of seconds, and the points, the latest last. Each
/// point is the maximum of the seconds that it represents. Times are 99th percentiles over
/// requests.
fn history(sample: &Sample) -> Value {
    let history = &sample.history;
    let named = |series: Vec<Series>| -> Map<String, Value> {
        series.into_iter().map(|series| (series.name, series.values.into())).collect()
    };
    json!({
        "seconds": history.seconds(),
        "requests_per_second": history.requests_per_second().values,
        "phases_ns": named(history.phases()),
        "families_ns": named(history.families()),
    })
}

/// The faults, in the format of `nagi doctor --json`.
fn findings(sample: &Sample) -> Vec<Value> {
    let findings = sample.diagnosis.findings().map(|(level, diagnosed)| {
        json!({
            "name": diagnosed.finding.name,
            "level": level,
            "verdict": diagnosed.evidence.verdict,
            "evidence": diagnosed.evidence.numbers,
            "remedies": diagnosed.finding.remedies,
            "explained_by": diagnosed.explained_by,
        })
    });
    findings.collect()
}

fn hot_keys(sample: &Sample) -> Vec<Value> {
    sample.hottest.iter().map(|(key, share)| json!({ "key": key, "share": share })).collect()
}

fn largest_values(sample: &Sample) -> Vec<Value> {
    let values = sample.largest_values.as_deref().unwrap_or_default().iter();
    let value = |value: &LargeValue| {
        json!({
            "key": value.shown_key(),
            "type": value.kind.name(),
            "bytes": value.bytes,
            "database": value.database,
            "seen_seconds_ago": sample.at_ms.saturating_sub(value.seen_ms) / 1000,
            "command": value.command,
        })
    };
    values.map(value).collect()
}

/// Clients in the order of two figures; empty if there are many connections and no page has
/// requested them.
fn top_clients(sample: &Sample) -> Value {
    let TopClients { by_bytes, by_time } =
        sample.clients.as_deref().map(TopClients::of).unwrap_or_default();
    let list = |groups: &[ClientGroup]| groups.iter().map(client_group).collect::<Vec<_>>();
    json!({ "by_bytes": list(&by_bytes), "by_time": list(&by_time) })
}

fn client_group(group: &ClientGroup) -> Value {
    json!({
        "address": group.address,
        "user": group.user,
        "name": group.name,
        "connections": group.connections,
        "bytes": group.bytes,
        "bytes_per_second": group.bytes_per_second,
        "requests_per_second": group.requests_per_second,
        "busy_ns": group.busy_ns,
        "busy_ns_per_second": group.busy_ns_per_second,
    })
}

fn slow_requests(sample: &Sample) -> Vec<Value> {
    let slow = sample.latest_slow.iter().map(|(number, request)| {
        let phases = request.phases();
        let words = request.arguments.iter().map(|word| String::from_utf8_lossy(word));
        json!({
            "number": number,
            "time": request.at_s,
            "remote_addr": request.address,
            "name": request.name,
            "arguments": words.collect::<Vec<_>>(),
            "receive_ns": phases.receive_ns,
            "queue_ns": phases.queue_ns,
            "execute_ns": phases.execute_ns,
            "send_ns": phases.send_ns,
            "request_bytes": request.request_bytes,
            "reply_bytes": request.reply_bytes,
        })
    });
    slow.collect()
}

/// A connection. Of the fields about HTTP, `method` has the last command, and `uri` is null.
fn connection(client: &ClientSample) -> Value {
    let status = match client.state {
        "idle" => "_",
        _ => "A",
    };
    json!({
        "pid": std::process::id().to_string(),
        "status": status,
        "remote_addr": client.address,
        "host": null,
        "method": client.command,
        "uri": null,
        "protocol": client.protocol,
        "ss": client.idle_s,
        "id": client.id,
        "name": client.name,
        "user": client.user,
        "library": client.library,
        "state": client.state,
        "key": client.key,
        "worker": client.worker,
        "database": client.database,
        "age_seconds": client.age_s,
        "memory_bytes": client.memory_bytes,
        "received_bytes": client.received_bytes,
        "sent_bytes": client.sent_bytes,
        "requests": client.requests,
        "requests_per_second": client.requests_per_second,
        "bytes_per_second": client.bytes_per_second,
        "busy_ns": client.busy_ns,
        "busy_ns_per_second": client.busy_ns_per_second,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use std::time::Duration;

    #[test]
    fn totals_and_their_rates_are_those_since_the_start() {
        let bench = Bench::new();
        let tally = bench.process.statistics.worker(0);
        (0..10).for_each(|_| tally.count_call(0));
        tally.output_bytes.add(20_480);
        tally.time_calls(0, 10, 3_000_000);
        tally.time_verbs(2, 5_000_000);
        bench.process.statistics.reset();
        bench.advance_ms(10_000);
        let (server, store) = (&bench.process, &bench.store);
        let sample = Sample::take(server, store, &[0], None, [Duration::ZERO; 2], true);
        let lines = auto(&sample);
        for expected in [
            "Total Accesses: 10",
            "Total kBytes: 20",
            "Total Duration: 40",
            "ReqPerSec: 1.000000",
            "BytesPerSec: 2048.000000",
            "BytesPerReq: 2048.000000",
        ] {
            assert!(lines.lines().any(|line| line == expected), "{expected}: {lines}");
        }
        let page: Value = serde_json::from_str(&json(&sample, &ListOptions::default())).unwrap();
        assert_eq!((&page["TotalAccesses"], &page["TotalKbytes"]), (&"10".into(), &"20".into()));
    }
}
