//! The values of the settings that have an effect.

use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A numeric setting; reading it is one load.
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Number {
    /// The current value.
    #[must_use]
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The current value, for settings that may be negative.
    #[must_use]
    #[inline]
    pub fn signed(&self) -> i64 {
        self.get().cast_signed()
    }

    /// The current value, as a length in memory.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> usize {
        usize::try_from(self.get()).unwrap_or(usize::MAX)
    }

    /// Whether it is switched on.
    #[must_use]
    #[inline]
    pub fn is_on(&self) -> bool {
        self.get() != 0
    }

    /// Sets a value known only at runtime, such as a port chosen by the kernel.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// A setting that is a string.
#[derive(Debug, Default)]
pub struct Text(RwLock<Arc<str>>);

impl Text {
    /// The current value.
    #[must_use]
    pub fn get(&self) -> Arc<str> {
        Arc::clone(&self.0.read())
    }

    pub(super) fn set(&self, value: Arc<str>) {
        *self.0.write() = value;
    }
}

/// The values of the settings that have an effect.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "each field's setting has a summary in its row")]
pub struct Values {
    pub acl_pubsub_default: Number,
    pub aclfile: Text,
    pub acllog_max_len: Number,
    pub adaptive_workers: Number,
    pub bind: Text,
    pub busy_reply: Number,
    pub busy_reply_threshold_ms: Number,
    pub client_output_buffer_limit: Text,
    pub client_query_buffer_limit: Number,
    pub commandlog_large_reply_max_len: Number,
    pub commandlog_large_request_max_len: Number,
    pub commandlog_reply_larger_than: Number,
    pub commandlog_request_larger_than: Number,
    pub daemonize: Number,
    pub databases: Number,
    pub dbfilename: Text,
    pub dir: Text,
    pub hash_max_listpack_entries: Number,
    pub hash_max_listpack_value: Number,
    pub hll_sparse_max_bytes: Number,
    pub http_active_types: Number,
    pub http_bind: Text,
    pub http_cache_control: Text,
    pub http_commands: Text,
    pub http_gateway: Number,
    pub http_hosts: Text,
    pub http_jsonp: Number,
    pub http_networks: Text,
    pub http_origins: Text,
    pub http_port: Number,
    pub http_trusted_proxies: Text,
    pub http_writes_by_get: Number,
    pub io: Number,
    pub lfu_decay_time: Number,
    pub lfu_log_factor: Number,
    pub latency_tracking: Number,
    pub latency_tracking_info_percentiles: Text,
    pub enable_debug_command: Number,
    pub enable_module_command: Number,
    pub enable_protected_configs: Number,
    pub latency_monitor_threshold_ms: Number,
    pub list_max_listpack_size: Number,
    pub logfile: Text,
    pub loglevel: Number,
    pub maxclients: Number,
    pub maxmemory: Number,
    pub maxmemory_clients: Number,
    pub maxmemory_policy: Number,
    pub memcached_auth_file: Text,
    pub memcached_bind: Text,
    pub memcached_cas: Number,
    pub memcached_dump: Number,
    pub memcached_flush_all: Number,
    pub memcached_item_limit: Number,
    pub memcached_port: Number,
    pub memcached_protocol: Number,
    pub memcached_shutdown: Number,
    pub memcached_unixsocket: Text,
    pub memcached_watch: Number,
    pub notify_keyspace_events: Number,
    pub pidfile: Text,
    pub port: Number,
    pub proc_title_template: Text,
    pub protected_mode: Number,
    pub proto_max_bulk_len: Number,
    pub rdb_version: Number,
    pub rdbchecksum: Number,
    pub rdbcompression: Number,
    pub requirepass: Text,
    pub save: Text,
    pub save_cpu_limit: Number,
    pub set_proc_title: Number,
    pub set_max_intset_entries: Number,
    pub set_max_listpack_entries: Number,
    pub set_max_listpack_value: Number,
    pub slowlog_log_slower_than_us: Number,
    pub script_memory_limit: Number,
    pub slowlog_max_len: Number,
    pub slowlog_total_slower_than_us: Number,
    pub snapshot_preimage_limit: Number,
    pub stop_writes_on_bgsave_error: Number,
    pub stream_node_max_bytes: Number,
    pub stream_node_max_entries: Number,
    pub supervised: Number,
    pub tcp_backlog: Number,
    pub tcp_keepalive_s: Number,
    pub timeout_s: Number,
    pub tracking_table_max_keys: Number,
    pub unixsocket: Text,
    pub unixsocketperm: Number,
    pub workers: Number,
    pub zset_max_listpack_entries: Number,
    pub zset_max_listpack_value: Number,
}
