//! Loads the dump file of the previous process on all cores. Clients can already ask for the
//! progress.

use crate::persistence::dump_file;
use crate::state::shared::Shared;
use nagi_commands::loading::Loading as Show;
use nagi_commands::{HookFlags, Server as _};
use nagi_persist::rdb::{
    Batch, Fault, LoadOptions, LoadedValue, Loading, StoreBuilders, load_with_threads,
};
use nagi_store::Counters;
use nagi_store::types::collection::{NewCollection, NewCollections};
use nagi_store::types::restore::Known;
use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, io};

/// How often the progress is logged.
const REPORT: Duration = Duration::from_secs(1);

/// Why the data could not be loaded. The file is not changed.
#[derive(Debug)]
pub enum LoadError {
    /// The file cannot be read.
    Io(PathBuf, io::Error),
    /// The file is damaged, or has data that this server does not support.
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

/// Loads the file, if there is one, into an empty store. Returns `false` if loading was interrupted
/// because the server is stopping.
///
/// # Errors
/// Why the file cannot be loaded. The server must then stop without overwriting it.
pub(crate) fn load(shared: &Shared) -> Result<bool, LoadError> {
    let Some(path) = dump_file::path(shared) else { return Ok(true) };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(LoadError::Io(path, error)),
    };
    let total = file.metadata().map_or(0, |metadata| metadata.len());
    let started = Instant::now();
    match read(shared, file, total, false) {
        Ok(loading) => {
            let changes = shared.store.totals().changes;
            shared.saves().loaded(loading.keys, loading.expired, changes);
            tracing::info!(
                keys = loading.keys,
                expired = loading.expired,
                bytes = total,
                ms = started.elapsed().as_millis(),
                "DB loaded from disk: {}",
                path.display()
            );
            Ok(true)
        }
        Err(_) if shared.is_stopping() => {
            tracing::info!("loading aborted: the server is stopping");
            Ok(false)
        }
        Err(fault) => Err(LoadError::Fault(path, fault)),
    }
}

/// Loads the file again while the server runs, for DEBUG RELOAD. Afterwards, the claim to the saver
/// and the pause of commands end.
pub(crate) fn load_again(shared: &Shared, merge: bool) {
    let path = dump_file::path(shared).unwrap_or_default();
    let outcome = File::open(&path).map_err(|error| error.to_string()).and_then(|file| {
        let total = file.metadata().map_or(0, |metadata| metadata.len());
        read(shared, file, total, merge).map_err(|fault| fault.to_string())
    });
    if let Err(error) = &outcome {
        tracing::warn!(error, "cannot load {}", path.display());
    }
    // If the server is stopping, the store has only a part of the data, which must not be saved.
    shared.hooks().set(HookFlags::LOADING, outcome.is_err() && shared.is_stopping());
    shared.saves().loading.end();
    shared.saves().end_load(outcome.map(|_| ()));
}

/// Reads a file of `total` bytes on all cores.
fn read(shared: &Shared, file: File, total: u64, merge: bool) -> Result<Loading, Fault> {
    let options = LoadOptions {
        databases: shared.store.databases() as u64,
        now_ms: Some(shared.store.now_ms()),
        verify_checksum: shared.config().rdbchecksum.is_on(),
    };
    let (show, is_done) = (&shared.saves().loading, AtomicBool::new(false));
    show.begin(total);
    shared.store.expect(total);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let reporter = scope.spawn(|| report(show, &is_done));
        let builders = builders(shared);
        let take = |batch| take(shared, batch, &builders, merge);
        let progress = &show.progress;
        let mut loaded = load_with_threads(file, &options, progress, &builders, threads, take);
        if let Ok(loading) = &mut loaded {
            let libraries = std::mem::take(&mut loading.libraries);
            let read = shared.scripts().read_libraries(libraries);
            loaded = read.map_err(Fault::Library).and(loaded);
        }
        is_done.store(true, Ordering::Relaxed);
        shared.store.expect(0);
        reporter.thread().unpark();
        loaded
    })
}

fn builders(shared: &Shared) -> StoreBuilders {
    StoreBuilders(NewCollections::new(&shared.store, shared.config().collection_limits()))
}

fn take(
    shared: &Shared,
    mut batch: Batch<NewCollection>,
    builders: &StoreBuilders,
    merge: bool,
) -> Result<(), Fault> {
    if shared.is_stopping() {
        return Err(Fault::Stopped);
    }
    let counters = Counters::default();
    let now_ms = shared.store.now_ms();
    while let Some(loaded) = batch.next_key(builders)? {
        shared.store.maintain();
        let known = Known {
            expire_at_ms: loaded.expire_at_ms,
            flags: loaded.memcached.flags,
            cas: loaded.memcached.cas,
            marks: loaded.memcached.marks,
            usage: loaded.usage,
        };
        let database = usize::try_from(loaded.database).unwrap_or(usize::MAX);
        let db = shared.store.database(database, &counters, now_ms);
        let key = db.key(loaded.key);
        if merge {
            db.delete(key);
        }
        let is_new = match loaded.value {
            LoadedValue::String(value) => db.load(key, value, &known),
            LoadedValue::Collection(value) => db.load_collection(key, value, &known),
        };
        if !is_new {
            let (offset, key) = (loaded.offset, loaded.key.to_vec());
            return Err(Fault::Duplicate { offset, database: loaded.database, key });
        }
    }
    Ok(())
}

/// Logs the progress periodically.
fn report(show: &Show, is_done: &AtomicBool) {
    let mut next = Instant::now() + REPORT;
    while !is_done.load(Ordering::Relaxed) {
        thread::park_timeout(next.saturating_duration_since(Instant::now()));
        let Some(stage) = show.stage().filter(|_| Instant::now() >= next) else { continue };
        next += REPORT;
        tracing::info!(
            percent = stage.percent() as u64,
            keys = stage.keys,
            mb_per_s = (stage.bytes as f64 / stage.took_s / 1e6) as u64,
            seconds_left = stage.left_s(),
            "loading the dataset"
        );
    }
}
