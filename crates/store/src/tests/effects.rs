//! Tests the reports of changes: their events, their order, and that they replicate another store.

use super::Fixture;
use super::replica::Replica;
use crate::types::counter::Arithmetic;
use crate::types::key::ExpireWhen;
use crate::types::string::{Condition, End, Expiry, SetOptions};
use crate::types::versioned::{Count, Fetch, Mode, Removal, Write};
use crate::{
    Clock, Counters, Database, Effect, EntryEffect, Expirer, Key, Scope, Store, StoreChange,
    StoreOptions, StringInput,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn names(change: &StoreChange) -> Vec<&'static str> {
    change.keys.iter().flat_map(|key| &key.events).map(|event| event.name()).collect()
}

/// Returns the reports of one operation, as `key:event` words.
fn reported(replica: &Replica) -> Vec<String> {
    let shown = |change: &StoreChange| {
        let keys = change.keys.iter().flat_map(|key| {
            let name = String::from_utf8_lossy(&key.key[..key.key.len().min(5)]).into_owned();
            key.events.iter().map(move |event| format!("{name}:{}", event.name()))
        });
        keys.collect::<Vec<_>>().join(" ")
    };
    replica.take().iter().map(shown).collect()
}

#[test]
fn reads_and_operations_without_effect_are_not_reported() {
    let fixture = Fixture::new(4);
    let replica = Replica::of(&fixture.store);
    let db = fixture.db(0);
    let [key, none] = [&b"key"[..], b"none"].map(|key| db.key(key));
    db.set(key, b"10", SetOptions::default());
    assert_eq!(reported(&replica), ["key:new key:set"]);
    db.get(key, |_| ());
    db.get_many(&[key, none], |_| ());
    assert!(!db.delete(none) && !db.persist(key) && !db.persist(none));
    assert!(!db.expire(none, 5, ExpireWhen::default()));
    let absent = SetOptions { condition: Condition::IfAbsent, ..SetOptions::default() };
    assert!(!db.set(key, b"11", absent));
    db.get_and_touch(key, Expiry::Keep, |_| ()).unwrap();
    db.get_and_touch(key, Expiry::Never, |_| ()).unwrap();
    assert_eq!(db.set_bit(key, 7, true), Ok(true));
    assert!(db.increment(key, i64::MAX).is_err());
    assert_eq!(reported(&replica), [""; 0]);
}

#[test]
fn assigning_a_version_number_is_an_effect_without_event() {
    let fixture = Fixture::new(4);
    let replica = Replica::of(&fixture.store);
    let db = fixture.db(0);
    db.set(db.key(b"key"), b"10", SetOptions::default());
    replica.take();
    db.get_versioned(db.key(b"key"), |_| ());
    let changes = replica.take();
    assert_eq!((changes.len(), names(&changes[0]).len()), (1, 0));
    assert!(matches!(
        &changes[0].effects[..],
        [Effect::Key(effect)] if matches!(effect.entry, EntryEffect::Attributes(_))
    ));
}

#[test]
fn effect_contains_only_the_appended_or_overwritten_part() {
    let fixture = Fixture::new(4);
    let replica = Replica::of(&fixture.store);
    let db = fixture.db(0);
    for len in [1000, 200_000] {
        db.set(db.key(b"key"), &vec![b'x'; len], SetOptions::default());
        replica.take();
        let _ = db.extend(db.key(b"key"), b"more", End::Back, Condition::Always, usize::MAX);
        db.set_range(db.key(b"key"), 7, b"in", usize::MAX).unwrap();
        let changes = replica.take();
        for (change, (at, bytes)) in changes.iter().zip([(len, &b"more"[..]), (7, b"in")]) {
            let [Effect::Key(effect)] = &change.effects[..] else { panic!("{change:?}") };
            let EntryEffect::Write(parts, now, _) = &effect.entry else { panic!("{effect:?}") };
            assert_eq!((&parts[..], *now), (&[(at, bytes.into())][..], len + 4));
        }
    }
}

#[test]
fn operations_under_one_hold_are_one_change() {
    let fixture = Fixture::new(16);
    let replica = Replica::of(&fixture.store);
    let outside = fixture.db(0);
    let [a, b] = [&b"a"[..], b"b"].map(|key| outside.key(key));
    let hold = outside.hold(&[a, b]);
    let db = outside.within(&hold);
    db.set(a, b"1", SetOptions::default());
    db.increment(a, 1).unwrap();
    db.rename(a, b, true);
    assert_eq!(replica.take().len(), 0, "the hold has not ended");
    drop(hold);
    let changes = replica.take();
    assert_eq!(changes.len(), 1);
    assert_eq!(names(&changes[0]), ["new", "set", "incrby", "new", "rename_from", "rename_to"]);
    changes.iter().for_each(|change| replica.store.apply(&replica.counters, change));
    outside.set_many(vec![(a, b"x".into()), (b, b"y".into())], false);
    assert_eq!(reported(&replica), ["a:new a:set b:set"]);
}

