//! Hooks of requests: a pause, monitors, the latency monitor, loading and saving. Each has a bit in
//! one word, so that an ordinary request reads only that word.

use crate::state::access_log::AccessLog;
use crate::state::blocked::{BlockedClients, NewWaiter, Waiting};
use crate::state::client::{Client, Marks};
use crate::state::key_costs::{KeyCostOptions, KeyCosts, WorkerCosts};
use crate::state::latency_monitor::Latency;
use crate::state::monitors::Monitors;
use crate::state::notifications::Notifications;
use crate::state::tracking::Tracking;
use crate::state::watched_keys::WatchedKeys;
use crate::state::watchers::Watchers;
use nagi_store::Store;
use nagi_store::primitives::Mutex;
use nagi_store::primitives::atomic::AtomicU32;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::Waker;

bitflags::bitflags! {
    /// The hooks of requests.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct HookFlags: u32 {
        /// Writing commands are paused.
        const PAUSED_WRITES = 1 << 0;
        /// All commands are paused.
        const PAUSED_ALL = 1 << 1;
        /// Clients monitor requests.
        const MONITORED = 1 << 2;
        /// Commands are timed for the latency monitor.
        const TIMED = 1 << 3;
        /// The data is being loaded.
        const LOADING = 1 << 4;
        /// The data is being saved.
        const SAVING = 1 << 5;
        /// Saving has failed, so writes are refused.
        const UNSAVED = 1 << 6;
        /// Clients are blocked on keys.
        const AWAITED = 1 << 7;
        /// Clients may subscribe to events of keys.
        const NOTIFIED = 1 << 8;
        /// There are users with restrictions.
        const LIMITED_USERS = 1 << 9;
        /// A script is slow, and no other request may run.
        const BUSY = 1 << 10;
        /// The cost of requests is counted by key.
        const KEY_COSTS = 1 << 11;
        /// Writing commands wait for the save before a reload, and for the reload.
        const RELOADING = 1 << 12;
        /// Writing commands wait for the save before a shutdown.
        const STOPPING = 1 << 13;
        /// Writing commands wait, which CLIENT UNPAUSE does not end.
        const HELD_WRITES = Self::RELOADING.bits() | Self::STOPPING.bits();
    }
}

/// The word of flags, and the state of each hook.
#[derive(Debug, Default)]
pub struct RequestHooks {
    reasons: AtomicU32,
    /// When the pause ends, in milliseconds since 1970.
    pause_until_ms: AtomicU64,
    /// Wakers of the paused clients. It is locked while a pause begins or ends.
    held: Mutex<Vec<Waker>>,
    /// Wakers to be called at given times.
    calls: Arc<Calls>,
    /// Whether expired keys stay until they are accessed (DEBUG).
    expires_lazily: AtomicBool,
    /// Whether connections move to another worker after each request (DEBUG).
    relocates: AtomicBool,
    /// Whether scripts may call DEBUG and CLIENT (DEBUG).
    scripts_may_debug: AtomicBool,
    /// Whether payloads with wrong checksums are restored (DEBUG).
    skips_checksums: AtomicBool,
    /// Clients that monitor requests.
    pub monitors: Monitors,
    /// Clients that watch memcached's verbs.
    pub watchers: Watchers,
    /// Clients blocked on keys.
    pub(crate) blocked: Arc<BlockedClients>,
    /// Keys watched for transactions (WATCH).
    pub watched_keys: Arc<WatchedKeys>,
    /// Keyspace events to be published.
    pub notifications: Arc<Notifications>,
    /// Keys that clients have cached (CLIENT TRACKING).
    pub tracking: Arc<Tracking>,
    /// Failed logins and refused requests.
    pub(crate) access_log: AccessLog,
    /// The cost of requests by key.
    pub(crate) key_costs: KeyCosts,
    /// The latency monitor's events.
    pub latency: Latency,
}

