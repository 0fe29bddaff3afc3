//! The layout of a tree's elements, for each type of collection.

use crate::siphash::SipHash13;
use crate::value::item::{self, Item, item_bytes};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// How a tree's elements are written, and in which order they are.
pub(crate) trait Layout: 'static {
    /// Elements in a group at most, as long as one can be split.
    const GROUP_ELEMENTS: usize;
    /// The most bytes of a group that is not split, unless it has one element.
    const GROUP_BYTES: usize;
    /// Whether elements have an order of their own, so that one after the last may begin a
    /// group.
    const IS_ORDERED: bool;

    /// Bytes of the element at the start of `bytes`.
    fn element_bytes(bytes: &[u8]) -> usize;

    /// What an element is ordered by.
    fn key(element: &[u8]) -> u64;

    /// Shows each item of an element.
    fn items(element: &[u8], show: impl FnMut(&[u8]));

    /// When the element expires, in milliseconds since 1970; 0 if it does not.
    fn expires_at_ms(_element: &[u8]) -> u64 {
        0
    }
}

/// What comes before an item that expires: this, and six bytes of milliseconds since 1970.
const EXPIRES: u8 = 248;
pub(crate) const EXPIRY_BYTES: usize = 7;

/// A set's members.
#[derive(Debug)]
pub(crate) struct Members;

/// A hash's fields and values.
#[derive(Debug)]
pub(crate) struct Fields;

/// A list's elements.
#[derive(Debug)]
pub(crate) struct Elements;

impl Layout for Members {
    const GROUP_ELEMENTS: usize = 16;
    const GROUP_BYTES: usize = 512;
    const IS_ORDERED: bool = false;

    #[inline]
    fn element_bytes(bytes: &[u8]) -> usize {
        item_bytes(bytes)
    }

    fn key(element: &[u8]) -> u64 {
        // SAFETY: elements of trees were written by `Text::write`, and hold what they refer to.
        unsafe { Item::any(element) }.with_bytes(key_of)
    }

    fn items(element: &[u8], mut show: impl FnMut(&[u8])) {
        show(element);
    }
}

impl Layout for Fields {
    const GROUP_ELEMENTS: usize = 16;
    const GROUP_BYTES: usize = 512;
    const IS_ORDERED: bool = false;

    #[inline]
    fn element_bytes(bytes: &[u8]) -> usize {
        let before = expiry_bytes(bytes);
        let field = before + item_bytes(rest(bytes, before));
        field + item_bytes(rest(bytes, field))
    }

    fn key(element: &[u8]) -> u64 {
        // SAFETY: as for `Members`.
        unsafe { Item::any(rest(element, expiry_bytes(element))) }.with_bytes(key_of)
    }

    fn items(element: &[u8], mut show: impl FnMut(&[u8])) {
        let field = rest(element, expiry_bytes(element));
        show(field);
        show(rest(field, item_bytes(field)));
    }

    fn expires_at_ms(element: &[u8]) -> u64 {
        expires_at_ms(element)
    }
}

impl Layout for Elements {
    const GROUP_ELEMENTS: usize = 64;
    const GROUP_BYTES: usize = 1024;
    const IS_ORDERED: bool = true;

    #[inline]
    fn element_bytes(bytes: &[u8]) -> usize {
        item_bytes(bytes)
    }

    fn key(_element: &[u8]) -> u64 {
        0
    }

    fn items(element: &[u8], mut show: impl FnMut(&[u8])) {
        show(element);
    }
}

/// The part of `bytes` that begins at `from`; nothing if that is beyond the end.
#[inline]
pub(crate) fn rest(bytes: &[u8], from: usize) -> &[u8] {
    bytes.get(from..).unwrap_or(&[])
}

/// How many bytes before an element's first item say when it expires.
#[inline]
pub(crate) fn expiry_bytes(element: &[u8]) -> usize {
    if element.first() == Some(&EXPIRES) { EXPIRY_BYTES } else { 0 }
}

/// What [`write_expiry`] has written in front of an element; 0 if it has written nothing.
pub(crate) fn expires_at_ms(element: &[u8]) -> u64 {
    match element {
        [EXPIRES, a, b, c, d, e, f, ..] => u64::from_le_bytes([*a, *b, *c, *d, *e, *f, 0, 0]),
        _ => 0,
    }
}

/// Writes when the element that follows expires, in milliseconds since 1970; nothing if that is 0.
pub(crate) fn write_expiry(at_ms: u64, out: &mut Vec<u8>) {
    if at_ms > 0 {
        let [a, b, c, d, e, f, ..] = at_ms.min(MAX_EXPIRES_AT_MS).to_le_bytes();
        out.extend_from_slice(&[EXPIRES, a, b, c, d, e, f]);
    }
}

/// The latest time that an element can expire at.
pub(crate) const MAX_EXPIRES_AT_MS: u64 = (1 << 48) - 1;

/// Counts what an element has elsewhere once more, for a copy of it.
///
/// # Safety
/// It was written for a tree, and holds what it refers to.
pub(crate) unsafe fn retain<L: Layout>(element: &[u8]) {
    // SAFETY: the caller's promise.
    L::items(element, |it| unsafe { item::retain(it) });
}

/// Gives up what an element has elsewhere.
///
/// # Safety
/// That of [`retain`], and the element is not used afterwards.
pub(crate) unsafe fn release<L: Layout>(element: &[u8]) {
    // SAFETY: the caller's promise.
    L::items(element, |it| unsafe { item::release(it) });
}

/// What an element's strings take elsewhere, in bytes.
///
/// # Safety
/// That of [`retain`].
pub(crate) unsafe fn bytes_elsewhere<L: Layout>(element: &[u8]) -> usize {
    let mut bytes = 0;
    // SAFETY: the caller's promise.
    L::items(element, |it| bytes += unsafe { item::memory_elsewhere(it) });
    bytes
}

/// The lower bits of a hash that are not part of what members and fields are ordered by: what is
/// left is what SCAN's cursors can say, which clients may read as a floating-point number.
pub(crate) const UNORDERED_BITS: u32 = 11;

/// What the members of a set and the fields of a hash are ordered by.
#[inline]
pub(crate) fn key_of(bytes: &[u8]) -> u64 {
    hash(bytes) >> UNORDERED_BITS << UNORDERED_BITS
}

/// The hash by which members and fields are ordered. Its seed is the process' own: clients must not
/// be able to choose members that fall into one group.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    static HASHER: LazyLock<SipHash13> = LazyLock::new(|| {
        let state = RandomState::new();
        SipHash13::new(state.hash_one(0), state.hash_one(1))
    });
    HASHER.hash(bytes)
}
