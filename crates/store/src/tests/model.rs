//! Compares random operations with an ordered map.

use super::replica::Replica;
use super::{Fixture, text};
use crate::Scope;
use crate::types::key::ExpireWhen;
use crate::types::string::{Condition, End, Expiry, SetOptions};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Action {
    Set { key: u16, len: usize, ttl_ms: Option<u64>, flags: u32 },
    Delete { key: u16 },
    Append { key: u16, len: usize },
    Prepend { key: u16, len: usize },
    SetRange { key: u16, offset: usize, len: usize },
    Increment { key: u16, amount: i64 },
    Expire { key: u16, ttl_ms: u64 },
    Persist { key: u16 },
    Versioned { key: u16 },
    Pass { ms: u64 },
    Flush,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    entries: BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>,
    now_ms: u64,
}

impl Model {
    fn live(&mut self, key: &[u8]) -> Option<&mut (Vec<u8>, Option<u64>)> {
        if self.entries.get(key)?.1.is_some_and(|at_ms| at_ms <= self.now_ms) {
            self.entries.remove(key);
        }
        self.entries.get_mut(key)
    }
}

fn key_of(key: u16) -> Vec<u8> {
    // Some keys are long, some empty.
    match key % 50 {
        0 => vec![b'k'; 300 + usize::from(key)],
        25 => vec![b'l'; 2020 + usize::from(key)],
        _ => key.to_string().into_bytes()[usize::from(key == 1)..].to_vec(),
    }
}

fn action(keys: u16) -> impl Strategy<Value = Action> {
    let key = 0..keys;
    let len = prop_oneof![8 => 0..200_usize, 2 => 200..700_usize, 1 => 60_000..140_000_usize];
    let ttl = prop_oneof![2 => Just(None), 1 => (0..500_u64).prop_map(Some)];
    let flags = prop_oneof![3 => Just(0_u32), 1 => any::<u32>()];
    prop_oneof![
        40 => (key.clone(), len.clone(), ttl, flags)
            .prop_map(|(key, len, ttl_ms, flags)| Action::Set { key, len, ttl_ms, flags }),
        20 => key.clone().prop_map(|key| Action::Delete { key }),
        4 => (key.clone(), len.clone()).prop_map(|(key, len)| Action::Append { key, len }),
        4 => (key.clone(), len.clone(), len.clone())
            .prop_map(|(key, offset, len)| Action::SetRange { key, offset, len }),
        2 => (key.clone(), len).prop_map(|(key, len)| Action::Prepend { key, len }),
        6 => (key.clone(), any::<i32>())
            .prop_map(|(key, amount)| Action::Increment { key, amount: i64::from(amount) }),
        4 => (key.clone(), 0..500_u64).prop_map(|(key, ttl_ms)| Action::Expire { key, ttl_ms }),
        3 => key.clone().prop_map(|key| Action::Persist { key }),
        3 => key.prop_map(|key| Action::Versioned { key }),
        1 => (0..300_u64).prop_map(|ms| Action::Pass { ms }),
        1 => Just(Action::Flush),
    ]
}

