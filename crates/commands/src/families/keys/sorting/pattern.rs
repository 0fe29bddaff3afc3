//! The values of keys that BY and GET derive from elements by patterns.

use crate::Context;
use nagi_proto::resp::Writer;
use nagi_store::{CHUNK_BYTES, Rope, StringInput, StringValue, Text, Value};
use std::cmp::Ordering;

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

    /// The string as an element of a collection, in which it counts as data.
    pub(super) fn text(&self) -> Text<'_> {
        match self {
            OwnedString::Bytes(bytes) => Text::to_store(bytes),
            OwnedString::Rope(rope) => Text::from_input(StringInput::Rope(rope.clone())),
        }
    }

    /// Whether comparing it may take much longer than a few cache misses.
    pub(super) fn is_long(&self) -> bool {
        matches!(self, OwnedString::Rope(_))
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
        match (self, other) {
            (OwnedString::Bytes(bytes), OwnedString::Bytes(other)) => bytes.cmp(other),
            // All pieces but the last are equally long, so that those at one place decide.
            _ => self.pieces().cmp(other.pieces()),
        }
    }

    /// The string in pieces of the length of a chunk.
    fn pieces(&self) -> Box<dyn Iterator<Item = &[u8]> + '_> {
        match self {
            OwnedString::Bytes(bytes) => Box::new(bytes.chunks(CHUNK_BYTES)),
            OwnedString::Rope(rope) => Box::new(rope.chunks().map(|chunk| &**chunk)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_in_chunks_are_compared_as_their_bytes() {
        let long = vec![b'a'; CHUNK_BYTES + 10];
        let changed = |at: usize| {
            let mut bytes = long.clone();
            bytes[at] = b'b';
            bytes
        };
        let mut strings = vec![b"a".to_vec(), b"b".to_vec(), long.clone()];
        strings.extend([0, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 9].map(changed));
        strings
            .extend([CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1].map(|it| long[..it].to_vec()));
        let forms = |bytes: &[u8]| {
            [OwnedString::Bytes(bytes.into()), OwnedString::Rope(Rope::from_bytes(bytes))]
        };
        for one in &strings {
            for other in &strings {
                for (first, second) in forms(one).iter().zip(forms(other).iter().rev()) {
                    assert_eq!(first.compare(second), one.cmp(other));
                    assert_eq!(second.compare(first), other.cmp(one));
                }
            }
        }
    }
}
