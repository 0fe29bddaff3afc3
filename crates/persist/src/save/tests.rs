//! Saves to a file system that fails at every step in turn, and to one with short writes: the last
//! file stays until a complete one replaces it, and the next save succeeds.

use super::*;
use crate::rdb::{
    Batch, Item, LoadOptions, LoadedValue, NoCollections, Progress, Reader, Version, load,
};
use nagi_store::types::string::{Expiry, SetOptions};
use nagi_store::{Scope, StoreOptions, WalkProgress, Walker};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Barrier;
use std::task::Waker;

const PATH: &str = "/data/dump.rdb";

/// Files by name, in memory.
#[derive(Default)]
struct MemoryDisk {
    files: RefCell<BTreeMap<PathBuf, Rc<RefCell<Vec<u8>>>>>,
    /// The operation that fails.
    fault: Cell<Option<Fault>>,
    /// The maximum number of bytes per write; 0 for no limit.
    most: Cell<usize>,
    /// The number of interrupted writes before each successful one.
    interruptions: Cell<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Create,
    /// The disk is full after this many bytes.
    Full(usize),
    /// The disk takes no bytes and returns no error.
    Silent,
    Sync,
    Rename,
    SyncFolder,
}

struct MemoryFile<'a> {
    disk: &'a MemoryDisk,
    bytes: Rc<RefCell<Vec<u8>>>,
    interrupted: u32,
}

