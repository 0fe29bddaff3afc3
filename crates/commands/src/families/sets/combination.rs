//! Intersections, unions and differences of sets, worked out from shared values a stride at a time:
//! no latch is held, and nothing that is written meanwhile is seen.

use crate::families::elements::{ELEMENTS_PER_HOLD, strides, write};
use crate::families::sets::walk::{members, show_all};
use crate::runtime::context::Job;
use nagi_store::types::collection::{NewCollection, NewCollections, NewElement};
use nagi_store::{SharedValue, Text, parse_i64};
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Most members that are looked for in a set between two looks at the clock.
const LOOKUPS: u32 = 64;

/// What is made of several sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Intersection,
    Union,
    Difference,
}

/// A way to work the result out.
enum Way {
    Selection(Selection),
    Sum(Sum),
}

impl Way {
    /// For the sets under several keys, in the order of these.
    fn of(operation: Operation, sets: Vec<Option<SharedValue>>) -> Self {
        let is_first_there = sets.first().is_some_and(Option::is_some);
        let are_all_there = sets.iter().all(Option::is_some);
        let sets: Vec<SharedValue> = sets.into_iter().flatten().collect();
        match operation {
            Operation::Union => Way::Sum(Sum { to_add: sets.into(), ..Sum::default() }),
            Operation::Intersection if are_all_there => {
                Way::Selection(Selection::intersection(sets))
            }
            Operation::Difference if is_first_there => Way::of_difference(sets),
            Operation::Intersection | Operation::Difference => Way::Sum(Sum::default()),
        }
    }

    /// By Redis' estimate of the work: what OBJECT ENCODING says of a stored difference depends on
    /// the way.
    fn of_difference(mut sets: Vec<SharedValue>) -> Self {
        let len = |set: &SharedValue| set.read().len();
        let lookups = sets.first().map_or(0, len).saturating_mul(sets.len() as u64) / 2;
        if lookups > sets.iter().map(len).sum() {
            let mut to_add = VecDeque::from(sets);
            let to_remove = to_add.split_off(1);
            return Way::Sum(Sum { to_add, to_remove, rank: 0 });
        }
        let base = sets.remove(0);
        // The largest is the most likely to have a member.
        sets.sort_by_key(|set| Reverse(len(set)));
        Way::Selection(Selection { others: sets, ..Selection::of(base) })
    }

