//! The sections of INFO. Each field exists in Redis under the same name, and its value is correct.
//! A field about a feature that nagi lacks has the value that Redis shows while the feature is not
//! in use. Fields that could not have a correct value are omitted; `tests/info.rs` lists them with
//! the reasons.

use crate::families::server::memory::{Figures, difference, ratio};
use crate::runtime::rights;
use crate::state::access_log::Reason;
use crate::state::histogram::Distribution;
use crate::state::phases::Phases;
use crate::state::pubsub::Kind;
use crate::state::usage::{self, Usage};
use crate::{
    ClientInfo, CommandTotals, Config, Context, Marks, REDIS_VERSION, Totals, VERSION, config,
};
use nagi_store::{Counters, Database, since_1970, ticks};
use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A section's row.
pub(crate) struct Section {
    /// The name with which it is requested.
    pub(crate) name: &'static str,
    /// The title in its headline.
    title: &'static str,
    /// Whether INFO without arguments includes it.
    pub(crate) by_default: bool,
    fields: fn(&Context<'_>, &mut Fields<'_>),
}

/// All sections, in the order in which they are shown.
pub(crate) static SECTIONS: &[Section] = &[
    Section { name: "server", title: "Server", by_default: true, fields: server },
    Section { name: "clients", title: "Clients", by_default: true, fields: clients },
    Section { name: "memory", title: "Memory", by_default: true, fields: memory },
    Section { name: "persistence", title: "Persistence", by_default: true, fields: persistence },
    Section { name: "threads", title: "Threads", by_default: true, fields: threads },
    Section { name: "stats", title: "Stats", by_default: true, fields: stats },
    Section { name: "replication", title: "Replication", by_default: true, fields: replication },
    Section { name: "cpu", title: "CPU", by_default: true, fields: cpu },
    Section { name: "modules", title: "Modules", by_default: true, fields: |_, _| {} },
    Section { name: "commandstats", title: "Commandstats", by_default: false, fields: commands },
    Section { name: "errorstats", title: "Errorstats", by_default: true, fields: errors },
    Section { name: "latencystats", title: "Latencystats", by_default: false, fields: latencies },
    Section { name: "phases", title: "Phases", by_default: false, fields: phases },
    Section { name: "workers", title: "Workers", by_default: false, fields: workers },
    Section { name: "cluster", title: "Cluster", by_default: true, fields: cluster },
    Section { name: "keyspace", title: "Keyspace", by_default: true, fields: keyspace },
];

impl Section {
    /// Appends the section to `text`.
    pub(crate) fn write(&self, cx: &Context<'_>, text: &mut String) {
        text.push_str(&format!("# {}\r\n", self.title));
        (self.fields)(cx, &mut Fields(text));
    }
}

/// The lines of a section.
struct Fields<'a>(&'a mut String);

impl Fields<'_> {
    fn add(&mut self, name: &str, value: impl Display) {
        self.0.push_str(&format!("{name}:{value}\r\n"));
    }

    /// Adds fields about features that are not in use.
    fn add_unused(&mut self, value: &str, names: &[&str]) {
        names.iter().for_each(|name| self.add(name, value));
    }

    /// Adds a number of bytes, and the same in a human-readable form.
    fn add_bytes(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes);
        self.add(&format!("{name}_human"), human(bytes));
    }
}

fn server(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let process = cx.server.process();
    let now = since_1970();
    let uptime_s = cx.db.now_ms().saturating_sub(process.started_at_ms) / 1000;
    let executable = std::env::current_exe().unwrap_or_default();
    let config = cx.server.config();
    let file = config.file().map(|path| path.display().to_string());
    fields.add("redis_version", REDIS_VERSION);
    fields.add("nagi_version", VERSION);
    fields.add("redis_mode", "standalone");
    fields.add("os", usage::operating_system());
    fields.add("arch_bits", usize::BITS);
    fields.add("monotonic_clock", "POSIX clock_gettime");
    fields.add("multiplexing_api", process.io);
    fields.add("process_id", std::process::id());
    fields.add("process_supervised", supervisor(config));
    fields.add("run_id", &process.run_id);
    fields.add("tcp_port", config.port.get());
    fields.add("memcached_port", config.memcached_port.get());
    fields.add("workers", process.workers);
    fields.add("workers_active", cx.server.active_workers());
    fields.add("server_time_usec", now.as_micros());
    fields.add("uptime_in_seconds", uptime_s);
    fields.add("uptime_in_days", uptime_s / 86_400);
    // Periodic work runs ten times a second, independently of `hz`.
    fields.add("hz", 10);
    fields.add("configured_hz", setting(config, "hz"));
    fields.add("lru_clock", now.as_secs() & 0xff_ffff);
    fields.add("executable", executable.display());
    fields.add("config_file", file.unwrap_or_default());
    fields.add("io_threads_active", 0);
    if config.port.is_on() {
        let bind = config.bind.get();
        let bind: String = bind.split_whitespace().map(|it| format!(",bind={it}")).collect();
        fields.add("listener0", format_args!("name=tcp{bind},port={}", config.port.get()));
    }
}

