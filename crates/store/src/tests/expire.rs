//! Tests that active expiry removes all expired entries and nothing else.

use super::{Fixture, text};
use crate::Expirer;
use crate::types::key::ExpireWhen;
use crate::types::string::{Expiry, SetOptions};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

const FOREVER: Duration = Duration::from_secs(3600);

fn set(fixture: &Fixture, database: usize, key: &str, ttl_ms: Option<u64>) {
    let db = fixture.db(database);
    let expiry = ttl_ms.map_or(Expiry::Never, |ttl| Expiry::AtMs(db.now_ms() + ttl));
    db.set(db.key(key.as_bytes()), b"value", SetOptions { expiry, ..Default::default() });
}

fn sweep(fixture: &Fixture) -> u64 {
    let before = fixture.counters.expired.get();
    for worker in 0..2 {
        let now_ms = fixture.db(0).now_ms();
        let mut expirer = Expirer::new(worker, 2);
        assert!(!expirer.run(&fixture.store, &fixture.counters, now_ms, FOREVER));
    }
    fixture.counters.expired.get() - before
}

#[test]
fn a_few_volatile_keys_among_many_are_found_in_time() {
    let fixture = Fixture::new(4);
    let keys = if cfg!(miri) { 1_000 } else { 40_000 };
    for index in 0..keys {
        let ttl_ms = (index % 1000 == 0).then_some(index + 1);
        set(&fixture, index as usize % 3, &format!("key:{index}"), ttl_ms);
    }
    assert_eq!(sweep(&fixture), 0);
    for index in (0..keys).step_by(1000) {
        fixture.pass_ms(index + 1 - (fixture.db(0).now_ms() - 1_000_000));
        assert_eq!(sweep(&fixture), 1, "key:{index}");
        assert_eq!(text(fixture.db(index as usize % 3), format!("key:{index}").as_bytes()), None);
        assert_eq!(sweep(&fixture), 0);
    }
    let left: usize = (0..3).map(|database| fixture.db(database).size()).sum();
    assert_eq!(left as u64, keys - keys.div_ceil(1000));
}

#[test]
fn keys_that_expire_unread_are_counted() {
    let fixture = Fixture::new(2);
    for key in ["read", "unread", "unread as well"] {
        set(&fixture, 0, key, Some(100));
    }
    assert!(text(fixture.db(0), b"read").is_some());
    fixture.pass_ms(200);
    assert_eq!(sweep(&fixture), 3);
    assert_eq!(fixture.counters.expired_unfetched.get(), 2);
}

