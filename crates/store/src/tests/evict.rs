//! Tests which keys each policy keeps, and that memory stays below the limit.

use super::{Fixture, text};
use crate::memory::accounting;
use crate::types::string::{Expiry, SetOptions};
use crate::{Ageing, Policy};
use std::sync::atomic::Ordering;

const KEYS: u32 = if cfg!(miri) { 500 } else { 20_000 };

fn set(fixture: &Fixture, key: &str, ttl_ms: Option<u64>) {
    let db = fixture.db(0);
    let expiry = ttl_ms.map_or(Expiry::Never, |ttl| Expiry::AtMs(db.now_ms() + ttl));
    db.set(db.key(key.as_bytes()), &[b'x'; 100], SetOptions { expiry, ..Default::default() });
}

/// Fills a store, calls `prepare`, halves the memory limit, and returns the keys that are left.
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
fn lru_keeps_recently_used_keys() {
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
fn lfu_keeps_frequently_used_keys() {
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

/// Fewer entries than shards, so that hardly any shard has two to choose from.
#[test]
fn a_few_entries_go_in_the_order_of_their_use() {
    const FEW: u32 = 12;
    for policy in [Policy::AllKeysLru, Policy::VolatileTtl] {
        let fixture = Fixture::new(64);
        fixture.store.set_limit(1, policy);
        for key in 0..FEW {
            set(&fixture, &format!("key:{key}"), Some(1_000_000));
            for _ in 0..key {
                drop(text(fixture.db(0), format!("key:{key}").as_bytes()));
            }
            fixture.pass_ms(1000);
        }
        let selection = fixture.db(0).selection(policy);
        for key in 0..FEW {
            assert!(fixture.db(0).evict(selection, &[]));
            let left = (0..FEW).filter(|key| {
                text(fixture.db(0).untouched(), format!("key:{key}").as_bytes()).is_some()
            });
            assert!(left.eq(key + 1..FEW), "{policy:?}");
        }
    }
}

#[test]
fn random_policy_evicts_new_and_old_keys_alike() {
    let left = survivors(Policy::AllKeysRandom, |_| (), |_| None);
    let share = share(&left, |key| key % 4 == 0);
    assert!((0.35..0.65).contains(&share), "{share}");
}

#[test]
fn volatile_policies_spare_keys_without_expiry() {
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
    // One call may not finish within its time.
    while fixture.db(0).make_room() {}
    assert_eq!(fixture.counters.evicted.get(), 5);
    assert_eq!(fixture.db(0).volatile_size(), 0);
}

#[test]
fn eviction_stops_once_below_the_limit() {
    const ROUNDS: u64 = 100;
    let fixture = Fixture::new(16);
    (0..KEYS).for_each(|key| set(&fixture, &format!("key:{key}"), None));
    for _ in 0..ROUNDS {
        fixture.store.set_limit(fixture.store.used_bytes() - 1, Policy::AllKeysRandom);
        while fixture.store.is_over_limit() {
            assert!(fixture.db(0).make_room());
        }
    }
    // Each shard may have left the size of a few entries unreported before.
    let evicted = fixture.counters.evicted.get();
    assert!(evicted < 3 * ROUNDS, "{evicted}");
}

/// Otherwise the number of keys left in these tests would be random.
#[test]
fn memory_of_other_tests_evicts_nothing() {
    const MORE: isize = 100 << 20;
    let _alone = accounting::tests::alone();
    let fixture = Fixture::new(1);
    fixture.store.set_limit(1 << 20, Policy::AllKeysLru);
    accounting::keep(MORE);
    let is_over = fixture.store.is_over_limit();
    accounting::keep(-MORE);
    assert!(!is_over);
}

#[test]
fn noeviction_evicts_nothing() {
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

/// Returns the ratio of misses of a read-through cache in the second half of `requests`.
fn misses(policy: Policy, requests: &[u32]) -> f64 {
    let fixture = Fixture::new(4);
    fixture.store.set_limit(0, policy);
    for key in 0..CACHED {
        set(&fixture, &format!("none:{key}"), None);
    }
    fixture.store.set_limit(fixture.store.used_bytes(), policy);
    let mut missed = 0;
    for (number, key) in requests.iter().enumerate() {
        fixture.pass_ms(u64::from(number % 8 == 0));
        let key = format!("key:{key}");
        if text(fixture.db(0), key.as_bytes()).is_none() {
            missed += usize::from(number >= requests.len() / 2);
            assert!(fixture.db(0).make_room());
            set(&fixture, &key, None);
        }
    }
    missed as f64 / (requests.len() / 2) as f64
}

/// The number of keys that fit in [`misses`].
const CACHED: u32 = 10_000;

/// Returns a pseudorandom number below `bound`, always the same for the same `number`.
fn scattered(number: u32, bound: u32) -> u32 {
    let mixed = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 33) as u32 % bound
}

#[test]
#[cfg_attr(miri, ignore = "too many requests")]
fn keys_requested_once_do_not_evict_frequent_ones() {
    // Half of the requests are for two thirds of the keys that fit, the rest for new keys.
    let requests: Vec<u32> = (0..200_000)
        .map(
            |number| {
                if number % 2 == 0 { scattered(number, CACHED * 2 / 3) } else { CACHED + number }
            },
        )
        .collect();
    let (lru, lfu) = (misses(Policy::AllKeysLru, &requests), misses(Policy::AllKeysLfu, &requests));
    let random = misses(Policy::AllKeysRandom, &requests);
    assert!(lfu < 0.56, "of 0.5 that cannot be hits: {lfu}");
    assert!(lru < 0.66 && random > 0.7, "{lru}, {random}");
}

#[test]
#[cfg_attr(miri, ignore = "too many requests")]
fn loop_over_slightly_more_keys_than_fit_has_hits() {
    let requests: Vec<u32> = (0..150_000).map(|number| number % (CACHED * 11 / 10)).collect();
    for policy in [Policy::AllKeysLru, Policy::AllKeysLfu] {
        let missed = misses(policy, &requests);
        assert!(missed < 0.4, "{policy:?}: {missed}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many requests")]
fn policies_adapt_to_a_changing_hot_set() {
    let hot = CACHED / 2;
    let requests: Vec<u32> =
        (0..400_000).map(|number| number / (hot * 20) * hot + scattered(number, hot)).collect();
    for policy in [Policy::AllKeysLru, Policy::AllKeysLfu] {
        let missed = misses(policy, &requests);
        assert!(missed < 0.22, "{policy:?}: {missed}");
    }
}

#[test]
fn key_accessed_after_this_workers_clock_is_not_the_oldest() {
    for policy in [Policy::AllKeysLru, Policy::AllKeysLfu] {
        let fixture = Fixture::new(1);
        fixture.store.set_limit(0, policy);
        let with_old_clock = fixture.db(0);
        (0..KEYS).for_each(|key| set(&fixture, &format!("old:{key}"), None));
        fixture.pass_ms(60_000);
        set(&fixture, "new", None);
        assert!(text(fixture.db(0), b"new").is_some());
        fixture.store.set_limit(fixture.store.used_bytes() / 4, policy);
        while fixture.store.is_over_limit() {
            assert!(with_old_clock.make_room());
        }
        assert!(text(fixture.db(0), b"new").is_some(), "{policy:?}");
    }
}

#[test]
fn an_empty_database_keeps_no_pages() {
    let fixture = Fixture::new(16);
    for round in 0..3 {
        for key in 0..KEYS {
            set(&fixture, &format!("key:{key}"), None);
        }
        if round == 1 {
            fixture.store.flush(crate::Scope::All);
        } else {
            for key in 0..KEYS {
                let db = fixture.db(0);
                db.delete(db.key(format!("key:{key}").as_bytes()));
            }
        }
        while round == 1 && fixture.store.page_bytes() > 0 {
            // The reclaimer has not finished.
            std::thread::yield_now();
        }
        assert_eq!(fixture.store.page_bytes(), 0, "round {round}");
    }
}

#[test]
fn idle_time_grows_for_half_a_year() {
    const DAY_MS: u64 = 24 * 3_600_000;
    for (keys, mask) in [(3000, u64::MAX), (300, 0)] {
        let fixture = Fixture::masked(4, mask);
        let name = |number: u32| format!("key:{number}");
        (0..keys).for_each(|number| set(&fixture, &name(number), None));
        let mut ageing = [Ageing::new(0, 2), Ageing::new(1, 2)];
        for day in 0..190 {
            let idle_ms = |number: u32| {
                let db = fixture.db(0).untouched();
                db.idle_ms(db.key(name(number).as_bytes())).unwrap()
            };
            for number in (0..keys).step_by(37) {
                let away_ms = idle_ms(number).abs_diff(day * DAY_MS);
                assert!(away_ms <= 8_000, "{} of {day} days", idle_ms(number));
            }
            fixture.pass_ms(DAY_MS);
            let now_ms = fixture.db(0).now_ms();
            for _ in 0..keys / 10 {
                ageing.iter_mut().for_each(|ageing| ageing.run(&fixture.store, now_ms));
            }
        }
        assert_eq!(text(fixture.db(0), b"key:0").map(|text| text.len()), Some(100));
        let db = fixture.db(0);
        assert_eq!(db.idle_ms(db.key(b"key:0")), Some(0), "it was used just now");
    }
}

/// Otherwise each of many requests would evict for half a millisecond while freed memory does not
/// count yet.
#[test]
fn eviction_takes_less_time_closer_to_the_limit() {
    let fixture = Fixture::new(4);
    for key in 0..KEYS {
        set(&fixture, &format!("key:{key}"), None);
    }
    let used_bytes = fixture.store.used_bytes();
    let budget_us = |beyond: f64| {
        let limit = (used_bytes as f64 / (1.0 + beyond / 32.0)) as u64;
        fixture.store.set_limit(limit, Policy::AllKeysLru);
        fixture.store.eviction_budget().as_micros()
    };
    assert_eq!(budget_us(40.0), 500);
    assert_eq!(budget_us(1.01), 500);
    let half = budget_us(0.5);
    assert!((200..=300).contains(&half), "{half}");
    assert_eq!(budget_us(0.0), 10);
}

#[test]
fn last_eviction_is_recorded() {
    let fixture = Fixture::new(1);
    let counters = fixture.store.counters(0);
    let evict = || {
        let now_ms = fixture.now_ms.load(Ordering::Relaxed);
        assert!(fixture.store.database(0, &counters, now_ms).evict_one());
        let of_some = (counters.evicted_volatile.get(), counters.evicted_unfetched.get());
        (fixture.store.last_eviction_idle_ms(), of_some)
    };
    assert_eq!(fixture.store.last_eviction_idle_ms(), 0);
    set(&fixture, "volatile", Some(100_000));
    fixture.pass_ms(5000);
    assert_eq!(evict(), (5000, (1, 1)));
    set(&fixture, "lasting", None);
    assert!(text(fixture.db(0), b"lasting").is_some());
    fixture.pass_ms(1000);
    assert_eq!(evict(), (1000, (1, 1)));
    fixture.store.reset_counters();
    assert_eq!(fixture.store.last_eviction_idle_ms(), 0);
}
