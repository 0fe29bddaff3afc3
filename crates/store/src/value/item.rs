//! Strings inside collections: their encoding in packed collections and on pages of trees.
//!
//! ```text
//!  0 to 191        a string of this length, which follows
//!  192 to 207      a string of up to 4095: the upper four bits of its length, then the lower eight
//!  224 to 231      an integer of 1 to 8 bytes, least significant first, two's complement
//!  240             eight bytes: the address of a reference-counted string stored out of line
//! ```
//!
//! All strings that [`parse_i64`] accepts are encoded as integers. Each string therefore has
//! exactly one encoding, and two strings are equal if their encodings are. Strings over
//! [`MAX_INLINE_BYTES`] are stored out of line, because a page holds several items and is copied on
//! write while it is shared.

use crate::value::number::parse_i64;
use crate::value::rope::Rope;
use crate::value::string::{StringInput, StringValue};
use nagi_chunk::{CHUNK_BYTES, Chunk};
use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

/// The length of the longest string that is stored inline.
pub(crate) const MAX_INLINE_BYTES: usize = 512;

const MAX_SHORT: u8 = 191;
const MEDIUM: u8 = 192;
const INTEGER: u8 = 224;
const OUT_OF_LINE: u8 = 240;
const ADDRESS_BYTES: usize = size_of::<u64>();

/// A string stored out of line, shared by all copies of the collection.
#[derive(Debug)]
pub(crate) enum Long {
    Bytes(Box<[u8]>),
    Rope(Rope),
}

impl Long {
    fn new(bytes: &[u8]) -> Arc<Self> {
        if bytes.len() > CHUNK_BYTES {
            return Long::from_rope(Rope::from_bytes(bytes));
        }
        Arc::new(Long::Bytes(bytes.into()))
    }

    fn from_rope(mut rope: Rope) -> Arc<Self> {
        rope.keep();
        Arc::new(Long::Rope(rope))
    }

    fn value(&self) -> StringValue<'_> {
        match self {
            Long::Bytes(bytes) => StringValue::Bytes(bytes),
            Long::Rope(rope) => StringValue::Rope(rope),
        }
    }

    /// Returns its approximate memory in bytes.
    fn memory_bytes(&self) -> usize {
        let len = match self {
            Long::Bytes(bytes) => bytes.len(),
            Long::Rope(rope) => rope.len(),
        };
        len + size_of::<Long>() + 2 * size_of::<usize>()
    }
}

/// A string to store or look for, and its encoding.
#[derive(Clone, Debug)]
pub struct Text<'a> {
    /// The string; empty if it was given as a rope.
    source: &'a [u8],
    head: [u8; 9],
    head_len: u8,
    /// The bytes after the head, unless the string is stored out of line.
    body: &'a [u8],
    long: Option<Arc<Long>>,
}

impl<'a> Text<'a> {
    /// Creates a text to look for. It may also be stored, but a long string is copied at that time.
    #[must_use]
    pub fn new(source: &'a [u8]) -> Self {
        let mut text = Text { source, head: [0; 9], head_len: 1, body: source, long: None };
        let len = source.len();
        if let Some(value) = parse_i64(source) {
            text.set_integer(value);
        } else if len <= usize::from(MAX_SHORT) {
            text.head[0] = len as u8;
        } else if len <= MAX_INLINE_BYTES {
            text.head[0] = MEDIUM | (len >> 8) as u8;
            text.head[1] = len as u8;
            text.head_len = 2;
        } else {
            text.head[0] = OUT_OF_LINE;
            text.body = &[];
        }
        text
    }

    /// Creates a text to store. A long string is copied here, before any latch is taken.
    #[must_use]
    pub fn to_store(source: &'a [u8]) -> Self {
        let mut text = Text::new(source);
        if text.is_long() {
            text.long = Some(Long::new(source));
        }
        text
    }

    /// Like [`Text::to_store`], for a string that a caller hands over.
    #[must_use]
    pub fn from_input(given: StringInput<'a>) -> Self {
        match given {
            StringInput::Bytes(bytes) => Text::to_store(bytes),
            StringInput::Rope(rope) if rope.len() > MAX_INLINE_BYTES => {
                Text::from_long(Long::from_rope(rope))
            }
            // Ropes are always long; the arm makes the match exhaustive.
            StringInput::Rope(rope) => {
                let mut bytes = Vec::with_capacity(rope.len());
                rope.copy_range(0..rope.len(), &mut bytes);
                let mut text = Text::new(&[]);
                text.long = Some(Arc::new(Long::Bytes(bytes.into())));
                text.head[0] = OUT_OF_LINE;
                text
            }
        }
    }

