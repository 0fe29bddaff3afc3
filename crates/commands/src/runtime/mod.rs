//! From a request to its handler and back: dispatch, its context and its gates.

pub mod admission;
pub(crate) mod arguments;
pub(crate) mod blocking;
pub(crate) mod client_line;
pub(crate) mod command_flags;
pub(crate) mod context;
pub mod dispatch;
pub mod gate;
pub(crate) mod help;
pub(crate) mod http_rules;
pub(crate) mod key_costs;
pub(crate) mod migration;
pub(crate) mod multi_key;
pub mod notification;
pub(crate) mod numbers;
pub(crate) mod queueing;
pub(crate) mod resume;
pub mod rights;
pub(crate) mod service;
pub(crate) mod shown;
pub(crate) mod spent;
pub(crate) mod suspension;
pub(crate) mod tracking;
pub mod user_file;
