//! A pause in accepting connections, after the process has run out of descriptors or memory.

use nagi_store::since_1970;
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a pause lasts.
const PAUSE: Duration = Duration::from_millis(100);

/// A worker's pause.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    until: Option<Instant>,
}

impl Pause {
    /// Starts a pause because of `error`. It is logged at most once a second, however many workers
    /// pause.
    pub(crate) fn begin(&mut self, error: Errno) {
        static LOGGED_AT_S: AtomicU64 = AtomicU64::new(0);
        self.until = Some(Instant::now() + PAUSE);
        let now_s = since_1970().as_secs();
        if LOGGED_AT_S.swap(now_s, Ordering::Relaxed) != now_s {
            tracing::warn!(%error, "cannot accept connections; trying again every 100 ms");
        }
    }

    /// Shortens `timeout` so that a wait does not outlast the pause.
    pub(crate) fn shorten(&self, timeout: Option<Duration>) -> Option<Duration> {
        let Some(until) = self.until else { return timeout };
        let left = until.saturating_duration_since(Instant::now());
        Some(timeout.map_or(left, |timeout| timeout.min(left)))
    }

    /// Whether the pause has not ended yet.
    pub(crate) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Whether a pause has just ended.
    pub(crate) fn is_over(&mut self) -> bool {
        self.until.take_if(|until| *until <= Instant::now()).is_some()
    }
}
