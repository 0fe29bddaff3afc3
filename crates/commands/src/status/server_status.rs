//! `/server-status` for programs: the lines of Apache's mod_status, and JSON with the fields of
//! Plack::Middleware::ServerStatus::Lite.

use super::clients::ClientSample;
use super::sample::Sample;
use crate::VERSION;
use serde_json::{Value, json};

/// The lines of `?auto`. A scraper of them takes the version apart at its slash and its dots.
#[must_use]
pub fn auto(sample: &Sample) -> String {
    let uptime_s = sample.uptime_s();
    let [user, system] = sample.cpu.map(|time| time.as_secs_f64());
    let per_second = |count: f64| count / uptime_s.max(1) as f64;
    let (requests, sent) = (sample.requests(), sample.totals.output_bytes);
    let busy = sample.busy_workers();
    let duration_ns: u64 = sample.families.values().map(|family| family.busy_ns).sum();
    let lines = [
        ("ServerVersion", format!("nagi/{VERSION}")),
        ("ServerMPM", "worker".to_owned()),
        ("ParentServerConfigGeneration", "1".to_owned()),
        ("ParentServerMPMGeneration", "0".to_owned()),
        ("ServerUptimeSeconds", uptime_s.to_string()),
        ("Total Accesses", requests.to_string()),
        ("Total kBytes", (sent / 1024).to_string()),
        ("Total Duration", (duration_ns / 1_000_000).to_string()),
        ("CPUUser", format!("{user:.2}")),
        ("CPUSystem", format!("{system:.2}")),
        ("CPUChildrenUser", "0".to_owned()),
        ("CPUChildrenSystem", "0".to_owned()),
        ("CPULoad", format!("{:.6}", per_second(user + system) * 100.0)),
        ("Uptime", uptime_s.to_string()),
        ("ReqPerSec", format!("{:.6}", per_second(requests as f64))),
        ("BytesPerSec", format!("{:.6}", per_second(sent as f64))),
        ("BytesPerReq", format!("{:.6}", sent as f64 / requests.max(1) as f64)),
        ("BusyWorkers", busy.to_string()),
        ("IdleWorkers", (sample.workers.len() - busy).to_string()),
        ("Processes", "1".to_owned()),
        ("Stopping", "0".to_owned()),
        ("ConnsTotal", sample.connections().to_string()),
        ("Scoreboard", sample.scoreboard()),
    ];
    lines.map(|(name, value)| format!("{name}: {value}\n")).concat()
}

/// The object of `?json`: numbers are strings in the fields that Plack's middleware has, but for
/// `ss`, and numbers in all others.
#[must_use]
pub fn json(sample: &Sample) -> String {
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
    let page = json!({
        "Uptime": (sample.started_at_ms / 1000).to_string(),
        "TotalAccesses": sample.requests().to_string(),
        "TotalKbytes": (sample.totals.output_bytes / 1024).to_string(),
        "BusyWorkers": busy.to_string(),
        "IdleWorkers": (sample.workers.len() - busy).to_string(),
        "stats": sample.clients.iter().flatten().map(connection).collect::<Vec<_>>(),
        "version": VERSION,
        "uptime_seconds": sample.uptime_s(),
        "ready": sample.is_ready,
        "loading": sample.is_loading,
        "connections": sample.connections(),
        "requests_per_second": sample.requests_per_second,
        "memory_dataset_bytes": sample.dataset_bytes,
        "memory_resident_bytes": sample.resident_bytes,
        "keyspace_hits": sample.keyspace.hits,
        "keyspace_misses": sample.keyspace.misses,
        "evicted_keys": sample.keyspace.evicted,
        "workers": workers,
    });
    format!("{page}\n")
}

/// A connection: `uri` and `method` are those of HTTP, for which there is the last command.
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
        "library": client.library,
        "state": client.state,
        "worker": client.worker,
        "database": client.database,
        "age_seconds": client.age_s,
        "memory_bytes": client.memory_bytes,
        "received_bytes": client.received_bytes,
        "sent_bytes": client.sent_bytes,
        "requests": client.requests,
        "requests_per_second": client.requests_per_second,
    })
}