/// The service manager that started the process, from the environment.
fn supervisor(config: &Config) -> &'static str {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    match setting(config, "supervised").as_str() {
        "systemd" => "systemd",
        "upstart" => "upstart",
        "auto" if is_set("NOTIFY_SOCKET") => "systemd",
        "auto" if is_set("UPSTART_JOB") => "upstart",
        _ => "no",
    }
}

fn setting(config: &Config, name: &str) -> String {
    config::find(name).map(|setting| setting.value(config)).unwrap_or_default()
}

fn clients(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let clients = cx.server.clients();
    let waiting = clients.iter().filter(|client| client.marks().contains(Marks::WAITING));
    fields.add("connected_clients", clients.len());
    let most = |bytes: fn(&ClientInfo) -> usize| {
        clients.iter().map(|client| bytes(client)).max().unwrap_or(0)
    };
    fields.add("cluster_connections", 0);
    fields.add("maxclients", cx.server.config().maxclients.get());
    let input = most(|client| client.query_bytes.load(Ordering::Relaxed));
    fields.add("client_recent_max_input_buffer", input);
    let output = most(|client| client.output_bytes.load(Ordering::Relaxed));
    fields.add("client_recent_max_output_buffer", output);
    fields.add("blocked_clients", waiting.count());
    fields.add("tracking_clients", cx.hooks.tracking.figures().clients);
    fields.add("pubsub_clients", cx.server.pubsub().clients());
    let (watching_clients, watched_keys) = cx.hooks.watched_keys.counts();
    fields.add("watching_clients", watching_clients);
    fields.add("total_watched_keys", watched_keys);
    fields.add("total_blocking_keys", cx.hooks.blocked.keys());
    fields.add("total_blocking_keys_on_nokey", cx.hooks.blocked.keys_on_removal());
    fields.add_unused("0", &["clients_in_timeout_table"]);
}

fn memory(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let (limit_bytes, policy) = cx.db.store().limit();
    let figures = Figures::read(cx);
    let (used, allocated) = (figures.used(), figures.allocated());
    // Data and clients. The memory of the process is not included, so that the figure can be
    // compared with `maxmemory`.
    fields.add_bytes("used_memory", used);
    fields.add_bytes("used_memory_rss", figures.rss);
    fields.add_bytes("used_memory_peak", figures.peak_used);
    let peak_percent = ratio(used, figures.peak_used) * 100.0;
    fields.add("used_memory_peak_perc", format_args!("{peak_percent:.2}%"));
    // The memory that `maxmemory` limits, and the memory of clients.
    fields.add("used_memory_dataset", figures.dataset);
    fields.add("used_memory_overhead", figures.clients);
    fields.add_unused("0", &["used_memory_startup"]);
    // The memory of the process itself, which is not included in either: at startup, and now.
    fields.add("process_memory_startup", figures.startup);
    fields.add("process_memory", figures.process());
    fields.add("used_memory_dataset_perc", format_args!("{:.2}%", figures.dataset_percent()));
    fields.add("allocator_allocated", allocated);
    fields.add("allocator_active", figures.active);
    fields.add("allocator_resident", figures.resident);
    fields.add_bytes("total_system_memory", usage::system_memory_bytes());
    scripts(cx, fields);
    fields.add_bytes("maxmemory", limit_bytes);
    fields.add("maxmemory_policy", policy.name());
    for (name, bytes, of) in [
        ("allocator_frag", figures.active, allocated),
        ("allocator_rss", figures.resident, figures.active),
        ("rss_overhead", figures.rss, figures.resident),
        ("mem_fragmentation", figures.rss, allocated),
    ] {
        fields.add(&format!("{name}_ratio"), format_args!("{:.2}", ratio(bytes, of)));
        fields.add(&format!("{name}_bytes"), difference(bytes, of));
    }
    fields.add("mem_not_counted_for_evict", figures.clients);
    fields.add("mem_clients_normal", figures.clients);
    fields.add_unused(
        "0",
        &[
            "mem_replication_backlog",
            "mem_total_replication_buffers",
            "mem_clients_slaves",
            "mem_replica_full_sync_buffer",
            "mem_cluster_links",
            "mem_aof_buffer",
            "mem_overhead_db_hashtable_rehashing",
            "active_defrag_running",
        ],
    );
    let (pending, freed) = cx.db.store().reclaimed();
    fields.add("lazyfree_pending_objects", pending);
    fields.add("lazyfreed_objects", freed);
    fields.add("mem_allocator", "mimalloc");
}

