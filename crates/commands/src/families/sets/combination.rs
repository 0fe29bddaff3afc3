//! Intersections, unions and differences of sets. They are computed from shared values, one stride
//! at a time and without latches; later writes have no effect on the result.

use crate::families::elements::{ELEMENTS_PER_HOLD, strides, write};
use crate::families::sets::walk::{members, show_all};
use crate::runtime::context::Job;
use nagi_store::types::collection::{NewCollection, NewCollections, NewElement};
use nagi_store::{SharedValue, Text, parse_i64};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Maximum members that are looked up in a set between two readings of the clock.
const LOOKUPS: u32 = 64;

/// How several sets are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Intersection,
    Union,
    Difference,
}

/// The algorithm for an operation.
enum Algorithm {
    Selection(Selection),
    Sum(Sum),
}

impl Algorithm {
    /// Chooses the algorithm for the sets under several keys, in the order of the keys.
    fn of(operation: Operation, sets: Vec<Option<SharedValue>>) -> Self {
        let is_first_there = sets.first().is_some_and(Option::is_some);
        let are_all_there = sets.iter().all(Option::is_some);
        let sets: Vec<SharedValue> = sets.into_iter().flatten().collect();
        match operation {
            Operation::Union => Algorithm::Sum(Sum { to_add: sets.into(), ..Sum::default() }),
            Operation::Intersection if are_all_there => {
                Algorithm::Selection(Selection::intersection(sets))
            }
            Operation::Difference if is_first_there => Algorithm::of_difference(sets),
            Operation::Intersection | Operation::Difference => Algorithm::Sum(Sum::default()),
        }
    }

    /// Chooses the algorithm for a difference by Redis' estimate of the work, since the algorithm
    /// affects OBJECT ENCODING of a stored difference.
    fn of_difference(mut sets: Vec<SharedValue>) -> Self {
        let len = |set: &SharedValue| set.read().len();
        let lookups = sets.first().map_or(0, len).saturating_mul(sets.len() as u64) / 2;
        if lookups > sets.iter().map(len).sum() {
            let mut to_add = VecDeque::from(sets);
            let to_remove = to_add.split_off(1);
            return Algorithm::Sum(Sum { to_add, to_remove, rank: 0 });
        }
        let base = sets.remove(0);
        // A member is most likely to be found in the largest set.
        sets.sort_by_key(|set| Reverse(len(set)));
        Algorithm::Selection(Selection { other_sets: sets, ..Selection::of(base) })
    }

    /// Continues until `is_over` reports the end of the slice. A sum is built in `result`; for a
    /// selection, `keep` gets each selected member. Returns whether the operation is complete.
    fn go_on(
        &mut self,
        result: &mut NewCollection,
        is_over: impl Fn() -> bool,
        mut keep: impl FnMut(&mut NewCollection, u64, &[u8]),
    ) -> bool {
        loop {
            let is_done = match self {
                Algorithm::Sum(sum) => sum.step(result),
                Algorithm::Selection(selection) => selection.step(|rank, member| {
                    keep(result, rank, member);
                    ControlFlow::Continue(())
                }),
            };
            if is_done || is_over() {
                return is_done;
            }
        }
    }
}

/// The members of one set that are in all other sets, or in none of them.
pub(super) struct Selection {
    base: SharedValue,
    other_sets: Vec<SharedValue>,
    /// Whether a member must be in all of the other sets.
    wanted: bool,
    /// The rank of the current member, and the number of other sets that have been searched for it.
    rank: u64,
    lookups_done: usize,
}

impl Selection {
    fn of(base: SharedValue) -> Self {
        Selection { base, other_sets: Vec::new(), wanted: false, rank: 0, lookups_done: 0 }
    }

    /// Begins the intersection of sets, of which there must be at least one.
    pub(super) fn intersection(mut sets: Vec<SharedValue>) -> Self {
        // The smallest set has the fewest members, and the next smallest is the least likely to
        // contain them.
        sets.sort_by_key(|set| set.read().len());
        let base = sets.remove(0);
        Selection { other_sets: sets, wanted: true, ..Selection::of(base) }
    }

    /// Looks up some members. Passes those that are selected to `keep`, with their ranks, until it
    /// breaks off. Returns whether the selection is complete.
    pub(super) fn step(&mut self, mut keep: impl FnMut(u64, &[u8]) -> ControlFlow<()>) -> bool {
        let Selection { base, other_sets, wanted, rank, lookups_done } = self;
        let mut lookups = LOOKUPS;
        let end = members(base).and_then(|set| {
            set.walk(*rank, |member| {
                let is_selected = member.with_bytes(|bytes| {
                    let text = Text::new(bytes);
                    while let Some(other) = other_sets.get(*lookups_done) {
                        if lookups == 0 {
                            return ControlFlow::Break(false);
                        }
                        lookups -= 1;
                        if members(other).is_some_and(|set| set.contains(&text)) != *wanted {
                            return ControlFlow::Continue(());
                        }
                        *lookups_done += 1;
                    }
                    lookups = lookups.saturating_sub(1);
                    keep(*rank, bytes).map_break(|()| true)
                });
                is_selected?;
                *rank += 1;
                *lookups_done = 0;
                if lookups == 0 { ControlFlow::Break(false) } else { ControlFlow::Continue(()) }
            })
        });
        end.unwrap_or(true)
    }
}

