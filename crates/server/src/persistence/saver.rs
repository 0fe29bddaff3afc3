//! The saver: a thread that makes cuts and writes to disk what workers collect in their walks. It
//! takes no latch, and yields to workers when both want a processor.

use crate::persistence::saver_priority::SaverPriority;
use crate::persistence::throttle::{LONGEST_WAIT, pause_after};
use crate::persistence::{dump_file, loading};
use crate::state::mailbox::Reminders;
use crate::state::shared::Shared;
use nagi_commands::gate::stop_writes_if_unsaved;
use nagi_commands::saves::{Ending, Order};
use nagi_commands::{HookFlags, REDIS_VERSION, Server as _};
use nagi_persist::rdb::{Preamble, Version, WriterOptions};
use nagi_persist::save::{SaveError, SaveHost, Saved, Target, save};
use nagi_store::{CutError, Snapshot, SnapshotError, Walker, since_1970};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Minimum limit of the memory of pre-images if it is a percentage of the used memory.
const MIN_SHARE_BYTES: u64 = 64 << 20;
/// Minimum limit if it is a number of bytes.
const MIN_LIMIT_BYTES: u64 = 1 << 20;
/// Unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

const CANCELLED: SaveError = SaveError::Snapshot(SnapshotError::Cancelled);

/// How long a script that has not written may go on while the save before the end waits for it.
const SCRIPT_WAIT: Duration = Duration::from_secs(1);

/// Runs requested saves until the server stops, and then those that clients still wait for.
pub(crate) fn run(shared: &Shared) {
    let priority = SaverPriority::new();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        // Read before the order, so that one that came before the stop is not missed.
        let is_stopping = shared.is_stopping();
        match shared.saves().next_order(&waker) {
            None if is_stopping => break,
            None => thread::park(),
            Some(Order::Load { merge }) => loading::load_again(shared, merge),
            // Read after the order: a stop that comes later cancels the save.
            Some(Order::BackgroundSave) if shared.is_stopping() => finish(shared, Err(CANCELLED)),
            Some(Order::Save | Order::BackgroundSave) => {
                priority.lower();
                let paused = Cell::new((cpu_time(), Instant::now()));
                let host = Workers { shared, paused, priority: &priority };
                let mut outcome = save_now(shared, &waker, &host);
                // A request that was past its check when writes were held, or a script that waited
                // for its turn, may have written after the cut. Its client has been answered.
                let changes = shared.store.totals().changes;
                if outcome.is_ok() && shared.saves().is_shutdown_outdated(changes) {
                    outcome = save_now(shared, &waker, &host);
                }
                finish(shared, outcome);
            }
        }
    }
}

/// Makes the last save after all workers have ended. The calling thread walks as well.
///
/// # Errors
/// Why the save failed.
pub(crate) fn last_save(shared: &Shared) -> Result<(), String> {
    shared.saves().order_last();
    let host = LastThread { shared, walker: RefCell::default() };
    let outcome = save_now(shared, Waker::noop(), &host);
    let failed = outcome.as_ref().err().map(ToString::to_string);
    finish(shared, outcome);
    failed.map_or(Ok(()), Err)
}

/// Saves while all requests except writes are served, if the settings or a client's SHUTDOWN ask
/// for a save at the end. As in Redis, that does not depend on changes: the file may have another
/// name or version since the last save, or be gone.
///
/// # Errors
/// Why the data could not be saved; writes are then served again.
pub(crate) fn save_before_shutdown(shared: &Shared) -> Result<(), String> {
    let has_points = shared.config().has_save_points();
    let is_loading = shared.hooks().reasons().contains(HookFlags::LOADING);
    let is_asked_for = has_points || shared.saves().is_shutdown_pending();
    if !is_asked_for || is_loading || shared.is_stopping() {
        return Ok(());
    }
    let (saves, waker) = (shared.saves(), Waker::from(Arc::new(Unpark(thread::current()))));
    let ticket = saves.order_before_shutdown(shared.hooks(), false);
    loop {
        match saves.outcome(ticket, &waker) {
            Some(outcome) => return outcome,
            // The server is stopping for another reason; the saver ends this save all the same.
            None if shared.is_stopping() => return Ok(()),
            None => {
                shared.scripts().end_unless_written(SCRIPT_WAIT);
                thread::park_timeout(Duration::from_millis(100));
            }
        }
    }
}

