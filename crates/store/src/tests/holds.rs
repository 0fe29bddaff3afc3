//! What is done while a latch is held is bounded, however large the store is: counted, since times
//! depend on the machine.

use super::Fixture;
use crate::holds::{self, Holds, Probe};
use crate::types::string::{Expiry, SetOptions};
use crate::{Expirer, Policy};
use std::time::Duration;

/// Keys enough for hundreds of segments to split.
const KEYS: usize = 200_000;

fn set(fixture: &Fixture, number: usize, value: &[u8], options: SetOptions) {
    let _batch = fixture.store.batch(&fixture.counters);
    let db = fixture.db(0);
    assert!(db.make_room());
    db.set(db.key(format!("key:{number}").as_bytes()), value, options);
}

/// What `work` did at most within one hold.
fn most_of(work: impl FnOnce()) -> Holds {
    holds::watch(Probe::default);
    let _ = holds::take();
    work();
    holds::take()
}

#[test]
fn growing_moves_no_more_than_a_segment_and_waits_for_no_memory() {
    let fixture = Fixture::new(4);
    let holds = most_of(|| {
        (0..KEYS).for_each(|number| set(&fixture, number, &[b'v'; 100], SetOptions::default()));
    });
    assert!(holds.count > 1000, "{holds:?}");
    assert!(holds.most.entries <= 512, "{holds:?}");
    assert!(holds.most.pages <= 4, "two segments come, one goes, and a page of entries: {holds:?}");
    assert_eq!(holds.most.requests, 0, "{holds:?}");
}

#[test]
fn evicting_while_sizes_shift_moves_a_few_entries_and_waits_for_no_memory() {
    let fixture = Fixture::new(4);
    fixture.store.set_limit(8 << 20, Policy::AllKeysLru);
    let holds = most_of(|| {
        for (value_bytes, keys) in [(64, KEYS), (4096, KEYS / 20), (100, KEYS)] {
            let value = vec![b'v'; value_bytes];
            (0..keys).for_each(|number| set(&fixture, number, &value, SetOptions::default()));
        }
    });
    assert!(fixture.counters.evicted.get() > KEYS as u64 / 2);
    assert!(holds.most.entries <= 512, "{holds:?}");
    assert!(holds.most.bytes <= 16 * 1024, "{holds:?}");
    assert_eq!(holds.most.requests, 0, "{holds:?}");
}

#[test]
fn a_step_of_expiry_removes_and_moves_a_few_entries() {
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

/// Whoever knows the seed can do this, and nobody else.
#[test]
fn keys_of_equal_hash_are_found_by_comparing_few() {
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
            assert_eq!(super::text(db, name.as_bytes()).as_deref(), Some(name.as_bytes()));
        }
        assert_eq!(super::text(db, b"another"), None);
    });
    assert!(using.count > keys as u64 / 2, "{using:?}");
    assert!(using.most.compared <= 32, "{using:?}");
    let removing = most_of(|| {
        for name in &names {
            assert!(db.delete(db.key(name.as_bytes())));
        }
    });
    assert_eq!(db.size(), 0);
    assert!(removing.most.entries <= 1024 && removing.most.compared <= 4096, "{removing:?}");
}