/// The union of `to_add`, without the members of `to_remove`.
#[derive(Default)]
struct Sum {
    to_add: VecDeque<SharedValue>,
    to_remove: VecDeque<SharedValue>,
    /// The number of processed members of the next set, the first one of its queue.
    rank: u64,
}

impl Sum {
    /// Processes some members. Returns whether the result is complete.
    fn step(&mut self, result: &mut NewCollection) -> bool {
        let (sets, adds) = match self.to_add.is_empty() {
            false => (&mut self.to_add, true),
            true => (&mut self.to_remove, false),
        };
        let Some(set) = sets.front() else { return true };
        let mut left = ELEMENTS_PER_HOLD;
        members(set).and_then(|set| {
            set.walk(self.rank, |member| {
                member.with_bytes(|bytes| {
                    if adds {
                        add(result, bytes);
                    } else {
                        // This cannot fail, since the result is a set.
                        let _ = result.remove_member(&Text::new(bytes));
                    }
                });
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        });
        self.rank += ELEMENTS_PER_HOLD;
        if self.rank >= set.read().len() {
            sets.pop_front();
            self.rank = 0;
        }
        self.to_add.is_empty() && (self.to_remove.is_empty() || result.len() == 0)
    }
}

fn add(result: &mut NewCollection, member: &[u8]) {
    // This cannot fail, since the result is a set.
    let _ = result.add(NewElement::Member(&Text::to_store(member)));
}

/// An operation whose result is stored.
pub(super) struct Stored {
    algorithm: Algorithm,
    result: NewCollection,
    /// Whether the result is an intersection with only integers so far.
    narrows: bool,
}

impl Stored {
    /// Begins an operation on the sets under several keys, in the order of the keys.
    pub(super) fn new(
        operation: Operation,
        sets: Vec<Option<SharedValue>>,
        new: &NewCollections,
    ) -> Self {
        let algorithm = Algorithm::of(operation, sets);
        let (result, narrows) = match &algorithm {
            Algorithm::Selection(selection) if selection.wanted => {
                (new.begin_intersection(&selection.base), true)
            }
            Algorithm::Selection(_) | Algorithm::Sum(_) => (new.begin_set(), false),
        };
        Stored { algorithm, result, narrows }
    }

    /// Continues until `is_over` reports the end of the slice. Returns whether the operation is
    /// complete.
    pub(super) fn go_on(&mut self, is_over: impl Fn() -> bool) -> bool {
        let Stored { algorithm, result, narrows } = self;
        algorithm.go_on(result, is_over, |result, _, member| {
            *narrows = *narrows && parse_i64(member).is_some();
            add(result, member);
        })
    }

    /// The result, in the encoding that Redis would choose.
    pub(super) fn into_result(mut self) -> NewCollection {
        if self.narrows {
            self.result.narrow();
        }
        self.result
    }
}

/// An operation whose result is returned.
pub(super) struct Shown {
    algorithm: Algorithm,
    /// The result, unless the algorithm is a selection.
    result: NewCollection,
    /// For each rank of a selection, up to the last selected member: whether the member is
    /// selected.
    kept: Vec<bool>,
    count: usize,
}

impl Shown {
    /// Begins an operation on the sets under several keys, in the order of the keys.
    pub(super) fn new(
        operation: Operation,
        sets: Vec<Option<SharedValue>>,
        new: &NewCollections,
    ) -> Self {
        let result = new.begin_set();
        Shown { algorithm: Algorithm::of(operation, sets), result, kept: Vec::new(), count: 0 }
    }

    /// Continues until `is_over` reports the end of the slice. Returns whether the operation is
    /// complete.
    pub(super) fn go_on(&mut self, is_over: impl Fn() -> bool) -> bool {
        let Shown { algorithm, result, kept, count } = self;
        algorithm.go_on(result, is_over, |_, rank, _| {
            kept.resize(rank as usize, false);
            kept.push(true);
            *count += 1;
        })
    }

    /// A job that replies with the result.
    pub(super) fn reply(self) -> Job {
        let Shown { algorithm, result, kept, count } = self;
        let base = match algorithm {
            Algorithm::Sum(_) => return show_all(result.into_shared()),
            Algorithm::Selection(selection) => selection.base,
        };
        let stride = ELEMENTS_PER_HOLD as usize;
        let mut next = None;
        strides(move |reply| {
            let rank = *next.get_or_insert_with(|| {
                reply.set(count);
                0
            });
            let mut left = kept.iter().skip(rank).take(stride);
            members(&base).and_then(|set| {
                set.walk(rank as u64, |member| {
                    let Some(is_kept) = left.next() else { return ControlFlow::Break(()) };
                    if *is_kept {
                        write(reply, member);
                    }
                    ControlFlow::Continue(())
                })
            });
            next = Some(rank + stride);
            rank + stride >= kept.len()
        })
    }
}