#[test]
fn expired_and_evicted_entries_are_reported_as_removed() {
    let fixture = Fixture::new(4);
    let replica = Replica::of(&fixture.store);
    let (now_ms, long) = (fixture.db(0).now_ms(), vec![b'l'; 5000]);
    let until = |at_ms| SetOptions { expiry: Expiry::AtMs(at_ms), ..SetOptions::default() };
    for key in [&b"lazy"[..], b"swept", &long] {
        fixture.db(0).set(fixture.db(0).key(key), b"v", until(now_ms + 10));
    }
    fixture.db(3).set(fixture.db(3).key(b"stays"), b"v", SetOptions::default());
    assert_eq!(reported(&replica).len(), 4);
    fixture.pass_ms(10);
    let db = fixture.db(0);
    db.set(db.key(b"lazy"), b"v", SetOptions::default());
    assert_eq!(reported(&replica), ["lazy:expired", "lazy:new lazy:set"]);
    let mut expirer = Expirer::new(0, 1);
    while expirer.run(&fixture.store, &fixture.counters, db.now_ms(), Duration::MAX) {}
    let mut swept = reported(&replica);
    swept.sort();
    assert_eq!(swept, ["lllll:expired", "swept:expired"]);
    db.evict_all();
    let mut evicted = reported(&replica);
    evicted.sort();
    assert_eq!(evicted, ["lazy:evicted", "stays:evicted"]);
}

const WRITE: Write<'static> = Write {
    mode: Mode::Set,
    value: StringInput::Bytes(b"7"),
    flags: 3,
    expiry: Expiry::Keep,
    expected: None,
    allow_older: false,
    vivify: None,
    version: None,
    versioned: true,
    limit_bytes: usize::MAX,
};

const REMOVAL: Removal =
    Removal { expected: None, invalidate: false, clear: None, expiry: Expiry::Keep, version: None };

/// Executes an operation that these numbers determine.
fn operate(db: Database<'_>, kind: u64, [a, b]: [Key<'_>; 2], number: u64) {
    let at_ms = db.now_ms() + number % 200;
    let expiry = [Expiry::Never, Expiry::Keep, Expiry::AtMs(at_ms)][number as usize % 3];
    let len = [3, 40, 900, 70_000][number as usize % 4];
    let (limit, text) = (1 << 20, vec![b'a' + (number % 26) as u8; len]);
    match kind % 26 {
        0 => _ = db.set(a, &text, SetOptions { expiry, flags: len as u32, ..Default::default() }),
        1 => _ = db.increment(a, number as i64 % 100),
        2 => _ = db.extend(a, &text, End::Back, Condition::Always, limit),
        3 => _ = db.extend(a, &text, End::Front, Condition::IfPresent, limit),
        4 => _ = db.set_range(a, number as usize % 3000, &text, limit),
        5 => _ = db.set_bit(a, number as usize % 90_000, number & 64 == 0),
        6 => _ = db.delete(a),
        7 => _ = db.expire(a, at_ms, ExpireWhen::default()),
        8 => _ = db.persist(a),
        9 => _ = db.rename(a, b, number & 64 == 0),
        10 => _ = db.copy(a, number as usize % 3, b, number & 64 == 0),
        11 => _ = db.move_to(a, (db.index() + 1) % 3),
        12 => _ = db.set_many(vec![(a, (&text).into()), (b, b"1".into())], number & 64 == 0),
        13 => _ = db.delete_many(&[a, b]),
        14 => _ = db.get_and_touch(a, expiry, |_| ()),
        15 => _ = db.get_and_delete(a, |_| ()),
        16 => db.get_versioned(a, |_| ()),
        17 => _ = db.store_versioned(a, Write { expiry, ..WRITE }),
        18 => _ = db.store_versioned(a, Write { mode: Mode::Append, ..WRITE }),
        19 => {
            _ = db.count(a, &Count { expiry, versioned: true, ..Count::plain(Arithmetic::Up(3)) })
        }
        20 => _ = db.remove_versioned(a, &Removal { invalidate: true, expiry, ..REMOVAL }),
        21 => {
            let fetch = Fetch { vivify: Some(expiry), expiry, ..Fetch::default() };
            db.fetch(a, &fetch, |_| ());
        }
        22 => _ = db.set_many(vec![(b, b"9".into()), (a, (&text).into())], false),
        23 => _ = db.restore(a, &text, expiry, number & 64 == 0, None),
        24 if number.is_multiple_of(40) => db.swap(number as usize % 3, 1),
        25 if number.is_multiple_of(80) => db.flush(Scope::Database(number as usize % 3)),
        _ => {
            let hold = db.hold(&[a, b]);
            let db = db.within(&hold);
            let _ = db.increment(a, 1);
            let _ = db.rename(b, a, false);
            let _ = db.set(b, &text, SetOptions::default());
        }
    }
}

/// Several threads, with sweeps and eviction, operate on few keys; the effects must replicate any
/// order.
#[test]
fn effects_of_several_threads_replicate_another_store() {
    const WORKERS: usize = 4;
    let operations = if cfg!(miri) { 50 } else { 20_000 };
    let clock = Arc::new(AtomicU64::new(1_000_000));
    let options = StoreOptions {
        shards: 4,
        workers: WORKERS,
        clock: Clock::Manual(Arc::clone(&clock)),
        ..StoreOptions::default()
    };
    let store = Store::new(&options);
    let replica = Replica::of(&store);
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (store, clock) = (&store, &clock);
            scope.spawn(move || {
                let counters: Arc<Counters> = store.counters(worker);
                let mut expirer = Expirer::new(worker, WORKERS);
                let mut state = worker as u64 + 1;
                for _ in 0..operations {
                    state =
                        state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767);
                    let random = state >> 20;
                    let now_ms = clock.fetch_add(random & 1, Ordering::Relaxed);
                    let db = store.database(random as usize % 3, &counters, now_ms);
                    let names = [random >> 7, random >> 11].map(|it| (it % 12).to_string());
                    let keys = names.each_ref().map(|name| db.key(name.as_bytes()));
                    operate(db, random >> 15, keys, random >> 21);
                    match random % 97 {
                        0 => _ = db.evict_one(),
                        1 => _ = expirer.run(store, &counters, now_ms, Duration::ZERO),
                        _ => {}
                    }
                }
            });
        }
    });
    replica.check(&store);
}
