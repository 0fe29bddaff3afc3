//! Sorted sets against a model, in both forms.

use super::bytes;
use crate::collections::Name;
use crate::collections::sorted_set::{
    SortedSet, SortedSetLimits, SortedSetRef, SortedSetScan, score_border,
};
use crate::tree::scored::{Border, read_score, written_score};
use crate::tree::tests::blocks;
use crate::value::item::Text;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

const LIMITS: SortedSetLimits = SortedSetLimits { entries: 128, value_bytes: 64 };

type Model = BTreeMap<Vec<u8>, f64>;

fn ordered(model: &Model) -> Vec<(f64, Vec<u8>)> {
    let mut all: Vec<_> = model.iter().map(|(name, score)| (*score, name.clone())).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    all
}

fn members(set: SortedSetRef<'_>, rank: u64, back: bool) -> Vec<(f64, Vec<u8>)> {
    let mut found = vec![];
    let visit = |member: crate::collections::sorted_set::Member<'_>| {
        found.push((member.score, bytes(member.name)));
        ControlFlow::<()>::Continue(())
    };
    let _ = if back { set.walk_back(rank, visit) } else { set.walk(rank, visit) };
    found
}

fn check(set: &SortedSet, model: &Model) {
    if let SortedSet::Tree(trees) = set {
        trees.check();
    }
    let (set, all) = (set.read(), ordered(model));
    assert_eq!(set.len(), all.len() as u64);
    assert_eq!(members(set, 0, false), all);
    let mut reversed = members(set, u64::MAX, true);
    reversed.reverse();
    assert_eq!(reversed, all);
    for (rank, (score, name)) in all.iter().enumerate().step_by(11) {
        let text = Text::new(name);
        assert_eq!(set.rank(&text), Some((rank as u64, *score)));
        assert_eq!(bytes(set.select(rank as u64).unwrap().name), *name);
        for is_behind in [false, true] {
            let before = |it: &&(f64, Vec<u8>)| it.0 < *score || is_behind && it.0 == *score;
            let count = all.iter().filter(before).count() as u64;
            assert_eq!(set.rank_of(score_border(*score, is_behind)), count);
            let border = Border { score: written_score(*score), member: Some(&text), is_behind };
            assert_eq!(set.rank_of(border), rank as u64 + u64::from(is_behind));
        }
    }
    assert_eq!(set.select(set.len()).map(|it| it.score), None);
}

fn scan(set: SortedSetRef<'_>, cursor: u64, shown: &mut BTreeSet<Vec<u8>>) -> u64 {
    let mut step: SortedSetScan = set.scan(cursor, 5);
    while !step.show(set, 7, |member| _ = shown.insert(bytes(member.name))) {}
    step.next
}

const ROUNDS: u32 = if cfg!(miri) { 3 } else { 48 };

proptest! {
    #![proptest_config(ProptestConfig { cases: ROUNDS, ..ProptestConfig::default() })]

    #[test]
    fn a_sorted_set_is_ordered_by_score_and_member(
        changes in proptest::collection::vec(
            (0..8_u8, any::<u16>(), -40..40_i32, 0..50_u64),
            1..if cfg!(miri) { 90 } else { 2500 },
        ),
        names in 3..1500_u16,
        scores in prop_oneof![1..3_i32, 3..100_i32],
    ) {
        let (pool, blocks) = blocks();
        let mut set = SortedSet::default();
        let mut model = Model::new();
        let mut clones = vec![];
        for (place, (what, number, score, few)) in changes.into_iter().enumerate() {
            let name = match number % 5 {
                0 => (number % names).to_string().into_bytes(),
                1 => vec![b'm'; usize::from(number % names) % 600],
                _ => format!("member:{}", number % names).into_bytes(),
            };
            let text = Text::new(&name);
            let score = match score % scores {
                39 => f64::INFINITY,
                -39 => f64::NEG_INFINITY,
                score => f64::from(score) / 4.0,
            };
            prop_assert_eq!(set.read().score(&text), model.get(&name).copied());
            match what {
                0 => prop_assert_eq!(set.remove(&text), model.remove(&name)),
                1 if few == 0 => {
                    let len = set.read().len();
                    let start = u64::from(number) % (len + 1);
                    let removed = set.remove_range(start..start + 40, 30);
                    prop_assert_eq!(removed, (len - start).min(30));
                    let all = ordered(&model);
                    let gone = all.iter().skip(start as usize).take(removed as usize);
                    gone.for_each(|it| _ = model.remove(&it.1));
                }
                _ => {
                    let before = set.set(&text, score, LIMITS, &blocks);
                    prop_assert_eq!(before, model.insert(name, score));
                }
            }
            if place % 83 == 0 {
                check(&set, &model);
                clones.push((set.read().to_owned(), model.clone()));
            }
            if clones.len() > 2 {
                let (clone, model) = clones.swap_remove(place % 2);
                check(&clone, &model);
            }
        }
        check(&set, &model);
        clones.iter().for_each(|(clone, model)| check(clone, model));
        drop((clones, set));
        prop_assert_eq!(pool.used_bytes(), 0);
    }

    #[test]
    fn members_that_stay_are_scanned_whatever_their_scores_become(
        seed: u32,
        size in 1..if cfg!(miri) { 60 } else { 1500_u32 },
        levels in 1..50_u32,
    ) {
        let (_pool, blocks) = blocks();
        let mut set = SortedSet::default();
        let name = |number: u32| format!("member:{number}").into_bytes();
        for number in 0..size {
            let score = f64::from(number % levels);
            set.set(&Text::new(&name(number)), score, LIMITS, &blocks);
        }
        let mut shown = BTreeSet::new();
        let (mut cursor, mut state) = (0, seed);
        loop {
            cursor = scan(set.read(), cursor, &mut shown);
            if cursor == 0 {
                break;
            }
            for _ in 0..20 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let score = f64::from(state >> 24);
                // Some of them stay, under other scores; others come and go.
                let other = name(size + (state >> 12) % 500);
                set.set(&Text::new(&name((state >> 8) % size)), score, LIMITS, &blocks);
                if state % 2 == 0 {
                    set.set(&Text::new(&other), score, LIMITS, &blocks);
                } else {
                    set.remove(&Text::new(&other));
                }
            }
        }
        prop_assert!((0..size).all(|number| shown.contains(&name(number))));
    }

    #[test]
    fn written_scores_compare_as_numbers(a: f64, b: f64) {
        prop_assume!(!a.is_nan() && !b.is_nan());
        prop_assert_eq!(Some(written_score(a).cmp(&written_score(b))), a.partial_cmp(&b));
        prop_assert_eq!(read_score(written_score(a)), a);
    }
}

#[test]
fn zeros_are_equal_and_encodings_are_named_as_redis_names_them() {
    let (_pool, blocks) = blocks();
    assert_eq!(written_score(0.0), written_score(-0.0));
    let limits = SortedSetLimits { entries: 2, value_bytes: 3 };
    let mut set = SortedSet::default();
    for (member, name) in [("a", Name::Listpack), ("b", Name::Listpack), ("c", Name::Skiplist)] {
        set.set(&Text::new(member.as_bytes()), -0.0, limits, &blocks);
        assert_eq!(set.read().name(), name);
    }
    let mut set = SortedSet::default();
    set.set(&Text::new(b"abcd"), 1.0, limits, &blocks);
    assert_eq!(set.read().name().word(), "skiplist");
}
