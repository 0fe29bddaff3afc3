//! Every command, one file per family: a literal row each, with its handler above it.
//!
//! A handler reads as parse, one call of the store, reply. It never asks its own name or which
//! protocol its client speaks: memcached's verbs have rows and handlers of their own over the same
//! calls. What a handler needs of the process around it stands in the trait [`Server`].

mod command;
pub mod config;
mod context;
pub mod dispatch;
mod error;
pub mod memcached;
mod server;
mod session;
mod statistics;
mod string;
pub mod table;

pub use command::{Category, Command, Flags, Group, Handler, Keys};
pub use config::Config;
pub use context::{Context, Flow, Job};
pub use error::Error;
pub use server::{Process, Server};
pub use session::{Client, ClientInfo, ClientNames};
pub use statistics::{CommandTotals, Statistics, Tally, Totals};
