//! What the process remembers beside the keyspace.

pub(crate) mod access_log;
pub(crate) mod blocked;
pub(crate) mod client;
pub(crate) mod events_listener;
pub mod histogram;
pub(crate) mod hooks;
pub(crate) mod latency_monitor;
pub mod loading;
pub(crate) mod memcached_users;
pub(crate) mod monitors;
pub(crate) mod notifications;
pub mod phases;
pub(crate) mod process;
pub mod pubsub;
pub(crate) mod rates;
pub mod saves;
pub(crate) mod slow_log;
pub(crate) mod statistics;
pub(crate) mod tracking;
pub(crate) mod tracking_options;
pub(crate) mod transaction;
pub(crate) mod usage;
pub(crate) mod users;
pub(crate) mod verb_statistics;
pub(crate) mod watched_keys;
pub(crate) mod watchers;
