//! What a request must pass before it runs, or be seen by, on rare occasions: a pause, monitors,
//! the latency monitor, loading and saving. All of them set a bit in one word, so that ordinarily a
//! request reads that word and nothing else.

use crate::state::client::{Client, Marks};
use crate::state::latency_monitor::Latency;
use crate::state::login_log::Logins;
use crate::state::monitors::Monitors;
use crate::state::watched_keys::WatchedKeys;
use crate::state::watchers::Watchers;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

bitflags::bitflags! {
    /// Why requests are looked at more closely.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Reasons: u32 {
        /// Writing commands are paused.
        const PAUSED_WRITES = 1 << 0;
        /// All commands are paused.
        const PAUSED_ALL = 1 << 1;
        /// Somebody monitors.
        const MONITORED = 1 << 2;
        /// Commands are timed for the latency monitor.
        const TIMED = 1 << 3;
        /// The data is being loaded.
        const LOADING = 1 << 4;
        /// The data is being saved.
        const SAVING = 1 << 5;
        /// Saving has failed, and nothing is to be written meanwhile.
        const UNSAVED = 1 << 6;
    }
}

/// The word, and what stands behind its bits.
#[derive(Debug, Default)]
pub struct Attention {
    reasons: AtomicU32,
    /// When the pause ends, in milliseconds since 1970.
    pause_until_ms: AtomicU64,
    /// Whom the pause holds up.
    held: Mutex<Vec<Waker>>,
    /// Who is to be called, and when.
    calls: Mutex<Vec<(u64, Waker)>>,
    /// Whether keys stay until somebody looks at them, though their time has come (DEBUG).
    expires_lazily: AtomicBool,
    /// Who sees what others do.
    pub monitors: Monitors,
    /// Who sees what others do with memcached's verbs.
    pub watchers: Watchers,
    /// Which keys clients watch.
    pub watched_keys: Arc<WatchedKeys>,
    /// Logins that failed.
    pub(crate) logins: Logins,
    /// What took long.
    pub latency: Latency,
}

/// Which commands CLIENT PAUSE holds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paused {
    Writes,
    All,
}

impl Attention {
    /// Why the next request is to be looked at; hardly ever for any reason.
    #[must_use]
    #[inline]
    pub fn reasons(&self) -> Reasons {
        Reasons::from_bits_retain(self.reasons.load(Relaxed))
    }

    /// Adds reasons or takes them away.
    pub fn set(&self, reasons: Reasons, on: bool) {
        if on {
            self.reasons.fetch_or(reasons.bits(), Relaxed);
        } else {
            self.reasons.fetch_and(!reasons.bits(), Relaxed);
        }
    }

    /// From how many milliseconds on an event counts for the latency monitor; 0 for none.
    pub fn set_latency_threshold_ms(&self, threshold_ms: u64) {
        self.latency.set_threshold_ms(threshold_ms);
        self.set(Reasons::TIMED, threshold_ms > 0);
    }

    /// Holds commands up until a time. While a pause lasts, another one makes it longer and
    /// stricter, never shorter or laxer.
    pub(crate) fn pause(&self, paused: Paused, until_ms: u64, now_ms: u64) {
        self.end_pause_if_over(now_ms);
        self.pause_until_ms.fetch_max(until_ms, Relaxed);
        self.set(
            match paused {
                Paused::Writes => Reasons::PAUSED_WRITES,
                Paused::All => Reasons::PAUSED_ALL,
            },
            true,
        );
    }

    /// Holds writing commands up until the process ends or somebody ends the pause.
    pub fn pause_writes(&self, now_ms: u64) {
        const FOREVER_MS: u64 = i64::MAX as u64;
        self.pause(Paused::Writes, FOREVER_MS, now_ms);
    }

    /// Ends a pause: what it held up goes on.
    pub fn unpause(&self) {
        self.set(Reasons::PAUSED_WRITES | Reasons::PAUSED_ALL, false);
        self.pause_until_ms.store(0, Relaxed);
        let held = std::mem::take(&mut *lock(&self.held));
        held.into_iter().for_each(Waker::wake);
    }

    fn end_pause_if_over(&self, now_ms: u64) {
        if !self.is_paused(now_ms) && self.reasons().intersects(PAUSED) {
            self.unpause();
        }
    }

    /// Whether keys may neither expire nor be evicted now, which would be changes like any others.
    #[must_use]
    pub fn is_paused(&self, now_ms: u64) -> bool {
        self.reasons().intersects(PAUSED) && self.pause_until_ms.load(Relaxed) > now_ms
    }

    /// Whether workers look for keys whose time has come.
    #[must_use]
    pub fn expires_actively(&self, now_ms: u64) -> bool {
        !self.expires_lazily.load(Relaxed)
            && !self.is_paused(now_ms)
            && !self.reasons().contains(Reasons::LOADING)
    }

    pub(crate) fn expire_actively(&self, actively: bool) {
        self.expires_lazily.store(!actively, Relaxed);
    }

    /// Whether a client's command is held up; if so, its waker will be called.
    pub(crate) fn holds(
        &self,
        reasons: Reasons,
        writes: bool,
        client: &Client,
        now_ms: u64,
    ) -> bool {
        let is_meant = reasons.contains(Reasons::PAUSED_ALL)
            || reasons.contains(Reasons::PAUSED_WRITES) && writes;
        if !is_meant {
            return false;
        }
        // Whoever ends the pause takes what is in here afterwards.
        let mut held = lock(&self.held);
        let holds = self.is_paused(now_ms);
        if holds {
            client.info.mark(Marks::WAITING, true);
            held.push(client.waker.clone());
        }
        holds
    }

    /// Has a waker be called at a time, in milliseconds since 1970.
    pub(crate) fn call_at(&self, at_ms: u64, waker: &Waker) {
        lock(&self.calls).push((at_ms, waker.clone()));
    }

    /// Calls those whose time has come. Returns when to look again; never is [`u64::MAX`].
    pub fn call_due(&self, now_ms: u64) -> u64 {
        self.end_pause_if_over(now_ms);
        let mut calls = lock(&self.calls);
        let due: Vec<_> = calls.extract_if(.., |(at_ms, _)| *at_ms <= now_ms).collect();
        let next_ms = calls.iter().map(|(at_ms, _)| *at_ms).min().unwrap_or(u64::MAX);
        drop(calls);
        due.into_iter().for_each(|(_, waker)| waker.wake());
        let pause_until_ms = self.pause_until_ms.load(Relaxed);
        if pause_until_ms == 0 { next_ms } else { next_ms.min(pause_until_ms) }
    }
}

const PAUSED: Reasons = Reasons::PAUSED_WRITES.union(Reasons::PAUSED_ALL);

/// Nothing that is done under these locks can leave them half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
