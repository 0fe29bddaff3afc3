//! Constant-time comparison of secrets.

use std::hint::black_box;

/// Whether two secrets are the same. How long it takes depends on the second alone.
pub(crate) fn is_same(expected: &[u8], password: &[u8]) -> bool {
    let mut differences = usize::from(expected.len() != password.len());
    for (byte, other) in password.iter().zip(expected.iter().cycle()) {
        differences = black_box(differences | usize::from(byte ^ other));
    }
    differences == 0
}
