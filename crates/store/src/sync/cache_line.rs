//! A cache line to itself.

use std::ops::Deref;

/// On lines of its own, two of them since processors fetch them in pairs: for what one worker
/// writes while other workers read what would lie beside it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Line<T>(pub(crate) T);

impl<T> Deref for Line<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
