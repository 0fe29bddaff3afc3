//! Cache lines: padding against false sharing, and prefetching.

use std::ops::Deref;
use std::ptr::NonNull;

/// The size of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// Padded to two cache lines, since processors fetch them in pairs: for data that one worker writes
/// while other workers read adjacent data.
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

/// Prefetches the cache line at `address`, which need not be readable.
#[inline]
pub(crate) fn prefetch(address: NonNull<u8>) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing and cannot fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.as_ptr().cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
