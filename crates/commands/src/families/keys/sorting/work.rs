//! Sorting, slice by slice: elements are collected, get their weights and are ordered; then they
//! are returned or stored.

use crate::families::elements::ELEMENTS_PER_HOLD;
use crate::families::keys::sorting::merge::{Comparisons, MergeSort};
use crate::families::keys::sorting::pattern::{OwnedString, look_up};
use crate::families::keys::sorting::request::Request;
use crate::runtime::numbers::bound;
use crate::runtime::suspension::Slice;
use crate::{Context, Error};
use nagi_store::accounting::{Charge, room_bytes};
use nagi_store::types::collection::{NewCollection, NewCollections, NewElement};
use nagi_store::{Kind, SharedValue, StringValue, Text, Value, free_elsewhere};
use std::cmp::Ordering;
use std::ops::{ControlFlow, Range};

/// Elements between two readings of the clock. Each may need lookups.
const STRIDE: usize = 16;

const NO_NUMBER: Error = Error::fixed("ERR One or more scores can't be converted into double");

/// The weight by which an element is sorted.
#[derive(Debug)]
enum Weight {
    /// The element itself.
    Own,
    /// A number.
    Score(f64),
    /// A string, `None` if there is none.
    Text(Option<OwnedString>),
}

#[derive(Debug)]
struct Element {
    string: OwnedString,
    weight: Weight,
}

/// Elements that are being sorted.
pub(super) struct Sorting {
    request: Request,
    source: Option<SharedValue>,
    elements: Vec<Element>,
    charge: Charge,
    /// Allocated bytes of the strings.
    own_bytes: usize,
    /// Whether any string is so long that comparing it takes time.
    has_long: bool,
    /// The range of the source's elements to collect, and the number collected so far.
    wanted: Range<u64>,
    collected: u64,
    /// The number of elements that have their weights.
    weighed: usize,
    order: Option<MergeSort>,
    /// The range of the ordered elements to return.
    result: Range<usize>,
}

impl Drop for Sorting {
    fn drop(&mut self) {
        let memory = (std::mem::take(&mut self.elements), self.order.take(), self.source.take());
        // The parts of a tuple are dropped in order: the memory counts until it is freed.
        free_elsewhere((memory, std::mem::take(&mut self.charge)));
    }
}

impl Sorting {
    /// Begins the sort of a request.
    pub(super) fn new(mut request: Request, source: Option<SharedValue>) -> Self {
        let value = source.as_ref().map(SharedValue::read);
        let len = value.as_ref().map_or(0, Value::len);
        let is_set = value.as_ref().is_some_and(|value| matches!(value, Value::Set(_)));
        if is_set && request.is_unsorted && (request.is_in_script || request.destination.is_some())
        {
            // A set has no order that could be stored, or that a script could rely on.
            (request.is_unsorted, request.is_alphabetic, request.by) = (false, true, None);
        }
        let result = request.range(len);
        let wanted = if request.is_unsorted { result.clone() } else { 0..len };
        let kept = (wanted.end - wanted.start) as usize;
        let result = match request.is_unsorted {
            true => 0..kept,
            false => result.start as usize..result.end as usize,
        };
        Sorting {
            request,
            elements: Vec::with_capacity(kept),
            charge: Charge::default(),
            own_bytes: 0,
            has_long: false,
            wanted,
            collected: 0,
            weighed: 0,
            order: None,
            result,
            source,
        }
    }

    /// Continues until the slice is over; returns whether all elements are in order.
    ///
    /// # Errors
    /// A weight is not a number.
    pub(super) fn go_on(&mut self, cx: &Context<'_>, slice: Slice) -> Result<bool, Error> {
        while self.collected < self.wanted.end - self.wanted.start {
            self.collect();
            if slice.is_over() {
                return Ok(false);
            }
        }
        if self.request.is_unsorted {
            return Ok(true);
        }
        while self.weighed < self.elements.len() {
            self.weigh(cx)?;
            if slice.is_over() {
                return Ok(false);
            }
        }
        let comparisons = if self.has_long { Comparisons::Long } else { Comparisons::Short };
        let Sorting { elements, order, request, .. } = self;
        let order = order.get_or_insert_with(|| MergeSort::new(elements.len(), comparisons));
        let compare = |first: usize, second: usize| {
            let pair = elements.get(first).zip(elements.get(second));
            let ordering = pair.map_or(Ordering::Equal, |(first, second)| compare(first, second));
            if request.descends { ordering.reverse() } else { ordering }
        };
        Ok(order.go_on(compare, || slice.is_over()))
    }