/// Saves the data. Writes are tracked from before the cut until the save has ended.
fn save_now(shared: &Shared, waker: &Waker, host: &dyn SaveHost) -> Result<Saved, SaveError> {
    shared.hooks().set(HookFlags::SAVING, true);
    let outcome = dump_file::path(shared).ok_or(SaveError::NoFile).and_then(|path| {
        let (snapshot, libraries) = cut(shared, waker)?;
        write(shared, snapshot, &libraries, &path, host)
    });
    shared.hooks().set(HookFlags::SAVING, false);
    outcome
}

/// The workers that walk for a save, and the saver, which yields the processor to them.
struct Workers<'a> {
    shared: &'a Shared,
    /// The thread's processor time at the end of its last pause, and when that was.
    paused: Cell<(Duration, Instant)>,
    priority: &'a SaverPriority,
}

impl SaveHost for Workers<'_> {
    fn resume(&self) {
        self.shared.remind_all(Reminders::WALK);
    }

    fn pace(&self) {
        /// Minimum work before a pause.
        const WORK: Duration = Duration::from_millis(2);
        self.priority.look();
        let (busy_before, ended) = self.paused.get();
        let Some(busy) = cpu_time().checked_sub(busy_before).filter(|busy| *busy >= WORK) else {
            return;
        };
        // Time spent waiting for the disk or a processor counts as a pause too.
        let left = || (busy + pause_after(self.shared, busy)).saturating_sub(ended.elapsed());
        if !left().is_zero() {
            self.shared.saves().pauses.fetch_add(1, Ordering::Relaxed);
        }
        while !left().is_zero() {
            thread::sleep(left().min(LONGEST_WAIT));
        }
        self.paused.set((cpu_time(), Instant::now()));
    }
}

/// The thread of the last save, which also walks.
struct LastThread<'a> {
    shared: &'a Shared,
    walker: RefCell<Walker>,
}

impl SaveHost for LastThread<'_> {
    fn resume(&self) {
        if let Ok(mut walker) = self.walker.try_borrow_mut() {
            self.shared.store.walk(&mut walker, || false);
        }
    }

    fn pace(&self) {}
}

/// The processor time that this thread has used.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The code of libraries of functions.
type Codes = Vec<Arc<[u8]>>;

/// Makes a cut, and takes the libraries of the same moment.
fn cut<'a>(shared: &'a Shared, waker: &Waker) -> Result<(Snapshot<'a>, Codes), SaveError> {
    let mut _place;
    loop {
        // Read before the cut: a change in between counts as unsaved.
        let changes = shared.store.totals().changes;
        let limit = pre_image_limit(shared);
        let libraries = shared.scripts().frozen_libraries();
        let cut = shared.store.cut(limit, waker);
        let codes = libraries.codes();
        drop(libraries);
        match cut {
            Ok(snapshot) => {
                if shared.hooks().reasons().contains(HookFlags::LOADING) {
                    // A reload may have emptied the store since the save was requested.
                    shared.saves().progress.cancel.store(true, Ordering::Relaxed);
                }
                shared.saves().begin(snapshot.cut_took(), changes);
                return Ok((snapshot, codes));
            }
            Err(CutError::Busy) => return Err(CANCELLED),
            Err(CutError::Claimed(wait)) => {
                // The place in the queue is kept until the next try.
                _place = wait;
                if shared.saves().progress.cancel.load(Ordering::Relaxed) {
                    return Err(CANCELLED);
                }
                thread::park();
            }
        }
    }
}

fn write(
    shared: &Shared,
    snapshot: Snapshot<'_>,
    libraries: &[Arc<[u8]>],
    path: &Path,
    host: &dyn SaveHost,
) -> Result<Saved, SaveError> {
    tracing::info!(cut_us = snapshot.cut_took().as_micros(), "save started");
    let config = shared.config();
    let now = since_1970();
    let pinned = config.pinned_rdb_version().and_then(Version::from_number);
    let target = Target {
        libraries,
        path,
        options: WriterOptions {
            version: pinned.unwrap_or(Version::LOWEST),
            compress: config.rdbcompression.is_on(),
            checksum: config.rdbchecksum.is_on(),
        },
        is_version_fixed: pinned.is_some(),
        preamble: Preamble {
            redis_version: REDIS_VERSION,
            created_at_s: now.as_secs(),
            used_memory_bytes: shared.store.used_bytes(),
            is_aof_base: false,
        },
    };
    host.resume();
    save(&shared.store, snapshot, &target, &shared.saves().progress, host)
}

