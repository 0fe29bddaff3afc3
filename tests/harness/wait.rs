//! Waits for conditions. This is the only code of tests that sleeps between checks.

use std::thread;
use std::time::{Duration, Instant};

/// The time after which a test considers something stuck. It is far longer than anything takes on a
/// busy machine, so that only real faults exceed it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Repeats `condition` until it returns a value, and returns the value.
///
/// # Errors
///
/// There was no value within [`PATIENCE`]; the error contains `what`.
pub fn until<T>(what: &str, condition: impl FnMut() -> Option<T>) -> Result<T, String> {
    until_within(PATIENCE, what, condition)
}

/// Like [`until`], with another time limit.
///
/// # Errors
///
/// There was no value within `patience`; the error contains `what`.
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
