//! Searching an area: one cell after the other, a few members at a time.

use super::area::Area;
use super::geohash::{Cell, Position, position_of};
use crate::families::derived_set::{Derivation, Shown};
use crate::families::elements::{ELEMENTS_PER_HOLD, write, write_score};
use nagi_proto::resp::Writer;
use nagi_store::types::sorted_set::NewSortedSet;
use nagi_store::{Member, ScoreBound, SharedValue, SortedSetRef, Store, Text, free_elsewhere};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

/// The order in which found members are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// In the order of the search.
    Found,
    NearestFirst,
    FarthestFirst,
}

/// The query of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query {
    /// The area; without one, no member is found.
    pub(super) area: Option<Area>,
    pub(super) order: Order,
    /// The maximum number of members to find.
    pub(super) most: Option<u64>,
    /// Whether the search ends once this number is found, even if other members are nearer.
    pub(super) any: bool,
}

/// A member that was found.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// Rank of the member in the sorted set.
    rank: u64,
    /// Distance from the center, in meters.
    meters: f64,
}

/// A search that is being executed.
#[derive(Debug)]
pub(super) struct Search {
    value: Option<SharedValue>,
    query: Query,
    /// Ranges of ranks that are still to be searched.
    ranges: Vec<Range<u64>>,
    /// In the requested order; the second number distinguishes members at the same distance.
    found: BTreeMap<(u64, u64), Point>,
    seen: u64,
}

/// Members from which on they are freed by another thread.
const MANY_MEMBERS: usize = 1000;

impl Drop for Search {
    fn drop(&mut self) {
        // A client may disconnect before it has received them.
        if self.found.len() > MANY_MEMBERS {
            free_elsewhere(std::mem::take(&mut self.found));
        }
    }
}

impl Search {
    pub(super) fn new(value: Option<SharedValue>, query: Query) -> Self {
        let set = value.as_ref().and_then(|value| value.read().sorted_set().ok());
        let cells = query.area.map_or_else(Vec::new, |area| area.cells());
        let mut ranges = Vec::with_capacity(cells.len());
        if let Some(set) = set {
            ranges.extend(cells.into_iter().rev().map(|cell| ranks(set, cell)));
        }
        Search { value, query, ranges, found: BTreeMap::new(), seen: 0 }
    }

    /// Continues until `is_over` reports the end of the slice; returns whether all members are
    /// found.
    pub(super) fn go_on(&mut self, is_over: impl Fn() -> bool) -> bool {
        while !self.ranges.is_empty() {
            if is_over() {
                return false;
            }
            self.step();
        }
        true
    }

    /// Checks some members.
    fn step(&mut self) {
        let Search { value, query, ranges, found, seen } = self;
        let set = value.as_ref().and_then(|value| value.read().sorted_set().ok());
        let Some(((set, area), range)) = set.zip(query.area).zip(ranges.last_mut()) else {
            return ranges.clear();
        };
        let end = range.end.min(range.start + ELEMENTS_PER_HOLD);
        let mut is_enough = false;
        set.walk(range.start, |member| {
            if range.start >= end {
                return ControlFlow::Break(());
            }
            let rank = range.start;
            range.start += 1;
            let Some(meters) = area.meters_to(position_of(member.score)) else {
                return ControlFlow::Continue(());
            };
            *seen += 1;
            found.insert((query.order.key(meters), *seen), Point { rank, meters });
            let is_full = query.most.is_some_and(|most| found.len() as u64 > most);
            if is_full {
                found.pop_last();
            }
            is_enough = query.any && query.most.is_some_and(|most| found.len() as u64 >= most);
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if is_enough {
            ranges.clear();
        } else if range.start >= range.end {
            ranges.pop();
        }
    }

    /// The number of members that were found and not taken.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// Takes at most `most` of the members, in order, and passes them to `show` with their
    /// distances from the center in the area's unit.
    pub(super) fn take_some(&mut self, most: u64, mut show: impl FnMut(&Member<'_>, f64)) {
        let set = self.value.as_ref().and_then(|value| value.read().sorted_set().ok());
        let unit_m = self.query.area.map_or(1.0, |area| area.unit_m);
        for _ in 0..most {
            let Some((_, point)) = self.found.pop_first() else { return };
            let member = set.and_then(|set| set.select(point.rank));
            member.iter().for_each(|member| show(member, point.meters / unit_m));
        }
    }
}

impl Order {
    /// The key by which found members are ordered.
    fn key(self, meters: f64) -> u64 {
        // Non-negative numbers are ordered like their bits.
        match self {
            Order::Found => 0,
            Order::NearestFirst => meters.to_bits(),
            Order::FarthestFirst => !meters.to_bits(),
        }
    }
}

fn ranks(set: SortedSetRef<'_>, cell: Cell) -> Range<u64> {
    let (min, max) = cell.scores();
    let bound = |score, is_exclusive| ScoreBound { score, is_exclusive };
    set.with_scores(bound(min, false), bound(max, true))
}

/// The details returned for each member besides its name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Details {
    pub(super) distance: bool,
    pub(super) hash: bool,
    pub(super) position: bool,
}

impl Details {
    /// Writes a member.
    pub(super) fn write(self, reply: &mut Writer<'_>, member: &Member<'_>, distance: f64) {
        let details = [self.distance, self.hash, self.position];
        let count = details.into_iter().filter(|is_shown| *is_shown).count();
        if count > 0 {
            reply.array(count + 1);
        }
        write(reply, member.name);
        if self.distance {
            write_distance(reply, distance);
        }
        if self.hash {
            reply.integer(member.score as i64);
        }
        if self.position {
            write_position(reply, position_of(member.score));
        }
    }
}

/// Writes a distance, with four decimals.
pub(super) fn write_distance(reply: &mut Writer<'_>, distance: f64) {
    reply.bulk(format!("{distance:.4}").as_bytes());
}

/// Writes a position.
pub(super) fn write_position(reply: &mut Writer<'_>, position: Position) {
    reply.array(2);
    for coordinate in [position.longitude, position.latitude] {
        write_score(reply, coordinate);
    }
}

/// A search whose members are to be stored.
pub(super) struct StoredSearch {
    search: Search,
    /// Whether they are stored with their distances instead of their geohashes.
    with_distances: bool,
    set: NewSortedSet,
}

impl StoredSearch {
    pub(super) fn new(search: Search, with_distances: bool, store: &Store) -> Self {
        StoredSearch { search, with_distances, set: NewSortedSet::new(store) }
    }
}

impl Derivation for StoredSearch {
    fn go_on(&mut self, is_over: impl Fn() -> bool) -> bool {
        if !self.search.go_on(&is_over) {
            return false;
        }
        while self.search.len() > 0 {
            if is_over() {
                return false;
            }
            let StoredSearch { search, with_distances, set } = self;
            search.take_some(ELEMENTS_PER_HOLD, |member, distance| {
                let score = if *with_distances { distance } else { member.score };
                member.name.with_bytes(|name| set.set(&Text::new(name), score));
            });
        }
        true
    }

    fn shown(&self) -> Shown {
        Shown::Members
    }

    fn take(&mut self) -> NewSortedSet {
        self.set.take()
    }
}
