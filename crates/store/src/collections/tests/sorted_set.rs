//! Compares sorted sets with a model, in both forms.

use super::bytes;
use crate::collections::Name;
use crate::collections::sorted_range::{MemberBound, ScoreBound};
use crate::collections::sorted_set::{
    SortedSet, SortedSetLimits, SortedSetRef, SortedSetScan, score_border,
};
use crate::tree::scored::{self, Border, read_score, written_score};
use crate::tree::tests::{blocks, wait_until_freed};
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
        wait_until_freed(&pool);
    }

    #[test]
    fn remaining_members_are_scanned_even_if_their_scores_change(
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
                // Some members stay, with other scores; others are added and removed.
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
    fn encoded_scores_compare_as_numbers(a: f64, b: f64) {
        prop_assume!(!a.is_nan() && !b.is_nan());
        let in_order = |score| scored::ordered(written_score(score));
        prop_assert_eq!(Some(in_order(a).cmp(&in_order(b))), a.partial_cmp(&b));
        prop_assert_eq!(read_score(written_score(a)).to_bits(), a.to_bits());
    }
}

#[test]
fn zeros_are_equal_and_encodings_have_the_names_of_redis() {
    let (_pool, blocks) = blocks();
    assert_eq!(written_score(0.0), scored::ordered(written_score(-0.0)));
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

#[test]
fn zero_keeps_its_sign_except_in_a_listpack() {
    let (_pool, blocks) = blocks();
    for (limits, is_kept) in
        [(LIMITS, false), (SortedSetLimits { entries: 0, value_bytes: 64 }, true)]
    {
        for members in [3, 1000] {
            let limits = SortedSetLimits { entries: limits.entries * members, ..limits };
            let mut set = SortedSet::default();
            for number in 0..members {
                let zero = if number % 2 == 0 { -0.0 } else { 0.0 };
                set.set(&Text::new(format!("m{number:04}").as_bytes()), zero, limits, &blocks);
            }
            let names: Vec<_> = self::members(set.read(), 0, false);
            assert!(names.is_sorted_by_key(|(_, name)| name.clone()), "both zeros are one");
            for (place, (score, _)) in names.iter().enumerate() {
                assert_eq!(score.is_sign_negative(), is_kept && place % 2 == 0);
            }
            assert_eq!(set.set(&Text::new(b"m0001"), -0.0, limits, &blocks), Some(0.0));
            let score = set.read().score(&Text::new(b"m0001")).unwrap();
            assert!(score.is_sign_positive(), "it is the same");
            assert!(set.remove(&Text::new(b"m0000")).is_some());
            assert_eq!(set.read().len(), members as u64 - 1);
            set.settle_name(5, SortedSetLimits { entries: 2000, value_bytes: 64 }, &blocks);
            let scores = self::members(set.read(), 0, false);
            assert!(scores.iter().all(|(score, _)| score.is_sign_positive()));
        }
    }
}

#[test]
fn ranges_are_found_by_scores_and_by_members() {
    let (_pool, blocks) = blocks();
    for members in [5_u32, 2000] {
        let (mut scored, mut equal) = (SortedSet::default(), SortedSet::default());
        let name = |number: u32| format!("m{number:04}");
        for number in 0..members {
            let name = name(number);
            scored.set(&Text::new(name.as_bytes()), f64::from(number), LIMITS, &blocks);
            equal.set(&Text::new(name.as_bytes()), 7.0, LIMITS, &blocks);
        }
        let score = |score, is_exclusive| ScoreBound { score, is_exclusive };
        let (scored, equal) = (scored.read(), equal.read());
        assert_eq!(scored.with_scores(score(1.0, false), score(3.0, false)), 1..4);
        assert_eq!(scored.with_scores(score(1.0, true), score(3.0, true)), 2..3);
        assert!(scored.with_scores(score(3.0, false), score(1.0, false)).is_empty());
        let end = u64::from(members);
        let infinite = score(f64::INFINITY, false);
        assert_eq!(scored.with_scores(score(3.0, true), infinite), 4..end);
        let (first, third) = (name(1), name(3));
        let (first, third) = (Text::new(first.as_bytes()), Text::new(third.as_bytes()));
        for from_end in [false, true] {
            let range = |min, max| equal.with_members(min, max, from_end);
            assert_eq!(range(MemberBound::Least, MemberBound::Greatest), 0..end);
            let (from, to) = (MemberBound::At(&first, false), MemberBound::At(&third, true));
            assert_eq!(range(from, to), 1..3);
            assert_eq!(range(MemberBound::At(&first, true), MemberBound::Greatest), 2..end);
            assert!(range(to, from).is_empty());
            assert!(range(MemberBound::Greatest, MemberBound::Least).is_empty());
        }
    }
}
