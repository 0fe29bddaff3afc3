//! Ordered maps that share their nodes with their clones. They hold the nodes of a stream by first
//! id, pending entries by id, and groups and consumers by name.
//!
//! A clone takes one counted reference; a modification copies the shared nodes on the path to the
//! value. Values have weights, whose sums serve to count elements and to find them by rank.

use std::borrow::Borrow;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The maximum number of values in a leaf and of children in an inner node.
const MAX_LEN: usize = 48;

/// A value that adds its own weight to a map's weight.
pub(crate) trait Weigh {
    /// Returns the weight.
    fn weight(&self) -> u64;
}

impl Weigh for () {
    fn weight(&self) -> u64 {
        1
    }
}

/// A map ordered by key.
#[derive(Clone, Debug)]
pub(crate) struct Map<K, V> {
    top: Arc<Node<K, V>>,
    len: u64,
}

#[derive(Clone, Debug)]
enum Node<K, V> {
    Leaf(Vec<(K, V)>),
    Inner(Vec<Child<K, V>>),
}

#[derive(Debug)]
struct Child<K, V> {
    /// A lower bound of the keys below it.
    first: K,
    weight: u64,
    values: u64,
    node: Arc<Node<K, V>>,
}

impl<K: Clone, V> Clone for Child<K, V> {
    fn clone(&self) -> Self {
        let Child { first, weight, values, node } = self;
        let node = Arc::clone(node);
        Child { first: first.clone(), weight: *weight, values: *values, node }
    }
}

impl<K, V: Weigh> Child<K, V> {
    fn new(first: K, node: Arc<Node<K, V>>) -> Self {
        Child { first, weight: node.weight(), values: node.values(), node }
    }

    fn count(&mut self) {
        self.weight = self.node.weight();
        self.values = self.node.values();
    }
}

/// The upper half of a node that was split.
type Upper<K, V> = Option<(K, Arc<Node<K, V>>)>;

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Map { top: Arc::new(Node::Leaf(Vec::new())), len: 0 }
    }
}

impl<K, V> Map<K, V> {
    /// Whether the map is not shared with a clone.
    pub(crate) fn is_sole(&self) -> bool {
        Arc::strong_count(&self.top) == 1
    }
}

impl<K: Ord + Clone, V: Clone + Weigh> Map<K, V> {
    /// Returns the number of values.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the sum of the values' weights.
    pub(crate) fn weight(&self) -> u64 {
        self.top.weight()
    }

