//! Loads a file: one thread reads it and finds where values begin and end; other threads decode and
//! store them in batches. Only long collections are decoded by the reading thread, an element at a
//! time.

use super::collection::{Builders, build};
use super::fault::Fault;
use super::input::Input;
use super::note::{FIELD, Memcached};
use super::reader::{Header, Item, Reader, Record, Text};
use super::text::unpack;
use nagi_store::types::restore::Usage;
use nagi_store::{StringInput, parse_i64};
use parking_lot::Mutex;
use std::io::Read;
use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

/// The number of bytes or keys at which a batch is passed on: some hundred microseconds of work.
const BATCH_BYTES: usize = 128 * 1024;
const BATCH_KEYS: usize = 512;
/// Longer fields, and fields after this many, are dropped.
const LONGEST_FIELD_BYTES: usize = 1024;
const MAX_FIELDS: usize = 64;

/// Keys that have been read, in the order of the file.
#[derive(Debug)]
pub struct Batch<V> {
    records: Vec<Packed<V>>,
    next: usize,
    /// Keys, and the values that are not ropes.
    bytes: Vec<u8>,
    at: usize,
    /// The last value, decompressed.
    unpacked: Vec<u8>,
}

#[derive(Debug)]
struct Packed<V> {
    record: Record,
    key_len: usize,
    /// `None` once it has been taken.
    value: Option<PackedValue<V>>,
}

#[derive(Debug)]
enum PackedValue<V> {
    Text(Text),
    /// An encoded collection: this many bytes, which start at this index.
    Collection {
        len: usize,
        offset: u64,
    },
    /// A collection that has been built.
    Made(V),
}

/// A value that has been read.
#[derive(Debug)]
pub enum LoadedValue<'a, V> {
    /// A string, in the form that the store accepts.
    String(StringInput<'a>),
    /// The result of a builder.
    Collection(V),
}

/// A key that has been read, with all its data.
#[derive(Debug)]
pub struct Loaded<'a, V> {
    /// The offset of the key in the file.
    pub offset: u64,
    /// The database.
    pub database: u64,
    /// The key.
    pub key: &'a [u8],
    /// The value of the key.
    pub value: LoadedValue<'a, V>,
    /// When it expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// The access time or frequency.
    pub usage: Option<Usage>,
    /// memcached's metadata.
    pub memcached: Memcached,
}

impl<'a, V> Loaded<'a, V> {
    fn new(record: Record, key: &'a [u8], value: LoadedValue<'a, V>) -> Self {
        let Record { offset, database, expire_at_ms, usage, memcached, .. } = record;
        Loaded { offset, database, key, value, expire_at_ms, usage, memcached }
    }

    /// Returns the fault that the key had been read before; servers do not write such files.
    #[must_use]
    pub fn duplicate(&self) -> Fault {
        Fault::Duplicate { offset: self.offset, database: self.database, key: self.key.to_vec() }
    }
}

