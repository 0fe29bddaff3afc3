//! Compares hashes and sets with models, in both forms, and checks the names of their encodings.

mod list;
#[cfg(not(miri))]
mod measure;
mod sorted_set;

use super::Name;
use super::hash::{Field, FieldExpiry, Hash, HashLimits, HashRef};
use super::set::{Set, SetLimits};
use crate::tree::tests::{blocks, check};
use crate::value::item::Text;
use crate::value::number::parse_i64;
use crate::value::string::StringValue;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::form::Form;

const HASH_LIMITS: HashLimits = HashLimits { entries: 128, value_bytes: 64 };
const SET_LIMITS: SetLimits =
    SetLimits { intset_entries: 512, listpack_entries: 128, value_bytes: 64 };

fn bytes(value: StringValue<'_>) -> Vec<u8> {
    value.with_bytes(<[u8]>::to_vec)
}

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

fn fields(hash: HashRef<'_>) -> Model {
    let mut found = BTreeMap::new();
    let _: Option<()> = hash.walk(0, |Field { name, value, expires_at_ms }| {
        assert!(found.insert(bytes(name), (bytes(value), expires_at_ms)).is_none());
        ControlFlow::Continue(())
    });
    found
}

fn check_hash(hash: &Hash, model: &Model) {
    assert_eq!(&fields(hash.read()), model);
    assert_eq!(hash.read().len(), model.len() as u64);
    let times: Vec<u64> = model.values().filter_map(|it| it.1).collect();
    assert_eq!(hash.read().expiring(), times.len() as u64);
    if let Some(earliest_ms) = times.iter().min() {
        assert!(hash.read().earliest_ms().unwrap() <= *earliest_ms);
    }
    if let Form::Tree(named) = &hash.0 {
        check(&named.tree);
    }
    for (rank, field) in (0..).zip(model).step_by(13).map(|(rank, _)| (rank, rank)) {
        let Field { name, .. } = hash.read().select(field).unwrap();
        assert!(model.contains_key(&bytes(name)), "{rank}");
    }
    let mut scanned = BTreeSet::new();
    let mut cursor = 0;
    loop {
        cursor = hash.read().scan(cursor, 10, |it| _ = scanned.insert(bytes(it.name)));
        if cursor == 0 {
            break;
        }
    }
    assert!(scanned.iter().eq(model.keys()));
}

const ROUNDS: u32 = if cfg!(miri) { 3 } else { 64 };

proptest! {
    #![proptest_config(ProptestConfig { cases: ROUNDS, ..ProptestConfig::default() })]

    #[test]
    fn hash_equals_a_map_with_expiry(
        changes in proptest::collection::vec(
            (0..6_u8, any::<u16>(), 0..120_usize, 1000..90_000_u64),
            1..if cfg!(miri) { 80 } else { 1500 },
        ),
        names in 3..900_u16,
    ) {
        let (_pool, blocks) = blocks();
        let mut hash = Hash::default();
        let mut model = Model::new();
        let mut clones = vec![];
        for (place, (what, number, len, at_ms)) in changes.into_iter().enumerate() {
            let field = if number % 3 == 0 {
                (number % names).to_string().into_bytes()
            } else {
                format!("field:{}", number % names).into_bytes()
            };
            let name = Text::new(&field);
            let value = vec![b'v'; if len == 119 { 2000 } else { len % 30 }];
            let value_text = Text::to_store(&value);
            let now_ms = at_ms / 3;
            let is_live = |it: &(Vec<u8>, Option<u64>)| it.1.is_none_or(|at_ms| at_ms > now_ms);
            let before = model.get(&field).cloned().filter(is_live);
            prop_assert_eq!(
                hash.read().get(&name, now_ms).map(|it| (bytes(it.value), it.expires_at_ms)),
                before.clone()
            );
            match what {
                0 => {
                    prop_assert_eq!(hash.remove(&name, now_ms), before.is_some());
                    if before.is_some() {
                        model.remove(&field);
                    }
                }
                1 => {
                    let time = (at_ms % 3 > 0).then_some(at_ms);
                    let is_there = hash.expire(&name, time, &blocks);
                    prop_assert_eq!(is_there, model.contains_key(&field));
                    model.get_mut(&field).into_iter().for_each(|it| it.1 = time);
                }
                _ => {
                    let at = FieldExpiry::At(at_ms);
                    let expiry = [FieldExpiry::Never, FieldExpiry::Keep, at][len % 3];
                    let time = match expiry {
                        FieldExpiry::Never => None,
                        FieldExpiry::Keep => before.as_ref().and_then(|it| it.1),
                        FieldExpiry::At(at_ms) => Some(at_ms),
                    };
                    let when = (expiry, now_ms);
                    let is_new = hash.set(&name, &value_text, when, HASH_LIMITS, &blocks);
                    prop_assert_eq!(is_new, before.is_none());
                    model.insert(field, (value, time));
                }
            }
            if place % 61 == 0 {
                check_hash(&hash, &model);
                clones.push((Hash(hash.0.read().to_owned()), model.clone()));
                let now_ms = at_ms / 2;
                let mut swept = BTreeSet::new();
                while hash.sweep(now_ms, 7, |it| _ = swept.insert(bytes(it.name))) == 7 {}
                // Fields that expire within the current second may be found later.
                for name in &swept {
                    prop_assert!(model.remove(name).unwrap().1.unwrap() <= now_ms);
                }
                let is_late = |at_ms: u64| at_ms + 1000 <= now_ms;
                prop_assert!(!model.values().any(|it| it.1.is_some_and(is_late)));
                check_hash(&hash, &model);
            }
            if clones.len() > 2 {
                let (clone, model) = clones.swap_remove(place % 2);
                check_hash(&clone, &model);
            }
        }
        check_hash(&hash, &model);
        clones.iter().for_each(|(clone, model)| check_hash(clone, model));
    }

    #[test]
    fn set_equals_a_set_and_packed_integers_are_sorted(
        changes in proptest::collection::vec((0..4_u8, any::<i16>()), 1..1200),
        numbers in 1..600_i16,
        letters in 0..3_u8,
    ) {
        let (_pool, blocks) = blocks();
        let mut set = Set::new(&Text::new(b"1"), 1, SET_LIMITS);
        let mut model = BTreeSet::new();
        for (what, number) in changes {
            let mut member = (number % numbers).to_string();
            if letters == 2 && number % 7 == 0 {
                member.insert_str(0, "member");
            }
            let text = Text::new(member.as_bytes());
            prop_assert_eq!(set.read().contains(&text), model.contains(&member));
            if what == 0 {
                prop_assert_eq!(set.remove(&text), model.remove(&member));
            } else {
                prop_assert_eq!(set.add(&text, SET_LIMITS, &blocks), model.insert(member));
            }
            prop_assert_eq!(set.read().len(), model.len() as u64);
        }
        let mut found = vec![];
        let _: Option<()> = set.read().walk(0, |member| {
            found.push(bytes(member));
            ControlFlow::Continue(())
        });
        let is_packed = matches!(set.0, Form::Packed(_));
        if is_packed && set.read().name() == Name::Intset {
            let number = |it: &Vec<u8>| parse_i64(it).unwrap();
            prop_assert!(found.iter().map(number).is_sorted());
        }
        found.sort();
        prop_assert!(found.iter().eq(model.iter().map(String::as_bytes)));
    }
}

