//! The fields of `stats`, by the names of memcached 1.6.45. Exporters read nearly all of them, so
//! none is omitted: a field without a counterpart here has the value of a memcached in which the
//! feature has not been used.

use super::{Context, VERSION};
use crate::config::{Config, MemcachedProtocol};
use crate::runtime::suspension::SLICE_REQUESTS;
use crate::state::usage::Usage;
use crate::state::watchers::Watchers;
use crate::{ClientInfo, Marks};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// A name and its value.
pub(super) type Field = (String, String);

/// The fields of a group; the general fields if no group is given, and `None` for an unknown group.
pub(super) fn fields(cx: &Context<'_>, group: Option<&[u8]>) -> Option<Vec<Field>> {
    Some(match group {
        None => general(cx),
        Some(b"settings") => settings(cx),
        Some(b"items") => items(cx),
        Some(b"slabs") => slabs(cx),
        Some(b"sizes") => vec![field("sizes_status", "disabled")],
        Some(b"conns") => connections(cx),
        Some(b"extstore" | b"proxy" | b"proxyfuncs" | b"proxybe") => Vec::new(),
        Some(_) => return None,
    })
}

fn field(name: impl ToString, value: impl ToString) -> Field {
    (name.to_string(), value.to_string())
}

/// Fields with constant values, of features that do not exist here.
const CONSTANT: &[(&str, &str)] = &[
    ("response_obj_oom", "0"),
    ("response_obj_count", "0"),
    ("response_obj_bytes", "0"),
    ("read_buf_count", "0"),
    ("read_buf_bytes", "0"),
    ("read_buf_bytes_free", "0"),
    ("read_buf_oom", "0"),
    ("reserved_fds", "0"),
    ("get_flushed", "0"),
    ("accepting_conns", "1"),
    ("listen_disabled_num", "0"),
    ("time_in_listen_disabled_us", "0"),
    ("conn_yields", "0"),
    ("hash_power_level", "0"),
    ("hash_bytes", "0"),
    ("hash_is_expanding", "0"),
    ("slab_reassign_rescues", "0"),
    ("slab_reassign_chunk_rescues", "0"),
    ("slab_reassign_inline_reclaim", "0"),
    ("slab_reassign_busy_items", "0"),
    ("slab_reassign_busy_deletes", "0"),
    ("slab_reassign_busy_nomem", "0"),
    ("slab_reassign_last_busy_status", "none"),
    ("slab_reassign_running", "0"),
    ("slabs_moved", "0"),
    ("lru_crawler_running", "0"),
    ("lru_crawler_starts", "0"),
    ("lru_maintainer_juggles", "0"),
    ("malloc_fails", "0"),
    ("log_worker_dropped", "0"),
    ("unexpected_napi_ids", "0"),
    ("round_robin_fallback", "0"),
    ("slab_global_page_pool", "0"),
    ("evicted_active", "0"),
    ("reclaimed", "0"),
    ("crawler_items_checked", "0"),
    ("lrutail_reflocked", "0"),
    ("moves_to_cold", "0"),
    ("moves_to_warm", "0"),
    ("moves_within_lru", "0"),
    ("direct_reclaims", "0"),
    ("lru_bumps_dropped", "0"),
];

/// The memory of all items, in bytes; 0 if database 0 is empty.
fn item_bytes(cx: &Context<'_>) -> u64 {
    if cx.db.size() == 0 { 0 } else { cx.db.store().data_bytes() }
}

