//! Constants of the process since its start.

use std::sync::OnceLock;

/// Constants of the process.
#[derive(Clone, Debug)]
pub struct Process {
    /// 40 random hexadecimal digits.
    pub run_id: String,
    /// When it started, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// The number of its workers.
    pub workers: usize,
    /// The I/O driver of its workers: `epoll` or `io_uring`.
    pub io: &'static str,
    /// The kernel IDs of the workers' threads, set when each starts.
    pub worker_threads: Box<[OnceLock<i32>]>,
    /// The kernel ID of the script thread, set when it starts.
    pub script_thread: OnceLock<i32>,
}