    /// Returns the value of a key.
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut node = &*self.top;
        loop {
            match node {
                Node::Leaf(values) => {
                    let found = values.binary_search_by(|(it, _)| it.borrow().cmp(key)).ok()?;
                    return values.get(found).map(|(_, value)| value);
                }
                Node::Inner(children) => node = &children.get(child_of(children, key))?.node,
            }
        }
    }

    /// Inserts a value. Returns the previous one.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (old, upper) = insert(&mut self.top, key, value);
        if let Some((first_of_upper, upper)) = upper
            && let Some(first) = self.top.first().cloned()
        {
            let lower = Child::new(first, Arc::clone(&self.top));
            let upper = Child::new(first_of_upper, upper);
            self.top = Arc::new(Node::Inner(vec![lower, upper]));
        }
        self.len += u64::from(old.is_none());
        old
    }

    /// Updates the value of a key, if there is one.
    pub(crate) fn update<Q: Ord + ?Sized, R>(
        &mut self,
        key: &Q,
        change: impl FnOnce(&mut V) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        update(&mut self.top, key, change)
    }

    /// Removes the value of a key, and returns it.
    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        let removed = remove(&mut self.top, key);
        self.len -= u64::from(removed.is_some());
        self.lower_top();
        removed
    }

    fn lower_top(&mut self) {
        while let Node::Inner(children) = &*self.top {
            match children.as_slice() {
                [] => self.top = Arc::new(Node::Leaf(Vec::new())),
                [only] => self.top = Arc::clone(&only.node),
                _ => break,
            }
        }
    }

    /// Removes as many of the first values as have a total weight of at most `most`. Returns the
    /// removed part, to be dropped by the caller.
    pub(crate) fn cut_front(&mut self, most: u64) -> Cut<K, V> {
        let mut cut = Cut { nodes: Vec::new(), values: Vec::new() };
        let removed = cut_front(&mut self.top, most, &mut cut);
        self.len = self.len.saturating_sub(removed);
        self.lower_top();
        cut
    }

    /// Visits values in order, from the first key that is not below `from`, until `visit` breaks.
    pub(crate) fn walk<'a, Q: Ord + ?Sized, B>(
        &'a self,
        from: Option<&Q>,
        mut visit: impl FnMut(&'a K, &'a V) -> ControlFlow<B>,
    ) -> Option<B>
    where
        K: Borrow<Q>,
    {
        walk(&self.top, from, &mut visit).break_value()
    }

    /// Visits values in descending order, from the last key that is not above `to`.
    pub(crate) fn walk_back<'a, Q: Ord + ?Sized, B>(
        &'a self,
        to: Option<&Q>,
        mut visit: impl FnMut(&'a K, &'a V) -> ControlFlow<B>,
    ) -> Option<B>
    where
        K: Borrow<Q>,
    {
        walk_back(&self.top, to, &mut visit).break_value()
    }

    /// Visits values in order, from the first value at which the sum of weights exceeds `rank`.
    /// That value is visited with the remainder of `rank`, all later values with 0.
    pub(crate) fn walk_rank<'a, B>(
        &'a self,
        rank: u64,
        mut visit: impl FnMut(&'a K, &'a V, u64) -> ControlFlow<B>,
    ) -> Option<B> {
        let mut rank = rank;
        walk_rank(&self.top, &mut rank, &mut visit).break_value()
    }

    /// Visits values in order, after the first `skipped` ones.
    pub(crate) fn walk_after<'a, B>(
        &'a self,
        skipped: u64,
        mut visit: impl FnMut(&'a K, &'a V) -> ControlFlow<B>,
    ) -> Option<B> {
        let mut skipped = skipped;
        walk_after(&self.top, &mut skipped, &mut visit).break_value()
    }

    /// Returns the last value whose key is not above this one.
    pub(crate) fn floor<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.walk_back(Some(key), |key, value| ControlFlow::Break((key, value)))
    }

    pub(crate) fn first(&self) -> Option<(&K, &V)> {
        self.walk_rank(0, |key, value, _| ControlFlow::Break((key, value)))
    }

    pub(crate) fn last(&self) -> Option<(&K, &V)> {
        walk_back::<K, V, K, _>(&self.top, None, &mut |key, value| ControlFlow::Break((key, value)))
            .break_value()
    }

    /// Returns the total weight of the values whose keys are below this one.
    pub(crate) fn weight_below<Q: Ord + ?Sized>(&self, key: &Q) -> u64
    where
        K: Borrow<Q>,
    {
        let (mut node, mut below) = (&*self.top, 0);
        loop {
            match node {
                Node::Leaf(values) => {
                    let values = values.iter().take_while(|(it, _)| it.borrow() < key);
                    return below + values.map(|(_, value)| value.weight()).sum::<u64>();
                }
                Node::Inner(children) => {
                    let at = child_of(children, key);
                    below += children.iter().take(at).map(|it| it.weight).sum::<u64>();
                    let Some(child) = children.get(at) else { return below };
                    node = &child.node;
                }
            }
        }
    }
}

/// The part that was removed from a map. Dropping it may take long ([`Cut::is_large`]).
#[derive(Debug)]
pub(crate) struct Cut<K, V> {
    nodes: Vec<Arc<Node<K, V>>>,
    values: Vec<(K, V)>,
}

impl<K, V> Cut<K, V> {
    /// Whether dropping it takes long.
    pub(crate) fn is_large(&self) -> bool {
        !self.nodes.is_empty()
    }
}

impl<K, V: Weigh> Node<K, V> {
    fn weight(&self) -> u64 {
        match self {
            Node::Leaf(values) => values.iter().map(|(_, value)| value.weight()).sum(),
            Node::Inner(children) => children.iter().map(|child| child.weight).sum(),
        }
    }

