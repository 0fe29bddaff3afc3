//! How much of a processor a save takes: `save-cpu-limit`, which the saver and the workers that
//! walk for it keep to by pauses.

use crate::state::shared::Shared;
use nagi_commands::Server as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// From which share of what images may take on a save is urgent, in thousandths.
pub(crate) const URGENT_PRESSURE: usize = 500;
/// How long a pause goes on at most before another look whether it is still asked for.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// How long to leave a processor to other threads after so much work for a save, by
/// `save-cpu-limit`. It does not hold once writers would soon have to wait, nor while the save's
/// end is waited for.
pub(crate) fn pause_after(shared: &Shared, work: Duration) -> Duration {
    let percent = u32::try_from(shared.config().save_cpu_limit.get()).unwrap_or(100).clamp(1, 100);
    if percent == 100
        || shared.store.snapshot_pressure() >= URGENT_PRESSURE
        || shared.saves().is_end_awaited()
    {
        return Duration::ZERO;
    }
    work * (100 - percent) / percent
}

/// Counts a pause that begins now, if there is to be one.
pub(crate) fn note_pause_after(shared: &Shared, work: Duration) {
    if !pause_after(shared, work).is_zero() {
        shared.saves().pauses.fetch_add(1, Ordering::Relaxed);
    }
}
