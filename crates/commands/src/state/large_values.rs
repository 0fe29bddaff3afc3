//! The largest values that requests of the last ten minutes used, collected per worker.
//!
//! A request is examined if it and its reply are large, or if it takes long: the lengths of its
//! values are looked up, and the largest are kept. Before they are shown, the worker looks them up
//! again, a few at a time, since they may have changed.

use nagi_store::accounting::Overhead;
use nagi_store::{Database, Kind};
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of values shown.
const SHOWN: usize = 100;
/// The number of values that a worker keeps: more than are shown, since some may have been removed
/// by then.
const KEPT: usize = 128;
/// How long a value is kept, in milliseconds.
const KEPT_FOR_MS: u64 = 600_000;
/// Minimum length of a value, and of a request with its reply to be examined, in bytes.
pub const MIN_BYTES: usize = 4096;
/// Each request of at least this many bytes is examined. Of smaller requests, one is examined per
/// this many bytes in total, so that the cost is small compared with that of the requests.
const ALWAYS_BYTES: usize = 64 * 1024;
/// Maximum length of a key that is kept, in bytes.
pub const MAX_KEY_BYTES: usize = 1024;
/// Maximum bytes of a key that are shown.
const SHOWN_KEY_BYTES: usize = 64;
/// Maximum keys of a request that are looked up.
pub const MAX_KEYS: usize = 16;
/// The number of values looked up at a time.
const SLICE: usize = 32;
/// Maximum age of a check that is shown, in milliseconds.
const FRESH_MS: u64 = 5000;

/// The large values of a worker or of the script thread. Only that thread records values. They are
/// checked by the same worker, or by the first worker for the script thread. Any thread may read
/// checked values.
#[derive(Debug, Default)]
pub struct LargeValues {
    /// Bytes of requests since the last examined one.
    passed_bytes: AtomicUsize,
    noted: Mutex<Noted>,
    checked: Mutex<Option<Arc<Checked>>>,
}

/// The recorded values. At most two threads use them, the script thread and the first worker, each
/// for a few lookups at a time.
#[derive(Debug, Default)]
struct Noted {
    values: Vec<LargeValue>,
    /// Where to continue checking.
    next: usize,
    overhead: Overhead,
}

/// The values of a complete check.
#[derive(Debug)]
struct Checked {
    at_ms: u64,
    values: Vec<LargeValue>,
    _overhead: Overhead,
}

/// A large value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LargeValue {
    pub(crate) key: Arc<[u8]>,
    pub(crate) database: usize,
    pub(crate) kind: Kind,
    /// The length of a string, or the memory of a collection.
    pub(crate) bytes: usize,
    /// The time of the last request for it, in milliseconds since 1970.
    pub(crate) seen_ms: u64,
    /// The command of that request.
    pub(crate) command: &'static str,
}

impl LargeValue {
    fn is_of(&self, database: usize, key: &[u8]) -> bool {
        self.database == database && *self.key == *key
    }

    /// The first bytes of its key as text, with replacements for invalid UTF-8.
    pub(crate) fn shown_key(&self) -> String {
        let key = self.key.get(..SHOWN_KEY_BYTES).unwrap_or(&self.key);
        String::from_utf8_lossy(key).into_owned()
    }

    fn is_recent(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.seen_ms) < KEPT_FOR_MS
    }
}

impl LargeValues {
    /// Whether to examine a request of `bytes` bytes, including its reply; `bytes` must be at least
    /// [`MIN_BYTES`].
    #[must_use]
    pub fn wants(&self, bytes: usize) -> bool {
        let passed = self.passed_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        let is_due = passed >= ALWAYS_BYTES;
        self.passed_bytes.store(if is_due { 0 } else { passed }, Ordering::Relaxed);
        is_due
    }

    /// Whether to examine a request that takes long, whatever its length.
    #[must_use]
    pub fn wants_long(&self) -> bool {
        self.wants(ALWAYS_BYTES)
    }

