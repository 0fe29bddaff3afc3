//! The housekeeper: a thread that reminds workers of periodic work. It does not access keys itself.

use crate::process::governor::Governor;
use crate::process::log;
use crate::state::client_lines;
use crate::state::mailbox::Reminders;
use crate::state::shared::{NEVER, Shared};
use nagi_commands::saves::Order;
use nagi_commands::{HookFlags, Server as _, gate, notification};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// The period of a round.
const ROUND: Duration = Duration::from_millis(100);
/// How long to wait after a save that failed.
const SAVE_RETRY: Duration = Duration::from_secs(5);

/// Runs a round ten times a second until the server stops.
pub(crate) fn run(shared: &Shared) {
    let mut settings = Settings::of(shared);
    let mut governor = Governor::new(shared);
    let mut round_at = Instant::now();
    while !shared.is_stopping() {
        let now_ms = shared.store.now_ms();
        let until_call_ms = shared.hooks.call_due(now_ms).saturating_sub(now_ms).max(1);
        let until_round = round_at.saturating_duration_since(Instant::now());
        if shared.client_memory.take_due() {
            shared.limit_client_memory();
        }
        let flush_at_ms = shared.flush_at_ms.load(Ordering::Relaxed);
        let until_flush = Duration::from_millis(flush_at_ms.saturating_sub(now_ms));
        if !until_round.is_zero() && !until_flush.is_zero() {
            // Calls of wakers are due within milliseconds and do not need a whole round.
            let until_call = Duration::from_millis(until_call_ms);
            thread::park_timeout(until_flush.min(until_call).min(until_round));
            continue;
        }
        round_at = Instant::now() + ROUND;
        settings.follow(shared);
        let is_flush_due = flush_at_ms <= now_ms
            && shared
                .flush_at_ms
                .compare_exchange(flush_at_ms, NEVER, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_flush_due {
            shared.remind(0, Reminders::FLUSH);
        }
        shared.statistics().sample(Instant::now(), shared.store.totals().expired);
        shared.statistics().peak_bytes(shared.store.used_bytes());
        // Clients that watched keys or subscribed to events may have disconnected.
        notification::settle(shared, &shared.store);
        shared.limit_client_memory();
        governor.round(shared);
        gate::note_slow_script(shared);
        save_if_due(shared, now_ms);
        client_lines::report();
        shared.remind_all(Reminders::HOUSEKEEPING);
    }
    client_lines::report_rest();
}

/// Settings that the housekeeper applies when they have changed.
struct Settings {
    keepalive_s: u64,
    log_level: u64,
}

impl Settings {
    fn of(shared: &Shared) -> Self {
        let config = shared.config();
        Settings { keepalive_s: config.tcp_keepalive_s.get(), log_level: config.loglevel.get() }
    }

    /// Applies changed settings.
    fn follow(&mut self, shared: &Shared) {
        let now = Settings::of(shared);
        if now.keepalive_s != self.keepalive_s {
            shared.listeners.set_keepalive(Duration::from_secs(now.keepalive_s));
        }
        if now.log_level != self.log_level {
            log::set_level(now.log_level);
        }
        *self = now;
    }
}

/// Requests a save if a save point of `save` is reached.
fn save_if_due(shared: &Shared, now_ms: u64) {
    let points = shared.config().save.get();
    if !shared.config().has_save_points() || shared.hooks.reasons().contains(HookFlags::LOADING) {
        return;
    }
    let status = shared.saves().status();
    let changes = shared.unsaved_changes();
    let silent_s = (now_ms / 1000).saturating_sub(status.last_success_s);
    let may_retry = status.last_error.is_none()
        || status.last_end.is_none_or(|ended| ended.elapsed() > SAVE_RETRY);
    let words: Vec<u64> = points.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    let is_due = |[seconds, least]: &[u64; 2]| silent_s > *seconds && changes >= *least;
    if may_retry
        && words.as_chunks().0.iter().any(is_due)
        && shared.saves().order(Order::BackgroundSave).is_some()
    {
        tracing::info!(changes, seconds = silent_s, "save point reached");
    }
}