impl<V> Batch<V> {
    /// Returns the number of keys, including those that have been taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Reads a key's value. Returns whether it is supported.
    fn read<R: Read, B: Builders<Value = V>>(
        &mut self,
        reader: &mut Reader<R>,
        record: Record,
        builders: &B,
    ) -> Result<bool, Fault> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(reader.key());
        let key_len = reader.key().len();
        let value = match record.value_type.collection() {
            None => PackedValue::Text(reader.text(&mut self.bytes)?),
            Some(_) => {
                let offset = reader.offset();
                match reader.copy_collection(&mut self.bytes)? {
                    Some(len) => PackedValue::Collection { len, offset },
                    None => match reader.build(builders)? {
                        Some(value) => PackedValue::Made(value),
                        None => {
                            self.bytes.truncate(start);
                            return Ok(false);
                        }
                    },
                }
            }
        };
        self.records.push(Packed { record, key_len, value: Some(value) });
        Ok(true)
    }

    /// Creates an empty batch with the capacity of a full one, without long strings.
    fn with_room() -> Self {
        let bytes = Vec::with_capacity(BATCH_BYTES + BATCH_BYTES / 8);
        Batch { records: Vec::new(), next: 0, bytes, at: 0, unpacked: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.records.len() >= BATCH_KEYS || self.bytes.len() >= BATCH_BYTES
    }

    /// Returns the next key, unless all have been taken. Empty collections are skipped, as in
    /// Redis.
    ///
    /// # Errors
    /// The value is damaged, or is a collection that is not supported.
    pub fn next_key<B: Builders<Value = V>>(
        &mut self,
        builders: &B,
    ) -> Result<Option<Loaded<'_, V>>, Fault> {
        loop {
            let Some(packed) = self.records.get_mut(self.next) else { return Ok(None) };
            self.next += 1;
            let (record, key) = (packed.record, self.at..self.at + packed.key_len);
            self.at = key.end;
            let made = match packed.value.take() {
                Some(PackedValue::Text(text)) => return self.string(record, key, text).map(Some),
                Some(PackedValue::Made(value)) => Some(value),
                Some(PackedValue::Collection { len, offset }) => {
                    let made = self.make(&record, offset, builders);
                    self.at += len;
                    made.map_err(|fault| fault.of_key(self.piece(key.clone())))?
                }
                None => None,
            };
            if let Some(value) = made {
                let value = LoadedValue::Collection(value);
                return Ok(Some(Loaded::new(record, self.piece(key), value)));
            }
        }
    }

    /// Returns the key with its string, which is decompressed first if necessary.
    fn string(
        &mut self,
        record: Record,
        key: Range<usize>,
        text: Text,
    ) -> Result<Loaded<'_, V>, Fault> {
        let from = self.at;
        let value = match text {
            Text::Rope(rope) => StringInput::Rope(rope),
            Text::Int(number) => {
                let mut spelled = itoa::Buffer::new();
                self.unpacked.clear();
                self.unpacked.extend_from_slice(spelled.format(number).as_bytes());
                StringInput::Bytes(&self.unpacked)
            }
            Text::Plain(len) => {
                self.at += len;
                StringInput::Bytes(self.bytes.get(from..self.at).unwrap_or_default())
            }
            Text::Packed(packed_len, len) => {
                self.at += packed_len;
                let bytes = self.bytes.get(from..self.at).unwrap_or_default();
                if !unpack(bytes, len, &mut self.unpacked) {
                    return Err(Fault::unpacked(record.offset));
                }
                StringInput::Bytes(&self.unpacked)
            }
        };
        let key = self.bytes.get(key).unwrap_or_default();
        Ok(Loaded::new(record, key, LoadedValue::String(value)))
    }

    /// Builds a value from the next bytes, which are at this offset in the file.
    fn make<B: Builders<Value = V>>(
        &mut self,
        record: &Record,
        offset: u64,
        builders: &B,
    ) -> Result<Option<V>, Fault> {
        let mut input = Input::over(mem::take(&mut self.bytes), self.at, offset);
        let made = build(&mut input, record.value_type, builders);
        self.bytes = input.into_bytes();
        made
    }

    fn piece(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }
}

/// The options of a loader.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    /// The number of databases.
    pub databases: u64,
    /// Keys that expired before this time are skipped; `None` keeps them all, as replicas do.
    pub now_ms: Option<u64>,
    /// Whether the checksum is verified (`rdbchecksum`).
    pub verify_checksum: bool,
}

/// The progress of loading.
#[derive(Debug, Default)]
pub struct Progress {
    /// The number of bytes read.
    pub bytes: AtomicU64,
    /// The number of keys passed on.
    pub keys: AtomicU64,
    /// The number of keys that had expired.
    pub expired: AtomicU64,
    /// The memory used by the server that wrote the file, in bytes, according to the file.
    pub used_memory_bytes: AtomicU64,
}

impl Progress {
    /// Resets the progress.
    pub fn reset(&self) {
        [&self.bytes, &self.keys, &self.expired, &self.used_memory_bytes]
            .iter()
            .for_each(|number| number.store(0, Ordering::Relaxed));
    }
}

/// The result of loading.
#[derive(Clone, Debug)]
pub struct Loading {
    /// The file's header.
    pub header: Header,
    /// The number of keys passed on.
    pub keys: u64,
    /// The number of keys that had expired.
    pub expired: u64,
    /// The number of bytes read.
    pub bytes: u64,
    /// The greatest of memcached's unique numbers; new ones must be greater.
    pub greatest_cas: u64,
    /// The file's auxiliary fields.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// The code of the file's function libraries.
    pub libraries: Vec<Vec<u8>>,
}

/// Receives loaded keys.
pub trait Sink<V> {
    /// Takes the next keys, and blocks while there is no room for more.
    ///
    /// # Errors
    /// The fault that ends loading: a duplicate, or a fault in earlier batches.
    fn take(&mut self, batch: Batch<V>) -> Result<(), Fault>;
}

impl<V, F: FnMut(Batch<V>) -> Result<(), Fault>> Sink<V> for F {
    fn take(&mut self, batch: Batch<V>) -> Result<(), Fault> {
        self(batch)
    }
}