/// The commands that CLIENT PAUSE delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paused {
    Writes,
    All,
}

/// Whether a pause for these reasons is one of commands that write, if `writes`, or of all.
fn concern(reasons: HookFlags, writes: bool) -> bool {
    reasons.contains(HookFlags::PAUSED_ALL)
        || reasons.intersects(HookFlags::PAUSED_WRITES | HookFlags::HELD_WRITES) && writes
}

impl RequestHooks {
    /// Stops serving a blocked client that is about to be closed: its elements would be lost.
    pub fn abandon_wait(&self, client: u64) {
        self.blocked.abandon(client);
    }

    /// The hooks that apply to the next request; usually none.
    #[must_use]
    #[inline]
    pub fn reasons(&self) -> HookFlags {
        HookFlags::from_bits_retain(self.reasons.load(Relaxed))
    }

    /// Sets or clears flags.
    pub fn set(&self, reasons: HookFlags, on: bool) {
        if on {
            self.reasons.fetch_or(reasons.bits(), Relaxed);
        } else {
            self.reasons.fetch_and(!reasons.bits(), Relaxed);
        }
    }

    /// The shortest event that the latency monitor records, in milliseconds; 0 for none.
    pub fn set_latency_threshold_ms(&self, threshold_ms: u64) {
        self.latency.set_threshold_ms(threshold_ms);
        self.set(HookFlags::TIMED, threshold_ms > 0);
    }

    /// Delays commands until a time. During a pause, another one may make it longer and stricter,
    /// never shorter or laxer.
    pub(crate) fn pause(&self, paused: Paused, until_ms: u64, now_ms: u64) {
        self.end_pause_if_over(now_ms);
        let _order = self.held.lock();
        self.pause_until_ms.fetch_max(until_ms, Relaxed);
        self.set(
            match paused {
                Paused::Writes => HookFlags::PAUSED_WRITES,
                Paused::All => HookFlags::PAUSED_ALL,
            },
            true,
        );
    }

    /// Delays writing commands for a reason, one of [`HookFlags::HELD_WRITES`], until the process
    /// ends or [`Self::release_writes`] is called.
    pub(crate) fn hold_writes(&self, why: HookFlags) {
        self.set(why, true);
    }

    /// Continues the commands that [`Self::hold_writes`] has delayed, unless there is another
    /// reason.
    pub(crate) fn release_writes(&self, why: HookFlags) {
        self.set(why, false);
        self.wake_held();
    }

    /// Ends a pause, and continues the delayed commands.
    pub(crate) fn unpause(&self) {
        self.end_pause_at(u64::MAX);
    }

    /// Ends a pause that is over at a time.
    fn end_pause_at(&self, now_ms: u64) {
        let order = self.held.lock();
        if self.pause_until_ms.load(Relaxed) > now_ms {
            // It has been made longer meanwhile.
            return;
        }
        self.set(PAUSED, false);
        self.pause_until_ms.store(0, Relaxed);
        drop(order);
        self.wake_held();
    }

    fn wake_held(&self) {
        let held = std::mem::take(&mut *self.held.lock());
        held.into_iter().for_each(Waker::wake);
    }

    fn end_pause_if_over(&self, now_ms: u64) {
        if self.pause_until_ms.load(Relaxed) <= now_ms && self.reasons().intersects(PAUSED) {
            self.end_pause_at(now_ms);
        }
    }

    /// Whether keys may neither expire nor be evicted now, since these are changes too.
    #[must_use]
    pub fn is_paused(&self, now_ms: u64) -> bool {
        let reasons = self.reasons();
        reasons.intersects(HookFlags::HELD_WRITES)
            || reasons.intersects(PAUSED) && self.pause_until_ms.load(Relaxed) > now_ms
    }