    fn first(&self) -> Option<&K> {
        match self {
            Node::Leaf(values) => values.first().map(|(key, _)| key),
            Node::Inner(children) => children.first().map(|child| &child.first),
        }
    }

    fn len(&self) -> usize {
        match self {
            Node::Leaf(values) => values.len(),
            Node::Inner(children) => children.len(),
        }
    }

    /// Returns the total number of values.
    fn values(&self) -> u64 {
        match self {
            Node::Leaf(values) => values.len() as u64,
            Node::Inner(children) => children.iter().map(|child| child.values).sum(),
        }
    }
}

fn child_of<K: Ord + Borrow<Q>, V, Q: Ord + ?Sized>(children: &[Child<K, V>], key: &Q) -> usize {
    children.partition_point(|child| child.first.borrow() <= key).saturating_sub(1)
}

/// Splits a vector that has become too long: in the middle, or before the last element if that was
/// appended.
fn divide<T>(all: &mut Vec<T>, appended: bool) -> Option<Vec<T>> {
    if all.len() <= MAX_LEN {
        return None;
    }
    let upper = all.split_off(if appended { all.len() - 1 } else { all.len() / 2 });
    all.shrink_to_fit();
    Some(upper)
}

fn insert<K: Ord + Clone, V: Clone + Weigh>(
    node: &mut Arc<Node<K, V>>,
    key: K,
    value: V,
) -> (Option<V>, Upper<K, V>) {
    match Arc::make_mut(node) {
        Node::Leaf(values) => {
            let at = match values.binary_search_by(|(it, _)| it.cmp(&key)) {
                Err(at) => at,
                Ok(at) => {
                    let old = values.get_mut(at).map(|it| std::mem::replace(&mut it.1, value));
                    return (old, None);
                }
            };
            values.insert(at, (key, value));
            let appended = at + 1 == values.len();
            let upper = divide(values, appended)
                .and_then(|upper| Some((upper.first()?.0.clone(), Arc::new(Node::Leaf(upper)))));
            (None, upper)
        }
        Node::Inner(children) => {
            let at = child_of(children, &key);
            let Some(child) = children.get_mut(at) else { return (None, None) };
            if key < child.first {
                child.first = key.clone();
            }
            let (old, upper) = insert(&mut child.node, key, value);
            child.count();
            let Some((first, node)) = upper else { return (old, None) };
            children.insert(at + 1, Child::new(first, node));
            let appended = at + 2 == children.len();
            let upper = divide(children, appended).and_then(|upper| {
                Some((upper.first()?.first.clone(), Arc::new(Node::Inner(upper))))
            });
            (old, upper)
        }
    }
}

fn update<K: Ord + Clone + Borrow<Q>, V: Clone + Weigh, Q: Ord + ?Sized, R>(
    node: &mut Arc<Node<K, V>>,
    key: &Q,
    change: impl FnOnce(&mut V) -> R,
) -> Option<R> {
    match Arc::make_mut(node) {
        Node::Leaf(values) => {
            let at = values.binary_search_by(|(it, _)| it.borrow().cmp(key)).ok()?;
            values.get_mut(at).map(|(_, value)| change(value))
        }
        Node::Inner(children) => {
            let at = child_of(children, key);
            let child = children.get_mut(at)?;
            let result = update(&mut child.node, key, change);
            child.count();
            result
        }
    }
}

fn remove<K: Ord + Clone + Borrow<Q>, V: Clone + Weigh, Q: Ord + ?Sized>(
    node: &mut Arc<Node<K, V>>,
    key: &Q,
) -> Option<V> {
    match Arc::make_mut(node) {
        Node::Leaf(values) => {
            let at = values.binary_search_by(|(it, _)| it.borrow().cmp(key)).ok()?;
            Some(values.remove(at).1)
        }
        Node::Inner(children) => {
            let at = child_of(children, key);
            let child = children.get_mut(at)?;
            let removed = remove(&mut child.node, key);
            child.count();
            if child.node.len() == 0 {
                children.remove(at);
            } else {
                merge(children, at);
            }
            removed
        }
    }
}

