//! How large what a test works on is.

/// `quick` ordinarily, and `full` where the variable `NAGI_TEST_FULL` is set: what a limit or an
/// issue asks for, which would make every run of the tests take minutes more.
#[must_use]
pub fn size(quick: usize, full: usize) -> usize {
    if std::env::var_os("NAGI_TEST_FULL").is_some() { full } else { quick }
}