    /// Whether workers search for expired keys (active expiry).
    #[must_use]
    pub fn expires_actively(&self, now_ms: u64) -> bool {
        !self.expires_lazily.load(Relaxed)
            && !self.is_paused(now_ms)
            && !self.reasons().contains(HookFlags::LOADING)
    }

    pub(crate) fn expire_actively(&self, actively: bool) {
        self.expires_lazily.store(!actively, Relaxed);
    }

    pub(crate) fn relocate(&self, always: bool) {
        self.relocates.store(always, Relaxed);
    }

    /// Whether a connection moves to the next worker after each request.
    #[must_use]
    #[inline]
    pub fn relocates(&self) -> bool {
        self.relocates.load(Relaxed)
    }

    /// Whether scripts may call DEBUG and CLIENT, for tests.
    pub(crate) fn scripts_may_debug(&self) -> bool {
        self.scripts_may_debug.load(Relaxed)
    }

    pub(crate) fn set_scripts_may_debug(&self, may: bool) {
        self.scripts_may_debug.store(may, Relaxed);
    }

    /// Whether payloads with wrong checksums are restored, for tests of damaged ones.
    pub(crate) fn skips_checksums(&self) -> bool {
        self.skips_checksums.load(Relaxed)
    }

    pub(crate) fn set_skips_checksums(&self, skips: bool) {
        self.skips_checksums.store(skips, Relaxed);
    }

    /// Whether commands are delayed now: those that write, if `writes`.
    pub(crate) fn are_held(&self, writes: bool, now_ms: u64) -> bool {
        concern(self.reasons(), writes) && self.is_paused(now_ms)
    }

    /// Whether a client's command is delayed; if so, its waker will be called.
    pub(crate) fn holds(
        &self,
        reasons: HookFlags,
        writes: bool,
        client: &Client,
        now_ms: u64,
    ) -> bool {
        if !concern(reasons, writes) {
            return false;
        }
        // Wakers that are added later are called at the end of the pause.
        let mut held = self.held.lock();
        let holds = self.is_paused(now_ms);
        if holds {
            client.info.mark(Marks::WAITING, true);
            held.push(client.waker.clone());
        }
        holds
    }

    /// Starts counting the cost of requests by key, on these workers; `false` if that is already in
    /// progress.
    pub(crate) fn start_key_costs<'w>(
        &self,
        options: KeyCostOptions,
        now_ms: u64,
        workers: impl Iterator<Item = &'w WorkerCosts>,
    ) -> bool {
        self.end_key_costs_if_over(now_ms);
        self.key_costs.start(options, now_ms, workers, || self.set(HookFlags::KEY_COSTS, true))
    }

    /// Stops counting; `false` if it is not in progress.
    pub(crate) fn stop_key_costs(&self, now_ms: u64) -> bool {
        self.end_key_costs_if_over(now_ms);
        self.key_costs.stop(now_ms, || self.set(HookFlags::KEY_COSTS, false))
    }

    /// Stops counting if it is due.
    pub(crate) fn end_key_costs_if_over(&self, now_ms: u64) {
        if self.reasons().contains(HookFlags::KEY_COSTS) {
            self.key_costs.end_if_over(now_ms, || self.set(HookFlags::KEY_COSTS, false));
        }
    }

    /// Calls a waker at a given time, in milliseconds since 1970.
    pub(crate) fn call_at(&self, at_ms: u64, waker: &Waker) {
        self.calls.add(at_ms, waker);
    }

    /// Calls a waker at a given time, unless the alarm is dropped before. Also returns whether no
    /// other call is earlier.
    pub(crate) fn alarm(&self, at_ms: u64, waker: &Waker) -> (Alarm, bool) {
        let (call, is_first) = self.calls.add(at_ms, waker);
        (Alarm { calls: Arc::clone(&self.calls), call }, is_first)
    }

    /// Adds a client to the queues of keys, which it has claimed.
    pub(crate) fn block(&self, new: NewWaiter, store: &Store) -> Waiting {
        let waits_for_removals = new.wanted.wakes_on_any_change();
        self.blocked.enter(new, || {
            self.set(HookFlags::AWAITED, true);
            if waits_for_removals {
                store.report_removals(true);
            }
        })
    }

    /// Clears the flag, and ends the reports of removals, unless clients are still blocked.
    pub(crate) fn end_blocking(&self, store: &Store) {
        self.blocked.end_if_empty(|| {
            self.set(HookFlags::AWAITED, false);
            store.report_removals(false);
        });
    }

    /// Calls the wakers that are due. Returns when to check again; [`u64::MAX`] is never.
    pub fn call_due(&self, now_ms: u64) -> u64 {
        self.end_pause_if_over(now_ms);
        self.end_key_costs_if_over(now_ms);
        let (due, next_ms) = self.calls.take_due(now_ms);
        due.into_values().for_each(Waker::wake);
        let next_ms = match self.reasons().contains(HookFlags::KEY_COSTS) {
            true => next_ms.min(self.key_costs.until_ms()),
            false => next_ms,
        };
        let pause_until_ms = self.pause_until_ms.load(Relaxed);
        if pause_until_ms == 0 { next_ms } else { next_ms.min(pause_until_ms) }
    }
}

