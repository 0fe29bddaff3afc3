//! Tests that every operation that changes an entry passes the barrier, with the unchanged entry
//! and the epoch of the operation.

use super::Fixture;
use crate::snapshot::mutation_barrier::observer::{self, PassedEntry};
use crate::types::counter::Arithmetic;
use crate::types::key::ExpireWhen;
use crate::types::string::{Condition, End, Expiry, SetOptions};
use crate::types::versioned::{Count, Fetch, Mode, Removal, Write};
use crate::{Database, Key, StringInput};

const LONG: usize = 200_000;

/// An operation, and whether it changes an existing entry.
type Path = (&'static str, fn(Database<'_>, Key<'_>));

const PATHS: &[Path] = &[
    ("set", |db, key| {
        let _ = db.set(key, b"new", SetOptions::default());
    }),
    ("set of equal size", |db, key| {
        let _ = db.set(key, b"12", SetOptions::default());
    }),
    ("set in the past", |db, key| {
        {
            let _ = db.set(key, b"x", SetOptions { expiry: Expiry::AtMs(1), ..Default::default() });
        };
    }),
    ("set many", |db, key| {
        let _ = db.set_many(vec![(key, b"new".into())], false);
    }),
    ("append", |db, key| {
        let _ = db.extend(key, b"+", End::Back, Condition::Always, usize::MAX);
    }),
    ("prepend", |db, key| {
        let _ = db.extend(key, b"+", End::Front, Condition::Always, usize::MAX);
    }),
    ("set range", |db, key| {
        let _ = db.set_range(key, 1, b"+", usize::MAX);
    }),
    ("set range behind the end", |db, key| {
        let _ = db.set_range(key, 300_000, b"+", usize::MAX);
    }),
    ("delete", |db, key| {
        let _ = db.delete(key);
    }),
    ("delete many", |db, key| {
        let _ = db.delete_many(&[key]);
    }),
    ("get and delete", |db, key| db.get_and_delete(key, |_| ()).unwrap()),
    ("get and touch", |db, key| {
        db.get_and_touch(key, Expiry::AtMs(2_000_000), |_| ()).unwrap();
    }),
    ("expire", |db, key| {
        let _ = db.expire(key, 2_000_000, ExpireWhen::default());
    }),
    ("expire in the past", |db, key| {
        let _ = db.expire(key, 1, ExpireWhen::default());
    }),
    ("assign a version number", |db, key| db.get_versioned(key, |_| ())),
    ("fetch with a version", |db, key| {
        db.fetch(key, &Fetch { versioned: true, ..Fetch::default() }, |_| ());
    }),
    ("fetch and touch", |db, key| {
        let expiry = Expiry::AtMs(2_000_000);
        db.fetch(key, &Fetch { expiry, ..Fetch::default() }, |_| ());
    }),
    ("store", |db, key| {
        let _ = db.store_versioned(key, WRITE);
    }),
    ("store with a version", |db, key| {
        let _ = db.store_versioned(key, Write { versioned: true, ..WRITE });
    }),
    ("store behind", |db, key| {
        let _ = db.store_versioned(key, Write { mode: Mode::Append, ..WRITE });
    }),
    ("store before", |db, key| {
        let _ = db.store_versioned(key, Write { mode: Mode::Prepend, ..WRITE });
    }),
    ("remove", |db, key| {
        let _ = db.remove_versioned(key, &REMOVAL);
    }),
    ("invalidate", |db, key| {
        let _ = db.remove_versioned(key, &Removal { invalidate: true, ..REMOVAL });
    }),
    ("clear", |db, key| {
        let _ = db.remove_versioned(key, &Removal { clear: Some(0), ..REMOVAL });
    }),
    ("invalidate with a version", |db, key| {
        let _ = db.remove_versioned(key, &Removal { clear: Some(0), version: Some(5), ..REMOVAL });
    }),
];

const WRITE: Write<'static> = Write {
    mode: Mode::Set,
    value: StringInput::Bytes(b"new"),
    flags: 0,
    expiry: Expiry::Never,
    expected: None,
    allow_older: false,
    vivify: None,
    version: None,
    versioned: false,
    limit_bytes: usize::MAX,
};

const REMOVAL: Removal =
    Removal { expected: None, invalidate: false, clear: None, expiry: Expiry::Keep, version: None };

fn passages(value: &[u8], path: Path) {
    let fixture = Fixture::new(1);
    let key = fixture.db(0).key(b"key");
    fixture.db(0).set(key, value, SetOptions::default());
    fixture.store.word.cut();
    observer::take();
    (path.1)(fixture.db(0), key);
    let first = observer::take().into_iter().next();
    let expected =
        PassedEntry { key: b"key".to_vec(), value: value.to_vec(), expire_at_ms: None, epoch: 1 };
    assert_eq!(first, Some(expected), "{} of {} bytes", path.0, value.len());
}

#[test]
fn every_mutator_passes_the_mutation_barrier() {
    for path in PATHS {
        for value in [b"10".to_vec(), vec![b'7'; LONG]] {
            passages(&value, *path);
        }
    }
    let counters: [Path; 3] = [
        ("increment", |db, key| {
            let _ = db.increment(key, 1);
        }),
        ("step", |db, key| {
            let _ = db.count(key, &Count::plain(Arithmetic::Down(1)));
        }),
        ("increment twice", |db, key| {
            {
                let _ = db.increment(key, 1);
            };
            {
                let _ = db.increment(key, 1);
            };
        }),
    ];
    for path in counters {
        passages(b"10", path);
    }
}

#[test]
fn persist_and_expiry_pass_the_mutation_barrier() {
    let fixture = Fixture::new(1);
    let key = fixture.db(0).key(b"key");
    let volatile = SetOptions { expiry: Expiry::AtMs(1_000_500), ..Default::default() };
    let last = |expected: Option<u64>| {
        let seen = observer::take().into_iter().next_back();
        assert_eq!(seen.map(|passage| passage.expire_at_ms), Some(expected));
    };
    fixture.db(0).set(key, b"value", volatile);
    observer::take();
    assert!(fixture.db(0).persist(key));
    last(Some(1_000_500));

    fixture.db(0).set(key, b"value", volatile);
    fixture.pass_ms(500);
    observer::take();
    assert!(!fixture.db(0).delete(key), "it has expired");
    last(Some(1_000_500));
}

#[test]
fn changed_entry_has_the_epoch_of_the_change() {
    let fixture = Fixture::new(1);
    let db = fixture.db(0);
    let key = db.key(b"key");
    for epoch in 1..10_u8 {
        fixture.store.word.cut();
        db.set(key, &vec![b'x'; usize::from(epoch) * 40], SetOptions::default());
        let shard = fixture.store.shards[0].lock();
        let table = shard.table(0).unwrap();
        let entry = table.entry(table.find(key).unwrap()).unwrap();
        assert_eq!(entry.epoch(), epoch & 0b11);
        fixture.store.word.end_save();
    }
}