/// The general fields. Connections, bytes and expired items are those of all protocols; items are
/// those of database 0.
fn general(cx: &Context<'_>) -> Vec<Field> {
    let totals = cx.server.statistics().totals();
    let store = cx.db.store().totals();
    let now_ms = cx.db.now_ms();
    let process = cx.server.process();
    let mut fields = vec![
        field("pid", std::process::id()),
        field("uptime", now_ms.saturating_sub(process.started_at_ms) / 1000),
        field("time", now_ms / 1000),
        field("version", VERSION),
        field("pointer_size", usize::BITS),
    ];
    if let Some(usage) = Usage::read() {
        fields.push(field("rusage_user", format_args!("{:.6}", usage.user.as_secs_f64())));
        fields.push(field("rusage_system", format_args!("{:.6}", usage.system.as_secs_f64())));
    }
    let connections = cx.server.clients().len();
    let watched = cx.hooks.watchers.totals();
    fields.extend([
        field("max_connections", cx.server.config().maxclients.get()),
        field("curr_connections", connections),
        field("total_connections", totals.connections),
        field("rejected_connections", totals.refused_connections),
        field("connection_structures", connections),
    ]);
    fields.extend(totals.verbs.fields().map(|(name, value)| field(name, value)));
    fields.extend([
        field("get_expired", store.expired_misses),
        field("bytes_read", totals.input_bytes),
        field("bytes_written", totals.output_bytes),
        field("limit_maxbytes", cx.db.store().limit().0),
        field("threads", process.workers),
        field("bytes", item_bytes(cx)),
        field("curr_items", cx.db.size()),
        field("total_items", totals.verbs.stored()),
        field("evictions", store.evicted),
        field("evicted_unfetched", store.evicted_unfetched),
        field("expired_unfetched", store.expired_unfetched),
        field("crawler_reclaimed", store.expired),
        field("log_worker_written", watched.lines),
        field("log_watcher_skipped", watched.skipped),
        field("log_watcher_sent", watched.sent),
        field("log_watchers", watched.watchers),
    ]);
    if cx.server.config().timeout_s.get() > 0 {
        fields.push(field("idle_kicks", totals.idle_disconnections));
    }
    fields.extend(CONSTANT.iter().map(|(name, value)| field(name, value)));
    fields
}

/// Settings with a constant value here.
const FIXED: &[(&str, &str)] = &[
    ("udpport", "0"),
    ("num_threads_per_udp", "0"),
    ("verbosity", "0"),
    ("oldest", "0"),
    ("growth_factor", "1.25"),
    ("chunk_size", "8"),
    ("stat_key_prefix", ":"),
    ("detail_enabled", "no"),
    ("maxconns_fast", "yes"),
    ("slab_reassign", "yes"),
    ("slab_automove", "1"),
    ("hashpower_init", "0"),
    ("tail_repair_time", "0"),
    ("worker_logbuf_size", "0"),
    ("lru_crawler", "yes"),
    ("lru_crawler_sleep", "0"),
    ("lru_crawler_tocrawl", "0"),
    ("hash_algorithm", "siphash"),
    ("lru_maintainer_thread", "no"),
    ("lru_segmented", "no"),
    ("hot_lru_pct", "0"),
    ("warm_lru_pct", "0"),
    ("hot_max_factor", "0.00"),
    ("warm_max_factor", "0.00"),
    ("temp_lru", "no"),
    ("temporary_ttl", "0"),
    ("track_sizes", "no"),
    ("inline_ascii_response", "no"),
    ("ssl_enabled", "no"),
    ("proxy_enabled", "no"),
    ("proxy_uring_enabled", "no"),
    ("num_napi_ids", "0"),
    ("client_flags_size", "4"),
];

