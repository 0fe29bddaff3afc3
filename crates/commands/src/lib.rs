//! All commands. Each family of commands has a file with a literal row per command, below the
//! command's handler.
//!
//! A handler parses, calls the store once and replies. It never depends on its own name or on the
//! client's protocol: memcached's verbs have their own rows and handlers over the same calls of the
//! store. The trait [`Server`] is a handler's interface to the process.

mod catalogue;
pub mod config;
#[cfg(test)]
mod docs;
mod error;
mod families;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod glob;
pub mod memcached;
mod registry;
mod runtime;
mod scripting;
mod secret;
mod state;
pub mod status;
#[cfg(test)]
mod testing;

pub use catalogue::{command_table, renamed_table};
pub use config::{Addresses, Config, MemcachedProtocol};
pub use error::Error;
pub use nagi_script::LogLevel;
pub use registry::command::{Category, Flags, Group};
pub use registry::keys::{Access, KeyGroup, Keys};
pub use registry::notes::Notes;
pub use runtime::context::{
    Command, CommandSet, CommandTable, Context, Entry, Handler, Job, Redis, Server, Suspension,
};
pub use runtime::http_rules::{HttpRule, HttpRuleTexts, HttpRules, LatestHttpRules};
pub use runtime::resume::go_on;
pub use runtime::shown::{kept_arguments, stop_monitoring};
pub use runtime::suspension::{JobProgress, SLICE_REQUESTS, When};
pub use runtime::{admission, dispatch, gate, notification, rights, user_file};
pub use scripting::{ScriptingServer, run_scripts};
pub use state::client::{Class, Client, ClientInfo, ClientNames, Marks, ReplyMode};
pub use state::events_listener::EventsListener;
pub use state::hooks::{HookFlags, RequestHooks};
pub use state::hot_keys::HotKeys;
pub use state::http_client::HttpClient;
pub use state::http_tally::{HttpConnection, HttpTally, HttpTotals};
pub use state::latency_monitor::Latency;
pub use state::monitors::Monitors;
pub use state::process::Process;
pub use state::pubsub::PubSub;
pub use state::scripts::Scripts;
pub use state::shown_key::ShownKey;
pub use state::slow_log::{CommandLogs, LogLimits, SlowLog, SlowRequest};
pub use state::statistics::{CommandTotals, Statistics, Tally, Totals};
pub use state::tracking::begin_worker as begin_tracking_worker;
pub use state::usage::duration_of_ticks;
pub use state::{histogram, large_values, loading, phases, pubsub, saves};

/// The version of Redis that commands, replies and error texts follow.
pub const REDIS_VERSION: &str = "7.2.4";

/// nagi's own version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
