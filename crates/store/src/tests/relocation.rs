//! Tests moving entries, and uniform random picks.

use super::{Fixture, text};
use crate::snapshot::mutation_barrier::observer;
use crate::types::relocation::Relocated;
use crate::types::string::{Expiry, SetOptions};
use std::collections::BTreeMap;

fn set(fixture: &Fixture, database: usize, key: &[u8], value: &[u8]) {
    let db = fixture.db(database);
    let options = SetOptions { expiry: Expiry::AtMs(2_000_000), flags: 7, ..Default::default() };
    db.set(db.key(key), value, options);
}

fn attributes(fixture: &Fixture, database: usize, key: &[u8]) -> Option<(Option<u64>, u32)> {
    let db = fixture.db(database);
    db.get(db.key(key), |entry| entry.map(|entry| (entry.expire_at_ms(), entry.flags())))
}

#[test]
fn renaming_moves_value_expiry_and_flags() {
    for value in [b"short".to_vec(), vec![b'r'; 200_000], b"12".to_vec()] {
        let fixture = Fixture::new(2);
        let db = fixture.db(0);
        let [a, b, c] = [db.key(b"a"), db.key(b"b"), db.key(b"c")];
        set(&fixture, 0, b"a", &value);
        set(&fixture, 0, b"b", b"old");
        assert_eq!(db.rename(c, a, true), Relocated::Missing);
        assert_eq!(db.rename(a, b, false), Relocated::Occupied);
        assert_eq!(db.rename(a, a, true), Relocated::Done);
        assert_eq!(db.rename(a, a, false), Relocated::Occupied);
        fixture.store.word.cut();
        observer::take();
        assert_eq!(db.rename(a, b, true), Relocated::Done);
        let passed: Vec<Vec<u8>> = observer::take().into_iter().map(|it| it.key).collect();
        assert_eq!(passed, [b"a".to_vec(), b"b".to_vec()], "both are changed");
        assert_eq!((text(db, b"a"), text(db, b"b")), (None, Some(value.clone())));
        assert_eq!(attributes(&fixture, 0, b"b"), Some((Some(2_000_000), 7)));
    }
}

#[test]
fn copies_and_moves_reach_other_databases() {
    let fixture = Fixture::new(2);
    let db = fixture.db(0);
    let (a, b) = (db.key(b"a"), db.key(b"b"));
    set(&fixture, 0, b"a", b"value");
    assert_eq!(db.copy(a, 3, b, false), Relocated::Done);
    assert_eq!(db.copy(a, 3, b, false), Relocated::Occupied);
    assert_eq!(db.copy(a, 3, b, true), Relocated::Done);
    assert_eq!(text(fixture.db(3), b"b"), Some(b"value".to_vec()));
    assert_eq!(attributes(&fixture, 3, b"b"), Some((Some(2_000_000), 7)));
    assert_eq!(db.move_to(a, 3), Relocated::Done);
    assert_eq!(db.move_to(a, 3), Relocated::Missing);
    assert_eq!((db.size(), fixture.db(3).size()), (0, 2));
    set(&fixture, 0, b"a", b"again");
    assert_eq!(db.move_to(a, 3), Relocated::Occupied);
    fixture.store.swap(0, 3);
    assert_eq!((fixture.db(0).size(), fixture.db(3).size()), (2, 1));
    fixture.store.swap(3, 3);
    assert_eq!(text(fixture.db(3), b"a"), Some(b"again".to_vec()));
}

#[test]
fn every_key_is_as_likely_to_be_picked() {
    // Few enough that segments differ in size and depth.
    let fixture = Fixture::new(4);
    assert_eq!(fixture.db(0).random_entry(|_| ()), None);
    let keys = if cfg!(miri) { 50 } else { 3_000 };
    for key in 0..keys {
        set(&fixture, 0, format!("key:{key}").as_bytes(), b"value");
    }
    let mut picks: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for _ in 0..keys * 30 {
        let key = fixture.db(0).random_entry(|entry| entry.key().to_vec());
        *picks.entry(key.unwrap()).or_default() += 1;
    }
    assert_eq!(picks.len(), keys, "every key is picked");
    // Chi squared with n - 1 degrees of freedom: mean n - 1, deviation sqrt(2n).
    let chi: f64 = picks.values().map(|count| (f64::from(*count) - 30.0).powi(2) / 30.0).sum();
    let n = keys as f64;
    assert!((chi - n).abs() < 6.0 * (2.0 * n).sqrt(), "{chi} for {n} keys");
}

#[test]
fn no_expired_key_is_picked() {
    let fixture = Fixture::new(2);
    for key in 0..500 {
        set(&fixture, 0, format!("key:{key}").as_bytes(), b"value");
    }
    assert!(fixture.db(0).random_entry(|_| ()).is_some());
    fixture.pass_ms(10_000_000);
    assert_eq!(fixture.db(0).random_entry(|_| ()), None);
}