/// Reads a file to its end and passes its contents to `sink`. Long collections are created by the
/// builders before they are passed on.
///
/// # Errors
/// The file is damaged, contains unsupported data, or the sink returns a fault.
pub fn load<B: Builders>(
    source: impl Read,
    options: &LoadOptions,
    progress: &Progress,
    builders: &B,
    sink: &mut impl Sink<B::Value>,
) -> Result<Loading, Fault> {
    let mut reader = Reader::new(source, options.verify_checksum)?;
    let mut loading = Loading {
        header: reader.header(),
        keys: 0,
        expired: 0,
        bytes: 0,
        greatest_cas: 0,
        fields: Vec::new(),
        libraries: Vec::new(),
    };
    let mut batch = Batch::with_room();
    loop {
        let offset = reader.offset();
        match reader.next_item()? {
            Item::Key(record) => {
                let expired = record.expire_at_ms.zip(options.now_ms);
                if expired.is_some_and(|(at_ms, now_ms)| at_ms < now_ms) {
                    loading.expired += 1;
                    reader.skip_value()?;
                    continue;
                }
                if !batch.read(&mut reader, record, builders)? {
                    continue;
                }
                loading.keys += 1;
                let cas = record.memcached.cas.unwrap_or(0);
                loading.greatest_cas = loading.greatest_cas.max(cas);
                if batch.is_full() {
                    loading.bytes = reader.offset();
                    loading.show(progress);
                    sink.take(mem::replace(&mut batch, Batch::with_room()))?;
                }
            }
            Item::End => {
                loading.bytes = reader.offset();
                loading.show(progress);
                sink.take(batch)?;
                return Ok(loading);
            }
            other => loading.other(other, offset, options, progress)?,
        }
    }
}

impl Loading {
    fn show(&self, progress: &Progress) {
        progress.bytes.store(self.bytes, Ordering::Relaxed);
        progress.keys.store(self.keys, Ordering::Relaxed);
        progress.expired.store(self.expired, Ordering::Relaxed);
    }

    /// Stores auxiliary fields, and refuses data that would be lost.
    fn other(
        &mut self,
        item: Item,
        offset: u64,
        options: &LoadOptions,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let what = match item {
            Item::Aux(name, value) => {
                if name == b"used-mem"
                    && let Some(bytes) = parse_i64(&value)
                {
                    progress.used_memory_bytes.store(bytes.unsigned_abs(), Ordering::Relaxed);
                }
                let is_short = name.len().max(value.len()) <= LONGEST_FIELD_BYTES;
                if is_short && name != FIELD && self.fields.len() < MAX_FIELDS {
                    self.fields.push((name, value));
                }
                return Ok(());
            }
            Item::Database(number) if number >= options.databases => {
                format!("database {number} where there are {}", options.databases)
            }
            Item::Function(code) => {
                self.libraries.push(code);
                return Ok(());
            }
            Item::ModuleAux(name) => format!("what the module {name} keeps beside the keys"),
            _ => return Ok(()),
        };
        Err(Fault::Unsupported { offset, what, key: None })
    }
}

/// Like [`load`], with `threads` threads that take batches while this one reads. The first fault
/// ends loading.
///
/// # Errors
/// As [`load`].
pub fn load_with_threads<B: Builders>(
    source: impl Read,
    options: &LoadOptions,
    progress: &Progress,
    builders: &B,
    threads: usize,
    take: impl Fn(Batch<B::Value>) -> Result<(), Fault> + Sync,
) -> Result<Loading, Fault> {
    /// The number of waiting batches for each thread.
    const WAITING: usize = 4;
    let threads = threads.max(1);
    let (sender, receiver) = mpsc::sync_channel::<Batch<B::Value>>(threads * WAITING);
    let (receiver, fault, faulty) =
        (Mutex::new(receiver), Mutex::new(None), AtomicBool::new(false));
    let next = || receiver.lock().recv().ok();
    let work = || {
        while let Some(batch) = next() {
            // Batches are still taken from the queue, so that the reading thread is not blocked.
            if faulty.load(Ordering::Relaxed) {
                continue;
            }
            if let Err(found) = take(batch) {
                fault.lock().get_or_insert(found);
                faulty.store(true, Ordering::Relaxed);
            }
        }
    };
    let loaded = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
        let mut sink = |batch| {
            let stopped = faulty.load(Ordering::Relaxed) || sender.send(batch).is_err();
            if stopped { Err(Fault::Stopped) } else { Ok(()) }
        };
        let loaded = load(source, options, progress, builders, &mut sink);
        drop(sender);
        loaded
    });
    match fault.into_inner() {
        Some(fault) => Err(fault),
        None => loaded,
    }
}
