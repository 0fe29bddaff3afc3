//! The script thread's interface to the process.

use crate::runtime::context::Server;
use nagi_script::LogLevel;
use nagi_store::Store;

/// The parts of the server that the script thread uses.
pub trait ScriptingServer: Server + Send + Sync + 'static {
    /// The keyspace. It has one set of counters for each worker, and one more for the script
    /// thread.
    fn store(&self) -> &Store;

    /// Writes a line of a script (`redis.log`) to the log.
    fn log_of_script(&self, level: LogLevel, text: &str);
}