    /// Creates a text of a long string in chunks, to look for.
    #[must_use]
    pub fn in_chunks(rope: Rope) -> Self {
        Text::from_long(Arc::new(Long::Rope(rope)))
    }

    /// Creates a text of a string that is already stored out of line.
    fn from_long(long: Arc<Long>) -> Self {
        Text { source: &[], head: [OUT_OF_LINE; 9], head_len: 1, body: &[], long: Some(long) }
    }

    fn set_integer(&mut self, value: i64) {
        let unused_bits = if value < 0 { value.leading_ones() } else { value.leading_zeros() };
        let bytes = ((64 - unused_bits) / 8 + 1) as usize;
        self.head[0] = INTEGER | (bytes - 1) as u8;
        let written = value.to_le_bytes();
        self.head.iter_mut().skip(1).zip(written).take(bytes).for_each(|(to, byte)| *to = byte);
        self.head_len = bytes as u8 + 1;
        self.body = &[];
    }

    /// Returns the string, unless it was given as a rope.
    pub(crate) fn source(&self) -> &'a [u8] {
        self.source
    }

    /// Returns its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.long.as_ref().map_or(self.source.len(), |long| long.value().len())
    }

    /// Whether it is encoded as the address of a string stored out of line.
    pub(crate) fn is_long(&self) -> bool {
        self.head[0] == OUT_OF_LINE
    }

    /// Returns the integer that it is encoded as, if any.
    pub(crate) fn integer(&self) -> Option<i64> {
        (self.head[0] & 0xf8 == INTEGER).then(|| read_integer(&self.head))
    }

    /// Returns how many bytes [`Text::write`] appends.
    #[inline]
    pub(crate) fn item_bytes(&self) -> usize {
        if self.is_long() { 1 + ADDRESS_BYTES } else { self.head().len() + self.body.len() }
    }

    fn head(&self) -> &[u8] {
        self.head.get(..usize::from(self.head_len)).unwrap_or(&self.head)
    }

    /// Appends the item. The reference count of a string stored out of line is incremented;
    /// `release` undoes this when the item is dropped.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head());
        if self.is_long() {
            let long = self.long.clone().unwrap_or_else(|| Long::new(self.source));
            let address = Arc::into_raw(long).expose_provenance() as u64;
            out.extend_from_slice(&address.to_le_bytes());
        } else {
            out.extend_from_slice(self.body);
        }
    }

    /// Whether `item` is equal to this string.
    #[inline]
    pub(crate) fn is(&self, item: Item<'_>) -> bool {
        if self.is_long() {
            let own = self.long.as_ref().map(|long| long.value());
            let own = own.unwrap_or(StringValue::Bytes(self.source));
            return item.is_out_of_line() && is_same(own, item.value());
        }
        match (item.0, self.head()) {
            ([first, body @ ..], [head]) => first == head && body == self.body,
            (item, head) => item.strip_prefix(head).is_some_and(|body| body == self.body),
        }
    }

    /// Returns what finds this string among the items of a collection.
    pub(crate) fn search(&self) -> ItemSearch<'_> {
        ItemSearch::new(self)
    }

    /// Compares this string with `item` byte by byte, like `memcmp`.
    pub(crate) fn compare(&self, item: Item<'_>) -> Ordering {
        match item.value() {
            // Joining it would cost more than the few bytes that usually decide.
            StringValue::Rope(rope) => self.compare_chunks(rope.chunks().map(Deref::deref)),
            value => value.with_bytes(|bytes| self.source.cmp(bytes)),
        }
    }

    fn compare_chunks<'c>(&self, chunks: impl Iterator<Item = &'c [u8]>) -> Ordering {
        let mut rest = self.source;
        for chunk in chunks {
            let (own, behind) = rest.split_at(rest.len().min(chunk.len()));
            // If this string ends within the chunk, it is the lesser one.
            match own.cmp(chunk.get(..own.len()).unwrap_or(chunk)) {
                Ordering::Equal if own.len() < chunk.len() => return Ordering::Less,
                Ordering::Equal => rest = behind,
                ordering => return ordering,
            }
        }
        if rest.is_empty() { Ordering::Equal } else { Ordering::Greater }
    }
}