    /// Records the values of some keys of a request that has just been executed, within its batch.
    pub fn note<'k>(
        &self,
        db: Database<'_>,
        keys: impl IntoIterator<Item = &'k [u8]>,
        command: &'static str,
    ) {
        for key in keys.into_iter().filter(|key| key.len() <= MAX_KEY_BYTES).take(MAX_KEYS) {
            let Some((kind, bytes)) = look_up(db, key) else { continue };
            self.noted.lock().note(db, key, (kind, bytes), command);
        }
    }

    /// Looks up the next of the values again; `database` returns a database by its number. To be
    /// called within a batch until it returns `false`, when all values have been looked up.
    pub fn check<'a>(&self, database: impl Fn(usize) -> Database<'a>, now_ms: u64) -> bool {
        let mut noted = self.noted.lock();
        let Noted { values, next, overhead } = &mut *noted;
        for _ in 0..SLICE {
            let Some(value) = values.get_mut(*next) else { break };
            let is_recent = value.is_recent(now_ms);
            let found =
                if is_recent { look_up(database(value.database), &value.key) } else { None };
            match found {
                Some((kind, bytes)) => {
                    (value.kind, value.bytes) = (kind, bytes);
                    *next += 1;
                }
                None => drop(values.swap_remove(*next)),
            }
        }
        if *next < values.len() {
            return true;
        }
        *next = 0;
        overhead.set(bytes_of(values));
        let values = values.clone();
        drop(noted);
        let overhead = Overhead::new(values.capacity() * size_of::<LargeValue>());
        let checked = Arc::new(Checked { at_ms: now_ms, values, _overhead: overhead });
        *self.checked.lock() = Some(checked);
        false
    }
}

impl Noted {
    fn note(
        &mut self,
        db: Database<'_>,
        key: &[u8],
        (kind, bytes): (Kind, usize),
        command: &'static str,
    ) {
        let (database, seen_ms) = (db.index(), db.now_ms());
        let known = self.values.iter_mut().find(|it| it.is_of(database, key));
        if let Some(known) = known {
            *known =
                LargeValue { kind, bytes, seen_ms, command, key: Arc::clone(&known.key), ..*known };
            return;
        }
        if self.values.len() >= KEPT {
            let counts = |it: &LargeValue| if it.is_recent(seen_ms) { it.bytes } else { 0 };
            let least = self.values.iter_mut().min_by_key(|it| counts(it));
            let Some(least) = least.filter(|it| counts(it) < bytes) else { return };
            *least = LargeValue { key: key.into(), database, kind, bytes, seen_ms, command };
        } else {
            self.values.push(LargeValue {
                key: key.into(),
                database,
                kind,
                bytes,
                seen_ms,
                command,
            });
        }
        self.overhead.set(bytes_of(&self.values));
    }
}

/// The memory of the list and of its keys, each of which has two reference counts.
fn bytes_of(values: &Vec<LargeValue>) -> usize {
    let keys = values.iter().map(|value| value.key.len() + 2 * size_of::<usize>());
    values.capacity() * size_of::<LargeValue>() + keys.sum::<usize>()
}

/// The type and size of a key's value, if it exists and is large; this does not count as a use.
fn look_up(db: Database<'_>, key: &[u8]) -> Option<(Kind, usize)> {
    let found = db
        .inspect(db.key(key), |found| found.map(|(entry, _)| (entry.kind(), entry.value_bytes())));
    found.filter(|(_, bytes)| *bytes >= MIN_BYTES)
}