    /// Goes on until `is_over` says that the slice is, with a sum in `result`, or with `keep` for
    /// each member that is selected; whether it is done.
    fn go_on(
        &mut self,
        result: &mut NewCollection,
        is_over: impl Fn() -> bool,
        mut keep: impl FnMut(&mut NewCollection, u64, &[u8]),
    ) -> bool {
        loop {
            let is_done = match self {
                Way::Sum(sum) => sum.step(result),
                Way::Selection(selection) => selection.step(|rank, member| {
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

/// Members of one set that all other sets have, or none of them.
pub(super) struct Selection {
    base: SharedValue,
    others: Vec<SharedValue>,
    /// Whether the others are to have a member.
    wanted: bool,
    /// The member that is looked at, and how many of the others have been asked for it.
    rank: u64,
    asked: usize,
}

impl Selection {
    fn of(base: SharedValue) -> Self {
        Selection { base, others: Vec::new(), wanted: false, rank: 0, asked: 0 }
    }

    /// Members of all of these, which are some sets.
    pub(super) fn intersection(mut sets: Vec<SharedValue>) -> Self {
        // The smallest has the fewest members, and the next is the least likely to have them.
        sets.sort_by_key(|set| set.read().len());
        let base = sets.remove(0);
        Selection { others: sets, wanted: true, ..Selection::of(base) }
    }

    /// Looks at some members, and shows those that are selected with their ranks until `keep`
    /// breaks off; whether it is done.
    pub(super) fn step(&mut self, mut keep: impl FnMut(u64, &[u8]) -> ControlFlow<()>) -> bool {
        let Selection { base, others, wanted, rank, asked } = self;
        let mut lookups = LOOKUPS;
        let end = members(base).and_then(|set| {
            set.walk(*rank, |member| {
                let is_selected = member.with_bytes(|bytes| {
                    let text = Text::new(bytes);
                    while let Some(other) = others.get(*asked) {
                        if lookups == 0 {
                            return ControlFlow::Break(false);
                        }
                        lookups -= 1;
                        if members(other).is_some_and(|set| set.contains(&text)) != *wanted {
                            return ControlFlow::Continue(());
                        }
                        *asked += 1;
                    }
                    lookups = lookups.saturating_sub(1);
                    keep(*rank, bytes).map_break(|()| true)
                });
                is_selected?;
                *rank += 1;
                *asked = 0;
                if lookups == 0 { ControlFlow::Break(false) } else { ControlFlow::Continue(()) }
            })
        });
        end.unwrap_or(true)
    }
}

/// Members of some sets together that others do not have.
#[derive(Default)]
struct Sum {
    to_add: VecDeque<SharedValue>,
    to_remove: VecDeque<SharedValue>,
    /// How many members of the next set have been seen to.
    rank: u64,
}

impl Sum {
    /// Sees to some members; whether it is done.
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
                        // It is a set, and so of the right type.
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
    // It is a set, and so of the right type.
    let _ = result.add(NewElement::Member(&Text::to_store(member)));
}

/// An operation whose result is stored.
pub(super) struct Stored {
    way: Way,
    result: NewCollection,
    /// Whether the result is an intersection that has had nothing but integers so far.
    narrows: bool,
}

impl Stored {
    /// Of the sets under several keys, in their order.
    pub(super) fn new(
        operation: Operation,
        sets: Vec<Option<SharedValue>>,
        new: &NewCollections,
    ) -> Self {
        let way = Way::of(operation, sets);
        let (result, narrows) = match &way {
            Way::Selection(selection) if selection.wanted => {
                (new.begin_intersection(&selection.base), true)
            }
            Way::Selection(_) | Way::Sum(_) => (new.begin_set(), false),
        };
        Stored { way, result, narrows }
    }

    /// Goes on until `is_over` says that the slice is; whether it is done.
    pub(super) fn go_on(&mut self, is_over: impl Fn() -> bool) -> bool {
        let Stored { way, result, narrows } = self;
        way.go_on(result, is_over, |result, _, member| {
            *narrows = *narrows && parse_i64(member).is_some();
            add(result, member);
        })
    }

    /// What it has come to.
    pub(super) fn into_result(mut self) -> NewCollection {
        if self.narrows {
            self.result.narrow();
        }
        self.result
    }
}

/// An operation whose result is shown.
pub(super) struct Shown {
    way: Way,
    /// The result, if it is no selection.
    result: NewCollection,
    /// Of each rank of a selection up to the last one that is kept, whether it is.
    kept: Vec<bool>,
    count: usize,
}

impl Shown {
    /// Of the sets under several keys, in their order.
    pub(super) fn new(
        operation: Operation,
        sets: Vec<Option<SharedValue>>,
        new: &NewCollections,
    ) -> Self {
        let result = new.begin_set();
        Shown { way: Way::of(operation, sets), result, kept: Vec::new(), count: 0 }
    }

    /// Goes on until `is_over` says that the slice is; whether it is done.
    pub(super) fn go_on(&mut self, is_over: impl Fn() -> bool) -> bool {
        let Shown { way, result, kept, count } = self;
        way.go_on(result, is_over, |_, rank, _| {
            kept.resize(rank as usize, false);
            kept.push(true);
            *count += 1;
        })
    }

    /// What replies with it.
    pub(super) fn reply(self) -> Job {
        let Shown { way, result, kept, count } = self;
        let base = match way {
            Way::Sum(_) => return show_all(result.into_shared()),
            Way::Selection(selection) => selection.base,
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
