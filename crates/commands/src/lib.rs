//! Every command, one file per family: a literal row each, with its handler above it.
//!
//! A handler reads as parse, one call of the store, reply. It never asks its own name or which
//! protocol its client speaks: memcached's verbs have rows and handlers of their own over the same
//! calls. What a handler needs of the process around it stands in the trait [`Server`].

mod acl;
pub mod admission;
mod arguments;
mod attention;
mod bitfield;
mod bitmap;
mod bitop;
mod bits;
mod client;
mod command;
pub mod config;
mod connection;
mod context;
mod debug;
mod describe;
mod digest;
pub mod dispatch;
pub mod docs;
mod error;
mod float;
pub mod gate;
mod glob;
mod help;
pub mod histogram;
mod hyperloglog;
mod info;
mod introspection;
mod key;
mod keyspace;
mod latency;
mod lcs;
pub mod loading;
mod logins;
mod lolwut;
mod long_double;
mod long_value;
mod many;
pub mod memcached;
mod memory;
mod module;
mod monitor;
mod notes;
mod object;
mod persistence;
pub mod phases;
mod process;
mod range;
mod rates;
mod relocation;
mod replication;
pub mod saves;
mod serialization;
mod server;
mod session;
pub mod slowlog;
mod statistics;
mod string;
mod syntax;
pub mod table;
#[cfg(test)]
mod testing;
mod usage;

pub use attention::{Attention, Reasons};
pub use command::{Access, Category, Command, Flags, Group, Handler, Keys};
pub use config::{Addresses, Config};
pub use context::{Context, Flow, Job, Suspension};
pub use error::Error;
pub use latency::Latency;
pub use monitor::{Monitors, leave as stop_monitoring};
pub use notes::Notes;
pub use process::{Process, Server};
pub use session::{Client, ClientInfo, ClientNames, Hears, Marks};
pub use statistics::{CommandTotals, Statistics, Tally, Totals};

/// The version of Redis whose commands, replies and error texts these are.
pub const REDIS_VERSION: &str = "7.2.4";

/// nagi's own version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
