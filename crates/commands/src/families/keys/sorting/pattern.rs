//! The values of keys that BY and GET derive from elements by patterns.

use crate::Context;
use nagi_proto::resp::Writer;
use nagi_store::{Rope, StringValue, Text, Value};
use std::cmp::Ordering;
use std::ops::Deref;

/// An owned string, since elements are sorted without latches.
#[derive(Clone, Debug)]
pub(super) enum OwnedString {
    Bytes(Box<[u8]>),
    /// A long string, shared.
    Rope(Rope),
}

impl OwnedString {
    pub(super) fn of(string: StringValue<'_>) -> Self {
        match string {
            StringValue::Rope(rope) => OwnedString::Rope(rope.clone()),
            string => OwnedString::Bytes(string.with_bytes(|bytes| bytes.into())),
        }
    }

    pub(super) fn value(&self) -> StringValue<'_> {
        match self {
            OwnedString::Bytes(bytes) => StringValue::Bytes(bytes),
            OwnedString::Rope(rope) => StringValue::Rope(rope),
        }
    }

    /// The string as an element of a collection.
    pub(super) fn text(&self) -> Text<'_> {
        match self {
            OwnedString::Bytes(bytes) => Text::to_store(bytes),
            OwnedString::Rope(rope) => Text::in_chunks(rope.clone()),
        }
    }

    /// Its allocated bytes.
    pub(super) fn own_bytes(&self) -> usize {
        match self {
            OwnedString::Bytes(bytes) => bytes.len(),
            OwnedString::Rope(_) => 0,
        }
    }

    pub(super) fn write(&self, reply: &mut Writer<'_>) {
        match self {
            OwnedString::Bytes(bytes) => reply.bulk(bytes),
            OwnedString::Rope(rope) => reply.bulk_chunks(rope.share(), 0..rope.len()),
        }
    }

    /// Compares the bytes lexicographically.
    pub(super) fn compare(&self, other: &OwnedString) -> Ordering {
        fn pieces(string: &OwnedString) -> Vec<&[u8]> {
            match string {
                OwnedString::Bytes(bytes) => vec![&bytes[..]],
                OwnedString::Rope(rope) => rope.chunks().map(Deref::deref).collect(),
            }
        }
        match (self, other) {
            (OwnedString::Bytes(bytes), OwnedString::Bytes(other)) => bytes.cmp(other),
            _ => pieces(self).into_iter().flatten().cmp(pieces(other).into_iter().flatten()),
        }
    }
}

/// The position of the asterisk in a pattern, if any. As in Redis, a zero byte ends the pattern.
fn asterisk(pattern: &[u8]) -> Option<usize> {
    pattern.iter().take_while(|byte| **byte != 0).position(|byte| *byte == b'*')
}

/// Whether the keys of a pattern depend on the element.
pub(super) fn has_asterisk(pattern: &[u8]) -> bool {
    asterisk(pattern).is_some()
}

/// Looks up the value of a pattern for an element: the element itself (`#`), the string under a
/// key, or, with `->`, a field of a hash.
pub(super) fn look_up(
    cx: &Context<'_>,
    pattern: &[u8],
    element: &OwnedString,
) -> Option<OwnedString> {
    if pattern == b"#" {
        return Some(element.clone());
    }
    let at = asterisk(pattern)?;
    let (before, after) = (pattern.get(..at)?, pattern.get(at + 1..)?);
    let arrow = after.windows(2).position(|pair| pair == b"->");
    let arrow = arrow.filter(|arrow| after.get(arrow + 2).is_some_and(|byte| *byte != 0));
    let (after, field) = match arrow {
        Some(arrow) => (after.get(..arrow)?, Some(after.get(arrow + 2..)?)),
        None => (after, None),
    };
    let key = element.value().with_bytes(|element| [before, element, after].concat());
    cx.db.get(cx.db.key(&key), |entry| match (entry?.value(), field) {
        (Value::String(string), None) => Some(OwnedString::of(string)),
        (Value::Hash(hash), Some(field)) => {
            hash.get(&Text::new(field), cx.db.now_ms()).map(|found| OwnedString::of(found.value))
        }
        _ => None,
    })
}
