//! Compares trees with models, checks that clones stay unchanged, and verifies all metadata in
//! nodes.

use super::blocks::Blocks;
use super::inner::{Inner, NEVER};
use super::keyed::Keyed;
use super::layout::{Fields, Layout, Members, UNORDERED_BITS, rest};
use super::leaf::START;
use super::node::Node;
use super::root::Tree;
use crate::memory::pages::PagePool;
use crate::value::item::{Item, Text, item_bytes};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) fn blocks() -> (Arc<PagePool>, Arc<Blocks>) {
    let pool = Arc::new(PagePool::default());
    (Arc::clone(&pool), Blocks::new(pool))
}

/// Waits until no page of a pool is in use: while the store of another test exists, large trees are
/// freed by the reclaimer thread.
pub(crate) fn wait_until_freed(pool: &PagePool) {
    let started = Instant::now();
    while pool.used_bytes() > 0 {
        let used = pool.used_bytes();
        assert!(started.elapsed() < Duration::from_secs(30), "{used} bytes have not been freed");
        std::thread::yield_now();
    }
}

/// The contents of a subtree.
struct Below {
    elements: u64,
    bytes: u64,
    expiring: u64,
    earliest_s: u32,
    /// In tree order.
    keys: Vec<u64>,
}

/// Panics unless all metadata in the tree's nodes is correct.
pub(crate) fn check<L: Layout>(tree: &Tree<L>) {
    let below = check_node::<L>(tree.top, tree.height);
    assert_eq!((below.elements, below.expiring), (tree.len(), tree.expiring()));
    assert_eq!(below.bytes, tree.bytes());
    assert!(!L::IS_ORDERED || below.keys.is_sorted());
    assert!(tree.earliest_s() <= below.earliest_s);
}

fn check_node<L: Layout>(node: Node, height: usize) -> Below {
    assert_eq!(node.is_inner(), height > 0);
    if height == 0 {
        return check_leaf::<L>(node);
    }
    // SAFETY: the tree is borrowed.
    let inner: &Inner = unsafe { node.inner() };
    let mut all = Below { elements: 0, bytes: 0, expiring: 0, earliest_s: NEVER, keys: vec![] };
    let children: Vec<_> = inner.children().collect();
    assert!(!children.is_empty());
    assert!(children.is_sorted_by_key(|child| child.key));
    for (place, child) in children.iter().enumerate() {
        let below = check_node::<L>(child.node, height - 1);
        assert_eq!(below.elements, u64::from(child.elements));
        assert!(below.elements > 0);
        assert!(child.earliest_s <= below.earliest_s);
        let next = children.get(place + 1).map_or(u64::MAX, |next| next.key);
        assert!(below.keys.iter().all(|key| *key <= next));
        assert!(place == 0 || below.keys.iter().all(|key| *key >= child.key));
        if !L::IS_ORDERED && place + 1 < children.len() {
            assert!(below.keys.iter().all(|key| *key < next), "a hash is in one place");
        }
        all.elements += below.elements;
        all.bytes += below.bytes;
        all.expiring += below.expiring;
        all.earliest_s = all.earliest_s.min(below.earliest_s);
        all.keys.extend(below.keys);
    }
    assert_eq!(all.bytes, inner.bytes_below);
    Below { bytes: all.bytes + node.size().bytes() as u64, ..all }
}

