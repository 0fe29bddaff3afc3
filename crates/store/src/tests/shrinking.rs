//! Tests that memory use follows the data when values become shorter.

use super::Fixture;
use super::holds::most_of;
use crate::Compactor;
use crate::types::string::SetOptions;
use fastrand::Rng;

const SHARDS: usize = 64;
/// As many keys per shard as 20,000 in 256 shards.
const KEYS: usize = SHARDS * 78;

/// Sets every key to a value of random length up to `most_bytes`, and then lets the store return
/// memory.
fn overwrite(fixture: &Fixture, most_bytes: usize, random: &mut Rng) {
    for number in 0..KEYS {
        let _batch = fixture.store.batch(&fixture.counters);
        let value = vec![b'v'; random.usize(1..=most_bytes)];
        let db = fixture.db(0);
        db.set(db.key(format!("key:{number}").as_bytes()), &value, SetOptions::default());
        if number % 64 == 0 {
            fixture.store.provide();
            fixture.store.rest();
        }
    }
}

#[test]
#[cfg(not(miri))]
fn small_store_returns_memory_when_long_values_become_short() {
    let data_bytes = (KEYS * 300) as f64;
    for most_bytes in [40_000, 4000] {
        let fixture = Fixture::new(SHARDS);
        let mut random = Rng::with_seed(1);
        overwrite(&fixture, most_bytes, &mut random);
        let rounds = [(); 4].map(|()| {
            overwrite(&fixture, 600, &mut random);
            fixture.store.page_bytes() as f64 / data_bytes
        });
        assert!(rounds[1..].iter().all(|share| *share < 2.0), "{rounds:?}");
    }
}

#[test]
#[cfg(not(miri))]
fn memory_of_long_values_is_returned_while_nothing_is_freed() {
    let fixture = Fixture::new(SHARDS);
    let mut random = Rng::with_seed(1);
    overwrite(&fixture, 40_000, &mut random);
    overwrite(&fixture, 600, &mut random);
    let mut compactors = [Compactor::new(0, 2), Compactor::new(1, 2)];
    let holds = most_of(|| {
        for _ in 0..50 {
            compactors.iter_mut().for_each(|compactor| compactor.run(&fixture.store));
        }
    });
    assert!(holds.count >= SHARDS as u64, "{holds:?}");
    assert!(holds.most.bytes <= 16 * 1024 && holds.most.requests == 0, "{holds:?}");
    let share = fixture.store.page_bytes() as f64 / (KEYS * 300) as f64;
    assert!(share < 2.0, "{share}");
}
