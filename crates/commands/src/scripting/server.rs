//! The script thread's interface to the process.

use crate::runtime::context::Server;
use nagi_script::LogLevel;
use nagi_store::Store;
use std::time::Duration;

/// A server as the script thread sees it.
pub trait ScriptingServer: Server + Send + Sync + 'static {
    /// The keyspace, which has counters for one more than there are workers.
    fn store(&self) -> &Store;

    /// Writes what a script has to say into the log.
    fn log_of_script(&self, level: LogLevel, text: &str);

    /// Says in the log that a script has run for so long.
    fn report_slow_script(&self, took: Duration);
}