/// Merges a node with a neighbour if both together are at most half a node.
fn merge<K: Ord + Clone, V: Clone + Weigh>(children: &mut Vec<Child<K, V>>, at: usize) {
    let len = |at: usize| children.get(at).map_or(MAX_LEN, |child| child.node.len());
    let lower = match (at > 0 && len(at - 1) + len(at) <= MAX_LEN / 2, len(at) + len(at + 1)) {
        (true, _) => at - 1,
        (false, both) if both <= MAX_LEN / 2 => at,
        _ => return,
    };
    let upper = children.remove(lower + 1);
    let Some(lower) = children.get_mut(lower) else { return };
    match (Arc::make_mut(&mut lower.node), &*upper.node) {
        (Node::Leaf(values), Node::Leaf(more)) => values.extend(more.iter().cloned()),
        (Node::Inner(children), Node::Inner(more)) => children.extend(more.iter().cloned()),
        // All leaves have the same depth.
        _ => {}
    }
    lower.count();
}

fn cut_front<K: Ord + Clone, V: Clone + Weigh>(
    node: &mut Arc<Node<K, V>>,
    most: u64,
    cut: &mut Cut<K, V>,
) -> u64 {
    let mut left = most;
    let mut is_first = |weight: u64| {
        let fits = weight <= left;
        left -= if fits { weight } else { 0 };
        fits
    };
    match Arc::make_mut(node) {
        Node::Leaf(values) => {
            let count = values.iter().take_while(|(_, value)| is_first(value.weight())).count();
            cut.values.extend(values.drain(..count));
            count as u64
        }
        Node::Inner(children) => {
            let count = children.iter().take_while(|child| is_first(child.weight)).count();
            let mut removed = 0;
            for child in children.drain(..count) {
                removed += child.values;
                cut.nodes.push(child.node);
            }
            if let Some(child) = children.first_mut() {
                removed += cut_front(&mut child.node, left, cut);
                child.count();
                if let Some(first) = child.node.first() {
                    child.first = first.clone();
                }
            }
            removed
        }
    }
}

fn walk<'a, K: Ord + Borrow<Q>, V, Q: Ord + ?Sized, B>(
    node: &'a Node<K, V>,
    from: Option<&Q>,
    visit: &mut impl FnMut(&'a K, &'a V) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match node {
        Node::Leaf(values) => {
            let start = |from| values.partition_point(|(key, _)| key.borrow() < from);
            for (key, value) in values.iter().skip(from.map_or(0, start)) {
                visit(key, value)?;
            }
        }
        Node::Inner(children) => {
            let start = from.map_or(0, |from| child_of(children, from));
            for (at, child) in children.iter().enumerate().skip(start) {
                walk(&child.node, from.filter(|_| at == start), visit)?;
            }
        }
    }
    ControlFlow::Continue(())
}

fn walk_back<'a, K: Ord + Borrow<Q>, V, Q: Ord + ?Sized, B>(
    node: &'a Node<K, V>,
    to: Option<&Q>,
    visit: &mut impl FnMut(&'a K, &'a V) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match node {
        Node::Leaf(values) => {
            let end = |to| values.partition_point(|(key, _)| key.borrow() <= to);
            for (key, value) in values.iter().take(to.map_or(values.len(), end)).rev() {
                visit(key, value)?;
            }
        }
        Node::Inner(children) => {
            let last = children.len().saturating_sub(1);
            let end = to.map_or(last, |to| child_of(children, to));
            for (at, child) in children.iter().enumerate().take(end + 1).rev() {
                walk_back(&child.node, to.filter(|_| at == end), visit)?;
            }
        }
    }
    ControlFlow::Continue(())
}

fn walk_rank<'a, K, V: Weigh, B>(
    node: &'a Node<K, V>,
    rank: &mut u64,
    visit: &mut impl FnMut(&'a K, &'a V, u64) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match node {
        Node::Leaf(values) => {
            for (key, value) in values {
                let weight = value.weight();
                if *rank >= weight && *rank > 0 {
                    *rank -= weight;
                } else {
                    visit(key, value, std::mem::take(rank))?;
                }
            }
        }
        Node::Inner(children) => {
            for child in children {
                if *rank >= child.weight && *rank > 0 {
                    *rank -= child.weight;
                } else {
                    walk_rank(&child.node, rank, visit)?;
                }
            }
        }
    }
    ControlFlow::Continue(())
}