/// A comparison of one string with many items, most of which differ from it.
///
/// Names in one collection often differ only in their last bytes, so the last [`TAIL_BYTES`] of an
/// item decide first.
#[derive(Debug)]
pub(crate) struct ItemSearch<'t> {
    text: &'t Text<'t>,
    item_bytes: usize,
    /// The last bytes of the item as a little-endian number, and the mask of those bits of the
    /// [`TAIL_BYTES`] at `tail_at` that belong to a shorter item.
    tail: u64,
    tail_mask: u64,
    tail_at: usize,
}

const TAIL_BYTES: usize = size_of::<u64>();

impl<'t> ItemSearch<'t> {
    fn new(text: &'t Text<'t>) -> Self {
        let item_bytes = text.item_bytes();
        let tail_at = item_bytes.saturating_sub(TAIL_BYTES);
        let bytes = item_bytes - tail_at;
        let unused_bits = 8 * (TAIL_BYTES - bytes) as u32;
        let short = || {
            let bytes = text.head().iter().chain(text.body).skip(tail_at);
            bytes.zip((0..64).step_by(8)).fold(0, |tail, (byte, at)| tail | u64::from(*byte) << at)
        };
        let tail = text.body.last_chunk().map_or_else(short, |tail| u64::from_le_bytes(*tail));
        ItemSearch { text, item_bytes, tail, tail_mask: u64::MAX >> unused_bits, tail_at }
    }

    /// Whether the item at the start of `bytes` is equal to the string.
    ///
    /// # Safety
    /// The same as for [`Item::any`].
    #[inline]
    pub(crate) unsafe fn is_at(&self, bytes: &[u8]) -> bool {
        if self.text.is_long() {
            // SAFETY: the caller guarantees it.
            return self.text.is(unsafe { Item::any(bytes) });
        }
        let end = bytes.get(self.tail_at..).and_then(|end| end.first_chunk());
        match end.map(|end| u64::from_le_bytes(*end) & self.tail_mask) {
            Some(tail) if tail != self.tail => false,
            _ => bytes.get(..self.item_bytes).is_some_and(|item| self.text.is(Item(item))),
        }
    }
}

/// An encoded string in a collection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a>(&'a [u8]);

impl<'a> Item<'a> {
    /// Decodes the item at the start of `bytes`. An address decodes as an empty string, because it
    /// cannot be trusted here.
    #[inline]
    pub(crate) fn inline(bytes: &'a [u8]) -> Self {
        match bytes.first() {
            None | Some(&OUT_OF_LINE) => Item(&[0]),
            Some(_) => Item(bytes.get(..item_bytes(bytes)).unwrap_or(&[0])),
        }
    }

    /// Decodes the item at the start of `bytes`.
    ///
    /// # Safety
    /// The item was written by [`Text::write`], and its string stored out of line lives for `'a`.
    #[inline]
    pub(crate) unsafe fn any(bytes: &'a [u8]) -> Self {
        Item(bytes.get(..item_bytes(bytes)).unwrap_or(&[0]))
    }

    fn is_out_of_line(self) -> bool {
        self.0.first() == Some(&OUT_OF_LINE)
    }

    /// Returns the string.
    #[inline]
    pub(crate) fn value(self) -> StringValue<'a> {
        match self.0 {
            [OUT_OF_LINE, ..] => {
                // SAFETY: only `any` creates such items, and its caller guarantees that the address
                // is valid.
                unsafe { &*address(self.0) }.value()
            }
            [INTEGER..OUT_OF_LINE, ..] => StringValue::Int(read_integer(self.0)),
            [MEDIUM..INTEGER, _, bytes @ ..] | [_, bytes @ ..] => StringValue::Bytes(bytes),
            [] => StringValue::Bytes(&[]),
        }
    }

    /// Passes the string to `take` as one slice.
    pub(crate) fn with_bytes<R>(self, take: impl FnOnce(&[u8]) -> R) -> R {
        self.value().with_bytes(take)
    }
}

