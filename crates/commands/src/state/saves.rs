//! Saves: the requested one, its progress, and the result of the last one. Commands request them,
//! the saver performs them, INFO reports them.

use crate::state::hooks::{HookFlags, RequestHooks};
use crate::state::loading::Loading;
use nagi_persist::save::SaveProgress;
use nagi_store::since_1970;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

/// The saves of one process, one at a time.
#[derive(Debug)]
pub struct Saves {
    state: Mutex<State>,
    /// Whether a client waits for the end of the current save; always false for a save in the
    /// background.
    is_awaited: AtomicBool,
    /// The progress of the current save.
    pub progress: SaveProgress,
    /// How long writers had to wait for the current save, or for the last one.
    pub delays: Delays,
    /// How often `save-cpu-limit` has made a thread pause for the current save, or for the last
    /// one.
    pub pauses: AtomicU64,
    /// The progress of loading.
    pub loading: Loading,
}

/// Delays of writers, which occur when images of changed entries come near their limit.
#[derive(Debug, Default)]
pub struct Delays {
    count: AtomicU64,
    total_us: AtomicU64,
    longest_us: AtomicU64,
}

impl Delays {
    pub(crate) fn add(&self, delay: Duration) {
        let us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total_us.fetch_add(us, Ordering::Relaxed);
        self.longest_us.fetch_max(us, Ordering::Relaxed);
    }

    fn reset(&self) {
        [&self.count, &self.total_us, &self.longest_us]
            .iter()
            .for_each(|number| number.store(0, Ordering::Relaxed));
    }

    /// The number of delayed commands, and the total and the longest delay in microseconds.
    pub(crate) fn figures(&self) -> [u64; 3] {
        [&self.count, &self.total_us, &self.longest_us].map(|it| it.load(Ordering::Relaxed))
    }
}

/// A task for the saver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Save, for a client that waits for the result.
    Save,
    /// Save in the background. As in Redis, only failures of background saves affect INFO's status
    /// and `stop-writes-on-bgsave-error`.
    BackgroundSave,
    /// Load the file into an empty store, or merge it into the data, where existing keys are
    /// replaced.
    Load {
        /// Whether the store may have keys already.
        merge: bool,
    },
}

/// The result of a save.
#[derive(Clone, Debug)]
pub enum Ending {
    /// A file with this many keys and bytes.
    Saved {
        /// Its number of keys.
        keys: u64,
        /// Its length in bytes.
        bytes: u64,
    },
    /// It was cancelled, which is not a failure.
    Cancelled,
    /// It failed for this reason.
    Failed(String),
}

/// The number of a save, in the order of requests.
pub type Ticket = u64;

#[derive(Debug)]
struct State {
    asked: Ticket,
    begun: Ticket,
    ended: Ticket,
    order: Order,
    /// The save that follows the end of the current task.
    next: Option<Order>,
    /// The save after which the process stops, whether it stops even if that fails, and the save
    /// whose shutdown was aborted.
    before_shutdown: Ticket,
    stops_unsaved: bool,
    aborted: Ticket,
    /// The result of the last request.
    outcome: Result<(), String>,
    /// The number of written bytes at the last check that saw an increase, and the time of that
    /// check.
    seen: Option<(u64, Instant)>,
    /// Wakers to call when a save begins or ends.
    waiting: Vec<Waker>,
    saver: Option<Waker>,
    status: Status,
}

