//! Writes a snapshot to a temporary file, and renames it into place once it is synced.

mod direct;
mod files;
#[cfg(test)]
mod tests;

use crate::rdb::{Block, Entry, Memcached, Preamble, Version, Writer, WriterOptions};
use files::{Files, System, temporary_name};
use nagi_store::{
    Counters, Database, DatabaseSize, EntryView, Images, Snapshot, SnapshotError, Store,
};
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The number of names tried for a new file.
const MAX_TRIES: u32 = 100;
/// How long the saver waits for images before it checks the state of the snapshot.
const WAIT_FOR_IMAGES: Duration = Duration::from_millis(20);

/// The file to write.
#[derive(Debug)]
pub struct Target<'a> {
    /// The path of the file.
    pub path: &'a Path,
    /// How the file is written, with its lowest version.
    pub options: WriterOptions,
    /// Whether the file must have that version; otherwise, it gets a version that can contain the
    /// data.
    pub is_version_fixed: bool,
    /// The metadata of the file.
    pub preamble: Preamble<'a>,
    /// The code of function libraries.
    pub libraries: &'a [Arc<[u8]>],
}

/// The progress of a save, and a flag to cancel it.
#[derive(Debug, Default)]
pub struct SaveProgress {
    /// The number of keys written.
    pub keys: AtomicU64,
    /// The number of keys at the cut; 0 until they have been counted.
    pub total_keys: AtomicU64,
    /// The number of bytes written.
    pub bytes: AtomicU64,
    /// Set to cancel the save.
    pub cancel: AtomicBool,
}

impl SaveProgress {
    /// Resets the progress.
    pub fn reset(&self) {
        self.keys.store(0, Ordering::Relaxed);
        self.total_keys.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.cancel.store(false, Ordering::Relaxed);
    }
}

/// The size of a file that has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The number of keys.
    pub keys: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// Why a save failed. The previous file is unchanged, unless only syncing the folder failed, after
/// the new one was renamed into place.
#[derive(Debug)]
pub enum SaveError {
    /// An error of the system, with the operation and the file.
    Io(&'static str, PathBuf, io::Error),
    /// The snapshot failed.
    Snapshot(SnapshotError),
    /// The settings name no file.
    NoFile,
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaveError::Io(doing, path, error) => {
                write!(f, "{doing} {} failed: {error}", path.display())
            }
            SaveError::Snapshot(SnapshotError::Cancelled) => f.write_str("it was cancelled"),
            SaveError::Snapshot(SnapshotError::PreImageLimit) => f.write_str(
                "writers changed more than snapshot-preimage-limit while it was under way",
            ),
            SaveError::Snapshot(SnapshotError::Stuck) => {
                f.write_str("writers waited for the disk, which has taken nothing for long")
            }
            SaveError::Snapshot(SnapshotError::Miscounted) => {
                f.write_str("some keys were missed or met twice, which is a fault of nagi")
            }
            SaveError::NoFile => f.write_str("dbfilename is empty"),
        }
    }
}

impl std::error::Error for SaveError {}

/// Callbacks of a save.
pub trait SaveHost {
    /// Called when walkers that have paused should continue.
    fn resume(&self);

    /// Called from time to time by the saving thread; it blocks if the thread uses too much of a
    /// processor.
    fn pace(&self);
}

/// Takes a snapshot to its end and writes it to a file.
///
/// # Errors
/// An error of the system, or the snapshot failed.
pub fn save(
    store: &Store,
    snapshot: Snapshot<'_>,
    target: &Target<'_>,
    progress: &SaveProgress,
    host: &dyn SaveHost,
) -> Result<Saved, SaveError> {
    save_in(&System, store, snapshot, target, progress, host)
}

fn save_in<F: Files>(
    files: &F,
    store: &Store,
    mut snapshot: Snapshot<'_>,
    target: &Target<'_>,
    progress: &SaveProgress,
    host: &dyn SaveHost,
) -> Result<Saved, SaveError> {
    files.remove_abandoned(target.path);
    let (temporary, file) = create(files, target.path);
    let failed = |doing, error| SaveError::Io(doing, temporary.clone(), error);
    let file = file.map_err(|error| failed("creating", error));
    let has_begun = file.is_ok();
    let written = file.and_then(|file| {
        let disk = Disk { file, written: &progress.bytes };
        let written = write_all(disk, store, &mut snapshot, target, progress, host);
        match written.map_err(|error| failed("writing", error))? {
            Some((saved, mut file)) => {
                files.sync(&mut file).map_err(|error| failed("synchronising", error))?;
                Ok(saved)
            }
            // The caller reports why the snapshot was aborted; the temporary file is removed.
            None => Ok(Saved { keys: 0, bytes: 0 }),
        }
    });
    if written.is_err() {
        snapshot.cancel();
    }
    if snapshot.is_aborted() {
        // The walk still has to be completed, even if it has paused because nothing was taken.
        host.resume();
    }
    let outcome = snapshot.finish();
    let saved = written.and_then(|saved| outcome.map(|()| saved).map_err(SaveError::Snapshot));
    let saved =
        saved.and_then(|saved| put_in_place(files, &temporary, target.path).map(|()| saved));
    if saved.is_err() && has_begun {
        // The error has been reported already; a partial file that remains is harmless.
        let _ = files.remove(&temporary);
    }
    saved
}

/// Creates the temporary file beside `path`, with an unused name.
fn create<F: Files>(files: &F, path: &Path) -> (PathBuf, io::Result<F::File>) {
    let mut tries = 0;
    loop {
        let temporary = path.with_file_name(temporary_name(tries));
        let file = files.create(&temporary);
        let is_taken = file.as_ref().is_err_and(|it| it.kind() == io::ErrorKind::AlreadyExists);
        if !is_taken || tries == MAX_TRIES {
            return (temporary, file);
        }
        tries += 1;
    }
}

