//! The sections of INFO. Each field is one that Redis has under the same name and that is true
//! here; what nagi cannot say truthfully is left out.

use crate::histogram::Distribution;
use crate::phases::Phases;
use crate::usage::{self, Usage};
use crate::{CommandTotals, Context, Marks, REDIS_VERSION, VERSION, table};
use nagi_store::Counters;
use std::fmt::Display;
use std::time::{SystemTime, UNIX_EPOCH};

/// A section's row.
pub(crate) struct Section {
    /// The name by which it is asked for.
    pub(crate) name: &'static str,
    /// The name in its headline.
    title: &'static str,
    /// Whether it is part of INFO without arguments.
    pub(crate) by_default: bool,
    fields: fn(&Context<'_>, &mut Fields<'_>),
}

/// Every section, in the order in which they are shown.
pub(crate) static SECTIONS: &[Section] = &[
    Section { name: "server", title: "Server", by_default: true, fields: server },
    Section { name: "clients", title: "Clients", by_default: true, fields: clients },
    Section { name: "memory", title: "Memory", by_default: true, fields: memory },
    Section { name: "stats", title: "Stats", by_default: true, fields: stats },
    Section { name: "replication", title: "Replication", by_default: true, fields: replication },
    Section { name: "cpu", title: "CPU", by_default: true, fields: cpu },
    Section { name: "commandstats", title: "Commandstats", by_default: false, fields: commands },
    Section { name: "errorstats", title: "Errorstats", by_default: true, fields: errors },
    Section { name: "latencystats", title: "Latencystats", by_default: false, fields: latencies },
    Section { name: "phases", title: "Phases", by_default: false, fields: phases },
    Section { name: "cluster", title: "Cluster", by_default: true, fields: cluster },
    Section { name: "keyspace", title: "Keyspace", by_default: true, fields: keyspace },
];

impl Section {
    /// Appends the section.
    pub(crate) fn write(&self, cx: &Context<'_>, text: &mut String) {
        text.push_str(&format!("# {}\r\n", self.title));
        (self.fields)(cx, &mut Fields(text));
    }
}

/// The fields of a section, written line by line.
struct Fields<'a>(&'a mut String);

impl Fields<'_> {
    fn add(&mut self, name: &str, value: impl Display) {
        self.0.push_str(&format!("{name}:{value}\r\n"));
    }

    /// A number of bytes, and the same for people to read.
    fn add_bytes(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes);
        self.add(&format!("{name}_human"), human(bytes));
    }
}

fn server(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let process = cx.server.process();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let uptime_s = cx.db.now_ms().saturating_sub(process.started_at_ms) / 1000;
    let executable = std::env::current_exe().unwrap_or_default();
    fields.add("redis_version", REDIS_VERSION);
    fields.add("nagi_version", VERSION);
    fields.add("redis_mode", "standalone");
    fields.add("os", usage::operating_system());
    fields.add("arch_bits", usize::BITS);
    fields.add("multiplexing_api", process.io);
    fields.add("process_id", std::process::id());
    fields.add("run_id", &process.run_id);
    fields.add("tcp_port", process.resp_port);
    fields.add("memcached_port", process.memcached_port);
    fields.add("workers", process.workers);
    fields.add("server_time_usec", now.as_micros());
    fields.add("uptime_in_seconds", uptime_s);
    fields.add("uptime_in_days", uptime_s / 86_400);
    fields.add("executable", executable.display());
    fields.add("config_file", "");
}

fn clients(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let clients = cx.server.clients();
    let waiting = clients.iter().filter(|client| client.marks().contains(Marks::WAITING));
    fields.add("connected_clients", clients.len());
    fields.add("maxclients", cx.server.config().maxclients.get());
    fields.add("blocked_clients", waiting.count());
}

fn memory(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let (limit_bytes, policy) = cx.db.store().limit();
    fields.add_bytes("used_memory", cx.db.store().used_bytes());
    if let Some(usage) = Usage::read() {
        fields.add_bytes("used_memory_rss", usage.resident_bytes);
    }
    // What `maxmemory` is compared with, and what it is not.
    fields.add("used_memory_dataset", cx.db.store().data_bytes());
    fields.add("used_memory_overhead", cx.db.store().client_bytes());
    fields.add("mem_clients_normal", cx.db.store().client_bytes());
    fields.add_bytes("total_system_memory", usage::system_memory_bytes());
    fields.add_bytes("maxmemory", limit_bytes);
    fields.add("maxmemory_policy", policy.name());
    fields.add("mem_allocator", "mimalloc");
}

