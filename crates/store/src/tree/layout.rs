//! The layout of a tree's elements, one for each type of collection.

use crate::siphash::SipHash13;
use crate::value::item::{self, Item, item_bytes};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// How a tree's elements are encoded and ordered.
pub(crate) trait Layout: 'static {
    /// The maximum number of elements in a group, as long as it can be split.
    const GROUP_ELEMENTS: usize;
    /// The maximum number of bytes in a group, unless it has only one element.
    const GROUP_BYTES: usize;
    /// Whether elements are ordered by score or position instead of by hash: then an element
    /// appended at the end may begin a new group.
    const IS_ORDERED: bool;

    /// Returns the length of the element at the start of `bytes`.
    fn element_bytes(bytes: &[u8]) -> usize;

    /// Returns the order key of an element.
    fn key(element: &[u8]) -> u64;

    /// Passes each item of an element to `show`.
    fn items(element: &[u8], show: impl FnMut(&[u8]));

    /// Returns when the element expires, in milliseconds since 1970; 0 if it does not.
    fn expires_at_ms(_element: &[u8]) -> u64 {
        0
    }
}

/// The first byte of an element that expires. Six bytes with the time in milliseconds since 1970
/// follow it.
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
        // SAFETY: elements of trees were written by `Text::write`, and hold references to their
        // strings stored out of line.
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

/// Returns the part of `bytes` that begins at `from`; empty if that is beyond the end.
#[inline]
pub(crate) fn rest(bytes: &[u8], from: usize) -> &[u8] {
    bytes.get(from..).unwrap_or(&[])
}

/// Returns the length of the expiry time before an element's first item.
#[inline]
pub(crate) fn expiry_bytes(element: &[u8]) -> usize {
    if element.first() == Some(&EXPIRES) { EXPIRY_BYTES } else { 0 }
}

/// Returns the time that [`write_expiry`] wrote before an element; 0 if it wrote nothing.
pub(crate) fn expires_at_ms(element: &[u8]) -> u64 {
    match element {
        [EXPIRES, a, b, c, d, e, f, ..] => u64::from_le_bytes([*a, *b, *c, *d, *e, *f, 0, 0]),
        _ => 0,
    }
}

/// Writes the expiry time of the element that follows, in milliseconds since 1970; nothing if it is
/// 0.
pub(crate) fn write_expiry(at_ms: u64, out: &mut Vec<u8>) {
    if at_ms > 0 {
        let [a, b, c, d, e, f, ..] = at_ms.min(MAX_EXPIRES_AT_MS).to_le_bytes();
        out.extend_from_slice(&[EXPIRES, a, b, c, d, e, f]);
    }
}

/// The latest expiry time that an element can have.
pub(crate) const MAX_EXPIRES_AT_MS: u64 = (1 << 48) - 1;

/// Increments the reference counts of an element's strings stored out of line, for a copy of the
/// element.
///
/// # Safety
/// The element was written for a tree, and holds references to its strings.
pub(crate) unsafe fn retain<L: Layout>(element: &[u8]) {
    // SAFETY: the caller guarantees it.
    L::items(element, |it| unsafe { item::retain(it) });
}

/// Releases the references to an element's strings stored out of line.
///
/// # Safety
/// The same as for [`retain`], and the element is not used afterwards.
pub(crate) unsafe fn release<L: Layout>(element: &[u8]) {
    // SAFETY: the caller guarantees it.
    L::items(element, |it| unsafe { item::release(it) });
}

/// Returns the memory of an element's strings stored out of line, in bytes.
///
/// # Safety
/// The same as for [`retain`].
pub(crate) unsafe fn bytes_out_of_line<L: Layout>(element: &[u8]) -> usize {
    let mut bytes = 0;
    // SAFETY: the caller guarantees it.
    L::items(element, |it| bytes += unsafe { item::memory_out_of_line(it) });
    bytes
}

/// The number of low bits of a hash that the order key leaves out. The remaining bits are what a
/// SCAN cursor can hold, which some clients read as a floating-point number.
pub(crate) const UNORDERED_BITS: u32 = 11;

/// Returns the order key of a set's members and a hash's fields.
#[inline]
pub(crate) fn key_of(bytes: &[u8]) -> u64 {
    hash(bytes) >> UNORDERED_BITS << UNORDERED_BITS
}

/// Returns the hash of a member or field. Its seed is random for each process, so that clients
/// cannot choose members that all fall into one group.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    static HASHER: LazyLock<SipHash13> = LazyLock::new(|| {
        let state = RandomState::new();
        SipHash13::new(state.hash_one(0), state.hash_one(1))
    });
    HASHER.hash(bytes)
}