#[test]
fn set_encodings_have_the_names_of_redis() {
    let (_pool, blocks) = blocks();
    let add = |set: &mut Set, member: &str, limits| {
        set.add(&Text::new(member.as_bytes()), limits, &blocks);
        set.read().name().word()
    };
    let small = SetLimits { intset_entries: 3, listpack_entries: 4, value_bytes: 5 };
    let mut set = Set::new(&Text::new(b"1"), 1, small);
    assert_eq!(add(&mut set, "1", small), "intset");
    assert_eq!(add(&mut set, "2", small), "intset");
    assert_eq!(add(&mut set, "a", small), "listpack");
    assert_eq!(add(&mut set, "b", small), "listpack");
    assert_eq!(add(&mut set, "b", small), "listpack");
    assert_eq!(add(&mut set, "c", small), "hashtable");
    assert!(set.remove(&Text::new(b"c")));
    assert_eq!(set.read().name(), Name::Hashtable, "it does not go back");
    let mut set = Set::new(&Text::new(b"1"), 1, small);
    assert!(["1", "2", "3"].iter().all(|member| add(&mut set, member, small) == "intset"));
    assert_eq!(add(&mut set, "4", small), "hashtable");
    let mut set = Set::new(&Text::new(b"123456"), 1, small);
    assert_eq!(add(&mut set, "123456", small), "intset");
    assert_eq!(add(&mut set, "a", small), "hashtable", "a number of six digits is too long");
    let mut set = Set::new(&Text::new(b"a"), 1, small);
    assert_eq!(add(&mut set, "abcdef", small), "hashtable");
    assert_eq!(Set::new(&Text::new(b"1"), 4, small).read().name(), Name::Listpack);
    assert_eq!(Set::new(&Text::new(b"1"), 5, small).read().name(), Name::Hashtable);
}

#[test]
fn hash_encodings_have_the_names_of_redis() {
    let (_pool, blocks) = blocks();
    let limits = HashLimits { entries: 2, value_bytes: 3 };
    let set = |hash: &mut Hash, name: &str, value: &str, expiry| {
        let (name, value) = (Text::new(name.as_bytes()), Text::new(value.as_bytes()));
        hash.set(&name, &value, (expiry, 0), limits, &blocks);
        hash.read().0.name().word()
    };
    let mut hash = Hash::default();
    assert_eq!(set(&mut hash, "a", "123", FieldExpiry::Never), "listpack");
    assert_eq!(set(&mut hash, "b", "123", FieldExpiry::At(9)), "listpackex");
    assert_eq!(set(&mut hash, "b", "123", FieldExpiry::Never), "listpackex");
    assert_eq!(set(&mut hash, "c", "123", FieldExpiry::Never), "hashtable");
    for (name, value) in [("abcd", "1"), ("a", "1234")] {
        let mut hash = Hash::default();
        assert_eq!(set(&mut hash, name, value, FieldExpiry::Never), "hashtable");
        assert!(matches!(hash.0, Form::Packed(_)), "the form is another matter");
    }
}
