//! Compares lists with a vector, in both forms.

use super::bytes;
use crate::collections::Name;
use crate::collections::list::{List, ListLimit, ListRef};
use crate::tree::root::Side;
use crate::tree::tests::{blocks, wait_until_freed};
use crate::value::item::Text;
use crate::value::rope::Rope;
use proptest::prelude::*;
use std::ops::ControlFlow;

fn elements(list: ListRef<'_>, rank: u64, towards: Side) -> Vec<Vec<u8>> {
    let mut found = vec![];
    let visit = |value: crate::value::string::StringValue<'_>| {
        found.push(bytes(value));
        ControlFlow::<()>::Continue(())
    };
    let _ = match towards {
        Side::Start => list.walk_back(rank, visit),
        Side::End => list.walk(rank, visit),
    };
    found
}

fn check(list: &List, model: &[Vec<u8>]) {
    if let List::Tree(tree) = list {
        tree.check();
    }
    let list = list.read();
    assert_eq!(list.len(), model.len() as u64);
    assert_eq!(elements(list, 0, Side::End), model);
    let mut reversed = elements(list, u64::MAX, Side::Start);
    reversed.reverse();
    assert_eq!(reversed, model);
    for (rank, element) in model.iter().enumerate().step_by(7) {
        assert_eq!(bytes(list.get(rank as u64).unwrap()), *element);
    }
    assert!(list.get(list.len()).is_none());
}

fn element(number: u32) -> Vec<u8> {
    match number % 11 {
        0 => vec![b'e'; (number % 900) as usize],
        1..5 => (number % 300_000).to_string().into_bytes(),
        _ => format!("element:{:08}", number % 1000).into_bytes(),
    }
}

fn search(
    list: ListRef<'_>,
    text: &Text<'_>,
    rank: u64,
    towards: Side,
    most: u64,
) -> (Vec<u64>, Option<u64>) {
    let mut found = vec![];
    let rest = list.search(text, rank, towards, most, |rank| {
        found.push(rank);
        ControlFlow::Continue(())
    });
    (found, rest)
}

/// Returns the indexes of the elements equal to `element`.
fn ranks(model: &[Vec<u8>], element: &[u8]) -> impl Iterator<Item = u64> {
    (0..).zip(model).filter(move |(_, it)| *it == element).map(|(rank, _)| rank)
}

const ROUNDS: u32 = if cfg!(miri) { 3 } else { 64 };

proptest! {
    #![proptest_config(ProptestConfig { cases: ROUNDS, ..ProptestConfig::default() })]

    #[test]
    fn list_equals_a_vector(
        changes in proptest::collection::vec(
            (0..40_u8, any::<u32>(), any::<u16>()),
            1..if cfg!(miri) { 120 } else { 3000 },
        ),
        pops in 3..20_u8,
    ) {
        let (pool, blocks) = blocks();
        let mut list = List::default();
        let mut model: Vec<Vec<u8>> = vec![];
        let mut clones = vec![];
        for (place, (what, number, rank)) in changes.into_iter().enumerate() {
            let element = element(number);
            let text = Text::new(&element);
            let len = model.len();
            let rank = usize::from(rank) % (len + 1);
            match what {
                0 => {
                    let end = (rank + number as usize % 300).min(len);
                    drop(list.remove_range(rank as u64..end as u64));
                    model.drain(rank..end);
                }
                1 if len > 0 => {
                    list.remove(rank as u64);
                    if rank < len {
                        model.remove(rank);
                    }
                }
                2 => {
                    let is_there = list.set(rank as u64, &text, &blocks);
                    prop_assert_eq!(is_there, rank < len);
                    model.get_mut(rank).into_iter().for_each(|it| it.clone_from(&element));
                }
                3 => {
                    let rank = rank as u64;
                    let (found, rest) = search(list.read(), &text, rank, Side::End, u64::MAX);
                    let expected = ranks(&model, &element).filter(|it| *it >= rank);
                    prop_assert!(found.into_iter().eq(expected));
                    prop_assert_eq!(rest, None);
                }
                4 if number % 8 == 0 => {
                    let all: Vec<u64> = ranks(&model, &element).collect();
                    list.remove_all(&all);
                    model.retain(|it| *it != element);
                }
                4..8 => {
                    list.insert(rank as u64, &text, &blocks);
                    model.insert(rank, element);
                }
                what if what < 8 + pops / 2 => {
                    list.remove(0);
                    model.drain(..1.min(len));
                }
                what if what < 8 + pops => {
                    list.remove((len as u64).saturating_sub(1));
                    model.pop();
                }
                what if what % 2 == 0 => {
                    list.push(Side::Start, &text, &blocks);
                    model.insert(0, element);
                }
                _ => {
                    list.push(Side::End, &text, &blocks);
                    model.push(element);
                }
            }
            if place % 71 == 0 {
                check(&list, &model);
                clones.push((list.read().to_owned(), model.clone()));
            }
            if clones.len() > 2 {
                let (clone, model) = clones.swap_remove(place % 2);
                check(&clone, &model);
            }
        }
        check(&list, &model);
        clones.iter().for_each(|(clone, model)| check(clone, model));
        drop((clones, list));
        wait_until_freed(&pool);
    }
}