fn check_leaf<L: Layout>(node: Node) -> Below {
    // SAFETY: the tree is borrowed.
    let leaf = unsafe { node.leaf() };
    let mut all = Below { elements: 0, bytes: 0, expiring: 0, earliest_s: NEVER, keys: vec![] };
    let mut start = leaf.first();
    assert!((START..=leaf.end()).contains(&start) && leaf.load() <= leaf.room());
    for place in 0..leaf.groups() {
        let group = leaf.group(place);
        assert_eq!(group.start, start, "groups lie one behind the other");
        start = leaf.group_end(place);
        let elements: Vec<&[u8]> = leaf.group_elements::<L>(place).collect();
        assert_eq!(elements.len(), group.elements);
        assert!(group.elements > 0);
        for element in elements {
            let key = L::key(element);
            assert!(key >= group.key);
            let next = (place + 1 < leaf.groups()).then(|| leaf.group(place + 1).key);
            assert!(next.is_none_or(|next| if L::IS_ORDERED { key <= next } else { key < next }));
            let at_ms = L::expires_at_ms(element);
            if at_ms > 0 {
                all.expiring += 1;
                all.earliest_s = all.earliest_s.min((at_ms / 1000) as u32);
                assert!(leaf.earliest_ms() > 0 && leaf.earliest_ms() <= at_ms);
            }
            all.keys.push(key);
        }
    }
    assert_eq!((leaf.elements(), leaf.expiring()), (all.keys.len(), all.expiring as usize));
    let bytes = node.size().bytes() as u64 + leaf.bytes_out_of_line();
    Below { elements: leaf.elements() as u64, bytes, ..all }
}

fn text(bytes: &[u8]) -> Vec<u8> {
    // SAFETY: the bytes are an element of a tree.
    unsafe { Item::any(bytes) }.with_bytes(<[u8]>::to_vec)
}

fn members(tree: &Tree<Members>) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    let _: Option<()> = tree.walk(0, |element| {
        assert!(found.insert(text(element)));
        ControlFlow::Continue(())
    });
    found
}

fn pairs(tree: &Tree<Fields>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    let _: Option<()> = tree.walk(0, |element| {
        let field = Fields::name(element);
        let value = rest(field, item_bytes(field));
        assert!(found.insert(text(field), text(value)).is_none());
        ControlFlow::Continue(())
    });
    found
}

fn set(tree: &mut Tree<Fields>, field: &[u8], value: &[u8]) -> bool {
    let (field, value) = (Text::new(field), Text::new(value));
    let mut element = vec![];
    field.write(&mut element);
    value.write(&mut element);
    tree.set(&field, &element)
}

fn written(text: &Text<'_>) -> Vec<u8> {
    let mut out = vec![];
    text.write(&mut out);
    out
}

/// Returns names that are short, long or numbers, some of them repeatedly.
fn name(number: u32) -> Vec<u8> {
    match number % 10 {
        0..6 => format!("member:{number:08}").into_bytes(),
        6..9 => number.to_string().into_bytes(),
        _ => vec![number as u8; (number % 700) as usize + 4],
    }
}

const ROUNDS: u32 = if cfg!(miri) { 2 } else { 48 };
const LENGTH: usize = if cfg!(miri) { 60 } else { 3000 };

