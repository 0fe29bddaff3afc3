//! Tells when the machine is idle, so that what a step leaves behind, in a server or in the kernel,
//! is not measured as part of the next one. After gigabytes were freed, both work for seconds.

use std::fs;

use crate::clock::{SECOND, now_ns};
use crate::interrupt::Interrupt;

/// The processors count as idle if they work for at most this share of an interval.
const BUSY_SHARE: f64 = 0.1;
const INTERVAL_NS: u64 = SECOND / 4;

/// Observes the processors for an interval, and returns whether they were idle, or whether the
/// system does not tell.
///
/// # Errors
/// The user interrupted the run.
pub(crate) fn are_processors_idle(interrupt: &Interrupt) -> Result<bool, String> {
    let before = Times::now();
    interrupt.sleep_until(now_ns() + INTERVAL_NS)?;
    let busy_share = before.zip(Times::now()).map(|(before, now)| now.busy_share_since(before));
    Ok(busy_share.is_none_or(|share| share <= BUSY_SHARE))
}

/// The times of all processors since the start of the system, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    idle: u64,
    total: u64,
}

impl Times {
    fn now() -> Option<Self> {
        Times::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses proc(5), `/proc/stat`: on the first line, times by kind; the fourth and the fifth are
    /// idle and waiting for disks, those after the eighth are parts of the first two.
    fn parse(text: &str) -> Option<Self> {
        let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let kinds: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
        let idle = kinds.iter().skip(3).take(2).sum();
        Some(Times { idle, total: kinds.iter().sum() })
    }

    fn busy_share_since(self, before: Times) -> f64 {
        let total = self.total.saturating_sub(before.total);
        let idle = self.idle.saturating_sub(before.idle).min(total);
        (total - idle) as f64 / total.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_share_leaves_out_idle_times() {
        let before = Times::parse("cpu  100 1 20 1000 50 1 2 3 40 0\ncpu0 9 9 9 9\n").unwrap();
        assert_eq!(before, Times { idle: 1050, total: 1177 });
        let now = Times::parse("cpu  110 1 25 1080 51 2 2 6 45 0\n").unwrap();
        assert!((now.busy_share_since(before) - 0.19).abs() < 1e-9, "19 of 100 ticks");
        assert!(before.busy_share_since(before).abs() < 1e-9, "no tick has passed");
        assert_eq!(Times::parse("intr 5\n"), None);
    }
}
