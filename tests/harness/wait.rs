//! Waiting for a condition; the one place that sleeps between looks at it.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test calls it stuck: far longer than it takes on a busy
/// machine, so that only what is really stuck runs into it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Looks until `condition` gives something, and returns that.
///
/// # Errors
/// Names `what` was waited for when it has not come within [`PATIENCE`].
pub fn until<T>(what: &str, condition: impl FnMut() -> Option<T>) -> Result<T, String> {
    until_within(PATIENCE, what, condition)
}

/// The same for what may take another time.
///
/// # Errors
/// Names `what` was waited for when it has not come within `patience`.
pub fn until_within<T>(
    patience: Duration,
    what: &str,
    mut condition: impl FnMut() -> Option<T>,
) -> Result<T, String> {
    let start = Instant::now();
    loop {
        if let Some(found) = condition() {
            return Ok(found);
        }
        if start.elapsed() > patience {
            return Err(format!("waited {patience:?} in vain for {what}"));
        }
        thread::sleep(Duration::from_millis(1));
    }
}
