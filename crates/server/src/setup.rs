//! What a process that serves asks of the system before it starts.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::IsTerminal as _;

/// Lets the process have as many descriptors as it may: each connection is one.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, current = limit.current, "the limit of descriptors stays as it is");
    }
}

/// Writes the log to the standard error stream, a line for each event.
pub fn log_to_stderr() {
    let styled = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(styled);
    // A log that another part of the process has set up serves as well.
    let _ = log.with_target(false).with_max_level(tracing::Level::INFO).try_init();
}
