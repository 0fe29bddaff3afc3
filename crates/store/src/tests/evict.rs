//! Eviction: what each policy spares, and that memory stays below the limit.

use super::{Fixture, text};
use crate::Policy;
use crate::types::string::{Expiry, SetOptions};

const KEYS: u32 = if cfg!(miri) { 500 } else { 20_000 };

fn set(fixture: &Fixture, key: &str, ttl_ms: Option<u64>) {
    let db = fixture.db(0);
    let expiry = ttl_ms.map_or(Expiry::Never, |ttl| Expiry::AtMs(db.now_ms() + ttl));
    db.set(db.key(key.as_bytes()), &[b'x'; 100], SetOptions { expiry, ..Default::default() });
}

/// Fills a store, lets `prepare` have its way, halves the memory, and says which keys are left.
fn survivors(
    policy: Policy,
    prepare: impl Fn(&Fixture),
    volatile: impl Fn(u32) -> Option<u64>,
) -> Vec<u32> {
    let fixture = Fixture::new(4);
    fixture.store.set_limit(0, policy);
    for key in 0..KEYS {
        set(&fixture, &format!("key:{key}"), volatile(key));
    }
    prepare(&fixture);
    fixture.store.set_limit(fixture.store.used_bytes() / 2, policy);
    while fixture.store.is_over_limit() {
        assert!(fixture.db(0).make_room());
    }
    let left: Vec<u32> = (0..KEYS)
        .filter(|key| text(fixture.db(0), format!("key:{key}").as_bytes()).is_some())
        .collect();
    assert_eq!(left.len() as u64 + fixture.counters.evicted.get(), u64::from(KEYS));
    assert!(left.len() as u32 > KEYS / 3, "half of the memory holds about half of the keys");
    left
}

fn share(left: &[u32], hot: impl Fn(u32) -> bool) -> f64 {
    let hot_keys = (0..KEYS).filter(|key| hot(*key)).count();
    left.iter().filter(|key| hot(**key)).count() as f64 / hot_keys as f64
}

#[test]
fn lru_keeps_what_was_used_last() {
    let use_hot = |fixture: &Fixture| {
        fixture.pass_ms(10_000);
        (0..KEYS)
            .step_by(4)
            .for_each(|key| drop(text(fixture.db(0), format!("key:{key}").as_bytes())));
    };
    let left = survivors(Policy::AllKeysLru, use_hot, |_| None);
    assert!(share(&left, |key| key % 4 == 0) > 0.96, "{}", share(&left, |key| key % 4 == 0));
}

#[test]
fn lfu_keeps_what_was_used_often() {
    let use_hot = |fixture: &Fixture| {
        for _ in 0..20 {
            (0..KEYS)
                .step_by(4)
                .for_each(|key| drop(text(fixture.db(0), format!("key:{key}").as_bytes())));
        }
        (0..KEYS).for_each(|key| drop(text(fixture.db(0), format!("key:{key}").as_bytes())));
    };
    let left = survivors(Policy::AllKeysLfu, use_hot, |_| None);
    assert!(share(&left, |key| key % 4 == 0) > 0.96, "{}", share(&left, |key| key % 4 == 0));
}

#[test]
fn random_spares_nobody_in_particular() {
    let left = survivors(Policy::AllKeysRandom, |_| (), |_| None);
    let share = share(&left, |key| key % 4 == 0);
    assert!((0.35..0.65).contains(&share), "{share}");
}

#[test]
fn volatile_policies_spare_what_never_expires() {
    use Policy::{VolatileLfu, VolatileLru, VolatileRandom, VolatileTtl};
    for policy in [VolatileLru, VolatileLfu, VolatileRandom, VolatileTtl] {
        let expiring =
            |key: u32| (!key.is_multiple_of(4)).then_some(u64::from(key) * 1000 + 1_000_000);
        let left = survivors(policy, |_| (), expiring);
        assert!((share(&left, |key| key % 4 == 0) - 1.0).abs() < f64::EPSILON, "{policy:?}");
        if policy == VolatileTtl {
            let late = share(&left, |key| key % 4 != 0 && key > KEYS * 9 / 10);
            assert!(late > 0.95, "{late}");
        }
    }
}

#[test]
fn a_few_volatile_keys_among_many_are_found() {
    let fixture = Fixture::new(4);
    fixture.store.set_limit(1, Policy::VolatileLru);
    for key in 0..KEYS {
        set(&fixture, &format!("key:{key}"), (key % (KEYS / 5) == 7).then_some(1_000_000));
    }
    assert!(!fixture.db(0).make_room());
    assert_eq!(fixture.counters.evicted.get(), 5);
    assert_eq!(fixture.db(0).volatile_size(), 0);
}

#[test]
fn without_a_policy_nothing_goes() {
    let fixture = Fixture::new(1);
    for key in 0..1000 {
        set(&fixture, &format!("key:{key}"), Some(1000));
    }
    fixture.store.set_limit(1, Policy::NoEviction);
    assert!(fixture.store.is_over_limit());
    assert!(!fixture.db(0).make_room());
    assert_eq!(fixture.db(0).size(), 1000);
    fixture.store.set_limit(0, Policy::NoEviction);
    assert!(!fixture.store.is_over_limit());
}