impl Write for MemoryFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.interrupted < self.disk.interruptions.get() {
            self.interrupted += 1;
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.interrupted = 0;
        let mut kept = self.bytes.borrow_mut();
        let most = match self.disk.most.get() {
            0 => bytes.len(),
            most => most.min(bytes.len()),
        };
        let most = match self.disk.fault.get() {
            Some(Fault::Full(room)) if kept.len() == room => {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Some(Fault::Full(room)) => most.min(room - kept.len()),
            Some(Fault::Silent) => 0,
            _ => most,
        };
        kept.extend_from_slice(&bytes[..most]);
        Ok(most)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MemoryDisk {
    fn fail_if(&self, is_it: impl Fn(Fault) -> bool) -> io::Result<()> {
        let fails = self.fault.get().is_some_and(is_it);
        if fails { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    fn names(&self) -> Vec<PathBuf> {
        self.files.borrow().keys().cloned().collect()
    }

    fn dump(&self) -> Vec<u8> {
        self.files.borrow()[Path::new(PATH)].borrow().clone()
    }
}

impl<'s> Files for &'s MemoryDisk {
    type File = MemoryFile<'s>;

    fn create(&self, path: &Path) -> io::Result<MemoryFile<'s>> {
        self.fail_if(|fault| matches!(fault, Fault::Create))?;
        let mut files = self.files.borrow_mut();
        if files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let bytes = Rc::<RefCell<Vec<u8>>>::default();
        files.insert(path.to_owned(), Rc::clone(&bytes));
        Ok(MemoryFile { disk: self, bytes, interrupted: 0 })
    }

    fn sync(&self, _: &mut MemoryFile<'s>) -> io::Result<()> {
        self.fail_if(|fault| matches!(fault, Fault::Sync))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fail_if(|fault| matches!(fault, Fault::Rename))?;
        let mut files = self.files.borrow_mut();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        self.fail_if(|fault| matches!(fault, Fault::SyncFolder))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.borrow_mut().remove(path).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn remove_abandoned(&self, _: &Path) {}
}

/// Creates a store with this many keys whose values begin with `mark`.
fn store(keys: usize, len: usize) -> Store {
    let store = Store::new(&StoreOptions { shards: 4, ..StoreOptions::default() });
    set_all(&store, keys, len, "first");
    store
}

fn value(key: usize, len: usize, mark: &str) -> Vec<u8> {
    // Hardly compressible, so that the file has about as many bytes.
    let noise = (0..).map(|at: usize| (key + at).wrapping_mul(0x9e37_79b9).to_le_bytes()[2]);
    mark.bytes().chain(noise).take(mark.len() + len).collect()
}

fn set_all(store: &Store, keys: usize, len: usize, mark: &str) {
    let counters = Counters::default();
    let db = store.database(0, &counters, store.now_ms());
    for key in 0..keys {
        let value = value(key, len, mark);
        db.set(db.key(key.to_string().as_bytes()), &value[..], SetOptions::default());
    }
}

/// Saves, and walks whenever requested.
fn save_to(disk: &MemoryDisk, store: &Store, limit: usize) -> Result<Saved, SaveError> {
    let snapshot = store.cut(limit, Waker::noop()).unwrap();
    let progress = SaveProgress::default();
    save_snapshot(disk, store, snapshot, Walker::default(), &progress)
}

fn save_snapshot(
    disk: &MemoryDisk,
    store: &Store,
    snapshot: Snapshot<'_>,
    walker: Walker,
    progress: &SaveProgress,
) -> Result<Saved, SaveError> {
    let options = WriterOptions { version: Version::LOWEST, compress: true, checksum: true };
    let host = WalkingHost { store, walker: RefCell::new(walker) };
    host.resume();
    save_in(&disk, store, snapshot, &target(options), progress, &host)
}

fn target(options: WriterOptions) -> Target<'static> {
    let preamble = Preamble {
        redis_version: "7.2.0",
        created_at_s: 0,
        used_memory_bytes: 0,
        is_aof_base: false,
    };
    Target { path: Path::new(PATH), options, is_version_fixed: false, preamble, libraries: &[] }
}

/// The only thread, which walks itself.
struct WalkingHost<'a> {
    store: &'a Store,
    walker: RefCell<Walker>,
}

impl SaveHost for WalkingHost<'_> {
    fn resume(&self) {
        while self.store.walk(&mut self.walker.borrow_mut(), || false) == WalkProgress::More {}
    }

    fn pace(&self) {}
}

/// Returns the keys and values of a file, which must be complete.
fn contents(file: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    let options = LoadOptions { databases: 1, now_ms: None, verify_checksum: true };
    let mut take = |mut batch: Batch<Infallible>| {
        while let Some(key) = batch.next_key(&NoCollections)? {
            let LoadedValue::String(nagi_store::StringInput::Bytes(value)) = key.value else {
                panic!("all are short strings")
            };
            all.insert(key.key.to_vec(), value.to_vec());
        }
        Ok(())
    };
    load(file, &options, &Progress::default(), &NoCollections, &mut take).unwrap();
    all
}

fn expected(keys: usize, len: usize, mark: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    (0..keys).map(|key| (key.to_string().into_bytes(), value(key, len, mark))).collect()
}

/// Saves, changes all keys, fails to save, and saves again.
fn fail_and_retry(fault: Fault, keys: usize, len: usize) {
    let (disk, store) = (MemoryDisk::default(), store(keys, len));
    save_to(&disk, &store, usize::MAX).unwrap();
    let good = disk.dump();
    set_all(&store, keys, len, "other");
    disk.fault.set(Some(fault));
    let error = save_to(&disk, &store, usize::MAX).unwrap_err();
    assert!(matches!(error, SaveError::Io(..)), "{fault:?}: {error}");
    assert!(error.to_string().contains("/data/"), "{fault:?}: {error}");
    assert_eq!(disk.names(), [Path::new(PATH)], "{fault:?}: what was begun is gone");
    if !matches!(fault, Fault::SyncFolder) {
        assert!(disk.dump() == good, "{fault:?}: the last file is as it was");
    }
    assert!(!store.is_saving(), "{fault:?}: the snapshot is over");
    disk.fault.set(None);
    let saved = save_to(&disk, &store, usize::MAX).unwrap();
    assert_eq!((saved.keys, saved.bytes), (keys as u64, disk.dump().len() as u64));
    assert!(contents(&disk.dump()) == expected(keys, len, "other"), "{fault:?}");
}

#[test]
fn failed_save_keeps_the_last_file_and_the_next_one_succeeds() {
    for fault in [Fault::Create, Fault::Silent, Fault::Sync, Fault::Rename, Fault::SyncFolder] {
        fail_and_retry(fault, 300, 500);
    }
}

#[test]
fn disk_full_after_any_byte_is_reported_as_an_error() {
    let (disk, store) = (MemoryDisk::default(), store(20, 30));
    save_to(&disk, &store, usize::MAX).unwrap();
    let good = disk.dump();
    for room in 0..good.len() {
        disk.fault.set(Some(Fault::Full(room)));
        save_to(&disk, &store, usize::MAX).unwrap_err();
        assert!(disk.dump() == good && disk.names() == [Path::new(PATH)], "{room}");
    }
    disk.fault.set(None);
    save_to(&disk, &store, usize::MAX).unwrap();
}

#[test]
fn disk_full_within_a_large_file_is_an_error() {
    // More than the buffer, than the bytes between syncs, and than the images that may wait.
    for room in [200_000, 7_000_000, 16_500_000] {
        fail_and_retry(Fault::Full(room), 24_000, 1000);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn short_writes_are_continued(most in 1..5000_usize, interruptions in 0..3_u32) {
        let (disk, store) = (MemoryDisk::default(), store(200, 700));
        disk.most.set(most);
        disk.interruptions.set(interruptions);
        save_to(&disk, &store, usize::MAX).unwrap();
        prop_assert!(contents(&disk.dump()) == expected(200, 700, "first"));
    }
}

/// Writers that change more than the limit abort the save even while the walk pauses because enough
/// images are waiting: a thread has to finish the walk, or no save could ever start again.
#[test]
fn save_beyond_the_limit_ends_while_the_walk_pauses() {
    let (keys, len) = (24_000, 1000);
    let (disk, store) = (MemoryDisk::default(), store(keys, len));
    save_to(&disk, &store, usize::MAX).unwrap();
    let good = disk.dump();
    let snapshot = store.cut(1 << 20, Waker::noop()).unwrap();
    let mut walker = Walker::default();
    assert_eq!(store.walk(&mut walker, || false), WalkProgress::Full, "no thread takes blocks");
    set_all(&store, keys, len, "other");
    assert!(snapshot.is_aborted());
    let progress = SaveProgress::default();
    let error = save_snapshot(&disk, &store, snapshot, walker, &progress).unwrap_err();
    assert!(error.to_string().contains("snapshot-preimage-limit"), "{error}");
    assert!(disk.dump() == good && !store.is_saving());
    assert_eq!(disk.names(), [Path::new(PATH)]);
    save_to(&disk, &store, usize::MAX).unwrap();
    assert!(contents(&disk.dump()) == expected(keys, len, "other"));
}

/// Returns the databases and their sizes in a file, in order.
fn databases(file: &[u8]) -> (Vec<u64>, Vec<(u64, u64)>) {
    let (mut numbers, mut sizes) = (Vec::new(), Vec::new());
    let mut reader = Reader::new(file, true).unwrap();
    loop {
        match reader.next_item().unwrap() {
            Item::Database(number) => numbers.push(number),
            Item::Sizes { keys, expiring } => sizes.push((keys, expiring)),
            Item::End => return (numbers, sizes),
            _ => {}
        }
    }
}

#[test]
fn temporary_file_of_another_process_with_the_same_id_is_kept() {
    let (disk, store) = (MemoryDisk::default(), store(100, 30));
    let others = [0, 1].map(|tries| Path::new(PATH).with_file_name(temporary_name(tries)));
    for path in &others {
        (&disk).create(path).unwrap().write_all(b"theirs").unwrap();
    }
    save_to(&disk, &store, usize::MAX).unwrap();
    for path in &others {
        assert_eq!(*disk.files.borrow()[path].borrow(), b"theirs");
    }
    assert_eq!(disk.names().len(), 3);
    assert!(contents(&disk.dump()) == expected(100, 30, "first"));
    disk.fault.set(Some(Fault::Full(10)));
    save_to(&disk, &store, usize::MAX).unwrap_err();
    assert_eq!(disk.names().len(), 3, "what was begun goes");
}

#[test]
fn file_contains_the_sizes_of_databases_at_the_cut() {
    let (disk, store, counters) = (MemoryDisk::default(), store(500, 30), Counters::default());
    let db = |index| store.database(index, &counters, 1);
    for (key, expiry) in [(b"a", Expiry::Never), (b"b", Expiry::AtMs(9)), (b"c", Expiry::AtMs(9))] {
        db(3).set(db(3).key(key), b"x", SetOptions { expiry, ..Default::default() });
    }
    let snapshot = store.cut(usize::MAX, Waker::noop()).unwrap();
    // All keys change before anything is counted.
    set_all(&store, 700, 30, "other");
    store.flush(Scope::Database(3));
    db(4).set(db(4).key(b"new"), b"x", SetOptions::default());
    let progress = SaveProgress::default();
    let saved = save_snapshot(&disk, &store, snapshot, Walker::default(), &progress).unwrap();
    assert_eq!((saved.keys, progress.total_keys.into_inner()), (503, 503));
    let (mut numbers, mut sizes) = databases(&disk.dump());
    numbers.sort_unstable();
    numbers.dedup();
    sizes.sort_unstable();
    assert_eq!((numbers, sizes), (vec![0, 3], vec![(3, 2), (500, 0)]), "once for each database");
}

/// A disk that accepts nothing until it is released.
struct Gate<'a>(&'a Barrier);

struct Gated<'a>(&'a Barrier, Vec<u8>);