fn apply(fixture: &Fixture, model: &mut Model, action: &Action) {
    let db = fixture.db(0);
    match *action {
        Action::Set { key, len, ttl_ms, flags } => {
            let (key, value) = (key_of(key), vec![b'a' + (len % 26) as u8; len]);
            let at_ms = ttl_ms.map(|ttl| db.now_ms() + ttl);
            let expiry = at_ms.map_or(Expiry::Never, Expiry::AtMs);
            db.set(db.key(&key), &value, SetOptions { expiry, flags, ..Default::default() });
            model.entries.insert(key, (value, at_ms));
        }
        Action::Delete { key } => {
            let key = key_of(key);
            let found = model.live(&key).is_some();
            assert_eq!(db.delete(db.key(&key)), found);
            model.entries.remove(&key);
        }
        Action::Append { key, len } => extend(fixture, model, key, len, End::Back),
        Action::Prepend { key, len } => extend(fixture, model, key, len, End::Front),
        Action::SetRange { key, offset, len } => {
            let (key, bytes) = (key_of(key), vec![b'r'; len]);
            let old = model.live(&key).map_or(0, |(value, _)| value.len());
            let end = if len == 0 { old } else { old.max(offset + len) };
            assert_eq!(db.set_range(db.key(&key), offset, &bytes, usize::MAX), Ok(end));
            if len > 0 {
                let value = &mut model.entries.entry(key).or_default().0;
                value.resize(end, 0);
                value[offset..offset + len].copy_from_slice(&bytes);
            }
        }
        Action::Increment { key, amount } => {
            let key = key_of(key);
            let old = model.live(&key).map(|(value, _)| crate::parse_i64(value));
            match (old, db.increment(db.key(&key), amount)) {
                (Some(None), result) => assert!(result.is_err()),
                (old, result) => {
                    let sum = old.flatten().unwrap_or(0) + amount;
                    assert_eq!(result, Ok(sum));
                    model.entries.entry(key).or_default().0 = sum.to_string().into_bytes();
                }
            }
        }
        Action::Expire { key, ttl_ms } => {
            let (key, at_ms) = (key_of(key), db.now_ms() + ttl_ms);
            let done = db.expire(db.key(&key), at_ms, ExpireWhen::default());
            let entry = model.live(&key);
            assert_eq!(done, entry.is_some());
            entry.into_iter().for_each(|entry| entry.1 = Some(at_ms));
        }
        Action::Persist { key } => {
            let key = key_of(key);
            let had = model.live(&key).and_then(|entry| entry.1.take()).is_some();
            assert_eq!(db.persist(db.key(&key)), had);
        }
        Action::Versioned { key } => {
            let key = key_of(key);
            let cas = |db: crate::Database<'_>| {
                db.get_versioned(db.key(&key), |found| found.map(|(_, cas)| cas))
            };
            assert_eq!(cas(db), cas(db), "a version keeps its number");
        }
        Action::Pass { ms } => {
            fixture.pass_ms(ms);
            model.now_ms += ms;
        }
        Action::Flush => {
            fixture.store.flush(Scope::Database(0));
            model.entries.clear();
        }
    }
}

fn extend(fixture: &Fixture, model: &mut Model, key: u16, len: usize, end: End) {
    let (db, key, more) = (fixture.db(0), key_of(key), vec![b'+'; len]);
    let result = db.extend(db.key(&key), &more, end, Condition::Always, usize::MAX);
    model.live(&key);
    let value = &mut model.entries.entry(key).or_default().0;
    match end {
        End::Back => value.extend(&more),
        End::Front => value.splice(0..0, more).for_each(drop),
    }
    assert_eq!(result, Ok(Some(value.len())));
}

fn compare(fixture: &Fixture, model: &mut Model) {
    let db = fixture.db(0);
    for key in (0..2000).map(key_of) {
        let expected = model.live(&key).map(|(value, _)| value.clone());
        assert_eq!(text(db, &key), expected, "{:?}", String::from_utf8_lossy(&key));
        let expected = model.live(&key).map(|entry| entry.1);
        assert_eq!(db.expire_at_ms(db.key(&key)), expected);
    }
    let now_ms = model.now_ms;
    model.entries.retain(|_, (_, at_ms)| at_ms.is_none_or(|at_ms| at_ms > now_ms));
    let mut seen = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = db.scan(cursor, 10, |entry| seen.push(entry.key().to_vec()));
        if cursor == 0 {
            break;
        }
    }
    seen.sort();
    let expected: Vec<_> = model.entries.keys().cloned().collect();
    assert_eq!(seen, expected, "a walk over a resting table shows every key once");
    assert!(db.size() >= expected.len());
    let volatile = model.entries.values().filter(|(_, at_ms)| at_ms.is_some()).count();
    assert!(db.volatile_size() >= volatile);
}

fn run(mask: u64, actions: &[Action]) {
    let fixture = Fixture::masked(4, mask);
    let replica = Replica::of(&fixture.store);
    let mut model = Model { now_ms: 1_000_000, ..Model::default() };
    for (number, action) in actions.iter().enumerate() {
        apply(&fixture, &mut model, action);
        assert!(number % 256 != 0 || fixture.has_right_halves());
    }
    assert!(fixture.has_right_halves());
    compare(&fixture, &mut model);
    replica.check(&fixture.store);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn few_keys_with_many_changes_equal_the_model(
        actions in proptest::collection::vec(action(60), 1..600),
    ) {
        run(u64::MAX, &actions);
    }

    #[test]
    fn many_keys_equal_the_model(actions in proptest::collection::vec(action(2000), 1..4000)) {
        run(u64::MAX, &actions);
    }

    #[test]
    fn equal_hashes_equal_the_model(actions in proptest::collection::vec(action(2000), 1..3000)) {
        run(0, &actions);
    }

    #[test]
    fn hashes_that_differ_in_few_bits_equal_the_model(
        actions in proptest::collection::vec(action(2000), 1..3000),
    ) {
        run(0xc000_0000_0000_0007, &actions);
    }
}