fn stats(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let totals = cx.server.statistics().totals();
    let store = cx.db.store().totals();
    let calls: u64 = totals.commands.iter().map(|command| command.calls).sum();
    fields.add("total_connections_received", totals.connections);
    fields.add("total_commands_processed", calls + totals.verbs.calls);
    let rates = cx.server.statistics().rates();
    fields.add("instantaneous_ops_per_sec", rates.requests);
    fields.add("total_net_input_bytes", totals.input_bytes);
    fields.add("total_net_output_bytes", totals.output_bytes);
    let kbps = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    fields.add("instantaneous_input_kbps", kbps(rates.input_bytes));
    fields.add("instantaneous_output_kbps", kbps(rates.output_bytes));
    fields.add("rejected_connections", totals.refused_connections);
    fields.add("expired_keys", store.expired);
    fields.add("evicted_keys", store.evicted);
    fields.add("evicted_clients", totals.evicted_clients);
    fields.add("keyspace_hits", store.hits);
    fields.add("keyspace_misses", store.misses);
    let (slice_ns, send_ns) = cx.server.statistics().longest_ns();
    fields.add("longest_slice_usec", slice_ns / 1000);
    fields.add("longest_send_usec", send_ns / 1000);
    let longest_hold = cx.db.store().longest_latch_hold();
    fields.add("longest_latch_hold_usec", longest_hold.as_micros());
    let longest_eviction = cx.db.store().longest_eviction();
    fields.add("longest_eviction_usec", longest_eviction.as_micros());
    fields.add("client_query_buffer_limit_disconnections", totals.query_limit_disconnections);
    fields.add("client_output_buffer_limit_disconnections", totals.output_limit_disconnections);
    fields.add("acl_access_denied_auth", cx.attention.logins.failures());
    fields.add("total_error_replies", totals.errors.values().sum::<u64>());
}

fn replication(_: &Context<'_>, fields: &mut Fields<'_>) {
    fields.add("role", "master");
    fields.add("connected_slaves", 0);
    fields.add("master_repl_offset", 0);
}

fn cpu(_: &Context<'_>, fields: &mut Fields<'_>) {
    if let Some(usage) = Usage::read() {
        fields.add("used_cpu_sys", format_args!("{:.6}", usage.system.as_secs_f64()));
        fields.add("used_cpu_user", format_args!("{:.6}", usage.user.as_secs_f64()));
    }
}

fn commands(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let totals = cx.server.statistics().totals();
    for (entry, counted) in table::entries().iter().zip(&totals.commands) {
        let CommandTotals { calls, busy_ns, rejected, failed } = *counted;
        if calls + rejected + failed > 0 {
            let usec = busy_ns / 1000;
            let each_usec = busy_ns as f64 / 1000.0 / calls.max(1) as f64;
            let value = format!(
                "calls={calls},usec={usec},usec_per_call={each_usec:.2},\
                 rejected_calls={rejected},failed_calls={failed}"
            );
            fields.add(&format!("cmdstat_{}", entry.full_name), value);
        }
    }
}

fn latencies(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let percents = cx.server.config().latency_tracking_info_percentiles.get();
    for entry in table::entries() {
        if let Some(latencies) = cx.server.statistics().latencies(entry.index) {
            let name = format!("latency_percentiles_usec_{}", entry.full_name);
            fields.add(&name, percentiles(&latencies, &percents));
        }
    }
}

/// nagi's own: where the time of requests went, by families of commands.
fn phases(cx: &Context<'_>, fields: &mut Fields<'_>) {
    for (family, distributions) in cx.server.statistics().phases() {
        for (phase, distribution) in Phases::NAMES.iter().zip(&distributions) {
            let percentiles = percentiles(distribution, "50 99 99.9 100");
            let value = format_args!("requests={},{percentiles}", distribution.count());
            fields.add(&format!("phase_usec_{family}_{phase}"), value);
        }
    }
}

/// Percentiles in microseconds, as in `p50=1.003,p99=2.007`.
fn percentiles(distribution: &Distribution, percents: &str) -> String {
    let one = |percent: &str| {
        let ns = distribution.percentile(percent.parse().unwrap_or(0.0));
        format!("p{percent}={:.3}", ns as f64 / 1000.0)
    };
    percents.split_whitespace().map(one).collect::<Vec<_>>().join(",")
}

fn errors(cx: &Context<'_>, fields: &mut Fields<'_>) {
    for (code, count) in &cx.server.statistics().totals().errors {
        fields.add(&format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

fn cluster(_: &Context<'_>, fields: &mut Fields<'_>) {
    fields.add("cluster_enabled", 0);
}

fn keyspace(cx: &Context<'_>, fields: &mut Fields<'_>) {
    // Counting keys looks none of them up.
    let unused = Counters::default();
    for index in 0..cx.db.store().databases() {
        let db = cx.db.store().database(index, &unused, cx.db.now_ms());
        let (keys, expires) = (db.size(), db.volatile_size());
        if keys > 0 {
            fields.add(&format!("db{index}"), format_args!("keys={keys},expires={expires}"));
        }
    }
}

/// A number of bytes as Redis writes it for people: `1.50M`.
fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    for unit in ["K", "M", "G", "T"] {
        if value < 1024.0 {
            return format!("{value:.2}{unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.2}P")
}
