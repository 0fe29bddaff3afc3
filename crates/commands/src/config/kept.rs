//! The rows of the settings of Redis and Valkey that have no effect here.
//!
//! They are accepted, kept for CONFIG GET and written by CONFIG REWRITE, because existing files and
//! clients use them; the server logs once which of them were given. Settings whose absence would
//! lose data or open access are refused instead.

use super::checks::{self, SCORES};
use super::kinds::Kind::{
    self, Checked, Choice, Integer, Lines, Memory, Password, Port, Switch, Text, Words,
};
use super::kinds::{MASTER, SHUTDOWN_FLAGS};
use super::setting::{Place, Setting};

/// The largest `int` of Redis.
const INT: i64 = i32::MAX as i64;

/// A setting that CONFIG SET may change.
const SET: bool = true;
/// A setting that can only be given at startup.
const FIXED: bool = false;

const NO_AOF: &str = "There is no append-only file: a crash loses the changes since the last save";
const NO_CLUSTER: &str = "There is no cluster mode";
const ALWAYS_CHECKED: &str = "Payloads and files are always verified";
const ALWAYS_SYNCED: &str = "Files are always synced as they are written";
const BY_SAVE: &str = "A signal saves if there are save points, as by Redis' default";
const NO_COMPRESSION: &str = "Lists are not compressed";
const NO_LOCALES: &str = "SORT compares bytes";
const NO_MODULES: &str = "There are no modules";
const NO_REPLICATION: &str = "There is no replication";
const NO_TLS: &str = "There is no TLS";
const NOT_READ: &str = "nagi does not use it";
const OTHERWISE: &str = "It tunes a mechanism that nagi does not have";

/// The values of `syslog-facility`.
static FACILITIES: [&str; 9] =
    ["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"];

/// Creates the row of a setting that is accepted; `summary` says why it has no effect.
const fn unused(
    name: &'static str,
    aliases: &'static [&'static str],
    kind: Kind,
    default: &'static str,
    changeable: bool,
    summary: &'static str,
) -> Setting {
    Setting { name, aliases, kind, default, changeable, place: Place::Unused, summary }
}

/// Creates the row of a setting that is only accepted with its default or one of the `harmless`
/// values.
const fn refused(
    name: &'static str,
    aliases: &'static [&'static str],
    kind: Kind,
    default: &'static str,
    changeable: bool,
    harmless: &'static [&'static str],
    summary: &'static str,
) -> Setting {
    let place = Place::Refused(harmless);
    Setting { name, aliases, kind, default, changeable, place, summary }
}

/// Creates the row of a directive of files that is always refused.
const fn directive(name: &'static str, summary: &'static str) -> Setting {
    let (kind, place) = (Words, Place::Directive);
    Setting { name, aliases: &[], kind, default: "", changeable: false, place, summary }
}

