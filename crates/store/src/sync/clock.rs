//! The clock for expiry, which tests can replace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

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
            Clock::System => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
            Clock::Manual(now_ms) => now_ms.load(Ordering::Relaxed),
        }
    }
}
