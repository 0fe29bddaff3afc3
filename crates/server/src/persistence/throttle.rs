//! The processor share of a save: the saver and the workers that walk for it pause to comply with
//! `save-cpu-limit`.

use crate::state::shared::Shared;
use nagi_commands::Server as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Share of the images' memory limit, in thousandths, from which a save is urgent.
pub(crate) const URGENT_PRESSURE: usize = 500;
/// How long a pause lasts before it is checked whether it is still needed.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// The pause due after `work` for a save, by `save-cpu-limit`. The limit is suspended when writers
/// would soon have to wait, and while a client waits for the save to end.
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

/// Counts a pause that begins now, if one is due.
pub(crate) fn note_pause_after(shared: &Shared, work: Duration) {
    if !pause_after(shared, work).is_zero() {
        shared.saves().pauses.fetch_add(1, Ordering::Relaxed);
    }
}