/// The largest values of all workers' recent checks, the largest first; `None` if there is no
/// recent check.
pub(crate) fn largest<'w>(
    workers: impl Iterator<Item = &'w LargeValues>,
    now_ms: u64,
) -> Option<Vec<LargeValue>> {
    let checked = workers.filter_map(|worker| worker.checked.lock().as_ref().map(Arc::clone));
    let checked = checked.filter(|it| now_ms.saturating_sub(it.at_ms) < FRESH_MS);
    let mut checked = checked.peekable();
    checked.peek()?;
    let mut values: Vec<LargeValue> = checked.flat_map(|it| it.values.clone()).collect();
    // Several workers may have recorded the same value, changed between their lookups: the last
    // request counts.
    values.sort_by(|one, other| {
        (one.database, &one.key, Reverse(one.seen_ms)).cmp(&(
            other.database,
            &other.key,
            Reverse(other.seen_ms),
        ))
    });
    values.dedup_by(|later, first| later.is_of(first.database, &first.key));
    values.sort_by_key(|value| Reverse(value.bytes));
    values.truncate(SHOWN);
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_store::types::restore::Known;
    use nagi_store::{Clock, Counters, Scope, Store, StoreOptions};

    const NOW_MS: u64 = 1_700_000_000_000;

    fn store() -> Store {
        let clock = Clock::System;
        Store::new(&StoreOptions { databases: 2, clock, workers: 1, ..StoreOptions::default() })
    }

    /// Stores a string of `bytes` bytes under a key, and records it.
    fn put(values: &LargeValues, db: Database<'_>, key: &str, bytes: usize) {
        db.load(db.key(key.as_bytes()), &vec![b'v'; bytes][..], &Known::default());
        values.note(db, [key.as_bytes()], "set");
    }

    fn check_all(values: &LargeValues, store: &Store, counters: &Counters, now_ms: u64) -> usize {
        let mut slices = 1;
        while values.check(|index| store.database(index, counters, now_ms), now_ms) {
            slices += 1;
        }
        slices
    }

    fn shown(workers: &[&LargeValues], now_ms: u64) -> Vec<(String, usize)> {
        let values = largest(workers.iter().copied(), now_ms).unwrap_or_default();
        let shown = |it: &LargeValue| (String::from_utf8_lossy(&it.key).into_owned(), it.bytes);
        values.iter().map(shown).collect()
    }

    #[test]
    fn all_large_requests_are_sampled_and_some_of_the_smaller_ones() {
        let values = LargeValues::default();
        assert!(values.wants(ALWAYS_BYTES) && values.wants_long() && values.wants(usize::MAX));
        let wanted = (0..16_000).filter(|_| values.wants(MIN_BYTES)).count();
        assert_eq!(wanted, 1000);
        assert!(!values.wants(MIN_BYTES));
        assert!(values.wants(ALWAYS_BYTES - MIN_BYTES));
    }

    #[test]
    fn the_largest_are_kept_in_bounded_memory() {
        let (store, values) = (store(), LargeValues::default());
        let counters = store.counters(0);
        let _batch = store.batch(&counters);
        let db = store.database(0, &counters, NOW_MS);
        for number in 0..1000 {
            put(&values, db, &format!("{number:0>1000}"), MIN_BYTES + number * 7 % 1000);
        }
        put(&values, db, "small", MIN_BYTES - 1);
        put(&values, db, &"k".repeat(MAX_KEY_BYTES + 1), MIN_BYTES * 10);
        let noted = bytes_of(&values.noted.lock().values);
        assert!(noted <= KEPT * (1000 + 2 * size_of::<usize>() + 2 * size_of::<LargeValue>()));
        assert_eq!(check_all(&values, &store, &counters, NOW_MS), KEPT / SLICE);
        let shown = shown(&[&values], NOW_MS);
        let bytes: Vec<usize> = shown.iter().map(|(_, bytes)| *bytes).collect();
        let largest: Vec<usize> = (0..SHOWN).map(|place| MIN_BYTES + 999 - place).collect();
        assert_eq!(bytes, largest);
    }

    #[test]
    fn removed_or_changed_values_are_noticed_before_they_are_shown() {
        let (store, one, other) = (store(), LargeValues::default(), LargeValues::default());
        let counters = store.counters(0);
        let [first, second] = [0, 1].map(|index| store.database(index, &counters, NOW_MS));
        let _batch = store.batch(&counters);
        put(&one, first, "kept", 10_000);
        put(&one, second, "kept", 20_000);
        put(&one, second, "gone", 30_000);
        other.note(first, [&b"kept"[..], b"nothing"], "get");
        assert_eq!(largest([&one, &other].into_iter(), NOW_MS), None, "they are unchecked");
        second.flush(Scope::Database(1));
        put(&one, second, "kept", 15_000);
        for values in [&one, &other] {
            check_all(values, &store, &counters, NOW_MS);
        }
        let expected = [("kept".to_owned(), 15_000), ("kept".to_owned(), 10_000)];
        assert_eq!(shown(&[&one, &other], NOW_MS), expected);
        // An old lookup does not count.
        assert_eq!(largest([&one].into_iter(), NOW_MS + FRESH_MS), None);
        // Nor does an old request.
        check_all(&one, &store, &counters, NOW_MS + KEPT_FOR_MS);
        assert_eq!(shown(&[&one], NOW_MS + KEPT_FOR_MS), []);
        assert_eq!(one.noted.lock().values.len(), 0);
    }
}
