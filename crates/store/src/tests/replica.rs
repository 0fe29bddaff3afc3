//! Applies the reported changes of one store to a second one, which must become equal.

use nagi_store::{
    ChangeListener, Counters, Marks, Rope, Store, StoreChange, StoreOptions, StringValue, Value,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The reported changes, and a store that only they modify. Nothing expires in it by itself.
pub(crate) struct Replica {
    pub(crate) store: Store,
    pub(crate) counters: Counters,
    told: Arc<Mutex<Vec<StoreChange>>>,
}

struct Recorder(Arc<Mutex<Vec<StoreChange>>>);

impl ChangeListener for Recorder {
    fn changed(&self, change: &StoreChange) {
        self.0.lock().push(change.clone());
    }
}

/// All properties of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    kind: &'static str,
    bytes: usize,
    hash: u64,
    expire_at_ms: Option<u64>,
    flags: u32,
    cas: Option<u64>,
    marks: Marks,
}

impl Replica {
    /// Creates an empty store for the changes of another empty one.
    pub(crate) fn of(store: &Store) -> Self {
        let told = Arc::default();
        assert!(store.report_changes_to(Box::new(Recorder(Arc::clone(&told)))));
        let options =
            StoreOptions { databases: store.databases(), shards: 4, ..StoreOptions::default() };
        Replica { store: Store::new(&options), counters: Counters::default(), told }
    }

    /// Returns the changes reported since the last call, ordered by number.
    pub(crate) fn take(&self) -> Vec<StoreChange> {
        let mut told = std::mem::take(&mut *self.told.lock());
        told.sort_by_key(|change| change.number);
        assert!(told.windows(2).all(|pair| pair[0].number < pair[1].number), "a number twice");
        told
    }

    /// Applies the reported changes, and compares both stores.
    pub(crate) fn check(&self, first: &Store) {
        for change in self.take() {
            self.store.apply(&self.counters, &change);
        }
        let now_ms = first.now_ms();
        let (expected, found) = (keys_of(first, now_ms), keys_of(&self.store, now_ms));
        for (key, kept) in &expected {
            assert_eq!(found.get(key), Some(kept), "{}", shown(key));
        }
        for key in found.keys() {
            assert!(expected.contains_key(key), "{} is not gone", shown(key));
        }
    }
}

fn shown((database, key): &(usize, Vec<u8>)) -> String {
    let key = String::from_utf8_lossy(&key[..key.len().min(40)]).into_owned();
    format!("{key} in database {database}")
}

/// Returns all keys that have not expired.
fn keys_of(store: &Store, now_ms: u64) -> BTreeMap<(usize, Vec<u8>), Kept> {
    let (counters, mut keys) = (Counters::default(), BTreeMap::new());
    for database in 0..store.databases() {
        let db = store.database(database, &counters, now_ms);
        let mut cursor = 0;
        loop {
            cursor = db.scan(cursor, 100, |entry| {
                let mut hasher = DefaultHasher::new();
                match entry.value() {
                    Value::String(StringValue::Rope(rope)) => hash_rope(&mut hasher, rope),
                    Value::String(string) => string.with_bytes(|bytes| hasher.write(bytes)),
                    collection => hash_collection(&mut hasher, collection),
                }
                let kept = Kept {
                    kind: entry.kind().name(),
                    bytes: entry.value_bytes(),
                    hash: hasher.finish(),
                    expire_at_ms: entry.expire_at_ms(),
                    flags: entry.flags(),
                    cas: entry.cas(),
                    // That an entry was read is not a change.
                    marks: Marks { fetched: false, ..entry.marks() },
                };
                let key = entry.long_key().map_or_else(|| entry.key().to_vec(), |it| it.to_vec());
                keys.insert((database, key), kept);
            });
            if cursor == 0 {
                break;
            }
        }
    }
    keys
}

fn hash_collection(hasher: &mut DefaultHasher, collection: Value<'_>) {
    let mut hash = |text: StringValue<'_>| text.with_bytes(|bytes| bytes.hash(hasher));
    let go_on = ControlFlow::<()>::Continue;
    match collection {
        Value::String(string) => hash(string),
        Value::Hash(fields) => drop(fields.walk(0, |field| {
            hash(field.name);
            hash(field.value);
            hash(StringValue::Int(field.expires_at_ms.unwrap_or(0).cast_signed()));
            go_on(())
        })),
        Value::Set(members) => drop(members.walk(0, |member| {
            hash(member);
            go_on(())
        })),
        Value::SortedSet(members) => drop(members.walk(0, |member| {
            hash(member.name);
            hash(StringValue::Int(member.score.to_bits().cast_signed()));
            go_on(())
        })),
        Value::List(elements) => drop(elements.walk(0, |element| {
            hash(element);
            go_on(())
        })),
        Value::Stream(stream) => drop(stream.walk_parts(0, |part| {
            hash(StringValue::Bytes(format!("{part:?}").as_bytes()));
            go_on(())
        })),
    }
}

fn hash_rope(hasher: &mut DefaultHasher, rope: &Rope) {
    rope.chunks().for_each(|chunk| hasher.write(chunk));
}
