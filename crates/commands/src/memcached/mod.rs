//! memcached's verbs. They use database 0 of the store that the commands of Redis use.

mod arguments;
pub mod binary;
mod control;
mod dispatch;
mod dump;
#[cfg(test)]
mod keyspace;
mod meta;
mod operation;
mod operator;
mod retrieval;
mod statistics;
mod stats;
mod storage;
#[cfg(test)]
mod tests;
mod verb;
mod watch;

pub use crate::state::memcached_users::{Users, UsersError};
pub use dispatch::{VERBS, execute, refuse, resolve, run};
pub use meta::forget_refused;
pub use verb::{Context, Error, Handler, Job, Memcached, Verb, memcached_version};
use verb::{VERSION, must_log_in};
pub use watch::{CloseReason, report_connection, report_disconnection, report_eviction};
