//! Waiting for a condition; the only place that sleeps between checks.

use std::thread;
use std::time::{Duration, Instant};

/// The time after which a test considers something stuck: far longer than anything takes on a busy
/// machine, so that only what is really stuck exceeds it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Repeats `condition` until it returns something, and returns that.
///
/// # Errors
///
/// Names `what` was waited for when it has not come within [`PATIENCE`].
pub fn until<T>(what: &str, condition: impl FnMut() -> Option<T>) -> Result<T, String> {
    until_within(PATIENCE, what, condition)
}

/// The same with another time.
///
/// # Errors
///
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