/// The memory of scripts: Lua, and the texts of scripts.
fn scripts(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let scripts = cx.server.scripts();
    let lua_bytes = scripts.script_bytes.load(Ordering::Relaxed) as u64;
    let function_lua_bytes = scripts.function_bytes.load(Ordering::Relaxed) as u64;
    let (cached, text_bytes, _) = scripts.cached();
    fields.add_bytes("used_memory_lua", lua_bytes);
    fields.add("used_memory_vm_eval", lua_bytes);
    fields.add("used_memory_scripts_eval", text_bytes);
    fields.add("number_of_cached_scripts", cached);
    let all = scripts.libraries();
    let (libraries, functions) = all.counts();
    fields.add("number_of_functions", functions);
    fields.add("number_of_libraries", libraries);
    fields.add("used_memory_vm_functions", function_lua_bytes);
    fields.add_bytes("used_memory_vm_total", lua_bytes + function_lua_bytes);
    fields.add("used_memory_functions", all.bytes());
    fields.add_bytes("used_memory_scripts", (text_bytes + all.bytes()) as u64);
}

/// The state of saves. The field `latest_fork_usec`, in the section of statistics, is the duration
/// of the cut.
fn persistence(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let saves = cx.server.saves();
    let status = saves.status();
    let held = cx.db.store().snapshot_memory();
    let seconds = |took: Option<Duration>| took.map_or(-1, |took| took.as_secs().cast_signed());
    let loading = saves.loading.stage();
    fields.add("loading", u8::from(loading.is_some()));
    fields.add("async_loading", 0);
    fields.add("current_cow_peak", held.pre_image_peak_bytes);
    fields.add("current_cow_size", held.pre_image_bytes);
    fields.add("current_cow_size_age", 0);
    let saved = saves.progress.keys.load(Ordering::Relaxed);
    let counted = saves.progress.total_keys.load(Ordering::Relaxed);
    let total = match counted {
        _ if !status.in_progress => 0,
        0 => keys(cx).max(saved),
        counted => counted,
    };
    let percent = if total > 0 { saved as f64 * 100.0 / total as f64 } else { 0.0 };
    fields.add("current_fork_perc", format_args!("{percent:.2}"));
    fields.add("current_save_keys_processed", if status.in_progress { saved } else { 0 });
    fields.add("current_save_keys_total", total);
    let bytes = saves.progress.bytes.load(Ordering::Relaxed);
    let took = status.began.map_or(Duration::ZERO, |began| began.elapsed());
    fields.add("current_save_bytes", if status.in_progress { bytes } else { 0 });
    let rate = if took.is_zero() { 0.0 } else { bytes as f64 / took.as_secs_f64() };
    fields.add("current_save_bytes_per_sec", rate as u64);
    fields.add("snapshot_preimage_bytes", held.pre_image_bytes);
    fields.add("snapshot_preimage_peak_bytes", held.pre_image_peak_bytes);
    fields.add("snapshot_preimages", held.pre_images);
    let [delayed, delay_us, longest_us] = saves.delays.figures();
    fields.add("snapshot_writers_delayed", delayed);
    fields.add("snapshot_writer_delay_usec", delay_us);
    fields.add("snapshot_longest_writer_delay_usec", longest_us);
    fields.add("snapshot_pauses", saves.pauses.load(Ordering::Relaxed));
    let changes = cx.db.store().totals().changes.saturating_sub(status.changes_saved);
    fields.add("rdb_changes_since_last_save", changes);
    fields.add("rdb_bgsave_in_progress", u8::from(status.in_progress));
    fields.add("rdb_last_save_time", status.last_success_s);
    let word = if status.last_error.is_some() { "err" } else { "ok" };
    fields.add("rdb_last_bgsave_status", word);
    fields.add("rdb_last_bgsave_error", status.last_error.as_deref().unwrap_or_default());
    fields.add("rdb_last_bgsave_time_sec", seconds(status.last_took));
    fields.add("rdb_current_bgsave_time_sec", seconds(status.began.map(|began| began.elapsed())));
    fields.add("rdb_saves", status.count);
    fields.add("rdb_last_save_keys", status.last_keys);
    fields.add("rdb_last_save_bytes", status.last_bytes);
    fields.add("rdb_last_cow_size", held.pre_image_peak_bytes);
    fields.add("rdb_last_load_keys_expired", status.loaded_expired);
    fields.add("rdb_last_load_keys_loaded", status.loaded_keys);
    fields.add_unused("0", &["aof_enabled", "aof_rewrite_in_progress", "aof_rewrite_scheduled"]);
    fields.add_unused("-1", &["aof_last_rewrite_time_sec", "aof_current_rewrite_time_sec"]);
    fields.add("aof_last_bgrewrite_status", "ok");
    fields.add_unused("0", &["aof_rewrites", "aof_rewrites_consecutive_failures"]);
    fields.add("aof_last_write_status", "ok");
    fields.add_unused(
        "0",
        &["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"],
    );
    if let Some(stage) = loading {
        fields.add("loading_start_time", stage.began_at_s);
        fields.add("loading_total_bytes", stage.total_bytes);
        fields.add("loading_rdb_used_mem", stage.used_memory_bytes);
        fields.add("loading_loaded_bytes", stage.bytes);
        fields.add("loading_loaded_perc", format_args!("{:.2}", stage.percent()));
        fields.add("loading_eta_seconds", stage.left_s());
        fields.add("loading_loaded_keys", stage.keys);
    }
}