#[test]
fn keys_that_expire_at_once_after_a_clock_jump_are_removed() {
    let fixture = Fixture::new(4);
    for index in 0..5_000 {
        set(&fixture, 0, &format!("key:{index}"), Some(1000));
    }
    fixture.now_ms.store(500, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(sweep(&fixture), 0, "a clock that jumps back removes nothing");
    fixture.now_ms.store(1_000_999, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(sweep(&fixture), 0);
    fixture.pass_ms(1);
    assert_eq!(sweep(&fixture), 5_000);
    assert_eq!(fixture.db(0).size(), 0);
}

#[test]
fn moved_or_removed_expiry_is_respected() {
    let fixture = Fixture::new(1);
    let db = fixture.db(0);
    for (key, ttl_ms) in
        [("later", 100), ("sooner", 10_000), ("never", 100), ("extreme", u64::MAX / 2)]
    {
        set(&fixture, 0, key, Some(ttl_ms));
    }
    let when = ExpireWhen::default();
    db.expire(db.key(b"later"), db.now_ms() + 5_000, when);
    db.expire(db.key(b"sooner"), db.now_ms() + 50, when);
    db.persist(db.key(b"never"));
    fixture.pass_ms(200);
    assert_eq!(sweep(&fixture), 1);
    assert_eq!(text(fixture.db(0), b"sooner"), None);
    fixture.pass_ms(5_000);
    assert_eq!(sweep(&fixture), 1);
    assert_eq!(fixture.db(0).size(), 2);
}

/// Creates keys of two hashes, as many as requested of each. The first expire after five seconds,
/// the second no longer expire; a sweep has begun to detect that and is stopped among them.
fn swept_in_part(fixture: &Fixture, counts: [usize; 2]) -> [Vec<String>; 2] {
    let db = fixture.db(0);
    let names = (0..1000).map(|number| format!("key:{number:03}"));
    let is_second = |name: &String| db.key(name.as_bytes()).hash != 0;
    let (mut second, mut first): (Vec<_>, Vec<_>) = names.partition(is_second);
    first.truncate(counts[0]);
    second.truncate(counts[1]);
    first.iter().for_each(|key| set(fixture, 0, key, Some(5000)));
    for key in &second {
        set(fixture, 0, key, Some(1));
        db.persist(db.key(key.as_bytes()));
    }
    fixture.pass_ms(10);
    // The first step visits the entries before them, which were split off.
    assert!(step(fixture) && step(fixture), "it has more to look at");
    assert_eq!(fixture.counters.expired.get(), 0);
    [first, second]
}

fn step(fixture: &Fixture) -> bool {
    fixture.store.expire_in(0, &fixture.counters, fixture.db(0).now_ms())
}

fn expire(fixture: &Fixture, key: &str, ttl_ms: u64) {
    let db = fixture.db(0);
    assert!(db.expire(db.key(key.as_bytes()), db.now_ms() + ttl_ms, ExpireWhen::default()));
}

#[test]
fn merge_during_a_sweep_hides_no_expired_key() {
    let fixture = Fixture::masked(1, 1 << 63);
    let [_, second] = swept_in_part(&fixture, [3, 174]);
    // When a few have been removed, the part that the sweep has passed is already in the same
    // segment.
    for key in &second[..10] {
        let db = fixture.db(0);
        assert!(db.delete(db.key(key.as_bytes())));
    }
    while step(&fixture) {}
    fixture.pass_ms(5000);
    assert_eq!(sweep(&fixture), 3);
}

#[test]
fn key_written_behind_a_sweep_expires() {
    let fixture = Fixture::masked(1, 1 << 63);
    let [_, second] = swept_in_part(&fixture, [0, 174]);
    // Keys with equal hashes are visited in their order.
    expire(&fixture, &second[0], 5000);
    while step(&fixture) {}
    fixture.pass_ms(5000);
    assert_eq!(sweep(&fixture), 1);
}

/// Executes a complete sweep in steps, calling `between` before each.
fn sweep_in_steps(fixture: &Fixture, mut between: impl FnMut()) {
    let now_ms = fixture.db(0).now_ms();
    for shard in 0..fixture.store.shards.len() {
        while fixture.store.expire_in(shard, &fixture.counters, now_ms) {
            between();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is written between the steps of a sweep, due entries are removed by this sweep or
    /// the next one, and no others.
    #[test]
    fn no_expired_key_remains(
        keys in 1..4000_usize,
        peak in 1..4000_usize,
        per_step in 0..300_usize,
        ttls in proptest::collection::vec(proptest::option::of(0..400_u64), 1..50),
        mask in prop_oneof![
            2 => Just(u64::MAX),
            1 => Just(0xc000_0000_0000_0007),
            1 => Just(0x8000_0000_0000_0000),
            1 => Just(0),
        ],
    ) {
        let fixture = Fixture::masked(2, mask);
        let mut model = BTreeMap::new();
        let put = |model: &mut BTreeMap<String, Option<u64>>, key: String, ttl_ms: Option<u64>| {
            set(&fixture, 0, &key, ttl_ms);
            model.insert(key, ttl_ms.map(|ttl| fixture.db(0).now_ms() + ttl));
        };
        for (index, ttl_ms) in (0..keys).zip(ttls.iter().cycle()) {
            put(&mut model, format!("key:{index}"), *ttl_ms);
        }
        let mut step = 0;
        for _ in 0..5 {
            fixture.pass_ms(100);
            sweep_in_steps(&fixture, || {
                for _ in 0..per_step.min(20_000_usize.saturating_sub(step)) {
                    let key = format!("key:{}", step % peak);
                    if step / peak % 2 == 0 {
                        put(&mut model, key, ttls[step % ttls.len()]);
                    } else {
                        let db = fixture.db(0);
                        db.delete(db.key(key.as_bytes()));
                        model.remove(&key);
                    }
                    step += 1;
                }
            });
            sweep_in_steps(&fixture, || {});
            let now_ms = fixture.db(0).now_ms();
            model.retain(|_, at_ms| at_ms.is_none_or(|at_ms| at_ms > now_ms));
            prop_assert_eq!(fixture.db(0).size(), model.len());
        }
    }
}
