//! The sizes of test data.

/// Normally `quick`; `full` if the variable `NAGI_TEST_FULL` is set. That is what a limit or an
/// issue requires, but it would make every run of the tests take minutes longer.
#[must_use]
pub fn size(quick: usize, full: usize) -> usize {
    if std::env::var_os("NAGI_TEST_FULL").is_some() { full } else { quick }
}
