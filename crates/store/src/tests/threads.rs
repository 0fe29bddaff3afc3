//! Tests with several threads that atomic changes are seen as a whole, and no count is lost.
//! `cargo xtask sanitize` runs them under sanitizers.

use crate::types::string::{Expiry, SetOptions};
use crate::{Database, Expirer, Scope, Store, StoreOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const THREADS: usize = 4;
const ROUNDS: u32 = if cfg!(miri) { 50 } else { 20_000 };

fn number(db: Database<'_>, key: &[u8]) -> i64 {
    db.get(db.key(key), |entry| {
        entry.map_or(0, |entry| {
            entry.string().unwrap().with_bytes(|text| crate::parse_i64(text).unwrap())
        })
    })
}

/// Runs `work` on [`THREADS`] threads, and `beside` on another one until they have finished.
fn run(work: impl Fn(&Store, usize) + Sync, beside: impl Fn(&Store) + Sync) -> Store {
    let store =
        Store::new(&StoreOptions { shards: 4, workers: THREADS + 1, ..StoreOptions::default() });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (store, work, beside, done) = (&store, &work, &beside, &done);
        let other = scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                beside(store);
            }
        });
        let workers: Vec<_> =
            (0..THREADS).map(|index| scope.spawn(move || work(store, index))).collect();
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        other.join().unwrap();
    });
    store
}

#[test]
fn no_increment_is_lost_while_the_table_grows_and_keys_expire() {
    let store = run(
        |store, thread| {
            let counters = store.counters(thread);
            for round in 0..ROUNDS {
                let db = store.database(0, &counters, u64::from(round));
                db.increment(db.key(b"all"), 1).unwrap();
                db.increment(db.key(format!("own:{}", round % 50).as_bytes()), 1).unwrap();
                let filler = format!("filler:{thread}:{round}");
                let expiry = Expiry::AtMs(u64::from(round) + 500);
                let options = SetOptions { expiry, ..Default::default() };
                db.set(db.key(filler.as_bytes()), filler.as_bytes(), options);
            }
        },
        |store| {
            let counters = store.counters(THREADS);
            Expirer::new(0, 1).run(
                store,
                &counters,
                u64::from(ROUNDS) / 2,
                Duration::from_millis(1),
            );
            let db = store.database(0, &counters, 0);
            let mut cursor = 0;
            loop {
                cursor = db.scan(cursor, 100, |entry| assert!(!entry.string().unwrap().is_empty()));
                if cursor == 0 {
                    break;
                }
            }
        },
    );
    let counters = store.counters(0);
    let db = store.database(0, &counters, 0);
    let expected = i64::from(ROUNDS) * THREADS as i64;
    assert_eq!(number(db, b"all"), expected);
    let own: i64 = (0..50).map(|key| number(db, format!("own:{key}").as_bytes())).sum();
    assert_eq!(own, expected);
}

#[test]
fn keys_set_together_are_seen_together() {
    let keys = ["a", "b", "c", "d", "e"];
    run(
        |store, thread| {
            let counters = store.counters(thread);
            let db = store.database(0, &counters, 0);
            for round in 0..ROUNDS / 4 {
                let value = format!("{thread}:{round}").repeat(1 + round as usize % 40);
                let pairs = keys.map(|key| (db.key(key.as_bytes()), value.as_bytes().into()));
                db.set_many(pairs.into(), false);
                if round % 97 == 0 {
                    store.flush(Scope::All);
                }
                if round % 101 == 0 {
                    store.swap(0, 1);
                }
            }
        },
        |store| {
            let counters = store.counters(THREADS);
            let db = store.database(0, &counters, 0);
            let mut seen = Vec::new();
            db.get_many(&keys.map(|key| db.key(key.as_bytes())), |entry| {
                seen.push(entry.map(|entry| entry.string().unwrap().with_bytes(<[u8]>::to_vec)));
            });
            seen.dedup();
            assert_eq!(seen.len(), 1, "all keys have the same value, or none has any");
        },
    );
}

#[test]
fn renamed_token_exists_exactly_once() {
    let keys: Vec<String> = (0..8).map(|index| format!("place:{index}")).collect();
    let places = &keys;
    let store = run(
        |store, thread| {
            let counters = store.counters(thread);
            let db = store.database(0, &counters, 0);
            if thread == 0 {
                db.set(db.key(b"place:0"), b"token", SetOptions::default());
            }
            for round in 0..ROUNDS {
                let from = &places[(round as usize * 5 + thread) % places.len()];
                let to = &places[(round as usize * 3 + thread * 7 + 1) % places.len()];
                db.rename(db.key(from.as_bytes()), db.key(to.as_bytes()), false);
            }
        },
        |store| {
            let counters = store.counters(THREADS);
            let db = store.database(0, &counters, 0);
            let keys: Vec<_> = places.iter().map(|key| db.key(key.as_bytes())).collect();
            assert!(db.count_existing(&keys) <= 1);
        },
    );
    let counters = store.counters(0);
    assert_eq!(store.database(0, &counters, 0).size(), 1);
}
