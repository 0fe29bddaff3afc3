//! Tests isolated operations: several under one hold, and operations on claimed keys.

use super::{Fixture, text};
use crate::claims::claiming::ClaimProgress;
use crate::types::key::ExpireWhen;
use crate::types::relocation::Relocated;
use crate::types::string::{Condition, End, Expiry, SetOptions};
use crate::{Claim, Database, Expirer, Intent};
use std::task::Waker;
use std::time::Duration;

fn claim(db: Database<'_>, keys: &[&[u8]], intent: Intent) -> Claim {
    let mut claiming = db.store().claiming();
    keys.iter().for_each(|key| claiming.add(db.key(key), intent));
    loop {
        if let ClaimProgress::Held(claim) = db.take_claims(&mut claiming, Waker::noop(), || false) {
            return claim;
        }
    }
}

#[test]
fn operations_on_several_keys_and_databases_run_under_one_hold() {
    let fixture = Fixture::new(16);
    let outside = fixture.db(0);
    let [a, b, long] = [&b"a"[..], b"b", &[b'l'; 5000]].map(|key| outside.key(key));
    let hold = outside.hold(&[a, b, long, a]);
    let db = outside.within(&hold);
    assert!(db.set(a, b"1", SetOptions::default()));
    assert_eq!(db.increment(a, 4), Ok(5));
    assert_eq!(db.extend(b, b"text", End::Back, Condition::Always, 100), Ok(Some(4)));
    assert!(db.set(long, &[b'v'; 200_000], SetOptions::default()));
    // An equal key in another buffer, which has not been looked up.
    assert_eq!(db.len(db.key(&[b'l'; 5000])), Ok(200_000));
    assert_eq!(db.copy(a, 3, b, false), Relocated::Done);
    assert_eq!(db.sibling(3).increment(b, 1), Ok(6));
    assert_eq!(db.rename(a, b, false), Relocated::Occupied);
    assert_eq!(db.rename(a, b, true), Relocated::Done);
    assert!(db.expire(b, db.now_ms() + 500, ExpireWhen::default()));
    assert_eq!(db.count_existing(&[a, b, b, long]), 3);
    assert!(db.set_many(vec![(a, b"again".into())], true));
    assert_eq!(db.delete_many(&[a, long]), 2);
    assert!(db.make_room(), "what is held stays");
    assert_eq!(db.inspect(b, |entry| entry.map(|(entry, _)| entry.value_bytes())), Some(1));
    drop(hold);
    assert_eq!(text(outside, b"b"), Some(b"5".to_vec()));
    assert_eq!(text(outside.sibling(3), b"b"), Some(b"6".to_vec()));
    assert_eq!((outside.size(), outside.volatile_size()), (1, 1));
    assert!(fixture.has_right_halves());
    fixture.pass_ms(500);
    assert_eq!(text(fixture.db(0), b"b"), None);
    assert_eq!(text(fixture.db(3), b"b"), Some(b"6".to_vec()));
}

#[test]
fn operations_under_a_claim_need_not_check_it() {
    let fixture = Fixture::new(4);
    let db = fixture.db(0);
    let _batch = fixture.store.batch(&fixture.counters);
    assert!(!db.looks_for_claims());
    let claim = claim(db, &[b"a"], Intent::Write);
    assert!(db.looks_for_claims());
    let inside = db.claimed_by(&claim);
    assert!(!inside.looks_for_claims());
    assert!(inside.set(db.key(b"a"), b"v", SetOptions::default()));
    let hold = db.hold(&[db.key(b"b")]);
    assert!(!db.within(&hold).looks_for_claims());
}

#[test]
fn claimed_keys_are_not_evicted() {
    for intent in [Intent::Read, Intent::Write] {
        let fixture = Fixture::new(4);
        let db = fixture.db(0);
        for number in 0..1000 {
            db.set(db.key(format!("{number}").as_bytes()), b"v", SetOptions::default());
        }
        let held = claim(db, &[b"1", b"17", b"500"], intent);
        db.evict_all();
        assert_eq!(db.size(), 3);
        for key in [&b"1"[..], b"17", b"500"] {
            assert!(db.exists(db.key(key)));
        }
        drop(held);
        db.evict_all();
        assert_eq!(db.size(), 0);
    }
}

/// Also keys with equal hashes, which are swept bucket by bucket.
#[test]
fn claimed_keys_are_not_expired_by_the_sweep() {
    for mask in [u64::MAX, 0xff] {
        let fixture = Fixture::masked(4, mask);
        let db = fixture.db(0);
        let options = SetOptions { expiry: Expiry::AtMs(db.now_ms() + 10), ..Default::default() };
        for number in 0..1000 {
            db.set(db.key(format!("{number}").as_bytes()), b"v", options);
        }
        let held = claim(db, &[b"1", b"17", b"500"], Intent::Write);
        fixture.pass_ms(10);
        let now_ms = fixture.db(0).now_ms();
        let sweep = || {
            let mut expirer = Expirer::new(0, 1);
            while expirer.run(&fixture.store, &fixture.counters, now_ms, Duration::MAX) {}
        };
        sweep();
        let claimed = |number: usize| {
            let key = fixture.db(0).key(format!("{number}").as_bytes()).hash;
            [&b"1"[..], b"17", b"500"].iter().any(|held| fixture.db(0).key(held).hash == key)
        };
        assert_eq!(fixture.db(0).size(), (0..1000).filter(|number| claimed(*number)).count());
        drop(held);
        sweep();
        assert_eq!(fixture.db(0).size(), 0);
    }
}
