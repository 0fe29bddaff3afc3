//! Every command, one file per family: a literal row each, with its handler above it.
//!
//! A handler reads as parse, one call of the store, reply. It never asks its own name or which
//! protocol its client speaks: memcached's verbs have rows and handlers of their own over the same
//! calls. What a handler needs of the process around it stands in the trait [`Server`].

pub mod config;
mod families;
pub mod memcached;
mod registry;
mod runtime;
mod state;

pub use config::{Addresses, Config};
pub use families::latency::Latency;
pub use families::monitor::{Monitors, leave as stop_monitoring};
pub use families::slowlog;
pub use registry::command::{Category, Command, Flags, Group, Handler};
pub use registry::keys::{Access, KeyGroup, Keys};
pub use registry::notes::Notes;
pub use registry::{docs, table};
pub use runtime::context::{CommandSet, Context, Redis};
pub use runtime::error::Error;
pub use runtime::process::{Process, Server};
pub use runtime::suspension::{Job, JobProgress, Suspension, When};
pub use runtime::{admission, dispatch, gate};
pub use state::attention::{Attention, Reasons};
pub use state::client::{Client, ClientInfo, ClientNames, Hears, Marks};
pub use state::statistics::{CommandTotals, Statistics, Tally, Totals};
pub use state::{histogram, loading, phases, saves};

/// The version of Redis whose commands, replies and error texts these are.
pub const REDIS_VERSION: &str = "7.2.4";

/// nagi's own version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