/// The figures about saves in INFO.
#[derive(Clone, Debug)]
pub struct Status {
    /// Whether a save is requested or running.
    pub in_progress: bool,
    /// When the current save began.
    pub began: Option<Instant>,
    /// When the last successful save ended, in seconds since 1970; initially, when the process
    /// started.
    pub last_success_s: u64,
    /// The duration of the last save.
    pub last_took: Option<Duration>,
    /// Why the last save in the background failed, unless one has succeeded since.
    pub last_error: Option<String>,
    /// When the last save ended, with any result.
    pub last_end: Option<Instant>,
    /// The duration of the last cut.
    pub last_cut: Option<Duration>,
    /// The number of successful saves.
    pub count: u64,
    /// The keys and bytes in the last file.
    pub last_keys: u64,
    /// See `last_keys`.
    pub last_bytes: u64,
    /// The store's count of changes at the cut of the last successful save.
    pub changes_saved: u64,
    /// The store's count of changes at the cut of the current save.
    changes_at_cut: u64,
    /// The number of keys loaded at startup, and of loaded keys that had expired.
    pub loaded_keys: u64,
    /// See `loaded_keys`.
    pub loaded_expired: u64,
}

impl Default for Saves {
    fn default() -> Self {
        let status = Status {
            in_progress: false,
            began: None,
            last_success_s: since_1970().as_secs(),
            last_took: None,
            last_error: None,
            last_end: None,
            last_cut: None,
            count: 0,
            last_keys: 0,
            last_bytes: 0,
            changes_saved: 0,
            changes_at_cut: 0,
            loaded_keys: 0,
            loaded_expired: 0,
        };
        let (waiting, saver) = (Vec::new(), None);
        Saves {
            state: Mutex::new(State {
                asked: 0,
                begun: 0,
                ended: 0,
                order: Order::Save,
                next: None,
                before_shutdown: 0,
                stops_unsaved: false,
                aborted: 0,
                outcome: Ok(()),
                seen: None,
                waiting,
                saver,
                status,
            }),
            is_awaited: AtomicBool::new(false),
            progress: SaveProgress::default(),
            delays: Delays::default(),
            pauses: AtomicU64::new(0),
            loading: Loading::default(),
        }
    }
}

impl State {
    /// Whether the process stops after a save that has not ended.
    fn is_shutdown_pending(&self) -> bool {
        self.before_shutdown > self.ended.max(self.aborted)
    }

    /// Whether the process has to stop now, after the end of the task that ended last.
    fn is_shutdown_due(&self) -> bool {
        self.before_shutdown > self.aborted
            && self.before_shutdown == self.ended
            && (self.outcome.is_ok() || self.stops_unsaved)
    }

    /// Delays writes as long as the process is about to stop: they would not be in the file.
    fn hold_or_release(&self, hooks: &RequestHooks) {
        if self.is_shutdown_pending() || self.is_shutdown_due() {
            hooks.hold_writes(HookFlags::STOPPING);
        } else if hooks.reasons().contains(HookFlags::STOPPING) {
            hooks.release_writes(HookFlags::STOPPING);
        }
    }

    /// Calls `waker` when a task begins or ends.
    fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|known| known.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }
}

impl Saves {
    /// Requests a task; `None` if one is requested or running.
    pub fn order(&self, order: Order) -> Option<Ticket> {
        let mut state = self.lock();
        (state.asked == state.ended).then(|| self.order_locked(&mut state, order))
    }

    fn order_locked(&self, state: &mut State, order: Order) -> Ticket {
        state.asked += 1;
        state.order = order;
        self.is_awaited.store(order == Order::Save, Ordering::Relaxed);
        state.status.in_progress = !matches!(order, Order::Load { .. });
        self.progress.reset();
        state.saver.iter().for_each(Waker::wake_by_ref);
        state.asked
    }

    /// Requests a task, after cancelling a save in the background. Returns `None` if a task has to
    /// end first; `waker` is then called at its end.
    pub fn order_instead(&self, order: Order, waker: &Waker) -> Option<Ticket> {
        let mut state = self.lock();
        if state.asked == state.ended {
            return Some(self.order_locked(&mut state, order));
        }
        self.cancel_background(&state);
        state.wait(waker);
        None
    }

    /// Requests a save that begins after this call: after the end of the task that is requested or
    /// running, which is cancelled if it is a save in the background. It begins even if the client
    /// has disconnected, or holds claims for which the save has to wait.
    pub(crate) fn order_next(&self, order: Order) -> Ticket {
        self.order_next_locked(&mut self.lock(), order)
    }