/// Compares two long strings in place, without copying them.
fn is_same(one: StringValue<'_>, other: StringValue<'_>) -> bool {
    match (one, other) {
        (StringValue::Rope(one), StringValue::Rope(other)) => {
            let same = |(one, other): (&Chunk, &Chunk)| one.is_same(other) || one == other;
            one.len() == other.len() && one.chunks().zip(other.chunks()).all(same)
        }
        (StringValue::Rope(rope), StringValue::Bytes(bytes))
        | (StringValue::Bytes(bytes), StringValue::Rope(rope)) => {
            let mut pieces = rope.chunks().zip(bytes.chunks(CHUNK_BYTES));
            rope.len() == bytes.len() && pieces.all(|(chunk, piece)| **chunk == *piece)
        }
        (StringValue::Bytes(one), StringValue::Bytes(other)) => one == other,
        (StringValue::Int(_), _) | (_, StringValue::Int(_)) => false,
    }
}

/// A string taken out of a collection, to be returned or stored in another one. A long string is
/// shared.
#[derive(Clone, Debug)]
pub struct OwnedText(Owned);

#[derive(Clone, Debug)]
enum Owned {
    Bytes(Box<[u8]>),
    Long(Arc<Long>),
}

impl OwnedText {
    pub(crate) fn of(item: Item<'_>) -> Self {
        if !item.is_out_of_line() {
            return OwnedText(Owned::Bytes(item.with_bytes(|bytes| bytes.into())));
        }
        let address = address(item.0);
        // SAFETY: only `any` creates such items, and its caller guarantees that the address is
        // valid: it came from `Arc::into_raw` and its reference is still counted.
        OwnedText(Owned::Long(unsafe {
            Arc::increment_strong_count(address);
            Arc::from_raw(address)
        }))
    }

    /// Returns the string as a text to store or look for.
    pub(crate) fn text(&self) -> Text<'_> {
        match &self.0 {
            Owned::Bytes(bytes) => Text::new(bytes),
            Owned::Long(long) => Text::from_long(Arc::clone(long)),
        }
    }

    /// Returns the string.
    #[must_use]
    pub fn value(&self) -> StringValue<'_> {
        match &self.0 {
            Owned::Bytes(bytes) => StringValue::Bytes(bytes),
            Owned::Long(long) => long.value(),
        }
    }
}

/// Returns the length of the string's entry in a Redis listpack (`listpack.c`). OBJECT ENCODING of
/// lists depends on it.
pub(crate) fn listpack_bytes(value: StringValue<'_>) -> usize {
    let entry = match value {
        StringValue::Int(0..128) => 1,
        StringValue::Int(-4096..4096) => 2,
        StringValue::Int(-0x8000..0x8000) => 3,
        StringValue::Int(-0x80_0000..0x80_0000) => 4,
        StringValue::Int(-0x8000_0000..0x8000_0000) => 5,
        StringValue::Int(_) => 9,
        value => match value.len() {
            len @ 0..64 => 1 + len,
            len @ 64..4096 => 2 + len,
            len => 5 + len,
        },
    };
    // The entry ends with its own length, seven bits to a byte, for reading backwards.
    let back = (usize::BITS - entry.leading_zeros()).div_ceil(7).clamp(1, 5);
    entry + back as usize
}

/// Returns the length of the item at the start of `bytes`.
#[inline]
pub(crate) fn item_bytes(bytes: &[u8]) -> usize {
    match bytes {
        [short @ 0..=MAX_SHORT, ..] => 1 + usize::from(*short),
        [OUT_OF_LINE..=u8::MAX, ..] => 1 + ADDRESS_BYTES,
        [integer @ INTEGER..OUT_OF_LINE, ..] => 2 + usize::from(*integer & 7),
        [medium, low, ..] => 2 + (usize::from(*medium & 0xf) << 8 | usize::from(*low)),
        [] | [_] => bytes.len(),
    }
}

fn read_integer(item: &[u8]) -> i64 {
    let [head, rest @ ..] = item else { return 0 };
    let bytes = usize::from(*head & 7) + 1;
    let value =
        rest.iter().take(bytes).rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    let unused_bits = 64 - 8 * bytes as u32;
    (value << unused_bits).cast_signed() >> unused_bits
}

