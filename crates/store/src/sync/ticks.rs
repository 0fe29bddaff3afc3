//! A clock that is cheap to read: the processor's time stamp counter if it has one, which ticks at
//! a constant rate on all current x86-64 processors.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A point in time by both clocks, from which the length of a tick is computed.
static START: OnceLock<(u64, Instant)> = OnceLock::new();

/// Returns the current time, in ticks of unknown length; never 0.
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

/// Must be called once, long before the first call of [`duration()`], which is more exact the more
/// time has passed in between.
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

/// Converts ticks to a duration.
#[must_use]
pub fn duration(ticks: u64) -> Duration {
    let (first, at) = start();
    let passed = now().saturating_sub(first).max(1);
    at.elapsed().mul_f64(ticks as f64 / passed as f64)
}

/// Converts a duration to ticks.
#[must_use]
pub fn count(time: Duration) -> u64 {
    let tick = duration(1 << 32).as_secs_f64();
    if tick > 0.0 { (time.as_secs_f64() / tick * (1_u64 << 32) as f64) as u64 } else { u64::MAX }
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

    #[test]
    fn ticks_of_a_time_take_that_time() {
        let (_, began) = start();
        while began.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let time = Duration::from_millis(250);
        let taken = duration(count(time));
        assert!(taken >= time / 2 && taken <= 2 * time, "{taken:?}");
        assert_eq!(count(Duration::ZERO), 0);
    }
}