    fn order_next_locked(&self, state: &mut State, order: Order) -> Ticket {
        if state.asked == state.ended {
            return self.order_locked(state, order);
        }
        let is_foreground = order == Order::Save || state.next == Some(Order::Save);
        state.next = Some(if is_foreground { Order::Save } else { order });
        self.cancel_background(state);
        state.asked + 1
    }

    /// Requests that the process stops after a save, which follows like that of
    /// [`Saves::order_next`], unless it stops after a save already; with `stops_unsaved`, even if
    /// the save fails. From now on, writes wait.
    pub fn order_before_shutdown(&self, hooks: &RequestHooks, stops_unsaved: bool) -> Ticket {
        let mut state = self.lock();
        if state.is_shutdown_pending() {
            state.stops_unsaved |= stops_unsaved;
        } else {
            state.before_shutdown = self.order_next_locked(&mut state, Order::Save);
            state.stops_unsaved = stops_unsaved;
            if state.aborted == state.before_shutdown {
                // The save of the aborted shutdown has not begun, and serves this one.
                state.aborted = 0;
            }
            state.hold_or_release(hooks);
        }
        state.before_shutdown
    }

    /// Whether the process has to stop now, after the end of the task that ended last.
    pub fn is_shutdown_due(&self) -> bool {
        self.lock().is_shutdown_due()
    }

    /// Continues the writes that a shutdown has delayed, after the end of a task, unless the
    /// process has to stop.
    pub fn release_writes(&self, hooks: &RequestHooks) {
        // Under the lock, so that a shutdown that is requested now delays them again.
        self.lock().hold_or_release(hooks);
    }

    /// Whether the process stops after the current save, although data has changed since its cut:
    /// `changes` is the store's count of changes.
    pub fn is_shutdown_outdated(&self, changes: u64) -> bool {
        let state = self.lock();
        state.is_shutdown_pending()
            && state.before_shutdown == state.asked
            && changes > state.status.changes_at_cut
    }

    /// Begins the final save, at a time when all threads that could request one have ended.
    pub fn order_last(&self) {
        let mut state = self.lock();
        state.asked += 1;
        state.order = Order::Save;
        state.status.in_progress = true;
        self.progress.reset();
    }

    /// Cancels the shutdown and the save before it, and continues writes. Returns whether there was
    /// one.
    pub(crate) fn abort_shutdown(&self, hooks: &RequestHooks) -> bool {
        let mut state = self.lock();
        let is_there = state.is_shutdown_pending();
        if is_there {
            state.aborted = state.before_shutdown;
            if state.asked == state.before_shutdown {
                self.cancel_current(&state);
            }
            state.waiting.drain(..).for_each(Waker::wake);
            state.hold_or_release(hooks);
        }
        is_there
    }

    /// Whether a client waits for the end of the current save, or it was cancelled.
    pub fn is_end_awaited(&self) -> bool {
        // Read without the lock: workers call this often, and the saver may be descheduled while it
        // holds the lock.
        self.is_awaited.load(Ordering::Relaxed) || self.progress.cancel.load(Ordering::Relaxed)
    }

    /// Whether the process stops after a save.
    pub fn is_shutdown_pending(&self) -> bool {
        self.lock().is_shutdown_pending()
    }

    /// Whether the shutdown after this save was aborted.
    pub(crate) fn is_shutdown_aborted(&self, ticket: Ticket) -> bool {
        self.lock().aborted == ticket
    }

    /// Cancels the requested or running save in the background, and one that was to follow. Saves
    /// for which clients wait are not cancelled. Returns whether there was one.
    pub fn cancel(&self) -> bool {
        let mut state = self.lock();
        let was_due = state.next.take_if(|next| *next == Order::BackgroundSave).is_some();
        self.cancel_background(&state) || was_due
    }