/// Writes the contents of the snapshot. Returns the file, or `None` if the snapshot failed.
fn write_all<W: Write>(
    disk: Disk<'_, W>,
    store: &Store,
    snapshot: &mut Snapshot<'_>,
    target: &Target<'_>,
    progress: &SaveProgress,
    host: &dyn SaveHost,
) -> io::Result<Option<(Saved, W)>> {
    let mut waiting = Some(disk);
    let mut writer: Option<RdbWriter<'_, W>> = None;
    let counters = Counters::default();
    let db = store.database(0, &counters, store.now_ms());
    loop {
        if progress.cancel.load(Ordering::Relaxed) {
            snapshot.cancel();
        }
        if snapshot.is_aborted() {
            return Ok(None);
        }
        let is_walked = snapshot.is_walked();
        match snapshot.take(if is_walked { Duration::ZERO } else { WAIT_FOR_IMAGES }) {
            Some(images) => {
                // All databases have been counted before the first images can be taken.
                if let Some(disk) = waiting.take() {
                    writer = Some(RdbWriter::begin(disk, store.databases(), snapshot, target)?);
                }
                let Some(writer) = &mut writer else { continue };
                if progress.total_keys.load(Ordering::Relaxed) == 0 {
                    let sizes = (0..store.databases()).map(|it| snapshot.size_of(it).keys);
                    progress.total_keys.store(sizes.sum(), Ordering::Relaxed);
                }
                let size = snapshot.size_of(images.database());
                writer.add(db, &images, size)?;
                progress.keys.store(writer.writer.keys(), Ordering::Relaxed);
                host.pace();
            }
            None if is_walked => break,
            None => {}
        }
        if !is_walked && snapshot.has_room() {
            host.resume();
        }
    }
    if let Some(disk) = waiting.take() {
        writer = Some(RdbWriter::begin(disk, store.databases(), snapshot, target)?);
    }
    let Some(RdbWriter { writer, .. }) = writer else { return Ok(None) };
    let (keys, bytes) = (writer.keys(), writer.bytes());
    let disk = writer.finish()?;
    let end = 1 + size_of::<u64>() as u64;
    Ok(Some((Saved { keys, bytes: bytes + end }, disk.file)))
}

/// Renames the new file into place. From that moment on it is the current file.
fn put_in_place(files: &impl Files, temporary: &Path, path: &Path) -> Result<(), SaveError> {
    let failed = |doing, error| SaveError::Io(doing, path.to_owned(), error);
    files.rename(temporary, path).map_err(|error| failed("renaming the new file to", error))?;
    files.sync_folder(path).map_err(|error| failed("synchronising the folder of", error))
}

/// The file that is being written.
struct RdbWriter<'a, W: Write> {
    writer: Writer<Disk<'a, W>>,
    block: Block,
    version: Version,
    /// The database of the last keys.
    database: Option<usize>,
    /// The databases whose sizes have been written, by index.
    sized: Vec<bool>,
}

impl<'a, W: Write> RdbWriter<'a, W> {
    fn begin(
        disk: Disk<'a, W>,
        databases: usize,
        snapshot: &Snapshot<'_>,
        target: &Target<'_>,
    ) -> io::Result<Self> {
        let mut options = target.options;
        let has_expiring_fields =
            (0..databases).any(|it| snapshot.size_of(it).with_expiring_fields > 0);
        if !target.is_version_fixed {
            if has_expiring_fields {
                options.version = Version::WITH_EXPIRING_FIELDS;
            } else if snapshot.may_have_consumers() {
                options.version = Version::WITH_CONSUMERS;
            }
        }
        let mut writer = Writer::new(disk, options, &target.preamble)?;
        target.libraries.iter().try_for_each(|code| writer.library(code))?;
        Ok(RdbWriter {
            writer,
            block: Block::of_version(options.version),
            version: options.version,
            database: None,
            sized: vec![false; databases],
        })
    }

    fn add(&mut self, db: Database<'_>, images: &Images, size: DatabaseSize) -> io::Result<()> {
        let database = images.database();
        if self.database.replace(database) != Some(database) {
            self.writer.database(database as u64)?;
            let is_sized =
                self.sized.get_mut(database).is_none_or(|it| std::mem::replace(it, true));
            if !is_sized {
                self.writer.sizes(size.keys, size.volatile)?;
            }
        }
        for image in images.entries() {
            if !self.version.holds_value(&image.value()) {
                return Err(cannot_hold(&image, self.version));
            }
            if let Some(long) = self.block.push(&entry(db, &image)) {
                self.flush()?;
                self.writer.long(&long)?;
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.writer.block(&self.block);
        self.block.clear();
        written
    }
}

/// Returns why a value cannot be saved: only a version that was requested can be too low.
fn cannot_hold(image: &EntryView<'_>, version: Version) -> io::Error {
    io::Error::other(format!(
        "fields of the hash {:?} expire, which no file of version {version} can hold: set \
         rdb-version to lowest",
        String::from_utf8_lossy(image.key())
    ))
}

fn entry<'a>(db: Database<'_>, image: &EntryView<'a>) -> Entry<'a> {
    let memcached = Memcached { flags: image.flags(), cas: image.cas(), marks: image.marks() };
    Entry {
        key: image.key(),
        value: image.value(),
        expire_at_ms: image.expire_at_ms(),
        usage: db.usage_of(image),
        memcached,
    }
}

/// A file that counts its bytes.
struct Disk<'a, W: Write> {
    file: W,
    /// The number of bytes written, as an indicator of progress.
    written: &'a AtomicU64,
}

impl<W: Write> Write for Disk<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.written.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
