//! The sizes of test data.

/// Returns `quick`, or `full` if the variable `NAGI_TEST_FULL` is set. The full size is the one
/// that a limit or an issue requires; with it, every run of the tests would take minutes longer.
#[must_use]
pub fn size(quick: usize, full: usize) -> usize {
    if std::env::var_os("NAGI_TEST_FULL").is_some() { full } else { quick }
}
