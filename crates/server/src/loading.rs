//! Loading at the start: the file that the last process left, read on all cores.

use crate::saver;
use crate::server::Shared;
use nagi_commands::Server as _;
use nagi_persist::rdb::{Batch, Fault, LoadOptions, Progress, load_with_threads};
use nagi_store::Counters;
use nagi_store::types::restore::Known;
use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, io};

/// How often the log tells how far it is.
const REPORT: Duration = Duration::from_secs(1);

/// Why the data could not be loaded. The file is left as it is.
#[derive(Debug)]
pub enum LoadError {
    /// The file cannot be read.
    Io(PathBuf, io::Error),
    /// Something in it is damaged, or cannot be kept here.
    Fault(PathBuf, Fault),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Io(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            LoadError::Fault(path, fault) => write!(
                f,
                "{}: {fault}; `nagi check-rdb {}` says more. Nothing was changed; move the file \
                 away to start without it",
                path.display(),
                path.display()
            ),
        }
    }
}

impl std::error::Error for LoadError {}

/// Loads the file, if there is one.
///
/// # Errors
/// What is wrong with it; then the server must not start, or would write over it.
pub(crate) fn load(shared: &Shared) -> Result<(), LoadError> {
    let Some(path) = saver::path(shared) else { return Ok(()) };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(LoadError::Io(path, error)),
    };
    let total = file.metadata().map_or(0, |metadata| metadata.len());
    let options = LoadOptions {
        databases: shared.store.databases() as u64,
        now_ms: Some(shared.store.now_ms()),
        verify_checksum: shared.config().rdbchecksum.is_on(),
    };
    let (progress, is_done) = (Progress::default(), AtomicBool::new(false));
    let started = Instant::now();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let loaded = thread::scope(|scope| {
        let reporter = scope.spawn(|| report(&progress, total, &is_done));
        let take = |batch| take(shared, batch);
        let loaded = load_with_threads(BufReader::new(file), &options, &progress, threads, take);
        is_done.store(true, Ordering::Relaxed);
        reporter.thread().unpark();
        loaded
    });
    let loading = loaded.map_err(|fault| LoadError::Fault(path.clone(), fault))?;
    shared.saves().loaded(loading.keys, loading.expired, shared.store.totals().changes);
    tracing::info!(
        keys = loading.keys,
        expired = loading.expired,
        bytes = total,
        ms = started.elapsed().as_millis(),
        "loaded {}",
        path.display()
    );
    Ok(())
}

fn take(shared: &Shared, mut batch: Batch) -> Result<(), Fault> {
    let counters = Counters::default();
    let now_ms = shared.store.now_ms();
    while let Some(loaded) = batch.next_key()? {
        let known = Known {
            expire_at_ms: loaded.expire_at_ms,
            flags: loaded.memcached.flags,
            cas: loaded.memcached.cas,
            marks: loaded.memcached.marks,
            usage: loaded.usage,
        };
        let database = usize::try_from(loaded.database).unwrap_or(usize::MAX);
        let db = shared.store.database(database, &counters, now_ms);
        if !db.load(db.key(loaded.key), loaded.value, &known) {
            let (offset, key) = (loaded.offset, loaded.key.to_vec());
            return Err(Fault::Duplicate { offset, database: loaded.database, key });
        }
    }
    Ok(())
}

/// Tells the log how far loading is, now and then.
fn report(progress: &Progress, total: u64, is_done: &AtomicBool) {
    let started = Instant::now();
    let mut next = started + REPORT;
    while !is_done.load(Ordering::Relaxed) {
        thread::park_timeout(next.saturating_duration_since(Instant::now()));
        if Instant::now() < next {
            continue;
        }
        next += REPORT;
        let bytes = progress.bytes.load(Ordering::Relaxed).max(1);
        let took = started.elapsed();
        let left = took.mul_f64(total.saturating_sub(bytes) as f64 / bytes as f64);
        tracing::info!(
            percent = bytes * 100 / total.max(1),
            keys = progress.keys.load(Ordering::Relaxed),
            mb_per_s = bytes / took.as_millis().max(1) as u64 / 1000,
            seconds_left = left.as_secs(),
            "loading"
        );
    }
}