/// The rows, in the order of their names.
#[rustfmt::skip]
pub(super) static ROWS: &[Setting] = &[
    unused("active-defrag-cycle-max", &[], Integer(1..=99), "25", SET, OTHERWISE),
    unused("active-defrag-cycle-min", &[], Integer(1..=99), "1", SET, OTHERWISE),
    unused("active-defrag-cycle-us", &[], Integer(0..=100_000), "500", SET, OTHERWISE),
    unused("active-defrag-ignore-bytes", &[], Memory(1..=i64::MAX as u64), "100mb", SET, OTHERWISE),
    unused("active-defrag-max-scan-fields", &[], Integer(1..=i64::MAX), "1000", SET, OTHERWISE),
    unused("active-defrag-threshold-lower", &[], Integer(0..=1000), "10", SET, OTHERWISE),
    unused("active-defrag-threshold-upper", &[], Integer(0..=1000), "100", SET, OTHERWISE),
    unused("active-expire-effort", &[], Integer(1..=10), "1", SET, OTHERWISE),
    unused("activedefrag", &[], Switch, "no", SET, OTHERWISE),
    unused("activerehashing", &[], Switch, "yes", SET, OTHERWISE),
    unused("always-show-logo", &[], Switch, "no", FIXED, OTHERWISE),
    unused("aof-disable-auto-gc", &[], Switch, "no", SET, NO_AOF),
    unused("aof-load-truncated", &[], Switch, "yes", SET, NO_AOF),
    unused("aof-rewrite-incremental-fsync", &[], Switch, "yes", SET, NO_AOF),
    unused("aof-timestamp-enabled", &[], Switch, "no", SET, NO_AOF),
    unused("aof-use-rdb-preamble", &[], Switch, "yes", SET, NO_AOF),
    unused("aof_rewrite_cpulist", &["aof-rewrite-cpulist"], Text, "", FIXED, OTHERWISE),
    unused("appenddirname", &[], Text, "appendonlydir", FIXED, NO_AOF),
    unused("appendfilename", &[], Text, "appendonly.aof", FIXED, NO_AOF),
    unused("appendfsync", &[], Choice(&["everysec", "always", "no"]), "everysec", SET, NO_AOF),
    refused("appendonly", &[], Switch, "no", SET, &[], NO_AOF),
    unused("auto-aof-rewrite-min-size", &[], Memory(0..=i64::MAX as u64), "64mb", SET, NO_AOF),
    unused("auto-aof-rewrite-percentage", &[], Integer(0..=INT), "100", SET, NO_AOF),
    unused("availability-zone", &[], Text, "", SET, OTHERWISE),
    unused("bgsave_cpulist", &["bgsave-cpulist"], Text, "", FIXED, OTHERWISE),
    unused("bind-source-addr", &[], Text, "", SET, NO_REPLICATION),
    unused("bio_cpulist", &["bio-cpulist"], Text, "", FIXED, OTHERWISE),
    unused("cluster-allow-pubsubshard-when-down", &[], Switch, "yes", SET, NO_CLUSTER),
    unused("cluster-allow-reads-when-down", &[], Switch, "no", SET, NO_CLUSTER),
    unused("cluster-allow-replica-migration", &[], Switch, "yes", SET, NO_CLUSTER),
    unused("cluster-announce-bus-port", &[], Port, "0", SET, NO_CLUSTER),
    unused("cluster-announce-client-ipv4", &[], Text, "", SET, NO_CLUSTER),
    unused("cluster-announce-client-ipv6", &[], Text, "", SET, NO_CLUSTER),
    unused("cluster-announce-client-port", &[], Port, "0", SET, NO_CLUSTER),
    unused("cluster-announce-client-tls-port", &[], Port, "0", SET, NO_CLUSTER),
    unused("cluster-announce-hostname", &[], Checked(checks::host_name), "", SET, NO_CLUSTER),
    unused("cluster-announce-human-nodename", &[], Checked(checks::node_name), "", SET, NO_CLUSTER),
    unused("cluster-announce-ip", &[], Text, "", SET, NO_CLUSTER),
    unused("cluster-announce-port", &[], Port, "0", SET, NO_CLUSTER),
    unused("cluster-announce-tls-port", &[], Port, "0", SET, NO_CLUSTER),
    unused("cluster-blacklist-ttl", &[], Integer(0..=INT), "60", SET, NO_CLUSTER),
    unused("cluster-compatibility-sample-ratio", &[], Integer(0..=100), "0", SET, NO_CLUSTER),
    unused("cluster-config-file", &[], Text, "nodes.conf", FIXED, NO_CLUSTER),
    unused("cluster-config-save-behavior", &[], Choice(&["sync", "best-effort"]), "sync", SET,
        NO_CLUSTER),
    unused("cluster-databases", &[], Integer(1..=INT), "1", FIXED, NO_CLUSTER),
    refused("cluster-enabled", &[], Switch, "no", FIXED, &[], NO_CLUSTER),
    unused("cluster-link-sendbuf-limit", &[], Memory(0..=i64::MAX as u64), "0", SET, NO_CLUSTER),
    unused("cluster-manual-failover-timeout", &[], Integer(1..=INT), "5000", SET, NO_CLUSTER),
    unused("cluster-migration-barrier", &[], Integer(0..=INT), "1", SET, NO_CLUSTER),
    unused("cluster-node-timeout", &[], Integer(0..=i64::MAX), "15000", SET, NO_CLUSTER),
    unused("cluster-port", &[], Port, "0", FIXED, NO_CLUSTER),
    unused("cluster-preferred-endpoint-type", &[], Choice(&["ip", "hostname", "unknown-endpoint"]),
        "ip", SET, NO_CLUSTER),
    unused("cluster-replica-no-failover", &["cluster-slave-no-failover"], Switch, "no", SET,
        NO_CLUSTER),
    unused("cluster-replica-validity-factor", &["cluster-slave-validity-factor"], Integer(0..=INT),
        "10", SET, NO_CLUSTER),
    unused("cluster-require-full-coverage", &[], Switch, "yes", SET, NO_CLUSTER),
    unused("cluster-slot-migration-log-max-len", &[], Integer(0..=i64::MAX), "1000", SET,
        NO_CLUSTER),
    unused("cluster-slot-stats-enabled", &[], Switch, "no", SET, NO_CLUSTER),
    unused("crash-log-enabled", &[], Switch, "yes", SET, OTHERWISE),
    unused("crash-memcheck-enabled", &[], Switch, "yes", SET, OTHERWISE),
    unused("disable-thp", &[], Switch, "yes", FIXED, OTHERWISE),
    unused("dual-channel-replication-enabled", &[], Switch, "no", SET, NO_REPLICATION),
    unused("dynamic-hz", &[], Switch, "yes", SET, OTHERWISE),
    unused("extended-redis-compatibility", &[], Switch, "no", SET, OTHERWISE),
    unused("hash-seed", &[], Text, "", FIXED, OTHERWISE),
    unused("hide-user-data-from-log", &[], Switch, "yes", SET, OTHERWISE),
    unused("hz", &[], Checked(checks::frequency), "10", SET, OTHERWISE),
    unused("ignore-warnings", &[], Text, "", SET, OTHERWISE),
    unused("import-mode", &[], Switch, "no", SET, NO_REPLICATION),
    unused("io-threads", &[], Integer(1..=256), "1", FIXED,
        "Connections are served by workers"),
    unused("io-threads-do-reads", &[], Switch, "no", FIXED,
        "Connections are served by workers"),
    unused("jemalloc-bg-thread", &[], Switch, "yes", SET, OTHERWISE),
    unused("lazyfree-lazy-eviction", &[], Switch, "no", SET,
        "Large values are always freed in the background"),
    unused("lazyfree-lazy-expire", &[], Switch, "no", SET,
        "Large values are always freed in the background"),
    unused("lazyfree-lazy-server-del", &[], Switch, "no", SET,
        "Large values are always freed in the background"),
    unused("lazyfree-lazy-user-del", &[], Switch, "no", SET,
        "Large values are always freed in the background"),
    unused("lazyfree-lazy-user-flush", &[], Switch, "no", SET,
        "Large values are always freed in the background"),
    unused("list-compress-depth", &[], Integer(0..=INT), "0", SET, NO_COMPRESSION),
    directive("loadmodule", NO_MODULES),
    unused("locale-collate", &[], Checked(checks::locale), "", SET, NO_LOCALES),
    unused("log-format", &[], Choice(&["legacy", "logfmt"]), "legacy", SET, NOT_READ),
    unused("log-timestamp-format", &[], Choice(&["legacy", "iso8601", "milliseconds"]), "legacy",
        SET, NOT_READ),
    unused("masterauth", &["primaryauth"], Password, "", SET, NO_REPLICATION),
    unused("masteruser", &["primaryuser"], Text, "", SET, NO_REPLICATION),
    unused("max-new-connections-per-cycle", &[], Integer(1..=1000), "10", SET, OTHERWISE),
    unused("max-new-tls-connections-per-cycle", &[], Integer(1..=1000), "1", SET, OTHERWISE),
    unused("maxmemory-eviction-tenacity", &[], Integer(0..=100), "10", SET, OTHERWISE),
    unused("maxmemory-samples", &[], Integer(1..=64), "5", SET, OTHERWISE),
    unused("min-replicas-max-lag", &["min-slaves-max-lag"], Integer(0..=INT), "10", SET,
        NO_REPLICATION),
    refused("min-replicas-to-write", &["min-slaves-to-write"], Integer(0..=INT), "0", SET, &[],
        NO_REPLICATION),
    unused("mptcp", &[], Switch, "no", FIXED, OTHERWISE),
    unused("no-appendfsync-on-rewrite", &[], Switch, "no", SET, NO_AOF),
    unused("oom-score-adj", &[], Choice(&["no", "yes", "relative", "absolute"]), "no", SET,
        NOT_READ),
    unused("oom-score-adj-values", &[], Lines(&SCORES), "0 200 800", SET, NOT_READ),
    unused("prefetch-batch-max-size", &[], Integer(0..=128), "16", SET, OTHERWISE),
    unused("propagation-error-behavior", &[], Choice(&["ignore", "panic", "panic-on-replicas"]),
        "ignore", SET, NO_REPLICATION),
    unused("rdb-del-sync-files", &[], Switch, "no", SET, NO_REPLICATION),
    unused("rdb-save-incremental-fsync", &[], Switch, "yes", SET, ALWAYS_SYNCED),
    unused("rdb-version-check", &[], Choice(&["strict", "relaxed"]), "strict", SET, ALWAYS_CHECKED),
    unused("rdma-bind", &[], Words, "", SET, NOT_READ),
    unused("rdma-completion-vector", &[], Integer(-1..=1024), "-1", SET, NOT_READ),
    refused("rdma-port", &[], Port, "0", FIXED, &[], "There is no RDMA"),
    unused("rdma-rx-size", &[], Memory(65536..=16_777_216), "1mb", SET, NOT_READ),
    unused("repl-backlog-size", &[], Memory(1..=i64::MAX as u64), "1mb", SET, NO_REPLICATION),
    unused("repl-backlog-ttl", &[], Integer(0..=i64::MAX), "3600", SET, NO_REPLICATION),
    unused("repl-disable-tcp-nodelay", &[], Switch, "no", SET, NO_REPLICATION),
    unused("repl-diskless-load", &[], Choice(&["disabled", "on-empty-db", "swapdb",
        "flush-before-load"]), "disabled", SET, NO_REPLICATION),
    unused("repl-diskless-sync", &[], Switch, "yes", SET, NO_REPLICATION),
    unused("repl-diskless-sync-delay", &[], Integer(0..=INT), "5", SET, NO_REPLICATION),
    unused("repl-diskless-sync-max-replicas", &[], Integer(0..=INT), "0", SET, NO_REPLICATION),
    unused("repl-mptcp", &[], Switch, "no", SET, NO_REPLICATION),
    unused("repl-ping-replica-period", &["repl-ping-slave-period"], Integer(1..=INT), "10", SET,
        NO_REPLICATION),
    unused("repl-timeout", &[], Integer(1..=INT), "60", SET, NO_REPLICATION),
    unused("replica-announce-ip", &["slave-announce-ip"], Text, "", SET, NO_REPLICATION),
    unused("replica-announce-port", &["slave-announce-port"], Port, "0", SET, NO_REPLICATION),
    unused("replica-announced", &[], Switch, "yes", SET, NO_REPLICATION),
    unused("replica-full-sync-buffer-limit", &[], Memory(0..=i64::MAX as u64), "0", SET,
        NO_REPLICATION),
    unused("replica-ignore-disk-write-errors", &[], Switch, "no", SET, NO_REPLICATION),
    unused("replica-ignore-maxmemory", &["slave-ignore-maxmemory"], Switch, "yes", SET,
        NO_REPLICATION),
    unused("replica-lazy-flush", &["slave-lazy-flush"], Switch, "no", SET, NO_REPLICATION),
    unused("replica-priority", &["slave-priority"], Integer(0..=INT), "100", SET, NO_REPLICATION),
    unused("replica-read-only", &["slave-read-only"], Switch, "yes", SET, NO_REPLICATION),
    unused("replica-serve-stale-data", &["slave-serve-stale-data"], Switch, "yes", SET,
        NO_REPLICATION),
    refused("replicaof", &["slaveof"], Lines(&MASTER), "", FIXED, &["no one"], NO_REPLICATION),
    unused("sanitize-dump-payload", &[], Choice(&["no", "yes", "clients"]), "no", SET,
        ALWAYS_CHECKED),
    unused("server_cpulist", &["server-cpulist"], Text, "", FIXED, NOT_READ),
    unused("shutdown-on-sigint", &[], Lines(&SHUTDOWN_FLAGS), "default", SET, BY_SAVE),
    unused("shutdown-on-sigterm", &[], Lines(&SHUTDOWN_FLAGS), "default", SET, BY_SAVE),
    unused("shutdown-timeout", &[], Integer(0..=INT), "10", SET, NO_REPLICATION),
    unused("slot-migration-max-failover-repl-bytes", &[], Integer(-1..=i64::MAX), "0", SET,
        NO_CLUSTER),
    unused("socket-mark-id", &[], Integer(0..=u32::MAX as i64), "0", FIXED, NOT_READ),
    unused("syslog-enabled", &[], Switch, "no", FIXED, NOT_READ),
    unused("syslog-facility", &[], Choice(&FACILITIES), "local0", FIXED, NOT_READ),
    unused("syslog-ident", &[], Text, "redis", FIXED, NOT_READ),
    refused("tls-auth-clients", &[], Choice(&["no", "yes", "optional"]), "yes", SET, &[], NO_TLS),
    refused("tls-auth-clients-user", &[], Choice(&["off", "cn"]), "off", SET, &[], NO_TLS),
    refused("tls-auto-reload-interval", &[], Integer(0..=INT), "0", SET, &[], NO_TLS),
    refused("tls-ca-cert-dir", &[], Text, "", SET, &[], NO_TLS),
    refused("tls-ca-cert-file", &[], Text, "", SET, &[], NO_TLS),
    refused("tls-cert-file", &[], Text, "", SET, &[], NO_TLS),
    refused("tls-ciphers", &[], Text, "", SET, &[], NO_TLS),
    refused("tls-ciphersuites", &[], Text, "", SET, &[], NO_TLS),
    refused("tls-client-cert-file", &[], Text, "", SET, &[], NO_TLS),
    refused("tls-client-key-file", &[], Text, "", SET, &[], NO_TLS),
    refused("tls-client-key-file-pass", &[], Text, "", SET, &[], NO_TLS),
    refused("tls-cluster", &[], Switch, "no", SET, &[], NO_TLS),
    refused("tls-dh-params-file", &[], Text, "", SET, &[], NO_TLS),
    refused("tls-key-file", &[], Text, "", SET, &[], NO_TLS),
    refused("tls-key-file-pass", &[], Text, "", SET, &[], NO_TLS),
    refused("tls-port", &[], Port, "0", SET, &[], NO_TLS),
    refused("tls-prefer-server-ciphers", &[], Switch, "no", SET, &[], NO_TLS),
    refused("tls-protocols", &[], Text, "", SET, &[], NO_TLS),
    refused("tls-replication", &[], Switch, "no", SET, &[], NO_TLS),
    refused("tls-session-cache-size", &[], Integer(0..=i64::MAX), "20480", SET, &[], NO_TLS),
    refused("tls-session-cache-timeout", &[], Integer(0..=i64::MAX), "300", SET, &[], NO_TLS),
    refused("tls-session-caching", &[], Switch, "yes", SET, &[], NO_TLS),
    unused("unixsocketgroup", &[], Text, "", FIXED, NOT_READ),
];
