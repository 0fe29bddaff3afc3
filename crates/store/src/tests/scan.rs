//! Tests the guarantee of scans: every entry that exists from the beginning to the end is visited.

use super::Fixture;
use crate::types::key::Walk;
use crate::types::string::SetOptions;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn set(fixture: &Fixture, key: &str) {
    let db = fixture.db(0);
    db.set(db.key(key.as_bytes()), b"value", SetOptions::default());
}

fn delete(fixture: &Fixture, key: &str) {
    let db = fixture.db(0);
    db.delete(db.key(key.as_bytes()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The table grows to `peak` other keys and shrinks again, several times, during one scan.
    #[test]
    fn scan_shows_every_key_that_stays(
        stays in 1..400_usize,
        peak in 1..6_000_usize,
        count in 1..40_usize,
        changes_per_step in 1..800_usize,
        mask in prop_oneof![
            3 => Just(u64::MAX),
            1 => Just(0xff00_0000_0000_0001),
            1 => Just(0x8000_0000_0000_0001),
            1 => Just(0),
        ],
    ) {
        let fixture = Fixture::masked(2, mask);
        for index in 0..stays {
            set(&fixture, &format!("stays:{index}"));
        }
        let mut seen = BTreeSet::new();
        let (mut walk, mut step) = (Walk::default(), 0_usize);
        loop {
            fixture.db(0).walk(&mut walk, count, |entry| {
                seen.insert(String::from_utf8_lossy(entry.key()).into_owned());
            });
            if walk.cursor() == Some(0) {
                break;
            }
            prop_assert!(walk.cursor().is_none_or(|it| it < 1 << 53), "fits a double");
            for _ in 0..changes_per_step {
                let (round, other) = (step / peak, step % peak);
                if round % 2 == 0 {
                    set(&fixture, &format!("other:{other}"));
                } else {
                    delete(&fixture, &format!("other:{other}"));
                }
                step += 1;
            }
            prop_assert!(fixture.has_right_halves());
        }
        for index in 0..stays {
            let key = format!("stays:{index}");
            prop_assert!(seen.contains(&key), "{}", key);
        }
    }
}

#[test]
fn memory_follows_the_data() {
    let fixture = Fixture::new(2);
    let keys = if cfg!(miri) { 1_500 } else { 100_000 };
    for index in 0..keys {
        set(&fixture, &format!("key:{index}"));
    }
    let full = fixture.store.page_bytes();
    for index in 0..keys {
        if index % 100 != 0 {
            delete(&fixture, &format!("key:{index}"));
        }
    }
    assert_eq!(fixture.db(0).size(), keys / 100);
    let rest = fixture.store.page_bytes();
    assert!(rest < full / 20, "{rest} of {full} bytes are left for a hundredth of the keys");
    for index in 0..keys {
        delete(&fixture, &format!("key:{index}"));
    }
    assert!(fixture.store.page_bytes() <= 4 * 4096, "{}", fixture.store.page_bytes());
}