fn pre_image_limit(shared: &Shared) -> usize {
    let limit = shared.config().snapshot_preimage_limit.signed();
    let bytes = match limit {
        0.. => limit.unsigned_abs().max(MIN_LIMIT_BYTES),
        _ => {
            let share = shared.store.used_bytes() / 100 * limit.unsigned_abs();
            share.max(MIN_SHARE_BYTES)
        }
    };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Reports and logs the result of a save.
fn finish(shared: &Shared, outcome: Result<Saved, SaveError>) {
    let ending = match outcome {
        Ok(Saved { keys, bytes }) => {
            let pauses = shared.saves().pauses.load(Ordering::Relaxed);
            tracing::info!(keys, bytes, pauses, "DB saved on disk");
            Ending::Saved { keys, bytes }
        }
        Err(SaveError::Snapshot(SnapshotError::Cancelled)) => {
            let unsaved_changes = shared.unsaved_changes();
            if shared.is_stopping() {
                tracing::warn!(unsaved_changes, "save cancelled: the server is stopping");
            } else {
                tracing::info!(unsaved_changes, "save cancelled");
            }
            Ending::Cancelled
        }
        Err(error) => {
            tracing::warn!(%error, "save failed");
            Ending::Failed(error.to_string())
        }
    };
    let is_saved = matches!(ending, Ending::Saved { .. });
    shared.saves().end(ending);
    if shared.saves().is_shutdown_due() {
        shared.shut_down(is_saved);
    } else {
        shared.saves().release_writes(shared.hooks());
    }
    stop_writes_if_unsaved(shared.saves(), shared.config(), shared.hooks());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::shared::ServerOptions;
    use nagi_commands::config::Origin;
    use std::fs;
    use std::path::PathBuf;

    /// A server without threads that saves to a folder, which is removed on drop.
    struct Fixture {
        shared: Shared,
        folder: PathBuf,
    }

    impl Fixture {
        fn new(test: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("nagi-{test}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            let commands = nagi_commands::command_table();
            let shared = Shared::new(ServerOptions::default(), Vec::new(), commands).unwrap();
            shared.config().set("dir", folder.to_str().unwrap(), Origin::Startup).unwrap();
            Fixture { shared, folder }
        }

        /// Runs the saver until it ends. This thread walks, and calls `meanwhile`.
        fn run(&self, mut meanwhile: impl FnMut(&Shared)) {
            let (shared, mut walker) = (&self.shared, Walker::default());
            thread::scope(|scope| {
                let saver = scope.spawn(|| run(shared));
                shared.saver.set(saver.thread().clone()).unwrap();
                while !saver.is_finished() {
                    meanwhile(shared);
                    if shared.store.is_saving() {
                        shared.store.walk(&mut walker, || false);
                    }
                    thread::yield_now();
                }
            });
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            // What is left behind is only a temporary file.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn a_change_after_the_cut_is_saved_before_the_server_stops() {
        let fixture = Fixture::new("saved-again");
        fixture.shared.saves().order_before_shutdown(&fixture.shared.hooks, false);
        let mut is_written = false;
        fixture.run(|shared| {
            if shared.store.is_saving() && !is_written {
                is_written = true;
                let counters = shared.store.counters(0);
                shared.store.database(0, &counters, shared.store.now_ms()).note_change();
            }
        });
        assert!(is_written && fixture.shared.is_stopping());
        assert_eq!(fixture.shared.unsaved_changes(), 0);
    }

    #[test]
    fn what_a_reload_has_loaded_so_far_does_not_replace_the_file() {
        let fixture = Fixture::new("saved-during-reload");
        let ticket = fixture.shared.saves().order(Order::Save).unwrap();
        fixture.shared.hooks.set(HookFlags::LOADING, true);
        fixture.shared.stop();
        fixture.run(|_| ());
        let outcome = fixture.shared.saves().outcome(ticket, Waker::noop()).unwrap();
        assert_eq!(outcome, Err("it was cancelled".to_owned()));
        assert_eq!(fs::read_dir(&fixture.folder).unwrap().count(), 0);
    }

    #[test]
    fn a_stop_cancels_only_saves_in_the_background() {
        let fixture = Fixture::new("stopped-saver");
        let saves = fixture.shared.saves();
        saves.order(Order::BackgroundSave).unwrap();
        let ticket = saves.order_before_shutdown(&fixture.shared.hooks, false);
        fixture.shared.stop();
        fixture.run(|_| ());
        assert_eq!(saves.outcome(ticket, Waker::noop()), Some(Ok(())));
        assert_eq!(saves.status().count, 1);
        assert!(fixture.folder.join("dump.rdb").is_file());
        saves.order(Order::BackgroundSave).unwrap();
        fixture.shared.stop();
        assert!(saves.progress.cancel.load(Ordering::Relaxed));
        saves.order_last();
        fixture.shared.stop();
        assert!(!saves.progress.cancel.load(Ordering::Relaxed), "the last save goes on");
    }
}