    fn cancel_background(&self, state: &State) -> bool {
        let is_there = state.asked != state.ended && state.order == Order::BackgroundSave;
        if is_there {
            self.cancel_current(state);
        }
        is_there
    }

    fn cancel_current(&self, state: &State) {
        self.progress.cancel.store(true, Ordering::Relaxed);
        // It may be waiting for claims.
        state.saver.iter().for_each(Waker::wake_by_ref);
    }

    /// Whether the last save in the background failed without being cancelled, and none has
    /// succeeded since.
    pub(crate) fn has_failed(&self) -> bool {
        self.lock().status.last_error.is_some()
    }

    /// Whether nothing has been written for longer than `limit`, as observed by calls of this
    /// function.
    pub(crate) fn is_stuck(&self, limit: Duration) -> bool {
        let bytes = self.progress.bytes.load(Ordering::Relaxed);
        let mut state = self.lock();
        match state.seen {
            Some((then, since)) if then == bytes => since.elapsed() > limit,
            _ => {
                state.seen = Some((bytes, Instant::now()));
                false
            }
        }
    }

    /// Whether a save has been cut or has ended. If not, `waker` is called when that may have
    /// changed.
    pub(crate) fn has_begun(&self, ticket: Ticket, waker: &Waker) -> bool {
        let mut state = self.lock();
        let has_begun = state.begun >= ticket || state.ended >= ticket;
        if !has_begun {
            state.wait(waker);
        }
        has_begun
    }

    /// The result of a task; `None` if it has not ended, in which case `waker` is called when that
    /// may have changed.
    pub fn outcome(&self, ticket: Ticket, waker: &Waker) -> Option<Result<(), String>> {
        let mut state = self.lock();
        // A save that has been requested comes to its end first.
        if state.aborted == ticket && (state.ended >= ticket || state.asked < ticket) {
            return Some(Err("stopping was aborted".to_owned()));
        }
        if state.ended < ticket {
            state.wait(waker);
            return None;
        }
        Some(state.outcome.clone())
    }

    /// The requested task, if any; otherwise `saver` is called when there is one.
    pub fn next_order(&self, saver: &Waker) -> Option<Order> {
        let mut state = self.lock();
        state.saver = Some(saver.clone());
        (state.asked != state.ended).then_some(state.order)
    }

    /// Records the end of the cut, and the store's count of changes at that moment.
    pub fn begin(&self, cut_took: Duration, changes: u64) {
        let mut state = self.lock();
        state.begun = state.asked;
        state.seen = None;
        self.delays.reset();
        self.pauses.store(0, Ordering::Relaxed);
        state.status.began = Some(Instant::now());
        state.status.last_cut = Some(cut_took);
        state.status.changes_at_cut = changes;
        state.waiting.drain(..).for_each(Waker::wake);
    }

    /// Records the end of the save.
    pub fn end(&self, ending: Ending) {
        let mut state = self.lock();
        state.ended = state.asked;
        state.outcome = match &ending {
            Ending::Saved { .. } => Ok(()),
            Ending::Cancelled => Err("it was cancelled".to_owned()),
            Ending::Failed(error) => Err(error.clone()),
        };
        let is_in_background = state.order == Order::BackgroundSave;
        let status = &mut state.status;
        status.in_progress = false;
        status.last_took = status.began.take().map(|began| began.elapsed());
        status.last_end = Some(Instant::now());
        match ending {
            Ending::Saved { keys, bytes } => {
                status.last_success_s = since_1970().as_secs();
                status.last_error = None;
                status.count += 1;
                (status.last_keys, status.last_bytes) = (keys, bytes);
                status.changes_saved = status.changes_at_cut;
            }
            // As in Redis, this does not change the status of the last save.
            Ending::Cancelled => {}
            Ending::Failed(error) if is_in_background => status.last_error = Some(error),
            Ending::Failed(_) => {}
        }
        state.waiting.drain(..).for_each(Waker::wake);
        self.order_due(&mut state);
    }