    /// Copies some elements of the source.
    fn collect(&mut self) {
        let Sorting { source: Some(source), elements, wanted, .. } = self else { return };
        let (before, mut left) = (elements.len(), ELEMENTS_PER_HOLD);
        left = left.min(wanted.end - wanted.start - self.collected);
        let rank = wanted.start + self.collected;
        self.collected += left;
        let mut keep = |string: StringValue<'_>| {
            elements.push(Element { string: OwnedString::of(string), weight: Weight::Own });
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let backwards = self.request.is_unsorted && self.request.descends;
        match source.read() {
            Value::List(list) if backwards => list.walk_back(list.len() - 1 - rank, keep),
            Value::List(list) => list.walk(rank, keep),
            Value::Set(set) => set.walk(rank, keep),
            Value::SortedSet(set) if backwards => {
                set.walk_back(set.len() - 1 - rank, |member| keep(member.name))
            }
            Value::SortedSet(set) => set.walk(rank, |member| keep(member.name)),
            Value::String(_) | Value::Hash(_) | Value::Stream(_) => None,
        };
        for element in elements.iter().skip(before) {
            self.own_bytes += element.string.own_bytes();
            self.has_long |= element.string.is_long();
        }
        self.count_memory();
    }

    /// Accounts for the elements and their strings.
    fn count_memory(&mut self) {
        self.charge.set(room_bytes::<Element>(self.elements.capacity()) + self.own_bytes);
    }

    /// Determines the weights of some elements.
    fn weigh(&mut self, cx: &Context<'_>) -> Result<(), Error> {
        for element in self.elements.iter_mut().skip(self.weighed).take(STRIDE) {
            self.weighed += 1;
            let by = self.request.by.map(|at| look_up(cx, cx.args.at(at), &element.string));
            element.weight = match (by, self.request.is_alphabetic) {
                (None, true) => Weight::Own,
                (Some(found), true) => {
                    self.own_bytes += found.as_ref().map_or(0, OwnedString::own_bytes);
                    self.has_long |= found.as_ref().is_some_and(OwnedString::is_long);
                    Weight::Text(found)
                }
                (None, false) => Weight::Score(score(&element.string)?),
                (Some(None), false) => Weight::Score(0.0),
                (Some(Some(found)), false) => Weight::Score(score(&found)?),
            };
        }
        self.count_memory();
        Ok(())
    }

    /// The number of strings in the result.
    pub(super) fn len(&self) -> usize {
        self.result.len() * self.request.get.len().max(1)
    }

    /// Passes some strings of the result to `show`, beginning with the string at index `from`.
    /// Returns their number. `None` stands for a missing value.
    pub(super) fn show(
        &self,
        cx: &mut Context<'_>,
        from: usize,
        mut show: impl FnMut(&mut Context<'_>, Option<&OwnedString>),
    ) -> usize {
        let per_element = self.request.get.len().max(1);
        let end = self.len().min(from + STRIDE);
        for at in from..end {
            let rank = self.result.start + at / per_element;
            let place = self.order.as_ref().and_then(|order| order.places().get(rank));
            let element = self.elements.get(place.copied().unwrap_or(rank));
            let Some(element) = element else { continue };
            match self.request.get.get(at % per_element) {
                None => show(cx, Some(&element.string)),
                Some(pattern) => {
                    let found = look_up(cx, cx.args.at(*pattern), &element.string);
                    show(cx, found.as_ref());
                }
            }
        }
        end - from
    }
}

/// Parses a string as a number, in the syntax of score bounds.
fn score(kept: &OwnedString) -> Result<f64, Error> {
    /// Longer strings are refused without joining them.
    const LONGEST_BYTES: usize = 64 * 1024;
    if kept.value().len() > LONGEST_BYTES {
        return Err(NO_NUMBER);
    }
    kept.value().with_bytes(bound).ok_or(NO_NUMBER)
}

fn compare(first: &Element, second: &Element) -> Ordering {
    match (&first.weight, &second.weight) {
        (Weight::Score(one), Weight::Score(other)) => {
            let ordering = one.partial_cmp(other).unwrap_or(Ordering::Equal);
            ordering.then_with(|| first.string.compare(&second.string))
        }
        (Weight::Text(Some(one)), Weight::Text(Some(other))) => one.compare(other),
        (Weight::Text(one), Weight::Text(other)) => one.is_some().cmp(&other.is_some()),
        _ => first.string.compare(&second.string),
    }
}

/// The list in which a result is stored.
pub(super) struct Stored {
    list: Option<NewCollection>,
    len: usize,
}

impl Stored {
    pub(super) fn new(cx: &Context<'_>) -> Self {
        let new = NewCollections::new(cx.db.store(), cx.server.config().collection_limits());
        Stored { list: new.begin(Kind::List), len: 0 }
    }

    /// Adds elements until the slice is over. Returns the list once it is complete.
    pub(super) fn go_on(
        &mut self,
        cx: &mut Context<'_>,
        sorting: &Sorting,
        slice: Slice,
    ) -> Option<NewCollection> {
        while self.len < sorting.len() {
            let list = self.list.as_mut()?;
            self.len += sorting.show(cx, self.len, |_, kept| {
                let text = kept.map_or_else(|| Text::new(b""), OwnedString::text);
                // The value is a list.
                let _ = list.add(NewElement::Item(&text));
            });
            if slice.is_over() && self.len < sorting.len() {
                return None;
            }
        }
        self.list.take()
    }
}