proptest! {
    #![proptest_config(ProptestConfig { cases: ROUNDS, ..ProptestConfig::default() })]

    #[test]
    fn hash_tree_equals_a_map_and_clones_do_not_change(
        changes in proptest::collection::vec((any::<u32>(), 0..1100_usize, 0..8_u8), 1..LENGTH),
        names in 50..4000_u32,
        phase in 100..2000_usize,
    ) {
        let (pool, blocks) = blocks();
        let mut tree = Tree::<Fields>::new(&blocks);
        let mut model = BTreeMap::new();
        let mut clones = vec![];
        for (place, (number, len, what)) in changes.into_iter().enumerate() {
            let field = name(number % names);
            // Makes the tree alternately grow and shrink.
            let removes = what < if place / phase % 2 == 0 { 2 } else { 7 };
            if removes {
                let was_there = tree.delete(&Text::new(&field));
                prop_assert_eq!(was_there, model.remove(&field).is_some());
            } else {
                let value = vec![what; if len % 10 == 0 { len } else { len % 40 }];
                let is_new = set(&mut tree, &field, &value);
                prop_assert_eq!(is_new, model.insert(field, value).is_none());
            }
            prop_assert_eq!(tree.len(), model.len() as u64);
            if place % 97 == 0 {
                check(&tree);
                clones.push((tree.clone(), model.clone()));
            }
            if clones.len() > 3 {
                let (clone, model) = clones.swap_remove(place % 3);
                prop_assert_eq!(pairs(&clone), model);
                check(&clone);
            }
        }
        prop_assert_eq!(pairs(&tree), model);
        for (clone, model) in clones {
            prop_assert_eq!(pairs(&clone), model);
        }
        drop(tree);
        wait_until_freed(&pool);
    }

    #[test]
    fn remaining_members_are_scanned_while_others_change(
        seed: u32,
        size in 1..LENGTH as u32,
        count in 1..50_usize,
    ) {
        let (_pool, blocks) = blocks();
        let mut tree = Tree::<Members>::new(&blocks);
        let add = |tree: &mut Tree<Members>, name: &[u8]| {
            let name = Text::new(name);
            tree.set(&name, &written(&name));
        };
        let staying: BTreeSet<Vec<u8>> = (0..size).map(|it| name(it.wrapping_mul(7919))).collect();
        staying.iter().for_each(|name| add(&mut tree, name));
        let other = |number: u32| format!("other:{}", number % 5000).into_bytes();
        let mut shown: HashMap<Vec<u8>, u32> = HashMap::new();
        let (mut cursor, mut state) = (0, seed);
        loop {
            let mut show = |element: &[u8]| *shown.entry(text(element)).or_default() += 1;
            cursor = tree.scan(cursor, count, &mut show);
            if cursor == 0 {
                break;
            }
            prop_assert!(cursor < 1 << (64 - UNORDERED_BITS));
            for _ in 0..40 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if (state >> 16) % 3 == 0 || seed % 2 == 0 {
                    tree.delete(&Text::new(&other(state >> 8)));
                } else {
                    add(&mut tree, &other(state >> 8));
                }
            }
        }
        prop_assert!(staying.iter().all(|name| shown.contains_key(name)));
        check(&tree);
        let all = members(&tree);
        prop_assert!(staying.is_subset(&all));
        for (rank, _) in all.iter().enumerate().step_by(37) {
            let element = text(tree.select(rank as u64).unwrap());
            prop_assert!(all.contains(&element));
        }
        let (mut forward, mut backward) = (vec![], vec![]);
        let _: Option<()> = tree.walk(0, |it| {
            forward.push(it.to_vec());
            ControlFlow::Continue(())
        });
        let _: Option<()> = tree.walk_back(u64::MAX, |it| {
            backward.push(it.to_vec());
            ControlFlow::Continue(())
        });
        backward.reverse();
        prop_assert_eq!(forward, backward);
    }
}

#[test]
fn random_insertion_fills_leaves_and_removal_frees_them() {
    let (pool, blocks) = blocks();
    let mut tree = Tree::<Members>::new(&blocks);
    let size = if cfg!(miri) { 400 } else { 60_000 };
    let names: Vec<String> = (0..size).map(|it| format!("member:{it:09}")).collect();
    for name in &names {
        let name = Text::new(name.as_bytes());
        assert!(tree.set(&name, &written(&name)));
    }
    check(&tree);
    if !cfg!(miri) {
        let each = tree.bytes() as f64 / f64::from(size);
        assert!(each < 22.5, "{each} bytes for each member of 16");
    }
    for name in names.iter().skip(size as usize / 10) {
        assert!(tree.delete(&Text::new(name.as_bytes())));
    }
    check(&tree);
    if !cfg!(miri) {
        let each = tree.bytes() as f64 / f64::from(size / 10);
        assert!(each < 45.0, "{each} bytes for each member that is left");
    }
    assert!(pool.used_bytes() - pool.idle_bytes() == tree.bytes() as usize);
    for _ in 0..tree.len() {
        tree.remove_at(tree.len() / 2);
    }
    check(&tree);
    assert_eq!((tree.len(), tree.bytes()), (0, 1024));
}
