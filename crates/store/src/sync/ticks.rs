//! A clock that costs next to nothing to read: the processor's time stamp counter where there is
//! one, which on every x86-64 of this century ticks at a constant rate.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A moment by both clocks, from which the length of a tick is worked out.
static START: OnceLock<(u64, Instant)> = OnceLock::new();

/// The time now, in ticks of unknown length; never 0, at which processors are switched on.
#[inline]
#[must_use]
pub fn now() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: reading the counter has no precondition.
    let ticks = unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let ticks = start().1.elapsed().as_nanos() as u64 | 1;
    ticks
}

/// Must be called once, long before the first call of [`duration()`], which is the more exact the
/// more time has passed between them.
pub(crate) fn start() -> (u64, Instant) {
    *START.get_or_init(|| {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: reading the counter has no precondition.
        let ticks = unsafe { std::arch::x86_64::_rdtsc() };
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let ticks = 0;
        (ticks, Instant::now())
    })
}

/// How long a number of ticks takes.
#[must_use]
pub fn duration(ticks: u64) -> Duration {
    let (first, at) = start();
    let passed = now().saturating_sub(first).max(1);
    at.elapsed().mul_f64(ticks as f64 / passed as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_has_a_length() {
        start();
        let (began, instant) = (now(), Instant::now());
        while instant.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let measured = duration(now() - began);
        assert!(measured >= Duration::from_millis(10), "{measured:?}");
        assert!(measured < Duration::from_secs(10), "{measured:?}");
    }
}
