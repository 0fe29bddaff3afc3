//! Tests that the work done while a latch is held is bounded, regardless of the size of the store.
//! The work is counted, since times depend on the machine.

use super::{Fixture, text};
use crate::entry::view::EntryView;
use crate::sync::holds::{self, Holds, Probe};
use crate::types::key::ExpireWhen;
use crate::types::relocation::Relocated;
use crate::types::string::{Expiry, SetOptions};
use crate::{Database, Expirer, Policy, Scope, WalkProgress, Walker};
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// Enough keys for hundreds of segments to split.
const KEYS: usize = 200_000;

fn set(fixture: &Fixture, number: usize, value: &[u8], options: SetOptions) {
    let _batch = fixture.store.batch(&fixture.counters);
    let db = fixture.db(0);
    assert!(db.make_room());
    db.set(db.key(format!("key:{number}").as_bytes()), value, options);
}

thread_local! {
    static COUNTS_FAULTS: Cell<bool> = const { Cell::new(false) };
}

/// Returns the page faults of this thread, from the tenth field of its `stat` file.
pub(crate) fn faults() -> Probe {
    thread_local! {
        static STAT: File = File::open("/proc/thread-self/stat").unwrap();
    }
    let mut text = [0; 256];
    let len = STAT.with(|stat| stat.read_at(&mut text, 0)).unwrap();
    let text = str::from_utf8(&text[..len]).unwrap();
    let (_, fields) = text.rsplit_once(") ").unwrap();
    Probe { faults: fields.split(' ').nth(10 - 3).unwrap().parse().unwrap(), ..Probe::default() }
}

/// Returns the maximum work of `work` within one hold.
pub(super) fn most_of(work: impl FnOnce()) -> Holds {
    // Recording is enabled for all threads and permanently, so each thread decides whether to count
    // faults.
    holds::watch(|| if COUNTS_FAULTS.get() { faults() } else { Probe::default() });
    let _ = holds::take();
    work();
    holds::take()
}

#[test]
fn failed_victim_search_is_repeated_only_after_a_change() {
    let fixture = Fixture::new(4);
    (0..1000).for_each(|number| set(&fixture, number, b"value", SetOptions::default()));
    fixture.store.set_limit(1, Policy::VolatileLru);
    let db = fixture.db(0);
    let searched = || most_of(|| assert!(!db.make_room())).count;
    let (first, again) = (searched(), searched());
    assert!(first >= 4 && again <= 4 && again < first / 4, "{first} shards, then {again}");
    for number in 0..10 {
        let key = format!("key:{number}");
        assert!(db.expire(
            db.key(key.as_bytes()),
            fixture.db(0).now_ms() + 9000,
            ExpireWhen::default()
        ));
        assert!(!db.make_room(), "it takes more than one key");
        assert_eq!(db.size(), 999 - number, "what can go is found at once");
    }
    fixture.store.set_limit(1, Policy::AllKeysRandom);
    let _ = db.make_room();
    assert!(db.size() < 990, "another policy spares less");
}

#[test]
fn growth_moves_at_most_a_segment_and_does_not_wait_for_memory() {
    let fixture = Fixture::new(4);
    let holds = most_of(|| {
        (0..KEYS).for_each(|number| set(&fixture, number, &[b'v'; 100], SetOptions::default()));
    });
    assert!(holds.count > 1000, "{holds:?}");
    assert!(holds.most.entries <= 512, "{holds:?}");
    assert!(holds.most.hashed <= 128, "few are read, whose memory may be far away: {holds:?}");
    assert!(holds.most.pages <= 4, "two segments come, one goes, and a page of entries: {holds:?}");
    assert_eq!(holds.most.requests, 0, "{holds:?}");
}

#[test]
fn eviction_with_changing_sizes_moves_few_entries_and_does_not_wait_for_memory() {
    let fixture = Fixture::new(4);
    fixture.store.set_limit(8 << 20, Policy::AllKeysLru);
    let holds = most_of(|| {
        for (value_bytes, keys) in [(64, KEYS), (4096, KEYS / 20), (100, KEYS)] {
            let value = vec![b'v'; value_bytes];
            for number in 0..keys {
                set(&fixture, number, &value, SetOptions::default());
                // The preparer thread may be late once.
                #[cfg(not(miri))]
                if number % 16 == 0 {
                    fixture.store.provide();
                }
            }
        }
    });
    assert!(fixture.counters.evicted.get() > KEYS as u64 / 2);
    assert!(holds.most.entries <= 512, "{holds:?}");
    assert!(holds.most.bytes <= 16 * 1024, "{holds:?}");
    assert_eq!(holds.most.requests, 0, "{holds:?}");
}