#[test]
fn elements_pushed_at_an_end_fill_leaves() {
    for side in [Side::Start, Side::End] {
        let (_pool, blocks) = blocks();
        let mut list = List::default();
        let size = if cfg!(miri) { 600 } else { 50_000 };
        for number in 0..size {
            let element = format!("element:{number:08}");
            list.push(side, &Text::new(element.as_bytes()), &blocks);
        }
        if !cfg!(miri) {
            let each = list.read().bytes() as f64 / f64::from(size);
            assert!(each < 17.8, "{each} bytes for each element of 16");
        }
        assert_eq!(list.read().name(), Name::Listpack, "what is coming was not announced");
    }
}

#[test]
fn searches_stop_and_continue() {
    let (_pool, blocks) = blocks();
    let mut list = List::default();
    for number in 0..500 {
        list.push(Side::End, &Text::new(format!("{}", number % 100).as_bytes()), &blocks);
    }
    let (list, wanted) = (list.read(), Text::new(b"42"));
    let search = |rank, towards, most| search(list, &wanted, rank, towards, most);
    assert_eq!(search(0, Side::End, 10), (vec![], Some(10)));
    assert_eq!(search(10, Side::End, 100), (vec![42], Some(110)));
    assert_eq!(search(499, Side::Start, 10), (vec![], Some(489)));
    assert_eq!(search(489, Side::Start, 200), (vec![442, 342], Some(289)));
    assert_eq!(search(443, Side::End, 57), (vec![], None));
    assert_eq!(search(42, Side::Start, 100), (vec![42], None));
    let mut first = None;
    let rest = list.search(&wanted, 0, Side::End, 100, |rank| {
        first = Some(rank);
        ControlFlow::Break(())
    });
    assert_eq!((first, rest), (Some(42), None), "what breaks off does not go on");
}

#[test]
fn long_strings_are_found_by_their_bytes() {
    let (_pool, blocks) = blocks();
    let mut list = List::default();
    let strings: Vec<Vec<u8>> = [600, 65_536, 65_537, 200_000, 200_000]
        .into_iter()
        .zip(b'a'..)
        .map(|(len, letter)| [vec![b'.'; len - 1], vec![letter]].concat())
        .collect();
    for string in &strings {
        list.push(Side::End, &Text::to_store(string), &blocks);
    }
    for (rank, string) in (0..).zip(&strings) {
        let in_chunks = Text::in_chunks(Rope::from_bytes(string));
        for text in [Text::new(string), in_chunks] {
            assert_eq!(search(list.read(), &text, 0, Side::End, 10), (vec![rank], None));
        }
    }
    let missing = Text::new(&strings[3][..199_999]);
    assert_eq!(search(list.read(), &missing, 0, Side::End, 10), (vec![], None));
}

#[test]
fn list_encodings_have_the_names_of_redis() {
    let (_pool, blocks) = blocks();
    let push = |list: &mut List, element: &str, limit| {
        list.expect(1, element.len(), limit);
        list.push(Side::End, &Text::new(element.as_bytes()), &blocks);
        list.read().name().word()
    };
    let pop = |list: &mut List, limit| {
        list.remove(0);
        list.shrunk(limit);
        list.read().name().word()
    };
    let limit = ListLimit::of_setting(4);
    let mut list = List::default();
    assert!((0..4).all(|_| push(&mut list, "a", limit) == "listpack"));
    assert_eq!(push(&mut list, "a", limit), "quicklist");
    assert_eq!(pop(&mut list, limit), "quicklist");
    assert_eq!(pop(&mut list, limit), "quicklist");
    assert_eq!(pop(&mut list, limit), "listpack", "two are half of four");
    let limit = ListLimit::of_setting(-2);
    assert_eq!(limit, ListLimit::Bytes(8192));
    // An element of 100 bytes takes 103 in a listpack.
    let element = "e".repeat(100);
    let mut list = List::default();
    let pushed = (0..).take_while(|_| push(&mut list, &element, limit) == "listpack").count();
    assert_eq!(pushed, (8192 - 7 - 100) / 103 + 1);
    let popped = (0..).take_while(|_| pop(&mut list, limit) == "quicklist").count();
    assert_eq!(list.read().len() as usize, (4096 - 7) / 103);
    assert_eq!(popped, pushed - (4096 - 7) / 103);
}
