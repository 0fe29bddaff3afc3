//! Small collections: all elements one after the other in one allocation.
//!
//! ```text
//!   0  name of the encoding   1  elements   2  elements ->
//!
//!   0  name, and LONG         1  elements   3  elements that expire   5  elements ->
//! ```
//!
//! Most collections have at most 255 elements, none of which expires, and so the short header.
//!
//! Elements are encoded as in a tree's leaves (`tree/layout.rs`), except that no string is stored
//! out of line: a collection with such a string is a tree. They are in insertion order; the
//! integers of an intset are sorted.

use crate::tree::keyed::Keyed;
use crate::tree::layout::{Layout, rest};
use crate::tree::leaf::split;
use crate::value::item::{Item, Text};
use std::marker::PhantomData;

/// The maximum size of a packed collection: scanning it takes about a microsecond.
pub(crate) const MAX_PACKED_BYTES: usize = 2048;

/// The bytes for which there is room at first; they are copied when the collection is stored.
const FEW_BYTES: usize = 128;

/// Set in the first byte if the header is long.
const LONG: u8 = 0x80;
const ELEMENTS: usize = 1;
const EXPIRING: usize = 3;
const SHORT_BYTES: usize = 2;
const LONG_BYTES: usize = 5;

/// A packed collection borrowed for reading.
#[derive(Debug)]
pub(crate) struct PackedRef<'a, L> {
    bytes: &'a [u8],
    layout: PhantomData<L>,
}

impl<L> Clone for PackedRef<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for PackedRef<'_, L> {}

/// A packed collection that can be modified. Its bytes are its stored form.
#[derive(Debug)]
pub(crate) struct Packed<L> {
    bytes: Vec<u8>,
    layout: PhantomData<L>,
}

/// An element and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At<'a> {
    pub(crate) start: usize,
    pub(crate) element: &'a [u8],
}

impl<'a, L: Layout> PackedRef<'a, L> {
    /// Wraps the bytes that [`Packed::as_bytes`] returned.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        PackedRef { bytes, layout: PhantomData }
    }

    fn number(self, at: usize) -> usize {
        let bytes = rest(self.bytes, at).first_chunk();
        usize::from(u16::from_le_bytes(bytes.copied().unwrap_or_default()))
    }

    fn is_long(self) -> bool {
        self.bytes.first().is_some_and(|first| first & LONG != 0)
    }

    /// Returns the offset of the first element.
    pub(crate) fn start(self) -> usize {
        if self.is_long() { LONG_BYTES } else { SHORT_BYTES }
    }

    /// Returns the byte that encodes the encoding's name.
    pub(crate) fn name(self) -> u8 {
        self.bytes.first().copied().unwrap_or_default() & !LONG
    }

    /// Returns the number of elements.
    pub(crate) fn len(self) -> usize {
        if self.is_long() {
            return self.number(ELEMENTS);
        }
        usize::from(self.bytes.get(ELEMENTS).copied().unwrap_or_default())
    }

    /// Returns the number of elements that expire.
    pub(crate) fn expiring(self) -> usize {
        if self.is_long() { self.number(EXPIRING) } else { 0 }
    }

    /// Returns the whole stored form.
    pub(crate) fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Iterates over its elements in order.
    #[inline]
    pub(crate) fn elements(self) -> impl Iterator<Item = At<'a>> {
        let mut start = self.start();
        split::<L>(rest(self.bytes, start)).map(move |element| {
            let at = At { start, element };
            start += element.len();
            at
        })
    }

    /// Returns the element at an index.
    pub(crate) fn select(self, rank: usize) -> Option<At<'a>> {
        self.elements().nth(rank)
    }
}

impl<'a, L: Keyed> PackedRef<'a, L> {
    /// Returns the element with this name.
    #[inline]
    pub(crate) fn find(self, name: &Text<'_>) -> Option<At<'a>> {
        self.elements().find(|it| name.is(Item::inline(L::name(it.element))))
    }
}

impl<L: Layout> Packed<L> {
    /// Creates a collection without elements.
    pub(crate) fn new(name: u8) -> Self {
        let mut bytes = Vec::with_capacity(FEW_BYTES);
        bytes.extend_from_slice(&[name, 0]);
        Packed { bytes, layout: PhantomData }
    }

    /// Wraps the bytes that [`Packed::as_bytes`] returned.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Self {
        Packed { bytes, layout: PhantomData }
    }