fn settings(cx: &Context<'_>) -> Vec<Field> {
    let process = cx.server.process();
    let config = cx.server.config();
    let login =
        if crate::runtime::admission::is_memcached_login_required(config) { "yes" } else { "no" };
    let evicts = config.maxmemory_policy.get() != 0;
    let or_null = |text: &str| if text.is_empty() { "NULL".to_owned() } else { text.to_owned() };
    let yes_or_no = |is_on: bool| if is_on { "yes" } else { "no" };
    let protocol = match config.memcached_protocol() {
        MemcachedProtocol::Auto => "auto-negotiate",
        MemcachedProtocol::Ascii => "ascii",
        MemcachedProtocol::Binary => "binary",
    };
    let mut fields = vec![
        field("maxbytes", cx.db.store().limit().0),
        field("maxconns", config.maxclients.get()),
        field("tcpport", config.memcached_port.get()),
        field("inter", or_null(&addresses(config))),
        field("domain_socket", or_null(&config.memcached_unixsocket.get())),
        field("umask", format_args!("{:o}", config.unixsocketperm.get())),
        field("shutdown_command", yes_or_no(config.memcached_shutdown.is_on())),
        field("cas_enabled", yes_or_no(config.memcached_cas.is_on())),
        field("binding_protocol", protocol),
        field("flush_enabled", yes_or_no(config.memcached_flush_all.is_on())),
        field("dump_enabled", yes_or_no(config.memcached_dump.is_on())),
        field("evictions", if evicts { "on" } else { "off" }),
        field("num_threads", process.workers),
        field("reqs_per_event", SLICE_REQUESTS),
        field("tcp_backlog", config.tcp_backlog.get()),
        field("auth_enabled_sasl", login),
        field("auth_enabled_ascii", login),
        field("item_size_max", config.memcached_item_limit.get()),
        field("idle_timeout", config.timeout_s.get()),
        field("watcher_logbuf_size", Watchers::ROOM_BYTES),
        field("memory_file", memory_file(cx).as_deref().unwrap_or("(null)")),
    ];
    fields.extend(FIXED.iter().map(|(name, value)| field(name, value)));
    fields
}

/// The addresses on which memcached clients can connect; empty for all addresses.
fn addresses(config: &Config) -> String {
    let own = config.memcached_bind.get();
    let bound = if own.is_empty() { config.bind.get() } else { own };
    let addresses = bound.split_whitespace().map(|it| it.strip_prefix('-').unwrap_or(it));
    let addresses: Vec<&str> = addresses.collect();
    if addresses.iter().all(|address| matches!(*address, "*" | "0.0.0.0" | "::" | "::*")) {
        return String::new();
    }
    addresses.join(",")
}

/// The file to which data is saved at shutdown and from which it is loaded at startup, as with
/// `-e`. A file from which keys were loaded counts even without save points: a server without a
/// file tells its clients that it has started empty.
fn memory_file(cx: &Context<'_>) -> Option<String> {
    let config = cx.server.config();
    let path = std::path::absolute(&*config.dir.get()).ok()?.join(&*config.dbfilename.get());
    let was_loaded = cx.server.saves().status().loaded_keys > 0;
    (config.has_save_points() || was_loaded).then(|| path.display().to_string())
}

/// Fields of the single class, which contains all items: memory is not permanently divided among
/// size classes here.
fn items(cx: &Context<'_>) -> Vec<Field> {
    let store = cx.db.store().totals();
    let items = cx.db.size();
    if items == 0 {
        return Vec::new();
    }
    let known = [
        ("number", items as u64),
        ("number_hot", 0),
        ("number_warm", 0),
        ("number_cold", items as u64),
        ("age_hot", 0),
        ("age_warm", 0),
        ("age", age_s(cx)),
        ("mem_requested", item_bytes(cx)),
        ("evicted", store.evicted),
        ("evicted_nonzero", store.evicted_volatile),
        ("evicted_time", cx.db.store().last_eviction_idle_ms() / 1000),
        ("outofmemory", counted(cx, "store_no_memory")),
        ("tailrepairs", 0),
        ("reclaimed", 0),
        ("expired_unfetched", store.expired_unfetched),
        ("evicted_unfetched", store.evicted_unfetched),
        ("evicted_active", 0),
        ("crawler_reclaimed", store.expired),
        ("crawler_items_checked", 0),
        ("lrutail_reflocked", 0),
        ("moves_to_cold", 0),
        ("moves_to_warm", 0),
        ("moves_within_lru", 0),
        ("direct_reclaims", 0),
        ("hits_to_hot", 0),
        ("hits_to_warm", 0),
        ("hits_to_cold", counted(cx, "get_hits")),
        ("hits_to_temp", 0),
    ];
    known.iter().map(|(name, value)| field(format_args!("items:1:{name}"), value)).collect()
}