#[test]
#[cfg(not(miri))]
fn no_page_faults_in_holds_if_the_preparer_is_in_time() {
    let limit = 32 << 20;
    let fixture = Fixture::new(16);
    fixture.store.expect(1 << 30);
    fixture.store.set_limit(limit, Policy::AllKeysLru);
    COUNTS_FAULTS.set(true);
    let mut number = 0;
    let mut fill = |value_bytes: usize| {
        most_of(|| {
            for _ in 0..limit as usize / (value_bytes + 40) {
                number += 1;
                set(&fixture, number, &vec![b'v'; value_bytes], SetOptions::default());
                if number % 16 == 0 {
                    fixture.store.provide();
                }
                if number % 4096 == 0 {
                    fixture.store.rest();
                }
            }
        })
    };
    fill(64);
    let holds = [4096, 100, 700, 64].map(&mut fill);
    COUNTS_FAULTS.set(false);
    let faults = holds.each_ref().map(|holds| (holds.faults, holds.most.probe.faults));
    assert!(faults.iter().all(|(all, most)| *all < 100 && *most <= 4), "{faults:?}");
}

#[test]
fn step_of_expiry_removes_and_moves_few_entries() {
    let fixture = Fixture::new(4);
    let now_ms = fixture.db(0).now_ms() + 1000;
    let expiring = SetOptions { expiry: Expiry::AtMs(now_ms), ..SetOptions::default() };
    (0..KEYS).for_each(|number| set(&fixture, number, &[b'v'; 40], expiring));
    fixture.pass_ms(1000);
    let holds = most_of(|| {
        let mut expirer = Expirer::new(0, 1);
        let (store, counters) = (&fixture.store, &fixture.counters);
        while expirer.run(store, counters, now_ms, Duration::from_secs(3600)) {}
    });
    assert_eq!(fixture.db(0).size(), 0);
    assert!(holds.most.entries <= 5 * 64 + 512, "{holds:?}");
    assert_eq!(holds.most.requests, 0, "{holds:?}");
}

/// With ordinary hashes and with equal ones.
#[test]
fn step_of_expiry_visits_few_entries_if_none_is_due_any_more() {
    for (mask, keys) in [(u64::MAX, KEYS), (0, KEYS / 10)] {
        let fixture = Fixture::masked(4, mask);
        let now_ms = fixture.db(0).now_ms() + 1000;
        for at_ms in [now_ms, now_ms + 5000] {
            let expiring = SetOptions { expiry: Expiry::AtMs(at_ms), ..SetOptions::default() };
            (0..keys).for_each(|number| set(&fixture, number, &[b'v'; 40], expiring));
        }
        let (store, counters) = (&fixture.store, &fixture.counters);
        for (now_ms, left) in [(now_ms, keys), (now_ms + 5000, 0)] {
            let holds = most_of(|| {
                let mut expirer = Expirer::new(0, 1);
                while expirer.run(store, counters, now_ms, Duration::from_secs(3600)) {}
            });
            assert_eq!(fixture.db(0).size(), left);
            assert!(holds.most.visited <= 512, "{holds:?}");
            assert!(holds.most.entries <= 5 * 200, "{holds:?}");
        }
    }
}

/// Creating such keys requires the seed.
#[test]
fn keys_with_equal_hashes_are_found_by_few_comparisons() {
    let fixture = Fixture::masked(4, 0);
    let keys = if cfg!(miri) { 1000 } else { 20_000 };
    let names: Vec<String> = (0..keys).map(|number| format!("key:{number}")).collect();
    let db = fixture.db(0);
    let put = |name: &String| {
        db.set(db.key(name.as_bytes()), name.as_bytes(), SetOptions::default());
    };
    let growing = most_of(|| names.iter().for_each(put));
    assert!(growing.most.entries <= 1024 && growing.most.compared <= 4096, "{growing:?}");
    let using = most_of(|| {
        for name in &names {
            put(name);
            assert_eq!(text(db, name.as_bytes()).as_deref(), Some(name.as_bytes()));
        }
        assert_eq!(text(db, b"another"), None);
    });
    assert!(using.count > keys as u64 / 2, "{using:?}");
    assert!(using.most.compared <= 32, "{using:?}");
    let walking = most_of(|| {
        let mut shown = Vec::new();
        let cursor = db.scan(0, 10, |entry| shown.push(entry.key().to_vec()));
        assert_eq!(db.scan(cursor, 10_000, |_| unreachable!("all have one hash")), 0);
        shown.sort();
        let mut sorted = names.clone();
        sorted.sort();
        assert!(shown.iter().eq(sorted.iter().map(|name| name.as_bytes())), "each once");
    });
    assert!(walking.most.visited <= 256, "{walking:?}");
    let saving = most_of(|| save(&fixture, keys));
    assert!(saving.most.visited <= 512 && saving.most.bytes <= 32 * 1024, "{saving:?}");
    let removing = most_of(|| {
        for name in &names {
            assert!(db.delete(db.key(name.as_bytes())));
        }
    });
    assert_eq!(db.size(), 0);
    assert!(removing.most.entries <= 1024 && removing.most.compared <= 4096, "{removing:?}");
}

