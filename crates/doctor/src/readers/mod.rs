//! Readers of the server's statistics and of the kernel's. Each reader returns plain values. A
//! value that cannot be read is `None` or an error of one line, never a guess.

mod accept_queue;
mod clients;
mod connections;
mod control_group;
mod devices;
mod disciplines;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod key_costs;
mod latency;
mod listeners;
mod netlink;
mod process;
mod requests;
#[cfg(test)]
mod sample_files;
mod settings;
mod sockets;
mod system;

pub(crate) use accept_queue::AcceptQueueReader;
pub(crate) use clients::{MAX_CLIENTS, clients};
pub(crate) use connections::ConnectionReader;
pub(crate) use devices::{devices, losses_since};
pub(crate) use disciplines::{active_since, disciplines};
pub(crate) use key_costs::{key_costs, start_key_costs};
pub(crate) use latency::{Latest, events_since, latest_events};
pub(crate) use listeners::listeners;
pub(crate) use process::{ProcessReader, process_of};
pub(crate) use requests::{large_log, large_log_newest, sample, slow_log, slow_log_newest};
pub(crate) use settings::settings;
pub(crate) use sockets::{SocketReader, Sockets};
pub(crate) use system::System;

/// Whether an error says that the server has no such command.
fn is_unknown(error: &str) -> bool {
    error.contains("unknown command")
}