/// A time in milliseconds since 1970, and a unique number.
type Call = (u64, u64);

/// Wakers to be called at given times.
#[derive(Debug, Default)]
struct Calls(Mutex<(BTreeMap<Call, Waker>, u64)>);

impl Calls {
    /// Adds a call. Returns whether it is the earliest.
    fn add(&self, at_ms: u64, waker: &Waker) -> (Call, bool) {
        let (calls, last) = &mut *self.0.lock();
        *last += 1;
        let call = (at_ms, *last);
        calls.insert(call, waker.clone());
        (call, calls.first_key_value().is_some_and(|(first, _)| *first == call))
    }

    /// Removes the calls that are due. Returns them with the time of the next one.
    fn take_due(&self, now_ms: u64) -> (BTreeMap<Call, Waker>, u64) {
        let (calls, _) = &mut *self.0.lock();
        let later = calls.split_off(&(now_ms.saturating_add(1), 0));
        let due = std::mem::replace(calls, later);
        (due, calls.first_key_value().map_or(u64::MAX, |((at_ms, _), _)| *at_ms))
    }
}

/// A call that is cancelled on drop.
#[derive(Debug)]
pub(crate) struct Alarm {
    calls: Arc<Calls>,
    call: Call,
}

impl Alarm {
    /// Whether the call has been made, which happens once: the housekeeper's clock may be ahead of
    /// the time that a worker has read for its tick.
    pub(crate) fn was_made(&self) -> bool {
        let (calls, _) = &*self.calls.0.lock();
        !calls.contains_key(&self.call)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let (calls, _) = &mut *self.calls.0.lock();
        calls.remove(&self.call);
    }
}

const PAUSED: HookFlags = HookFlags::PAUSED_WRITES.union(HookFlags::PAUSED_ALL);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn wakers_are_called_in_time_unless_the_alarm_is_dropped() {
        let (hooks, count) = (RequestHooks::default(), Arc::new(Count::default()));
        let waker = Waker::from(Arc::clone(&count));
        hooks.call_at(20, &waker);
        let (kept, is_first) = hooks.alarm(10, &waker);
        assert!(is_first);
        let (dropped, is_first) = hooks.alarm(10, &waker);
        assert!(!is_first);
        drop(dropped);
        let (_later, _) = hooks.alarm(u64::MAX, &waker);
        for (now_ms, calls, next_ms) in [(9, 0, 10), (10, 1, 20), (19, 1, 20), (20, 2, u64::MAX)] {
            assert_eq!(hooks.call_due(now_ms), next_ms);
            assert_eq!(count.0.load(Relaxed), calls, "{now_ms}");
        }
        drop(kept);
    }
}