fn walk_after<'a, K, V, B>(
    node: &'a Node<K, V>,
    skipped: &mut u64,
    visit: &mut impl FnMut(&'a K, &'a V) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match node {
        Node::Leaf(values) => {
            let skip = usize::try_from(std::mem::take(skipped)).unwrap_or(usize::MAX);
            for (key, value) in values.iter().skip(skip) {
                visit(key, value)?;
            }
        }
        Node::Inner(children) => {
            for child in children {
                if *skipped >= child.values {
                    *skipped -= child.values;
                } else {
                    walk_after(&child.node, skipped, visit)?;
                }
            }
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    impl Weigh for u64 {
        fn weight(&self) -> u64 {
            *self
        }
    }

    fn all(map: &Map<u64, u64>) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        map.walk::<u64, ()>(None, |key, value| {
            all.push((*key, *value));
            ControlFlow::Continue(())
        });
        all
    }

    #[test]
    fn map_equals_an_ordered_map_and_clones_do_not_change() {
        let (mut map, mut model) = (Map::default(), BTreeMap::new());
        let mut state = 5_u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 33
        };
        let steps = if cfg!(miri) { 2000 } else { 60_000 };
        let (mut kept, mut kept_model) = (map.clone(), model.clone());
        for step in 0..steps {
            let key = random() % 3000;
            let value = random() % 9 + 1;
            match random() % 8 {
                0..4 => assert_eq!(map.insert(key, value), model.insert(key, value)),
                4 => assert_eq!(
                    map.update(&key, |it| *it = value),
                    model.get_mut(&key).map(|it| *it = value)
                ),
                5..7 => assert_eq!(map.remove(&key), model.remove(&key)),
                _ => assert_eq!(map.get(&key), model.get(&key)),
            }
            if step % 500 == 0 {
                let most = random() % 300;
                drop(map.cut_front(most));
                let mut left = most;
                while let Some((key, value)) = model.first_key_value().map(|(k, v)| (*k, *v)) {
                    if value > left {
                        break;
                    }
                    left -= value;
                    model.remove(&key);
                }
                let expected: Vec<(u64, u64)> = model.iter().map(|(k, v)| (*k, *v)).collect();
                assert_eq!(all(&map), expected);
                assert_eq!(all(&kept), kept_model.into_iter().collect::<Vec<_>>());
                (kept, kept_model) = (map.clone(), model.clone());
                assert_eq!(map.len(), model.len() as u64);
                assert_eq!(map.weight(), model.values().sum::<u64>());
                let below = model.range(..key).map(|(_, value)| value).sum::<u64>();
                assert_eq!(map.weight_below(&key), below);
                let pair = |(key, value): (&u64, &u64)| (*key, *value);
                assert_eq!(map.floor(&key).map(pair), model.range(..=key).next_back().map(pair));
                assert_eq!(map.first().map(pair), model.first_key_value().map(pair));
                assert_eq!(map.last().map(pair), model.last_key_value().map(pair));
                let from = map.walk(Some(&key), |key, value| ControlFlow::Break((*key, *value)));
                assert_eq!(from, model.range(key..).next().map(pair));
                let at = map.walk_after(key / 2, |key, value| ControlFlow::Break((*key, *value)));
                assert_eq!(at, model.iter().nth(key as usize / 2).map(pair));
                if below < map.weight() {
                    let at = map.walk_rank(below, |key, _, rest| ControlFlow::Break((*key, rest)));
                    assert_eq!(at, model.range(key..).next().map(|(key, _)| (*key, 0)));
                }
            }
        }
    }

    #[test]
    fn appended_values_fill_leaves() {
        let mut map = Map::default();
        (0..10_000_u64).for_each(|key| assert!(map.insert(key, 1).is_none()));
        fn leaves(node: &Node<u64, u64>) -> usize {
            match node {
                Node::Leaf(_) => 1,
                Node::Inner(children) => children.iter().map(|it| leaves(&it.node)).sum(),
            }
        }
        assert_eq!(leaves(&map.top), 10_000_usize.div_ceil(MAX_LEN));
    }
}