/// The number of workers, each of which reads, executes and writes for its own clients.
fn threads(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let mut clients = vec![0_u64; cx.server.process().workers];
    for client in cx.server.clients() {
        clients.get_mut(client.worker()).into_iter().for_each(|count| *count += 1);
    }
    let traffic = cx.server.statistics().traffic_of_workers();
    for (worker, (clients, [reads, writes])) in clients.into_iter().zip(traffic).enumerate() {
        let value = format_args!("clients={clients},reads={reads},writes={writes}");
        fields.add(&format!("io_thread_{worker}"), value);
    }
}

/// The number of keys in all databases.
fn keys(cx: &Context<'_>) -> u64 {
    let databases = 0..cx.db.store().databases();
    databases.map(|index| cx.db.sibling(index).size() as u64).sum()
}

/// Counters of features that do not exist here.
const NOT_THERE: &[&str] = &[
    "total_forks",
    "migrate_cached_sockets",
    "slave_expires_tracked_keys",
    "active_defrag_hits",
    "active_defrag_misses",
    "active_defrag_key_hits",
    "active_defrag_key_misses",
    "total_active_defrag_time",
    "current_active_defrag_time",
    "unexpected_error_replies",
    "io_threaded_reads_processed",
    "io_threaded_writes_processed",
];

/// The longest slice of a worker and the longest hold of a latch, each in total and while the
/// thread was running on a processor.
fn longest(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let (statistics, store) = (cx.server.statistics(), cx.db.store());
    let slice = statistics.longest(|tally| &tally.longest_slice);
    fields.add("longest_slice_usec", slice.as_micros());
    let slice = statistics.longest(|tally| &tally.longest_slice_on_cpu);
    fields.add("longest_slice_cpu_usec", slice.as_micros());
    let send = statistics.longest(|tally| &tally.longest_send);
    fields.add("longest_send_usec", send.as_micros());
    fields.add("longest_latch_hold_usec", store.longest_latch_hold().as_micros());
    fields.add("longest_latch_hold_cpu_usec", store.longest_latch_hold_on_cpu().as_micros());
    fields.add("longest_eviction_usec", store.longest_eviction().as_micros());
}