    /// Returns the stored form.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    #[inline]
    pub(crate) fn read(&self) -> PackedRef<'_, L> {
        PackedRef::new(&self.bytes)
    }

    pub(crate) fn set_name(&mut self, name: u8) {
        self.bytes.first_mut().into_iter().for_each(|byte| *byte = *byte & LONG | name);
    }

    /// Whether there is room for this many more bytes.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        self.bytes.len() + bytes <= MAX_PACKED_BYTES
    }

    /// Returns the offset at which an element is appended.
    pub(crate) fn end(&self) -> usize {
        self.bytes.len()
    }

    /// Inserts an element at the offset of another one, or at the end.
    pub(crate) fn insert(&mut self, start: usize, element: &[u8]) {
        self.splice(start, 0, element);
    }

    /// Removes the element at offset `start`.
    pub(crate) fn remove(&mut self, start: usize) {
        let len = L::element_bytes(rest(&self.bytes, start));
        self.splice(start, len, &[]);
    }

    /// Replaces the element at offset `start`.
    pub(crate) fn replace(&mut self, start: usize, element: &[u8]) {
        let len = L::element_bytes(rest(&self.bytes, start));
        self.splice(start, len, element);
    }

    /// Removes the elements for which `keep` returns false.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        let mut kept = Packed::new(self.read().name());
        let (mut elements, mut expiring) = (0, 0);
        for At { element, .. } in self.read().elements() {
            if keep(element) {
                kept.bytes.extend_from_slice(element);
                elements += 1;
                expiring += usize::from(expires::<L>(element));
            }
        }
        kept.set_counts(elements, expiring);
        *self = kept;
    }

    fn splice(&mut self, start: usize, len: usize, element: &[u8]) {
        let before = rest(&self.bytes, start).get(..len).unwrap_or(&[]);
        let counts = |it: &[u8]| [usize::from(!it.is_empty()), usize::from(expires::<L>(it))];
        let [[elements, expiring], [more, more_expiring]] = [counts(before), counts(element)];
        let elements = self.read().len() + more - elements;
        let expiring = self.read().expiring() + more_expiring - expiring;
        if len == element.len() {
            let to = self.bytes.get_mut(start..start + len);
            to.into_iter().for_each(|to| to.copy_from_slice(element));
        } else if start == self.bytes.len() {
            // Most elements are appended, which `splice` does more slowly.
            self.bytes.extend_from_slice(element);
        } else {
            drop(self.bytes.splice(start..start + len, element.iter().copied()));
        }
        // Last, since a longer header moves the elements.
        self.set_counts(elements, expiring);
    }

    fn set_counts(&mut self, elements: usize, expiring: usize) {
        if !self.read().is_long() {
            if let (Ok(few), 0, Some(to)) =
                (u8::try_from(elements), expiring, self.bytes.get_mut(ELEMENTS))
            {
                *to = few;
                return;
            }
            drop(self.bytes.splice(ELEMENTS..SHORT_BYTES, [0; LONG_BYTES - ELEMENTS]));
            self.bytes.first_mut().into_iter().for_each(|byte| *byte |= LONG);
        }
        self.set_number(ELEMENTS, elements);
        self.set_number(EXPIRING, expiring);
    }

    fn set_number(&mut self, at: usize, number: usize) {
        let bytes = self.bytes.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut());
        bytes.into_iter().for_each(|bytes| *bytes = (number as u16).to_le_bytes());
    }
}

fn expires<L: Layout>(element: &[u8]) -> bool {
    !element.is_empty() && L::expires_at_ms(element) > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::layout::{Fields, Members, write_expiry};

    fn item(text: &str) -> Vec<u8> {
        let mut item = Vec::new();
        Text::new(text.as_bytes()).write(&mut item);
        item
    }

    #[test]
    fn header_grows_with_the_number_of_elements() {
        let mut packed = Packed::<Members>::new(3);
        let members: Vec<Vec<u8>> = (0..300).map(|it| item(&it.to_string())).collect();
        for (count, member) in (1..).zip(&members) {
            packed.insert(packed.end(), member);
            packed.set_name(3);
            assert_eq!((packed.read().name(), packed.read().len()), (3, count));
            assert_eq!(packed.read().start(), if count < 256 { 2 } else { 5 });
        }
        let found: Vec<&[u8]> = packed.read().elements().map(|it| it.element).collect();
        assert_eq!(found, members);
        packed.retain(|element| element == members[299]);
        assert_eq!((packed.read().as_bytes().len(), packed.read().len()), (5, 1));
    }

    #[test]
    fn header_grows_when_an_element_expires() {
        let mut packed = Packed::<Fields>::new(2);
        let field = |name, at_ms| {
            let mut element = Vec::new();
            write_expiry(at_ms, &mut element);
            [element, item(name), item("value")].concat()
        };
        packed.insert(packed.end(), &field("a", 0));
        packed.insert(packed.end(), &field("b", 0));
        let find = |packed: &Packed<Fields>| {
            packed.read().find(&Text::new(b"a")).map(|it| (it.start, it.element.to_vec()))
        };
        for (at_ms, start, expiring) in [(0, 2, 0), (1_000, 5, 1), (0, 5, 0)] {
            let (before, _) = find(&packed).unwrap();
            packed.replace(before, &field("a", at_ms));
            assert_eq!(find(&packed), Some((start, field("a", at_ms))));
            let read = packed.read();
            assert_eq!((read.name(), read.len(), read.expiring()), (2, 2, expiring));
        }
    }
}