impl Write for Gated<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.1.is_empty() {
            self.0.wait();
        }
        self.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> Files for Gate<'a> {
    type File = Gated<'a>;

    fn create(&self, _: &Path) -> io::Result<Gated<'a>> {
        Ok(Gated(self.0, Vec::new()))
    }

    fn sync(&self, file: &mut Gated<'a>) -> io::Result<()> {
        // Only the complete file is read.
        if file.1.ends_with(&[0; 8]) {
            assert!(contents(&file.1) == expected(5000, 1000, "first"));
        }
        Ok(())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove_abandoned(&self, _: &Path) {}
}

/// The walk runs on other threads.
struct WalkedElsewhere;

impl SaveHost for WalkedElsewhere {
    fn resume(&self) {}

    fn pace(&self) {}
}

#[test]
fn blocked_disk_delays_no_client() {
    let (keys, len) = (5000, 1000);
    let (store, gate) = (store(keys, len), Barrier::new(2));
    let snapshot = store.cut(usize::MAX, Waker::noop()).unwrap();
    std::thread::scope(|scope| {
        let saver = scope.spawn(|| {
            let options =
                WriterOptions { version: Version::LOWEST, compress: true, checksum: false };
            let progress = SaveProgress::default();
            save_in(&Gate(&gate), &store, snapshot, &target(options), &progress, &WalkedElsewhere)
        });
        // All keys change and everything is walked before the disk takes its first byte.
        set_all(&store, keys, len, "other");
        let mut walker = Walker::default();
        while store.walk(&mut walker, || false) == WalkProgress::More {}
        gate.wait();
        while store.walk(&mut walker, || false) != WalkProgress::Done {}
        assert_eq!(saver.join().unwrap().unwrap().keys, keys as u64);
    });
}
