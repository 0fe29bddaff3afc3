//! Constants of the process since its start.

use std::sync::OnceLock;

/// Constants of the process.
#[derive(Clone, Debug)]
pub struct Process {
    /// 40 random hexadecimal digits.
    pub run_id: String,
    /// When it started, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// How many workers it has.
    pub workers: usize,
    /// What its workers wait with: `epoll` or `io_uring`.
    pub io: &'static str,
    /// The kernel's numbers of the workers' threads, from the moment that each runs.
    pub worker_threads: Box<[OnceLock<i32>]>,
    /// That of the script thread, likewise.
    pub script_thread: OnceLock<i32>,
}
