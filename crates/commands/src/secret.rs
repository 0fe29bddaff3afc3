//! Constant-time comparison of secrets.

use std::hint::black_box;

/// Whether a password is the expected one. The time depends only on the length of `password`.
pub(crate) fn is_same(expected: &[u8], password: &[u8]) -> bool {
    let mut differences = usize::from(expected.len() != password.len());
    for (byte, other) in password.iter().zip(expected.iter().cycle()) {
        differences = black_box(differences | usize::from(byte ^ other));
    }
    differences == 0
}
