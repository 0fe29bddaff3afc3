//! Unions, intersections and differences of sorted sets, and of sets, in which all members have the
//! score 1. They are computed a few members at a time.

use crate::runtime::arguments::is;
use nagi_store::types::sorted_set::NewSortedSet;
use nagi_store::{SharedValue, Store, StringValue, Text, Value};
use std::ops::ControlFlow;

/// Maximum lookups of members in other sources between two readings of the clock.
const LOOKUPS: usize = 64;

/// How several sets are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Union,
    Intersection,
    Difference,
}

/// The score of a member that is in several sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    pub(super) fn parse(word: &[u8]) -> Option<Self> {
        let words = [("SUM", Aggregate::Sum), ("MIN", Aggregate::Min), ("MAX", Aggregate::Max)];
        words.into_iter().find_map(|(name, aggregate)| is(word, name).then_some(aggregate))
    }

    /// Aggregates two scores; the result is 0 for the undefined sum of two infinities.
    fn of(self, before: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => number(before + other),
            Aggregate::Min => {
                if other < before {
                    other
                } else {
                    before
                }
            }
            Aggregate::Max => {
                if other > before {
                    other
                } else {
                    before
                }
            }
        }
    }
}

/// Returns the score, or 0 in place of NaN.
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// One of the sets that are combined.
struct Source {
    /// A set or a sorted set; `None` if the key does not exist.
    value: Option<SharedValue>,
    weight: f64,
}

impl Source {
    fn len(&self) -> u64 {
        self.value.as_ref().map_or(0, |value| value.read().len())
    }

    /// The weighted score of a member.
    fn find(&self, member: &Text<'_>) -> Option<f64> {
        let score = match self.value.as_ref()?.read() {
            Value::SortedSet(set) => set.score(member)?,
            Value::Set(set) => set.contains(member).then_some(1.0)?,
            _ => return None,
        };
        Some(self.weight * score)
    }

    /// Passes at most `most` members with their weighted scores to `show`, beginning with the
    /// member at `rank`. Returns their number.
    fn walk(&self, rank: u64, most: usize, mut show: impl FnMut(StringValue<'_>, f64)) -> u64 {
        let mut shown = 0;
        let mut visit = |name: StringValue<'_>, score: f64| {
            show(name, number(self.weight * score));
            shown += 1;
            if shown < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        match self.value.as_ref().map(SharedValue::read) {
            Some(Value::SortedSet(set)) => {
                set.walk(rank, |member| visit(member.name, member.score));
            }
            Some(Value::Set(set)) => {
                set.walk(rank, |name| visit(name, 1.0));
            }
            _ => {}
        }
        shown as u64
    }
}

/// An operation that is being computed.
pub(super) struct Combination {
    operation: Operation,
    aggregate: Aggregate,
    sources: Vec<Source>,
    /// The index of the source that is being read, and the number of its members already read.
    at: usize,
    rank: u64,
    /// The number of members with which the operation ends (LIMIT).
    most: u64,
    set: NewSortedSet,
}

impl Combination {
    /// Begins an operation on shared sets and sorted sets.
    pub(super) fn new(
        store: &Store,
        operation: Operation,
        values: Vec<Option<SharedValue>>,
    ) -> Self {
        let source = |value| Source { value, weight: 1.0 };
        Combination {
            operation,
            aggregate: Aggregate::Sum,
            sources: values.into_iter().map(source).collect(),
            at: 0,
            rank: 0,
            most: u64::MAX,
            set: NewSortedSet::new(store),
        }
    }

    /// The number of sources.
    pub(super) fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Sets the weight of a source, by which its scores are multiplied.
    pub(super) fn set_weight(&mut self, source: usize, weight: f64) {
        self.sources.get_mut(source).into_iter().for_each(|source| source.weight = weight);
    }

    pub(super) fn set_aggregate(&mut self, aggregate: Aggregate) {
        self.aggregate = aggregate;
    }

    /// Ends the operation when the set has this number of members.
    pub(super) fn set_most(&mut self, most: u64) {
        self.most = most;
    }

    /// Sorts the sources by length, unless their order matters. Scores of the smallest source are
    /// added first, as in Redis, which affects the last digit of a sum.
    pub(super) fn arrange(&mut self) {
        if self.operation != Operation::Difference {
            self.sources.sort_by_key(Source::len);
        }
    }

    /// Continues until `is_over` reports the end of the slice. Returns whether the set is complete.
    pub(super) fn go_on(&mut self, is_over: impl Fn() -> bool) -> bool {
        while !self.is_done() {
            if is_over() {
                return false;
            }
            self.step();
        }
        true
    }

    fn is_done(&self) -> bool {
        let last = if self.operation == Operation::Union { self.sources.len() } else { 1 };
        self.at >= last.min(self.sources.len()) || self.set.len() >= self.most
    }

    /// Reads some members of a source.
    fn step(&mut self) {
        let Combination { operation, aggregate, sources, at, rank, most, set } = self;
        let (operation, aggregate) = (*operation, *aggregate);
        let Some((source, rest)) = sources.get(*at..).and_then(<[_]>::split_first) else { return };
        let stride = if operation == Operation::Union { LOOKUPS } else { LOOKUPS / sources.len() };
        let stride = stride.max(1);
        let shown = source.walk(*rank, stride, |name, score| {
            name.with_bytes(|name| {
                let member = Text::new(name);
                let found = match operation {
                    Operation::Union => {
                        let joined = |old| aggregate.of(old, score);
                        set.update(&member, |old: Option<f64>| old.map_or(score, joined));
                        return;
                    }
                    Operation::Intersection => rest.iter().try_fold(score, |sum, other| {
                        Some(aggregate.of(sum, other.find(&member)?))
                    }),
                    Operation::Difference => {
                        let is_elsewhere = rest.iter().any(|it| it.find(&member).is_some());
                        (!is_elsewhere).then_some(score)
                    }
                };
                if let Some(score) = found.filter(|_| set.len() < *most) {
                    set.set(&member, score);
                }
            });
        });
        *rank += shown;
        if *rank >= source.len() {
            *at += 1;
            *rank = 0;
        }
    }

    /// The set, once it is complete.
    pub(super) fn take(&mut self) -> NewSortedSet {
        self.set.take()
    }
}