    /// Requests the save that is due after the end of a task.
    fn order_due(&self, state: &mut State) {
        if let Some(order) = state.next.take() {
            self.order_locked(state, order);
        }
    }

    /// Records the end of a task other than a save.
    pub fn end_load(&self, outcome: Result<(), String>) {
        let mut state = self.lock();
        state.ended = state.asked;
        state.outcome = outcome;
        state.waiting.drain(..).for_each(Waker::wake);
        self.order_due(&mut state);
    }

    /// Records what was loaded at startup, before any change.
    pub fn loaded(&self, keys: u64, expired: u64, changes: u64) {
        let status = &mut self.lock().status;
        (status.loaded_keys, status.loaded_expired) = (keys, expired);
        status.changes_saved = changes;
    }

    /// The figures for INFO.
    #[must_use]
    pub fn status(&self) -> Status {
        self.lock().status.clone()
    }

    /// Locks the state, which no operation under the lock can leave inconsistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVED: Ending = Ending::Saved { keys: 1, bytes: 2 };

    #[test]
    fn a_shutdown_is_aborted_only_before_its_save_has_ended() {
        let (saves, waker) = (Saves::default(), Waker::noop());
        let hooks = RequestHooks::default();
        assert!(!saves.abort_shutdown(&hooks), "there is no shutdown");
        let earlier = saves.order(Order::Save).unwrap();
        assert!(!saves.abort_shutdown(&hooks), "that save was asked for otherwise");
        let ticket = saves.order_before_shutdown(&hooks, false);
        assert!(ticket > earlier && saves.is_shutdown_pending());
        assert!(!saves.progress.cancel.load(Ordering::Relaxed), "a client waits for the first one");
        saves.end(SAVED);
        assert_eq!(saves.outcome(earlier, waker), Some(Ok(())));
        assert!(!saves.is_shutdown_due() && saves.status().in_progress);
        assert!(saves.abort_shutdown(&hooks) && saves.is_shutdown_aborted(ticket));
        assert!(!saves.abort_shutdown(&hooks) && !saves.is_shutdown_pending());
        saves.end(SAVED);
        assert!(!saves.is_shutdown_due());
        assert!(saves.outcome(ticket, waker).unwrap().is_err(), "however the save ended");
        let ticket = saves.order_before_shutdown(&hooks, false);
        saves.end(SAVED);
        assert_eq!(saves.outcome(ticket, waker), Some(Ok(())));
        assert!(saves.is_shutdown_due() && !saves.abort_shutdown(&hooks));
    }

    #[test]
    fn a_shutdown_may_follow_one_that_was_aborted_before_its_save_began() {
        let (saves, waker) = (Saves::default(), Waker::noop());
        let hooks = RequestHooks::default();
        saves.order(Order::Save).unwrap();
        let aborted = saves.order_before_shutdown(&hooks, false);
        assert!(saves.abort_shutdown(&hooks) && saves.outcome(aborted, waker).unwrap().is_err());
        let ticket = saves.order_before_shutdown(&hooks, false);
        assert!(saves.is_shutdown_pending() && saves.outcome(ticket, waker).is_none());
        saves.end(SAVED);
        assert!(!saves.is_shutdown_due());
        saves.end(SAVED);
        assert_eq!(saves.outcome(ticket, waker), Some(Ok(())));
        assert!(saves.is_shutdown_due());
    }

    #[test]
    fn a_failed_save_stops_the_process_only_if_asked_to() {
        let (saves, hooks) = (Saves::default(), RequestHooks::default());
        let ticket = saves.order_before_shutdown(&hooks, true);
        assert_eq!(saves.order_before_shutdown(&hooks, false), ticket, "one save is enough");
        saves.end(Ending::Failed("no room".to_owned()));
        assert!(saves.is_shutdown_due());
        for stops_unsaved in [false, true] {
            saves.order_before_shutdown(&hooks, stops_unsaved);
            saves.end(Ending::Failed("no room".to_owned()));
            assert_eq!(saves.is_shutdown_due(), stops_unsaved);
        }
    }