/// The number of turns of event loops, and their duration without waits.
fn event_loops(cx: &Context<'_>, totals: &Totals, fields: &mut Fields<'_>) {
    let micros = |ticks: u64| ticks::duration(ticks).as_micros();
    let rates = cx.server.statistics().rates();
    fields.add("expire_cycle_cpu_milliseconds", micros(totals.expiry_ticks) / 1000);
    fields.add("eventloop_cycles", totals.turns);
    fields.add("eventloop_duration_sum", micros(totals.turn_ticks));
    fields.add("instantaneous_eventloop_cycles_per_sec", rates.turns);
    let mean_us = micros(rates.turn_ticks) / u128::from(rates.turns.max(1));
    fields.add("instantaneous_eventloop_duration_usec", mean_us);
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
    fields.add_unused("0", &["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    let kbps = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    fields.add("instantaneous_input_kbps", kbps(rates.input_bytes));
    fields.add("instantaneous_output_kbps", kbps(rates.output_bytes));
    fields.add_unused("0.00", &["instantaneous_input_repl_kbps", "instantaneous_output_repl_kbps"]);
    let rejected = totals.refused_connections + totals.unprotected_connections;
    fields.add("rejected_connections", rejected);
    fields.add("rejected_by_protected_mode", totals.unprotected_connections);
    fields.add_unused("0", &["sync_full", "sync_partial_ok", "sync_partial_err"]);
    fields.add("expired_subkeys", store.expired_fields);
    fields.add("expired_keys", store.expired);
    fields.add("expired_stale_perc", format_args!("{:.2}", stale_percent(cx, rates.expired)));
    // The search for expired keys has no time limit that could be reached.
    fields.add("expired_time_cap_reached_count", 0);
    // Payloads of RESTORE are always checked in full.
    let restored = cx
        .server
        .commands()
        .find_own(b"restore")
        .and_then(|entry| totals.commands.get(entry.index));
    fields.add("dump_payload_sanitizations", restored.map_or(0, |counted| counted.calls));
    fields.add("evicted_keys", store.evicted);
    fields.add("evicted_clients", totals.evicted_clients);
    fields.add("relocated_connections", totals.relocations);
    fields.add("keyspace_hits", store.hits);
    fields.add("keyspace_misses", store.misses);
    let pubsub = cx.server.pubsub();
    fields.add("pubsub_channels", pubsub.count(Kind::Channel));
    fields.add("pubsub_patterns", pubsub.count(Kind::Pattern));
    fields.add("pubsubshard_channels", pubsub.count(Kind::Shard));
    let tracking = cx.hooks.tracking.figures();
    fields.add("tracking_total_keys", tracking.keys);
    fields.add("tracking_total_items", tracking.items);
    fields.add("tracking_total_prefixes", tracking.prefixes);
    fields.add_unused("0", NOT_THERE);
    fields.add("evicted_scripts", cx.server.scripts().cached().2);
    event_loops(cx, &totals, fields);
    longest(cx, fields);
    fields.add("client_query_buffer_limit_disconnections", totals.query_limit_disconnections);
    fields.add("client_output_buffer_limit_disconnections", totals.output_limit_disconnections);
    fields.add("total_reads_processed", totals.reads);
    fields.add("total_writes_processed", totals.writes);
    for (name, reason) in [
        ("acl_access_denied_auth", Reason::Login),
        ("acl_access_denied_cmd", Reason::Command),
        ("acl_access_denied_key", Reason::Key),
        ("acl_access_denied_channel", Reason::Channel),
    ] {
        fields.add(name, cx.hooks.access_log.count(reason));
    }
    let cut = cx.server.saves().status().last_cut.unwrap_or_default();
    fields.add("latest_fork_usec", cut.as_micros());
    fields.add("total_error_replies", totals.errors.values().sum::<u64>());
}

/// The estimated percentage of expired keys that are still in memory: those of a tenth of a second,
/// the interval in which they are searched for.
fn stale_percent(cx: &Context<'_>, expired_a_second: u64) -> f64 {
    let unused = Counters::default();
    let store = cx.db.store();
    let databases = 0..store.databases();
    let volatile = databases.map(|it| store.database(it, &unused, cx.db.now_ms()).volatile_size());
    let stale = expired_a_second as f64 / 10.0;
    100.0 * stale / (volatile.sum::<usize>() as f64 + stale).max(1.0)
}

fn replication(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let process = cx.server.process();
    fields.add("role", "master");
    fields.add("connected_slaves", 0);
    fields.add("master_failover_state", "no-failover");
    fields.add("master_replid", &process.run_id);
    fields.add("master_replid2", "0".repeat(40));
    fields.add("master_repl_offset", 0);
    fields.add("second_repl_offset", -1);
    fields.add("repl_backlog_active", 0);
    fields.add("repl_backlog_size", setting(cx.server.config(), "repl-backlog-size"));
    fields.add_unused("0", &["repl_backlog_first_byte_offset", "repl_backlog_histlen"]);
}

fn cpu(_: &Context<'_>, fields: &mut Fields<'_>) {
    let mut add = |usage: Option<Usage>, suffix: &str| {
        let Some(usage) = usage else { return };
        let seconds = |duration: Duration| format!("{:.6}", duration.as_secs_f64());
        fields.add(&format!("used_cpu_sys{suffix}"), seconds(usage.system));
        fields.add(&format!("used_cpu_user{suffix}"), seconds(usage.user));
    };
    add(Usage::read(), "");
    add(Usage::read_main_thread(), "_main_thread");
    // There are no child processes.
    fields.add_unused("0.000000", &["used_cpu_sys_children", "used_cpu_user_children"]);
}

fn commands(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let totals = cx.server.statistics().totals();
    for (entry, counted) in cx.server.commands().entries().iter().zip(&totals.commands) {
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
    for entry in cx.server.commands().entries() {
        if let Some(latencies) = cx.server.statistics().latencies(entry.index) {
            let name = format!("latency_percentiles_usec_{}", entry.full_name);
            fields.add(&name, percentiles(&latencies, &percents));
        }
    }
}

/// A section that Redis lacks: the phases of requests, by families of commands.
fn phases(cx: &Context<'_>, fields: &mut Fields<'_>) {
    for (family, distributions) in cx.server.statistics().phases() {
        for (phase, distribution) in Phases::NAMES.iter().zip(&distributions) {
            let percentiles = percentiles(distribution, "50 99 99.9 100");
            let value = format_args!("requests={},{percentiles}", distribution.count());
            fields.add(&format!("phase_usec_{family}_{phase}"), value);
        }
    }
}

/// A section that Redis lacks: the activity of each thread that executes commands, in the last
/// second; and the most frequent keys, for users with the permission to see requests.
fn workers(cx: &Context<'_>, fields: &mut Fields<'_>) {
    let sees_keys = rights::may_observe(cx.server, cx.client.user_name());
    cx.server.statistics().activity.show(|activity| {
        activity.threads.iter().for_each(|(name, value)| fields.add(name, value));
        let hot_keys = activity.hot_keys.iter().filter(|_| sees_keys);
        hot_keys.for_each(|(name, value)| fields.add(name, value));
    });
}

/// Formats percentiles in microseconds, as in `p50=1.003,p99=2.007`.
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
    // Counting keys must not count as lookups.
    let unused = Counters::default();
    // With a new generator, each call would draw the same entries.
    unused.draws.add(cx.db.random());
    for index in 0..cx.db.store().databases() {
        let db = cx.db.store().database(index, &unused, cx.db.now_ms());
        let (keys, expires) = (db.size(), db.volatile_size());
        if keys > 0 {
            let mean_ms = if expires > 0 { mean_time_to_live_ms(&db) } else { 0 };
            let hashes = db.hashes_with_expiry();
            let value =
                format_args!("keys={keys},expires={expires},avg_ttl={mean_ms},subexpiry={hashes}");
            fields.add(&format!("db{index}"), value);
        }
    }
}

/// The mean time to live of keys with an expiry, from a random sample.
fn mean_time_to_live_ms(db: &Database<'_>) -> u64 {
    const SAMPLES: usize = 16;
    let (mut sum_ms, mut count) = (0_u128, 0_u128);
    db.random_volatile_entries(SAMPLES, |entry| {
        let at_ms = entry.expire_at_ms().unwrap_or_default();
        sum_ms += u128::from(at_ms.saturating_sub(db.now_ms()));
        count += 1;
    });
    u64::try_from(sum_ms / count.max(1)).unwrap_or(u64::MAX)
}

/// Formats a number of bytes like Redis: `1.50M`.
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