fn address(item: &[u8]) -> *const Long {
    let bytes = item.get(1..).and_then(|bytes| bytes.first_chunk());
    let address = u64::from_le_bytes(bytes.copied().unwrap_or_default());
    std::ptr::with_exposed_provenance(address as usize)
}

/// Returns the memory of the string stored out of line for the item at the start of `bytes`.
///
/// # Safety
/// The same as for [`Item::any`].
pub(crate) unsafe fn memory_out_of_line(bytes: &[u8]) -> usize {
    // SAFETY: the caller guarantees it.
    let long = is_out_of_line(bytes).then(|| unsafe { &*address(bytes) });
    long.map_or(0, Long::memory_bytes)
}

/// Whether the item at the start of `bytes` is the address of a string stored out of line.
#[inline]
pub(crate) fn is_out_of_line(bytes: &[u8]) -> bool {
    bytes.first() == Some(&OUT_OF_LINE)
}

/// Increments the reference count of the string stored out of line for the item at the start of
/// `bytes`, for a copy of the item.
///
/// # Safety
/// The same as for [`Item::any`].
pub(crate) unsafe fn retain(bytes: &[u8]) {
    if is_out_of_line(bytes) {
        // SAFETY: the address came from `Arc::into_raw` and its reference is still counted.
        unsafe { Arc::increment_strong_count(address(bytes)) };
    }
}

/// Drops the item at the start of `bytes`: releases its string stored out of line.
///
/// # Safety
/// The same as for [`Item::any`], and the item is not used afterwards.
pub(crate) unsafe fn release(bytes: &[u8]) {
    if is_out_of_line(bytes) {
        // SAFETY: as above; this takes over the item's reference.
        drop(unsafe { Arc::from_raw(address(bytes)) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn string() -> impl Strategy<Value = Vec<u8>> {
        let bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
        let number = any::<(i64, u32)>()
            .prop_map(|(value, shift)| (value >> (shift % 64)).to_string().into_bytes());
        prop_oneof![bytes(20), bytes(800), number]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 512 }))]

        #[test]
        fn items_round_trip_and_compare_as_bytes(a in string(), b in string()) {
            let mut out = vec![];
            let (first, second) = (Text::new(&a), Text::to_store(&b));
            first.write(&mut out);
            let len = out.len();
            prop_assert_eq!(len, first.item_bytes());
            prop_assert_eq!(item_bytes(&out), len);
            second.write(&mut out);
            // SAFETY: both were just written, and are released below.
            let items = unsafe { [Item::any(&out), Item::any(&out[len..])] };
            items[0].with_bytes(|bytes| assert_eq!(bytes, &a));
            items[1].with_bytes(|bytes| assert_eq!(bytes, &b));
            prop_assert_eq!(first.compare(items[1]), a.cmp(&b));
            prop_assert_eq!(first.is(items[1]), a == b);
            prop_assert!(first.is(items[0]));
            // SAFETY: as above.
            unsafe {
                prop_assert_eq!(first.search().is_at(&out[len..]), a == b);
                prop_assert!(first.search().is_at(&out));
                prop_assert!(first.search().is_at(&out[..len]));
            }
            // SAFETY: this releases the reference of the copy as well.
            unsafe {
                retain(&out);
                release(&out);
                release(&out);
                release(&out[len..]);
            }
        }
    }

    #[test]
    fn integers_have_their_shortest_encoding() {
        for (text, bytes) in [("0", 2), ("127", 2), ("-128", 2), ("128", 3), ("12345", 3)] {
            assert_eq!(Text::new(text.as_bytes()).item_bytes(), bytes, "{text}");
        }
        assert_eq!(Text::new(b"-9223372036854775808").item_bytes(), 9);
        assert_eq!(Text::new(b"012").item_bytes(), 4, "no integer to parse_i64");
    }

    #[test]
    fn untrusted_address_is_not_dereferenced() {
        assert_eq!(Item::inline(&[OUT_OF_LINE, 1, 2, 3, 4, 5, 6, 7, 8]).value().len(), 0);
        assert_eq!(Item::inline(&[]).value().len(), 0);
        assert_eq!(Item::inline(&[20, 1]).value().len(), 0);
    }
}
