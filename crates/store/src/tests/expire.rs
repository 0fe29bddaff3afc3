//! Active expiry finds what is due, all of it and nothing else.

use super::{Fixture, text};
use crate::Expirer;
use crate::types::string::{Expiry, SetOptions};
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
fn all_at_once_and_a_clock_that_jumps() {
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
fn an_expiry_moved_or_taken_away_is_noticed() {
    let fixture = Fixture::new(1);
    let db = fixture.db(0);
    for (key, ttl_ms) in
        [("later", 100), ("sooner", 10_000), ("never", 100), ("extreme", u64::MAX / 2)]
    {
        set(&fixture, 0, key, Some(ttl_ms));
    }
    let when = crate::types::key::ExpireWhen::default();
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
