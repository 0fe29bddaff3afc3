//! The clock for expiry, which tests can replace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A source of wall-clock time.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The system clock.
    #[default]
    System,
    /// A clock that a test sets, in milliseconds since 1970.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// Returns the milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        match self {
            Clock::System => u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX),
            Clock::Manual(now_ms) => now_ms.load(Ordering::Relaxed),
        }
    }
}

/// Returns the time since 1970 by the system clock; 0 if that is set to an earlier time.
#[must_use]
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