/// The longest idle time of an item, in seconds. It is exact only for few items, and otherwise that
/// of a sample: there is no list of items in the order of their use.
fn age_s(cx: &Context<'_>) -> u64 {
    const SAMPLE: usize = 1000;
    let mut idle_ms = 0;
    cx.db.scan(0, SAMPLE, |entry| idle_ms = cx.db.idle_ms_of(&entry).max(idle_ms));
    idle_ms / 1000
}

/// A counter of verbs.
fn counted(cx: &Context<'_>, name: &str) -> u64 {
    let verbs = cx.server.statistics().totals().verbs;
    verbs.fields().find(|(known, _)| *known == name).map_or(0, |(_, value)| value)
}

/// Pages have the size of the store's pages. Chunks have the size of the step between two sizes of
/// entries; an item takes as many chunks as it needs.
fn slabs(cx: &Context<'_>) -> Vec<Field> {
    const PAGE_BYTES: u64 = 4096;
    const CHUNK_BYTES: u64 = 8;
    const CHUNKS: u64 = PAGE_BYTES / CHUNK_BYTES;
    if cx.db.size() == 0 {
        return vec![field("active_slabs", 0), field("total_malloced", 0)];
    }
    let used = item_bytes(cx).div_ceil(CHUNK_BYTES).max(1);
    let allocated = cx.db.store().allocated_data_bytes().div_ceil(PAGE_BYTES);
    let pages = allocated.max(used.div_ceil(CHUNKS));
    let known = [
        ("chunk_size", CHUNK_BYTES),
        ("chunks_per_page", CHUNKS),
        ("total_pages", pages),
        ("total_chunks", pages * CHUNKS),
        ("used_chunks", used),
        ("free_chunks", pages * CHUNKS - used),
        ("free_chunks_end", 0),
    ];
    let verbs = [
        "get_hits",
        "cmd_set",
        "delete_hits",
        "incr_hits",
        "decr_hits",
        "cas_hits",
        "cas_badval",
        "touch_hits",
    ];
    let counters = verbs.map(|name| (name, counted(cx, name)));
    let fields = known.into_iter().chain(counters);
    let mut fields: Vec<Field> =
        fields.map(|(name, value)| field(format_args!("1:{name}"), value)).collect();
    fields.push(field("active_slabs", 1));
    fields.push(field("total_malloced", pages * PAGE_BYTES));
    fields
}

/// Clients of all protocols, by the numbers of their descriptors.
fn connections(cx: &Context<'_>) -> Vec<Field> {
    let now_ms = cx.db.now_ms();
    let clients = cx.server.clients();
    let each = clients.iter().flat_map(|client| {
        let number = client.descriptor;
        let active_at_ms = client.active_at_ms.load(Ordering::Relaxed);
        let is_asking = client.id == cx.client.info.id;
        [
            field(format_args!("{number}:addr"), endpoint(&client.shown_address())),
            field(format_args!("{number}:listen_addr"), endpoint(&client.local_address)),
            field(format_args!("{number}:state"), state(client, is_asking)),
            field(
                format_args!("{number}:secs_since_last_cmd"),
                now_ms.saturating_sub(active_at_ms) / 1000,
            ),
        ]
    });
    each.collect()
}

/// An address as memcached writes it. In Redis' format, the path of a Unix socket has port 0.
fn endpoint(address: &str) -> String {
    match address.parse::<SocketAddr>() {
        Ok(SocketAddr::V4(_)) => format!("tcp:{address}"),
        Ok(SocketAddr::V6(_)) => format!("tcp6:{address}"),
        Err(_) => format!("unix:{}", address.strip_suffix(":0").unwrap_or(address)),
    }
}

/// The state of a connection, by memcached's names.
fn state(client: &ClientInfo, is_asking: bool) -> &'static str {
    if client.marks().contains(Marks::WATCHER) {
        "conn_watch"
    } else if is_asking {
        "conn_parse_cmd"
    } else if client.query_bytes.load(Ordering::Relaxed) > 0 {
        "conn_nread"
    } else {
        "conn_read"
    }
}
