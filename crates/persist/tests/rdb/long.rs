//! Takes a snapshot of a string of 500 MB while it changes. The test is here because the store's
//! own tests copy every entry before it changes.

use nagi_store::types::string::{Condition, End};
use nagi_store::{CHUNK_BYTES, EntryView, Store, StoreOptions, StringValue, WalkProgress, Walker};
use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

/// The longest possible string shares its chunks with its image; those that are modified afterwards
/// are copied first.
#[test]
fn long_string_in_a_snapshot_is_not_affected_by_changes() {
    const LEN: usize = 500 << 20;
    let store = Store::new(&StoreOptions::default());
    let counters = store.counters(0);
    let db = store.database(0, &counters, 1);
    let places = [0, 1, 65_535, 65_536, LEN / 2, LEN - 1];
    for (key, place) in ["before", "behind"].into_iter().zip([0, LEN / 2]) {
        let key = db.key(key.as_bytes());
        db.set_range(key, LEN - 1, b"e", usize::MAX).unwrap();
        db.set_range(key, place, b"p", usize::MAX).unwrap();
    }
    let bytes_of = |entry: &EntryView<'_>| {
        let Ok(StringValue::Rope(rope)) = entry.string() else { panic!("it is long") };
        let at = |place: usize| {
            let chunk = rope.chunk(place / CHUNK_BYTES).unwrap();
            chunk[place % CHUNK_BYTES]
        };
        (rope.len(), places.map(at))
    };
    let look = |key: &[u8]| db.get(db.key(key), |entry| bytes_of(&entry.unwrap()));
    let was = [look(b"before"), look(b"behind")];
    let mut snapshot = store.cut(usize::MAX, Waker::noop()).unwrap();
    let change = |key: &[u8], byte: u8| {
        let key = db.key(key);
        for place in places {
            db.set_range(key, place, &[byte; 3], usize::MAX).unwrap();
        }
        db.extend(key, &[byte; 100_000], End::Back, Condition::Always, usize::MAX).unwrap();
    };
    change(b"before", b'x');
    let mut walker = Walker::default();
    // It pauses behind a long value that has not been taken.
    while store.walk(&mut walker, || false) == WalkProgress::More {}
    change(b"behind", b'y');
    change(b"before", b'z');
    let mut seen = BTreeMap::new();
    let mut is_walked = false;
    while !is_walked {
        while let Some(images) = snapshot.take(Duration::ZERO) {
            for entry in images.entries() {
                assert!(seen.insert(entry.key().to_vec(), bytes_of(&entry)).is_none());
            }
        }
        is_walked = store.walk(&mut walker, || false) == WalkProgress::Done;
    }
    assert_eq!(snapshot.finish(), Ok(()));
    assert_eq!(seen.into_values().collect::<Vec<_>>(), was);
    assert_ne!(look(b"before"), was[0]);
}
