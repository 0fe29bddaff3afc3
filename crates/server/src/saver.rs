//! The saver: a thread that makes cuts and writes to disk what workers bring from their walks. It
//! takes no latch, and yields to workers wherever both want a processor.

use crate::server::{Mail, Shared};
use nagi_commands::{REDIS_VERSION, Server as _};
use nagi_persist::rdb::{Options, Preamble, Version};
use nagi_persist::save::{SaveError, Saved, Target, save};
use nagi_store::snapshot::{CutError, Snapshot, SnapshotError, Walker};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{SystemTime, UNIX_EPOCH};

/// Below workers, whose clients wait, and above what has all the time in the world.
const NICENESS: i32 = 10;

/// Images that writers leave may always take so much.
const LEAST_PRE_IMAGES_BYTES: u64 = 64 << 20;

/// Calls a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Does what is asked for until the server stops.
pub(crate) fn run(shared: &Shared) {
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "the saver stays as urgent as workers are");
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    while !shared.is_stopping() {
        if shared.saves().next_order(&waker).is_none() {
            thread::park();
            continue;
        }
        let resume = || shared.resume_walk();
        let outcome = cut(shared, &waker).and_then(|snapshot| write(shared, snapshot, &resume));
        tell(shared, outcome);
    }
}

/// Saves once more when no worker is left. Whoever calls walks as well.
///
/// # Errors
/// Why it came to nothing.
pub(crate) fn last_save(shared: &Shared) -> Result<(), String> {
    shared.saves().order_last();
    let walker = RefCell::new(Walker::default());
    let resume = || {
        if let Ok(mut walker) = walker.try_borrow_mut() {
            shared.store.walk(&mut walker, || false);
        }
    };
    let outcome = cut(shared, Waker::noop()).and_then(|snapshot| {
        resume();
        write(shared, snapshot, &resume)
    });
    let failed = outcome.as_ref().err().map(ToString::to_string);
    tell(shared, outcome);
    failed.map_or(Ok(()), Err)
}

/// The file that is written and, at the start, read; `None` if there is to be none.
pub(crate) fn path(shared: &Shared) -> Option<PathBuf> {
    let config = shared.config();
    let name = config.dbfilename.get();
    (!name.is_empty()).then(|| Path::new(&*config.dir.get()).join(&*name))
}

fn cut<'a>(shared: &'a Shared, waker: &Waker) -> Result<Snapshot<'a>, SaveError> {
    let cancelled = SaveError::Snapshot(SnapshotError::Cancelled);
    let mut _place;
    loop {
        match shared.store.cut(pre_image_limit(shared), waker) {
            Ok(snapshot) => {
                let changes = shared.store.totals().changes;
                shared.saves().begin(snapshot.cut_took(), changes);
                return Ok(snapshot);
            }
            Err(CutError::Busy) => return Err(cancelled),
            Err(CutError::Claimed(wait)) => {
                // The place in the queue is kept until the next try.
                _place = wait;
                if shared.is_stopping() || shared.saves().progress.cancel.load(Ordering::Relaxed) {
                    return Err(cancelled);
                }
                thread::park();
            }
        }
    }
}

fn write(shared: &Shared, snapshot: Snapshot<'_>, resume: &dyn Fn()) -> Result<Saved, SaveError> {
    tracing::info!(cut_us = snapshot.cut_took().as_micros(), "a save has begun");
    let config = shared.config();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let target = Target {
        path: &path(shared).unwrap_or_default(),
        options: Options {
            version: Version::LOWEST,
            compress: config.rdbcompression.is_on(),
            checksum: config.rdbchecksum.is_on(),
        },
        preamble: Preamble {
            redis_version: REDIS_VERSION,
            created_at_s: now.as_secs(),
            used_memory_bytes: shared.store.used_bytes(),
            is_aof_base: false,
        },
        sizes: &[],
    };
    resume();
    save(&shared.store, snapshot, &target, &shared.saves().progress, resume)
}

fn pre_image_limit(shared: &Shared) -> usize {
    let limit = shared.config().snapshot_preimage_limit.signed();
    let bytes = match limit {
        0.. => limit.unsigned_abs(),
        _ => {
            let share = shared.store.used_bytes() / 100 * limit.unsigned_abs();
            share.max(LEAST_PRE_IMAGES_BYTES)
        }
    };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Says how a save went.
fn tell(shared: &Shared, outcome: Result<Saved, SaveError>) {
    let outcome = outcome.map(|saved| (saved.keys, saved.bytes)).map_err(|error| error.to_string());
    shared.saves().end(outcome.clone());
    match outcome {
        Ok((keys, bytes)) => tracing::info!(keys, bytes, "the data was saved"),
        Err(error) => tracing::warn!(error, "the data was not saved"),
    }
}

impl Shared {
    /// Has all workers go on with the walk.
    fn resume_walk(&self) {
        (0..self.process().workers).for_each(|worker| self.post(worker, Mail::Walk));
    }
}