    #[test]
    fn writes_wait_until_the_process_does_not_stop_after_all() {
        let (saves, hooks) = (Saves::default(), RequestHooks::default());
        let held = || hooks.reasons().intersection(HookFlags::HELD_WRITES);
        hooks.hold_writes(HookFlags::RELOADING);
        for ends in ["aborted", "failed", "saved"] {
            saves.order(Order::Save).unwrap();
            saves.order_before_shutdown(&hooks, false);
            assert_eq!(held(), HookFlags::HELD_WRITES);
            saves.end(SAVED);
            saves.release_writes(&hooks);
            assert_eq!(held(), HookFlags::HELD_WRITES, "that was the save before");
            match ends {
                "aborted" => assert!(saves.abort_shutdown(&hooks)),
                "failed" => saves.end(Ending::Failed("no room".to_owned())),
                _ => saves.end(SAVED),
            }
            saves.release_writes(&hooks);
            let expected =
                if ends == "saved" { HookFlags::HELD_WRITES } else { HookFlags::RELOADING };
            assert_eq!(held(), expected, "{ends}");
            if ends == "aborted" {
                saves.end(Ending::Cancelled);
            }
        }
    }

    #[test]
    fn a_save_follows_the_one_in_the_background_that_it_cancels() {
        let saves = Saves::default();
        for _ in 0..2 {
            saves.order_next(Order::BackgroundSave);
        }
        assert!(saves.status().in_progress && !saves.is_awaited.load(Ordering::Relaxed));
        assert!(saves.progress.cancel.load(Ordering::Relaxed), "it may be cut already");
        saves.end(Ending::Cancelled);
        assert!(saves.status().in_progress && !saves.progress.cancel.load(Ordering::Relaxed));
        let ticket = saves.order_next(Order::Save);
        assert_eq!(saves.order_next(Order::BackgroundSave), ticket, "one follows");
        assert!(saves.cancel() && saves.order(Order::Save).is_none());
        saves.end(Ending::Cancelled);
        assert!(saves.is_end_awaited(), "the save for a client");
        assert!(!saves.cancel() && !saves.progress.cancel.load(Ordering::Relaxed));
        saves.end(SAVED);
        assert_eq!(saves.outcome(ticket, Waker::noop()), Some(Ok(())));
        assert!(!saves.status().in_progress && saves.order(Order::Save).is_some());
    }

    #[test]
    fn only_a_failure_in_the_background_is_remembered() {
        let saves = Saves::default();
        for (order, counts) in [(Order::Save, false), (Order::BackgroundSave, true)] {
            saves.order(order).unwrap();
            saves.end(Ending::Failed("no room".to_owned()));
            assert_eq!(saves.has_failed(), counts, "{order:?}");
        }
        saves.order_last();
        saves.end(Ending::Saved { keys: 1, bytes: 2 });
        assert!(!saves.has_failed(), "however it was asked for");
    }

    #[test]
    fn the_last_save_replaces_a_cancelled_one() {
        let saves = Saves::default();
        let asked = saves.order(Order::BackgroundSave).unwrap();
        assert_eq!(saves.order(Order::Save), None, "one at a time");
        assert!(saves.cancel());
        saves.order_last();
        assert!(!saves.progress.cancel.load(Ordering::Relaxed), "it is not what was cancelled");
        assert!(!saves.cancel(), "nor is it in the background");
        saves.end(Ending::Saved { keys: 1, bytes: 2 });
        assert_eq!(saves.outcome(asked, Waker::noop()), Some(Ok(())));
        assert!(!saves.status().in_progress && saves.order(Order::Save).is_some());
    }
}