/// Takes a snapshot of this many keys.
fn save(fixture: &Fixture, keys: usize) {
    let mut snapshot = fixture.store.cut(usize::MAX, Waker::noop()).unwrap();
    let (mut walker, mut saved) = (Walker::default(), 0);
    while fixture.store.walk(&mut walker, || true) != WalkProgress::Done {
        let images = std::iter::from_fn(|| snapshot.take(Duration::ZERO));
        saved += images.map(|images| images.entries().count()).sum::<usize>();
    }
    while let Some(images) = snapshot.take(Duration::ZERO) {
        saved += images.entries().count();
    }
    snapshot.finish().unwrap();
    assert_eq!(saved, keys);
}

/// Returns a key of four megabytes that differs from similar ones only in its last byte.
fn long(last: u8) -> Vec<u8> {
    let mut key = vec![b'k'; if cfg!(miri) { 5000 } else { 4 << 20 }];
    key.push(last);
    key
}

/// All operations that access a long key, with ordinary hashes and with equal ones.
#[test]
fn long_key_is_not_compared_copied_or_freed_in_a_hold() {
    for mask in [u64::MAX, 0] {
        let fixture = Fixture::masked(4, mask);
        let keys = [long(b'a'), long(b'b'), long(b'c'), long(b'd')];
        let holds = most_of(|| use_long_keys(&fixture, &keys.each_ref().map(Vec::as_slice)));
        assert!(holds.count > 20, "{holds:?}");
        assert!(holds.most.bytes <= 16 * 1024, "{holds:?}");
        let long_keys = Arc::clone(&fixture.store.long_keys);
        assert_eq!(long_keys.len(), 1, "of those that were evicted nothing is left");
        fixture.store.flush(Scope::All);
        drop(fixture);
        assert_eq!(long_keys.len(), 0, "nor of those that were flushed");
    }
}

/// Returns the concatenated values of these keys.
fn texts(db: Database<'_>, names: &[&[u8]]) -> Vec<u8> {
    names.iter().filter_map(|name| text(db, name)).flatten().collect()
}

fn use_long_keys(fixture: &Fixture, names: &[&[u8]; 4]) {
    let (db, other) = (fixture.db(0), fixture.db(1));
    let keys = names.map(|name| db.key(name));
    let [first, second, third, fourth] = keys;
    for (key, value) in keys.into_iter().zip([b"1", b"2", b"3"]) {
        assert!(db.set(key, value, SetOptions::default()));
    }
    assert_eq!(texts(db, names), b"123");
    assert_eq!(db.increment(second, 40), Ok(42));
    assert_eq!(db.rename(first, fourth, true), Relocated::Done);
    assert_eq!(db.rename(fourth, fourth, true), Relocated::Done);
    assert_eq!(db.copy(fourth, 1, first, true), Relocated::Done);
    assert_eq!(other.move_to(first, 0), Relocated::Done);
    assert_eq!(texts(db, names), b"14231");
    assert!(db.expire(third, db.now_ms() + 5, ExpireWhen::default()));
    fixture.pass_ms(10);
    let mut expirer = Expirer::new(0, 1);
    let now_ms = fixture.db(0).now_ms();
    while expirer.run(&fixture.store, &fixture.counters, now_ms, Duration::from_secs(60)) {}
    let mut shown = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = db.scan(cursor, 1, |entry| shown.extend(entry.long_key()));
        if cursor == 0 {
            break;
        }
    }
    shown.sort();
    shown.dedup();
    assert!(shown.iter().map(|key| &key[..]).eq([names[0], names[1], names[3]]));
    assert!(db.random_entry(|entry| entry.long_key()).flatten().is_some());
    assert!(db.delete(second) && !db.delete(second) && !db.delete(third));
    (0..1000).for_each(|number| set(fixture, number, b"filler", SetOptions::default()));
    db.evict_all();
    assert_eq!(db.size(), 0);
    assert!(db.set(first, b"1", SetOptions::default()));
}

#[test]
fn shards_are_counted_once_to_pick_entries_that_have_expired() {
    const SHARDS: usize = 64;
    let fixture = Fixture::new(SHARDS);
    let expiry =
        SetOptions { expiry: Expiry::AtMs(fixture.db(0).now_ms() + 1), ..Default::default() };
    (0..1000).for_each(|number| set(&fixture, number, b"value", expiry));
    fixture.pass_ms(10);
    let look = |_: EntryView<'_>| panic!("all have expired");
    let holds = most_of(|| fixture.db(0).random_volatile_entries(16, look));
    assert!(holds.count <= (SHARDS + 200) as u64, "{holds:?}");
}
